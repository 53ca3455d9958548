import { figure, fmt } from "./engine.mjs";

const ARROWS = [[3, 0.6], [0.6, 2.4]]; // mean gradient over the counted tokens of each micro-batch
const CODES = [["means", "Mean of means"], ["tokens", "By tokens"], ["sum", "Not divided"], ["twice", "Divided twice"], ["last", "Last one only"]];
const nameCode = (code) => CODES.find((c) => c[0] === code)[1];
const mixArrows = ([p, q]) => [0, 1].map((i) => p * ARROWS[0][i] + q * ARROWS[1][i]);
const length = ([x, y]) => Math.sqrt(x * x + y * y);

export function compute({ a, b, code }) {
  const right = [a / (a + b), b / (a + b)], big = mixArrows(right);
  const mine = { means: [0.5, 0.5], tokens: right, sum: [1, 1], twice: [right[0] / 2, right[1] / 2], last: [0, right[1]] }[code];
  const lost = a === 0 && (code === "means" || code === "sum"); // the mean over no token is 0 / 0
  const made = lost ? [NaN, NaN] : mixArrows(mine), off = length([made[0] - big[0], made[1] - big[1]]) / length(big);
  return {
    big, made, big_length: length(big), length: length(made), off: off < 1e-12 ? 0 : off,
    weights: [a ? mine[0] / a : NaN, mine[1] / b], weight: 1 / (a + b),
  };
}

// One circle a token, its area the weight of the token in the sum.
function tokens(kit, x, y, name, count, weight, cls) {
  kit.text(x, y, name, { cls: "b" });
  for (let i = 0; i < count; i++) kit.circle(x + 9 + i * 19, y + 20, Math.min(9, Math.sqrt(300 * weight)), cls + " soft");
  kit.text(x, y + 50, !count ? "no token: mean NaN" : weight ? `each weighs ${fmt(weight)}` : "weighs nothing", { cls: "m t" });
}

export const spec = {
  name: "accumulation",
  title: "Accumulation: which arrow do two micro-batches make?",
  intro: "Arrows 1 and 2: the mean gradient of each micro-batch, for a model of two weights. Ring: the gradient of the big batch. Dot: what the code adds up. A circle is a counted token, its area what the token weighs there.",
  predict: {
    question: "Both micro-batches count 4 tokens. Now 6 count in the first and 2 in the second, with the same mean gradients. Which arrow moves?",
    choices: ["The big batch's and the mean of means", "The big batch's alone", "The mean of means alone", "Neither"],
    answer: 1,
    why: "The mean of means never sees how many tokens a mean stands for.",
    preset: "ragged",
  },
  controls: [
    { key: "a", label: "Counted tokens in 1", type: "range", min: 0, max: 12, step: 1 },
    { key: "b", label: "Counted tokens in 2", type: "range", min: 1, max: 12, step: 1 },
    { key: "code", label: "Code", type: "select", options: CODES },
  ],
  defaults: { a: 4, b: 4, code: "means" },
  presets: {
    "default": { label: "Equal", state: {} },
    "ragged": { label: "Ragged", state: { a: 6, b: 2 } },
    "weighed": { label: "Ragged, weighed", state: { a: 6, b: 2, code: "tokens" } },
    "sum": { label: "Not divided", state: { code: "sum" } },
    "twice": { label: "Divided twice", state: { code: "twice" } },
    "last": { label: "Last one only", state: { a: 6, b: 2, code: "last" } },
    "empty": { label: "No token counts", state: { a: 0 } },
  },
  draw(kit, r, { a, b, code }) {
    tokens(kit, 0, 14, "Micro-batch 1", a, r.weights[0], "s1");
    tokens(kit, kit.narrow ? 0 : kit.w / 2, kit.narrow ? 92 : 14, "Micro-batch 2", b, r.weights[1], "s3");
    const top = kit.narrow ? 190 : 112, unit = Math.min(80, (kit.w - 70) / 4);
    const p = kit.plot({ y: top, w: 4 * unit, h: 3.2 * unit, xs: [0, 4], ys: [0, 3.2], xticks: [0, 1, 2, 3, 4], yticks: [0, 1, 2, 3], xlabel: "gradient of weight x", ylabel: "gradient of weight y" });
    const arrow = ([x, y], cls) => kit.arrow(p.X(0), p.Y(0), p.X(x), p.Y(y), cls);
    const label = ([x, y], text, cls) => kit.text(p.X(x) + 8, p.Y(y) - 6, text, { cls, nudge: true });
    if (a) {
      kit.line(...ARROWS.flatMap(([x, y]) => [p.X(x), p.Y(y)]), "s6 d");
      arrow(ARROWS[0], "s1"), label(ARROWS[0], "1", "b");
    }
    arrow(ARROWS[1], "s3"), label(ARROWS[1], "2", "b");
    arrow(r.big, "s2");
    if (r.off >= 0) arrow(r.made, "s4 d"), kit.circle(p.X(r.made[0]), p.Y(r.made[1]), 5, "s4");
    kit.circle(p.X(r.big[0]), p.Y(r.big[1]), 8, "s2 o");
    label(r.big, r.off === 0 ? "big batch = " + nameCode(code).toLowerCase() : "big batch", "b");
    if (r.off > 0) label(r.made, nameCode(code).toLowerCase(), "b");
    if (Number.isNaN(r.off)) kit.text(p.X(1.4), p.Y(0.3), nameCode(code).toLowerCase() + ": NaN", { cls: "b", nudge: true });
    return top + 3.2 * unit + 44;
  },
  table(r, { a, b, code }) {
    return {
      caption: "Arrows, and how much one token of a micro-batch weighs in the sum",
      columns: ["Arrow", "Tokens", "Weight of one", "x", "y"],
      rows: [
        ["Micro-batch 1", a, r.weights[0], ...(a ? ARROWS[0] : [NaN, NaN])],
        ["Micro-batch 2", b, r.weights[1], ...ARROWS[1]],
        ["Big batch", a + b, r.weight, ...r.big],
        [nameCode(code), a + b, "\u2013", ...r.made],
      ],
    };
  },
  summary(r, { a, b, code }) {
    const head = `Micro-batch 1 counts ${fmt(a)} tokens, micro-batch 2 counts ${fmt(b)}. ${nameCode(code)}: `;
    if (Number.isNaN(r.off)) return head + "no arrow, because the mean over no token is 0/0, which is NaN.";
    if (r.off === 0) return head + `the gradient of the big batch, ${fmt(r.length)} long.`;
    return head + `an arrow ${fmt(r.length)} long, where the big batch\u2019s is ${fmt(r.big_length)} long; off by ${fmt(100 * r.off)} percent of it.`;
  },
};

export default figure(spec, compute);
