import { figure, fmt } from "./engine.mjs";

// Name, part, what the time of the part is divided by; bf16 takes TF32's place.
const RUNGS = [["tokens", "data", 50], ["TF32", "products", 3], ["bf16", "products", 6], ["compile", "small", 4], ["attention", "scores", 5], ["update", "update", 4]];
const SHARES = { products: 0.8, scores: 0.08, small: 0.08, update: 0.04 }, NAMES = RUNGS.map((r) => r[0]);

function step(data, rungs) {
  const parts = [["data", data], ...Object.entries(SHARES).map(([p, s]) => [p, s * (100 - data)])];
  return parts.reduce((sum, [part, ms]) => sum + ms / Math.max(1, ...RUNGS.filter(([n, on]) => on === part && rungs.includes(n)).map((r) => r[2])), 0);
}

export function compute({ data, taken }) {
  const climbing = NAMES.filter((n) => n !== taken), top = step(data, climbing);
  let before = 100, product = 1, last_product = 1;
  const rows = NAMES.map((name, i) => {
    const alone = 100 / step(data, [name]);
    if (name === taken) return { name, ms: before, alone, place: null, last: top / step(data, NAMES) };
    const ms = step(data, NAMES.slice(0, i + 1).filter((n) => n !== taken)), place = before / ms;
    const last = step(data, climbing.filter((n) => n !== name)) / top;
    product *= alone, last_product *= last, before = ms;
    return { name, ms, alone, place, last };
  });
  return { rows, top, total: 100 / top, product, last_product };
}

export const spec = {
  name: "ladder",
  title: "What a rung is worth depends on where it stands",
  intro: "A made-up step of 100 ms and six rungs, each of which divides the time of one part. Bars: the step with this rung and all above it. TF32 and bf16 speed up the same products, and bf16 takes TF32's place.",
  predict: {
    question: "Data takes 70 of 100 ms. Each rung's gain is measured alone, and all are multiplied. Is the product less or more than the gain of the whole ladder?",
    choices: ["Less", "The same", "More"],
    answer: 0,
    why: "Alone, each rung leaves the other parts at their full length, so its gain looks small. Together they shorten one another's company.",
    preset: "data",
  },
  controls: [
    { key: "data", label: "Data, ms of 100", type: "range", values: [0, 10, 30, 50, 70, 90] },
    { key: "taken", label: "Taken away", type: "select", options: [["none", "none"], ...NAMES.map((n) => [n, n])] },
    { key: "log", label: "Logarithmic", type: "check" },
  ],
  defaults: { data: 30, taken: "none", log: false },
  presets: {
    "default": { label: "Start", state: {} },
    "data": { label: "Mostly data", state: { data: 70 } },
    "compute": { label: "No data time", state: { data: 0 } },
    "tf32": { label: "Without TF32", state: { data: 0, taken: "TF32" } },
    "bf16": { label: "Without bf16", state: { data: 0, taken: "bf16" } },
  },
  draw(kit, r, { taken, log }) {
    const left = 74, room = kit.w - left - 48, row = 24, end = (v, most) => room * (log ? Math.log(Math.max(v, 1)) / Math.log(most) : v / most);
    kit.text(0, 14, log ? "ms a step, logarithmic from 1" : "ms a step", { cls: "m t" });
    [{ name: "ground", ms: 100, place: 1 }, ...r.rows].forEach(({ name, ms, place }, i) => {
      const y = 22 + i * row, away = name === taken;
      kit.text(left - 8, y + 14, name, { anchor: "end", cls: away ? "m t" : "t" });
      kit.rect(left, y + 3, Math.max(1, end(ms, 100)), 14, away ? "s6 o d" : i ? "s1" : "s6");
      kit.text(left + end(ms, 100) + 6, y + 15, away ? "away" : fmt(ms), { cls: "t" });
    });
    const y = 22 + 7 * row + 26, top = Math.max(r.product, r.total, r.last_product) * 1.02;
    kit.text(0, y - 4, "times as fast", { cls: "m t" });
    [["alone, ×", r.product, "s2"], ["together", r.total, "s1"], ["last, ×", r.last_product, "s4"]].forEach(([label, v, cls], i) => {
      const at = y + 4 + i * row;
      kit.text(left - 8, at + 14, label, { anchor: "end", cls: "t" });
      kit.rect(left, at + 3, Math.max(1, end(v, top)), 14, i === 1 ? cls : `${cls} o`);
      kit.text(left + end(v, top) + 6, at + 15, fmt(v), { cls: i === 1 ? "b t" : "t" });
    });
    return y + 4 + 3 * row + 8;
  },
  table(r) {
    return {
      caption: "Gains: time before over time after",
      columns: ["rung", "ms", "alone", "in place", "last"],
      rows: [...r.rows.map((x) => [x.name, x.ms, x.alone, x.place ?? "away", x.last]), ["product", r.top, r.product, r.total, r.last_product]],
    };
  },
  summary(r, { data, taken }) {
    return `Data takes ${fmt(data)} of 100 ms. The ladder${taken === "none" ? "" : ` without ${taken}`} ends at ${fmt(r.top)} ms, ${fmt(r.total)} times as fast. ` +
      `The gains alone multiply to ${fmt(r.product)}, ${r.product < r.total ? "less" : "more"} than it is; those of each rung as the last one to ${fmt(r.last_product)}; those in their places to ${fmt(r.total)}.`;
  },
};

export default figure(spec, compute);
