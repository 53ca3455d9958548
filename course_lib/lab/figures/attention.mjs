import { figure, fmt } from "./engine.mjs";

const WORDS = ["the", "cat", "that", "dogs", "chased", "was"], N = WORDS.length, LAST = N - 1;
// q . k / sqrt(K) for every query (row) and key (column), spread about 1; one number of each value.
const Z = [
  [0.6, -0.4, 0.9, -1.1, 0.3, 0.8], [-0.5, 1.2, 0.2, 0.7, -0.9, 1.4], [0.1, 1.6, 0.4, -0.3, 0.9, -1.2],
  [-0.8, 0.5, -0.2, 1.1, 1.5, 0.3], [-1.2, 1.3, 0.5, 1.7, -0.1, 0.6], [-0.7, 2.1, -0.3, 0.8, 0.4, -0.6],
];
const V = [0.5, 2, -1, 1, -1.5, 3];
// The last token, changed: its key and its value turn round.
const flipLast = (row) => row.map((x, j) => (j === LAST ? -x : x));

// Mask: name, whether query i may read key j, query of its preset.
const past = (i, j) => j <= i, all = () => true;
const MASKS = {
  "correct": ["correct", past],
  "leak-1": ["leak 1", (i, j) => j <= i + 1, 4],
  "transposed": ["transposed", (i, j) => j >= i, 3],
  "nan-row": ["NaN row", (i, j) => j < i, 0],
  "zero-after": ["zero after", all, 2],
  "finite-fill": ["finite fill", past, 2],
  "no-mask": ["no mask", all, 2],
};
const entries = Object.entries(MASKS), wrong = entries.slice(1).map(([mask, [label, , query]]) => [mask, { label, state: { mask, query } }]);

const roundOff = (x) => (Math.abs(x) < 1e-9 ? 0 : Math.round(x * 1e9) / 1e9);

function attend(z, v, { k, scaled, mask }) {
  const fill = mask === "finite-fill" ? 0 : -Infinity, open = MASKS[mask][1];
  const masked = z.map((row, i) => row.map((s, j) => (open(i, j) ? s * (scaled ? 1 : Math.sqrt(k)) : fill)));
  const weights = masked.map((row, i) => {
    const top = Math.max(...row), e = row.map((s) => Math.exp(s - top)), sum = e.reduce((a, b) => a + b, 0);
    return e.map((x, j) => (mask === "zero-after" && j > i ? 0 : x / sum));
  });
  const outputs = weights.map((row) => row.reduce((sum, w, j) => sum + w * v[j], 0));
  return { masked, weights, outputs };
}

export function compute(state) {
  const now = attend(Z, V, state), then = attend(Z.map(flipLast), flipLast(V), state), q = state.query;
  return {
    scores: Z[q].map((s) => s * Math.sqrt(state.k)), masked: now.masked[q], weights: now.weights,
    parts: now.weights[q].map((w, j) => w * V[j]), sum: roundOff(now.weights[q].reduce((a, b) => a + b, 0)),
    output: now.outputs[q], moved: now.outputs.map((o, i) => roundOff(Math.abs(then.outputs[i] - o))),
  };
}

const short = (x) => (Number.isNaN(x) ? "NaN" : x === -Infinity ? "\u2212inf" : (Math.round(x * 100) / 100 + 0).toFixed(2).replace("-", "\u2212"));

const right = (kit, x, y, text, cls = "t") => kit.text(x, y, text, { cls, anchor: "end" });

function grid(kit, r, { query }, x, w) {
  const label = 62, side = 42, end = x + w, cell = (w - label - side) / N, h = 32, top = 46, left = x + label;
  kit.text(x, 14, "Weights, query by key", { cls: "b" });
  for (let j = 0; j < N; j++) kit.text(left + (j + 0.5) * cell, top - 8, j, { cls: "m t", anchor: "middle" });
  right(kit, end, top - 8, "moved", "m t");
  r.weights.forEach((row, i) => {
    const y = top + i * h;
    kit.text(x, y + 20, `${i} ${WORDS[i]}`, { cls: i === query ? "b t" : "t" });
    row.forEach((weight, j) => {
      const bad = Number.isNaN(weight) || (j > i && weight > 5e-5);
      const box = kit.rect(left + j * cell + 1, y + 1, cell - 2, h - 2, weight === 0 ? "o grid" : bad ? "s2 d" : "s1");
      box.setAttribute("fill-opacity", 0.08 + 0.5 * (weight || 0));
      if (weight) kit.text(left + (j + 0.5) * cell, y + 20, short(weight).replace(/^0/, ""), { cls: "t", anchor: "middle" });
    });
    if (i < LAST) right(kit, end, y + 20, short(r.moved[i]), r.moved[i] > 0 ? "b t" : "m t");
    if (i === query) kit.rect(left - 1, y - 1, N * cell + 2, h + 2, "o").style.stroke = "var(--ink)";
    kit.button("q" + i, { x: x - 2, y, w: label + N * cell, h, label: `Query ${i}`, pressed: i === query, set: () => ({ query: i }) });
  });
  return top + N * h;
}

