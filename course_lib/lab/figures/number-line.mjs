import { figure, fmt } from "./engine.mjs";

// Weight gradients of lesson 14's model at its first update, by power of two from 2 ** LOWEST on; written by
// `python -m benchmarks.figures.number_line`. A bin holds one power; the highest of a format counts as inside.
const LOWEST = -30;
const COUNTS = [1, 0, 3, 3, 13, 11, 23, 45, 90, 180, 394, 749, 1454, 2864, 5270, 7371, 7223, 8803, 13864, 14736, 9484, 6078, 4475, 2163, 813, 204, 22];
const TOTAL = COUNTS.reduce((a, b) => a + b), MOST = Math.max(...COUNTS);
const FORMATS = { // name, log2 of the smallest number, of the smallest normal, of the highest power, largest
  bf16: ["bfloat16", -133, -126, 127, (2 - 2 ** -7) * 2 ** 127],
  fp16: ["float16", -24, -14, 15, 65504],
  e5m2: ["fp8 e5m2", -16, -14, 15, 57344],
};

const part = (e, low, normal, top) => (e > top ? "over" : e < low - 1 ? "lost" : e < normal ? "subnormal" : "normal");

export function compute({ format, tokens, scale }) {
  const [, low, normal, top, largest] = FORMATS[format], shift = scale - (tokens - 8);
  const r = { lost: 0, subnormal: 0, normal: 0, over: 0 };
  COUNTS.forEach((n, i) => { r[part(LOWEST + i + shift, low, normal, top)] += n; });
  for (const k in r) r[k] *= 100 / TOTAL;
  return { ...r, shift, first: LOWEST + shift, largest };
}

const LO = -48, HI = 38;

export const spec = {
  name: "number-line",
  title: "Gradients on the ruler of a format",
  intro: "Bars: gradients of a small model, by power of two. The ruler: where the format has numbers, with all digits and with some.",
  predict: {
    question: "256 of 16.8 million tokens, float16, no scale. How many of the gradients become 0?",
    choices: ["A tenth", "A third", "More than four fifths"],
    answer: 2,
    why: "The loss is divided by 16.8 million, so 256 tokens give gradients 65,536 times smaller than alone: most lie below half of float16's smallest number.",
    preset: "default",
  },
  controls: [
    { key: "format", label: "Format", type: "select", options: Object.entries(FORMATS).map(([k, f]) => [k, f[0]]) },
    { key: "tokens", label: "Tokens in the update", type: "select", options: [["8", "256"], ["16", "65,536"], ["24", "16.8 million"]] },
    { key: "scale", label: "Loss scale, power of two", type: "range", min: 0, max: 40, step: 4 },
  ],
  defaults: { format: "fp16", tokens: "24", scale: 0 },
  presets: {
    "default": { label: "No scale", state: {} },
    "scaled": { label: "Scaled", state: { scale: 24 } },
    "overflow": { label: "Scale too large", state: { tokens: "8", scale: 24 } },
    "bf16": { label: "bfloat16", state: { format: "bf16" } },
    "whole": { label: "256 tokens", state: { tokens: "8" } },
    "e5m2": { label: "fp8 e5m2", state: { format: "e5m2", tokens: "8", scale: 12 } },
  },
  draw(kit, r, { format }) {
    const [name, low, normal, top] = FORMATS[format], h = kit.narrow ? 150 : 190, y = 50, base = y + h, x0 = 8;
    const X = (e) => x0 + (Math.min(HI, Math.max(LO, e)) - LO) / (HI - LO) * (kit.w - 2 * x0);
    const bar = (X(1) - X(0)) * 0.86;
    COUNTS.forEach((n, i) => {
      const e = r.first + i, p = part(e, low, normal, top), tall = Math.max(n ? 1.5 : 0, n / MOST * (h - 30));
      kit.rect(X(e), base - tall, bar, tall, { normal: "s1", subnormal: "s1 soft", lost: "s2 o", over: "s2" }[p]);
    });
    const ruler = (from, to, tall, cls) => kit.rect(X(from), base + 4, Math.max(1, X(to) - X(from)), tall, cls);
    ruler(low, normal, 9, "s3 soft");
    ruler(normal, top + 1, 18, "s3");
    for (let e = -40; e <= 30; e += 10) {
      kit.line(X(e), base + 26, X(e), base + 31, "axis");
      if (e % 20 === 0 || !kit.narrow) kit.text(X(e), base + 46, e ? "2^" + e : "1", { anchor: "middle", cls: "m t" });
    }
    kit.text(x0, 16, `become 0: ${fmt(r.lost)} %`, { cls: r.lost ? "" : "m" });
    kit.text(kit.w - x0, 16, `infinite: ${fmt(r.over)} %`, { anchor: "end", cls: r.over ? "" : "m", nudge: true });
    kit.text(kit.w / 2, 38, `all digits: ${fmt(r.normal)} %, some: ${fmt(r.subnormal)} %`, { anchor: "middle", cls: "m" });
    const right = Math.min(HI, top + 1), left = Math.max(LO, low);
    kit.text(X((left + right) / 2), base + 66, `numbers of ${name}${left > low ? ", and beyond" : ""}`, { anchor: "middle", cls: "m t" });
    return base + 76;
  },
  table(r, { format }) {
    const [, low, normal, , largest] = FORMATS[format], half = 2 ** (low - 1);
    return {
      caption: "What becomes of the gradients",
      columns: ["they", "from", "to", "percent"],
      rows: [
        ["become 0", 0, half, r.lost], ["keep some digits", half, 2 ** normal, r.subnormal],
        ["keep all digits", 2 ** normal, largest, r.normal], ["become infinite", largest, Infinity, r.over],
      ],
    };
  },
  summary(r, { format, tokens, scale }) {
    return `${FORMATS[format][0]}, ${fmt(2 ** tokens)} tokens in an update, a scale of ${fmt(2 ** scale)}: ${fmt(r.lost)} percent of the gradients ` +
      `become 0, ${fmt(r.subnormal)} keep some digits, ${fmt(r.normal)} keep all. ` +
      (r.over ? `${fmt(r.over)} percent are infinite: the update is left out.` : "None is infinite.");
  },
};

export default figure(spec, compute);
