import { figure, fmt } from "./engine.mjs";

const SIZE = 2, LOW = 0.5, HIGH = 4000, FLOOR = 0.2, SKY = 4000;
const PRODUCTS = ["1x4096x4096", "16x4096x4096", "128x4096x4096", "512x4096x4096", "4096x4096x4096", "2048x64x2048", "128x128x128"];
const NAMES = ["1", "16", "128", "512", "4096", "scores", "128 each"];

export function compute({ top, width, product, code }) {
  const [M, K, N] = product.split("x").map(Number);
  const flops = 2 * M * K * N, bytes = SIZE * (M * K + K * N + M * N), intensity = flops / bytes;
  const slope = intensity * width, reached = Math.min(top, slope);
  return {
    flops, bytes, intensity, ridge: top / width, slope, reached,
    shown: code === "max" ? Math.max(top, slope) : reached, micros: flops / reached / 1e6,
  };
}

const limit = (r) => (r.intensity < r.ridge ? "memory" : "arithmetic");

export const spec = {
  name: "roofline",
  title: "Two roofs, and one product under them",
  intro: "A machine with the arithmetic and the bandwidth that you give it; one product in bfloat16: rows against a 4096 x 4096 matrix, the scores of an attention head, or 128 in each direction. Both axes are logarithmic.",
  predict: {
    question: "One row against a 4096 x 4096 matrix, as in writing text token by token. The machine gets more than three times the arithmetic. What happens to the row?",
    choices: ["It is three times as fast, or more", "Nothing", "It gets slower"],
    answer: 1,
    why: "The row has 1 FLOP for each byte of the matrix. Memory is its limit, and the memory roof has not moved.",
    preset: "faster",
  },
  controls: [
    { key: "top", label: "Arithmetic, TFLOP/s", type: "range", values: [1, 5, 20, 100, 300, 1000, 2000] },
    { key: "width", label: "Bandwidth, TB/s", type: "range", values: [0.1, 0.5, 1, 2, 4, 8] },
    { key: "product", label: "Rows", type: "select", options: PRODUCTS.map((p, i) => [p, NAMES[i]]) },
  ],
  defaults: { top: 300, width: 2, product: "4096x4096x4096", code: "right" },
  presets: {
    "default": { label: "Start", state: {} },
    "decode": { label: "One token", state: { product: "1x4096x4096" } },
    "batch": { label: "128 rows", state: { product: "128x4096x4096" } },
    "scores": { label: "Attention scores", state: { product: "2048x64x2048" } },
    "wider": { label: "Twice the bandwidth", state: { product: "1x4096x4096", width: 4 } },
    "faster": { label: "More arithmetic", state: { product: "1x4096x4096", top: 1000 } },
    "higher": { label: "Higher roof taken", state: { product: "1x4096x4096", code: "max" } },
  },
  draw(kit, r, { top, width, code }) {
    const h = kit.narrow ? 220 : 270, wrong = code === "max", memory = limit(r) === "memory";
    const p = kit.plot({ x: 52, y: 46, h, w: kit.w - 64, xs: [LOW, HIGH], ys: [FLOOR, SKY], xticks: [1, 10, 100, 1000], yticks: [1, 10, 100, 1000], xlabel: "FLOP per byte", ylabel: "TFLOP/s", xlog: true, ylog: true });
    const clip = (v) => Math.min(SKY, Math.max(FLOOR, v)), from = Math.max(LOW, FLOOR / width), to = Math.min(HIGH, r.ridge);
    if (to > from) p.curve([[from, from * width], [to, to * width]], memory ? "s2" : "s6");
    p.curve([[Math.max(LOW, Math.min(HIGH, r.ridge)), top], [HIGH, top]], memory ? "s6" : "s1");
    kit.line(p.X(r.intensity), p.Y(FLOOR), p.X(r.intensity), p.Y(clip(r.shown)), "s6 d");
    if (r.ridge < HIGH) kit.text(p.X(r.ridge), p.Y(top) - 9, `ridge ${fmt(r.ridge)}`, { cls: "m t", anchor: r.ridge > 300 ? "end" : "middle", nudge: true });
    const x = p.X(r.intensity), y = p.Y(clip(r.shown)), right = r.intensity > 60;
    kit.circle(x, y, 6, wrong ? "s2 o" : memory ? "s2" : "s1");
    if (wrong) kit.circle(x, p.Y(clip(r.reached)), 6, "s1");
    kit.text(x + (right ? -10 : 10), y + 20, `${fmt(r.shown)}${wrong ? ": out of reach" : ""}`, { cls: "b", anchor: right ? "end" : "start", nudge: true });
    kit.text(kit.w, 16, `limited by ${limit(r)}`, { cls: "b", anchor: "end" });
    return h + 92;
  },
  table(r, { top }) {
    return {
      caption: "The product under either roof",
      columns: ["quantity", "value"],
      rows: [
        ["FLOPs", r.flops], ["bytes", r.bytes],
        ["intensity, FLOP per byte", r.intensity], ["ridge, FLOP per byte", r.ridge],
        ["memory roof here, TFLOP/s", r.slope], ["arithmetic roof, TFLOP/s", top],
        ["reached at best, TFLOP/s", r.reached], ["least time, microseconds", r.micros],
      ],
    };
  },
  summary(r, { top, product, code }) {
    return `${product} in bfloat16 has ${fmt(r.intensity)} FLOPs per byte; the ridge is at ${fmt(r.ridge)}. ` +
      `It reaches ${fmt(r.reached)} of ${fmt(top)} TFLOP/s at best: ${limit(r)} is the limit. ` +
      (code === "max" ? `The higher roof, ${fmt(r.shown)}, is what nothing reaches.` : `It takes ${fmt(r.micros)} microseconds or more.`);
  },
};

export default figure(spec, compute);