function steps(kit, r, { query, k, scaled }, x, y, w) {
  const at = (f) => x + f * w, cols = [0.25, 0.45, 0.53, 0.8, 1], h = 32, top = y + 46;
  kit.text(x, y + 14, `Query ${query} (${WORDS[query]}), key by key`, { cls: "b" });
  ["q\u00b7k", scaled ? `/\u221a${k}` : "as is", "", "weight", "w\u00b7v"].forEach((head, c) => right(kit, at(cols[c]), top - 8, head, "m t"));
  for (let j = 0; j < N; j++) {
    const line = top + j * h, weight = r.weights[query][j], mute = weight === 0 ? "m t" : "t";
    kit.text(x, line + 20, j, { cls: mute });
    right(kit, at(cols[0]), line + 20, short(r.scores[j]), mute);
    right(kit, at(cols[1]), line + 20, short(r.masked[j]), mute);
    if (weight > 0) kit.rect(at(cols[2]), line + 8, weight * (0.27 * w - 38), 15, j > query ? "s2" : "s1");
    right(kit, at(cols[3]), line + 20, short(weight), mute);
    right(kit, at(cols[4]), line + 20, short(r.parts[j]), mute);
  }
  const end = top + N * h;
  kit.line(x, end + 4, x + w, end + 4, "axis");
  kit.text(x, end + 24, "sum", { cls: "b t" });
  right(kit, at(cols[3]), end + 24, short(r.sum), "b t");
  right(kit, at(cols[4]), end + 24, short(r.output), "b t");
  return end + 32;
}

export const spec = {
  name: "attention",
  title: "One query at a time: score, scale, mask, softmax, sum",
  intro: "Six tokens of one head; pick a query by its row. Dashed: keys it must not read. Moved: how far an output moves when token 5 is changed.",
  predict: {
    question: "Queries and keys have K = 64 numbers, and the scores are not divided by \u221aK. The weights of a query:",
    choices: ["much the same", "more even", "one takes nearly everything"],
    answer: 2,
    why: "The scores spread \u221a64 = 8 times as far, and the softmax nearly picks one.",
    preset: "no-scale",
  },
  controls: [
    { key: "mask", label: "Mask", type: "select", options: entries.map(([mask, [name]]) => [mask, name]) },
    { key: "scaled", label: "Divide by \u221aK", type: "check" },
    { key: "k", label: "Head size K", type: "range", values: [4, 16, 64, 256] },
  ],
  defaults: { query: 5, k: 64, scaled: true, mask: "correct" },
  presets: {
    "default": { label: "correct", state: {} },
    "no-scale": { label: "no scale", state: { scaled: false } },
    ...Object.fromEntries(wrong),
  },
  draw(kit, r, state) {
    if (kit.w < 600) return steps(kit, r, state, 0, grid(kit, r, state, 0, kit.w) + 22, kit.w);
    const half = (kit.w - 44) / 2;
    grid(kit, r, state, 0, half);
    return steps(kit, r, state, half + 44, 0, half);
  },
  table(r, { query }) {
    return {
      caption: `Query ${query} (${WORDS[query]}), key by key`,
      columns: ["key", "q\u00b7k", "masked", "weight", "product"],
      rows: WORDS.map((word, j) => [`${j} ${word}`, r.scores[j], r.masked[j], r.weights[query][j], r.parts[j]]),
    };
  },
  summary(r, { query, k, scaled, mask }) {
    const moved = r.moved.filter((m, i) => i < LAST && m > 0).length, top = Math.max(...r.weights[query]);
    return `Query ${query} (${WORDS[query]}), mask: ${MASKS[mask][0]}, scores ${scaled ? "" : "not "}divided by \u221a${k}: largest weight ${fmt(roundOff(top))}, sum of weights ${fmt(r.sum)}, output ${fmt(roundOff(r.output))}. When token 5 changes, ${moved} of the 5 outputs before it move.`;
  },
};

export default figure(spec, compute);
