import { figure, fmt } from "./engine.mjs";

const CODES = [["right", "Right"], ["chunk", "Own chunk first"], ["steps", "A step too few"], ["overwrites", "Overwrites"], ["arrival", "Arrival order"]];
const ENDS = {
  right: "Every rank holds the whole sum.",
  chunk: "Every sum stands in another chunk\u2019s place: it ended one rank before its start.",
  steps: "Every sum lacks a part, and stands in another chunk\u2019s place.",
  overwrites: "No sum has more than one part in it.",
  arrival: "The sums are right, and each rank has them in another order.",
};
const ABC = "ABCDE", nameCode = (code) => CODES.find((c) => c[0] === code)[1];
const range = (n) => Array.from({ length: n }, (_, i) => i);
const parts = (sum) => sum.toString(2).replace(/0/g, "").length;

// Rank r puts 2 ** r into every chunk: the binary digits of a sum are the ranks whose parts are in it.
export function compute({ R, step, code }) {
  const ranks = range(R), mod = (i) => ((i % R) + R) % R, first = code === "steps" ? R - 2 : R - 1;
  step = Math.min(step, first + R - 1);
  let sums = ranks.map((r) => [mod(code === "chunk" ? r : r - 1), 2 ** r]); // chunk, sum: of each rank
  for (let s = 0; s < Math.min(step, first); s++)
    sums = ranks.map((r) => [sums[mod(r - 1)][0], sums[mod(r - 1)][1] + (code === "overwrites" ? 0 : 2 ** r)]);
  const gathering = step > first, past = step - first;
  let at = sums.map((v) => v[0]), moves = step ? at.map((c) => [c, c]) : [], cells = ranks.map((r) => ranks.map((c) => (c === at[r] ? sums[r] : [c, 2 ** r])));
  if (gathering) {
    const slot = (r, i) => (code === "arrival" ? i : mod(r - i));
    cells = ranks.map((r) => ranks.map((c) => range(past + 1).filter((i) => slot(r, i) === c).map((i) => sums[mod(r - i)])[0] ?? null));
    at = ranks.map((r) => slot(r, past));
    moves = ranks.map((r) => [slot(mod(r - 1), past - 1), at[r]]);
  }
  return { step, steps: first + R - 1, gathering, cells, at, moves, sent: step / R };
}

export const spec = {
  name: "ring",
  title: "All-reduce in a ring",
  intro: "A row is a rank, a column a chunk. Rank r puts 2 to the power r into every chunk; the dots under a number are the ranks in it. An arrow is a message of this step.",
  predict: {
    question: "Four ranks. Each begins the sum of its own chunk: A starts on rank 0, B on rank 1. On which rank is A complete, three steps later?",
    choices: ["Rank 0", "Rank 1", "Rank 3"],
    answer: 2,
    why: "It comes by ranks 1, 2 and 3. A sum that is to end on rank 0 starts on rank 1.",
    preset: "chunk",
  },
  controls: [
    { key: "R", label: "Ranks", type: "range", min: 2, max: 5, step: 1 },
    { key: "step", label: "Step", type: "range", min: 0, max: 8, step: 1 },
    { key: "code", label: "Code", type: "select", options: CODES },
  ],
  defaults: { R: 4, step: 2, code: "right" },
  presets: {
    "default": { label: "Start", state: {} },
    "scattered": { label: "A chunk each", state: { step: 3 } },
    "done": { label: "All of them", state: { step: 6 } },
    "chunk": { label: "Own chunk first", state: { code: "chunk", step: 3 } },
    "steps": { label: "Too few steps", state: { code: "steps", step: 2 } },
    "overwrites": { label: "Overwrites", state: { code: "overwrites", step: 3 } },
    "arrival": { label: "Arrival order", state: { code: "arrival", step: 6 } },
  },
  draw(kit, r, { R }) {
    const left = 54, w = Math.min(120, (kit.w - left) / R), row = 74, top = 62, full = 2 ** R - 1, scattered = r.gathering || r.step === r.steps - R + 1;
    const X = (c) => left + (c + 0.5) * w, Y = (k) => top + k * row;
    kit.text(0, 14, r.gathering ? "All-gather: sums are copied" : "Reduce-scatter: sums grow", { cls: "b" });
    for (const c of range(R)) kit.text(X(c), 38, ABC[c], { anchor: "middle", cls: "m" });
    r.cells.forEach((cells, k) => {
      kit.text(0, Y(k) + 25, "rank " + k, { cls: "m" });
      cells.forEach((cell, c) => {
        const sum = cell && (r.gathering || c === r.at[k]), place = r.gathering ? c : k;
        const wrong = sum && scattered && (cell[0] !== place || cell[1] !== full), cls = !sum ? "s6" : wrong ? "s2" : cell[1] === full ? "s3" : "s1";
        kit.rect(X(c) - w / 2 + 3, Y(k), w - 6, 42, cls + (sum ? " soft" : " o") + (wrong || !cell ? " d" : ""));
        if (!cell) return;
        kit.text(X(c), Y(k) + 19, `${ABC[cell[0]]} ${cell[1]}`, { anchor: "middle", cls: sum ? "b" : "m" });
        for (const i of range(R)) kit.circle(X(c) + (i - (R - 1) / 2) * 7, Y(k) + 32, 2.5, cls + ((cell[1] >> i) & 1 ? "" : " o"));
      });
    });
    r.moves.forEach(([from, to], k) => {
      const y = Y(k);
      if (k) kit.arrow(X(from), y - row + 44, X(to), y - 2, "s4");
      else kit.arrow(X(to), y - 18, X(to), y - 2, "s4"), kit.line(X(from), Y(R - 1) + 44, X(from), Y(R - 1) + 60, "s4");
    });
    return Y(R) - 8;
  },
  table(r, { R }) {
    return {
      caption: `What each rank has after step ${r.step} of ${r.steps}: chunk and sum`,
      columns: ["Rank", ...range(R).map((c) => "Place " + ABC[c])],
      rows: r.cells.map((cells, k) => [String(k), ...cells.map((cell) => (cell ? `${ABC[cell[0]]} ${cell[1]}` : "\u2013"))]),
    };
  },
  summary(r, { R, code }) {
    const [row] = r.cells, cell = row[r.at[0]];
    const doing = r.step === r.steps ? ENDS[code] : r.gathering ? `All-gather: rank 0 has ${row.filter(Boolean).length} of ${R} sums.`
      : `Reduce-scatter: rank 0 has a sum of chunk ${ABC[cell[0]]} with ${parts(cell[1])} of ${R} parts in it.`;
    return `${nameCode(code)}, ${R} ranks, step ${r.step} of ${r.steps}. ${doing} Each rank has sent ${fmt(r.sent)} times the tensor.`;
  },
};

export default figure(spec, compute);
