import { figure, fmt } from "./engine.mjs";

const TEXT = "to_be_or_not_to_be", GATHER_CALLS = 8, CLASSES = ["s1", "s2", "s3"];
const CODES = { right: "one token later", "no-shift": "the same tokens", rolled: "idx rolled by one" };
const sum = (list) => list.reduce((a, b) => a + b, 0);

// A loop slices, casts and wraps each row, for idx and for targets, and stacks twice: 6 B + 2 calls.
export function compute({ T, start, code, B }) {
  const windows = TEXT.length - T, starts = [1, Math.min(start, windows - 1), 12];
  const idx = starts.map((s) => TEXT.slice(s, s + T)), following = starts.map((s) => TEXT.slice(s + 1, s + T + 1));
  const targets = { right: following, "no-shift": idx, rolled: idx.map((row) => row.slice(1) + row[0]) }[code];
  const wrong = following.map((row, i) => [...row].map((want, t) => want !== targets[i][t]));
  return {
    starts, windows, idx, targets, wrong, num_wrong: sum(wrong.map(sum)), loop_calls: 6 * B + 2, gather_calls: GATHER_CALLS,
    index_bytes: 8 * B * (T + 1), view_bytes: 0,
  };
}

// One matrix: a row of cells for each window.
function matrix(kit, x, y, cell, title, rows, bad) {
  kit.text(x, y - 10, title, { cls: "b" });
  rows.forEach((row, i) => [...row].forEach((letter, t) => {
    kit.rect(x + t * cell + 1, y + i * 34, cell - 2, 30, bad && bad[i][t] ? "s2 o d" : CLASSES[i] + " soft");
    kit.text(x + (t + 0.5) * cell, y + i * 34 + 20, letter, { anchor: "middle", cls: bad && bad[i][t] ? "m" : "b" });
  }));
}

export const spec = {
  name: "batches",
  title: "Windows and targets",
  intro: "Eighteen tokens, one a letter. Each window begins at its start and gives one row of idx and one of targets; the target of a position is the token after it. Slide window 1 along the text.",
  predict: {
    question: "The model reads T = 4 tokens. How many tokens of the text must a window take?",
    choices: ["3", "4", "5", "8"],
    answer: 2,
    why: "Four inputs, and the token after the last one, which is its target.",
  },
  controls: [
    { key: "T", label: "Sequence length T", type: "range", min: 2, max: 5, step: 1 },
    { key: "code", label: "Targets", type: "select", options: Object.entries(CODES) },
    { key: "B", label: "Windows in a batch B", type: "range", values: [4, 16, 64, 256] },
  ],
  defaults: { T: 4, start: 5, code: "right", B: 64 },
  presets: {
    "default": { label: "Start", state: {} },
    "last": { label: "The last window", state: { start: 13 } },
    "no-shift": { label: "No shift", state: { code: "no-shift" } },
    "rolled": { label: "Rolled", state: { code: "rolled" } },
    "large": { label: "256 windows", state: { B: 256, T: 5 } },
  },
  draw(kit, r, { T, code, B }) {
    const step = kit.w / TEXT.length, y = 22;
    [...TEXT].forEach((letter, i) => {
      kit.rect(i * step + 0.5, y, step - 1, 30, "s6 o");
      kit.text((i + 0.5) * step, y + 20, letter, { anchor: "middle" });
      if (i % 3 === 0) kit.text((i + 0.5) * step, y - 8, i, { anchor: "middle", cls: "m t" });
    });
    r.starts.forEach((s, i) => {
      const top = y + 38 + i * 20;
      kit.rect(s * step + 1, top, T * step - 2, 14, CLASSES[i] + " soft");
      kit.rect((s + T) * step + 1, top, step - 2, 14, CLASSES[i] + " o d");
      kit.text(s > 2 ? s * step - 5 : (s + T + 1) * step + 5, top + 12, `window ${i}`, { anchor: s > 2 ? "end" : "start", cls: "m t" });
    });
    kit.slider("start", { x: 0.5 * step, y, w: (r.windows - 1) * step, h: 100, label: "Start of window 1", value: r.starts[1], min: 0, max: r.windows - 1, step: 1, set: (start) => ({ start }) });
    const top = y + 138, gap = 24, cell = Math.min(36, (kit.w - gap) / 2 / T);
    matrix(kit, 0, top, cell, `idx (3, ${T})`, r.idx);
    matrix(kit, T * cell + gap, top, cell, `targets (3, ${T})`, r.targets, r.wrong);
    kit.text(0, top + 120, code === "right" ? "Dashed on the text: the extra tokens." : `Dashed: ${r.num_wrong} wrong targets.`, { cls: "m t" });
    const low = top + 156, full = 6 * 256 + 2;
    [["loop", r.loop_calls, "s2"], ["gather", r.gather_calls, "s1"]].forEach(([name, calls, cls], i) => {
      const at = low + i * 48;
      kit.text(0, at, `${name}: ${fmt(calls)} calls for ${B} windows`);
      kit.rect(0, at + 8, Math.max(2, (calls / full) * kit.w), 18, cls + (i ? "" : " soft"));
    });
    return low + 92;
  },
  table(r, { code }) {
    return {
      caption: `Targets: ${CODES[code]}`,
      columns: ["window", "start", "idx", "targets", "not the next token"],
      rows: r.starts.map((s, i) => [String(i), s, r.idx[i], r.targets[i], sum(r.wrong[i])]),
    };
  },
  summary(r, { T, B }) {
    return `A window of T = ${T} takes ${T + 1} tokens, so ${TEXT.length} tokens hold ${r.windows} windows. Of the ${3 * T} targets shown, ` +
      `${r.num_wrong} are not the next token. For ${fmt(B)} windows the loop makes ${fmt(r.loop_calls)} calls, the gather ${GATHER_CALLS}.`;
  },
};

export default figure(spec, compute);
