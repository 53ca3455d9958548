import { figure, fmt, nice } from "./engine.mjs";

const DECAY = 0.1, SIZES = [1e-10, 1e-8, 1e-6, 1e-4, 0.01, 1, 10, 1000];

// Step in lr at one update of a run of equal gradients of size g.
function step(g, update, beta2, corrected) {
  const mean = corrected ? 1 : 1 - 0.9 ** update, square = corrected ? 1 : 1 - beta2 ** update;
  return mean * g / (Math.sqrt(square) * g + 1e-8);
}

export function compute({ g, beta2, corrected }) {
  const [on, off] = [true, false].map((c) => Array.from({ length: 100 }, (_, i) => step(g, i + 1, beta2, c)));
  const now = corrected ? on : off, sizes = Array.from({ length: 14 }, (_, i) => 10 ** (i - 10));
  return { on, off, sgd: g, first: now[0], longest: Math.max(...now), sizes, by_size: sizes.map((s) => step(s, 1, beta2, corrected)), matrix: DECAY, gain: 0 };
}

export const spec = {
  name: "adamw",
  title: "Size of the gradient, length of the step",
  intro: "One weight gets the same gradient in every update. Lengths are in units of the learning rate lr; \u03b21 is 0.9, \u03b5 is 10\u207b\u2078.",
  predict: {
    question: "One weight has a gradient of 1,000, another of 0.001. How much further does AdamW\u2019s first update move the first?",
    choices: ["A million times", "A thousand times", "3.16 times", "Not at all: equally far"],
    answer: 3,
    why: "The gradient is divided by its own running size. SGD moves it a million times as far.",
  },
  controls: [
    { key: "g", label: "Gradient", type: "range", values: SIZES },
    { key: "beta2", label: "\u03b22", type: "select", options: [0.95, 0.99, 0.999].map((b) => [b, String(b)]) },
    { key: "corrected", label: "Bias correction", type: "check" },
  ],
  defaults: { g: 1, beta2: 0.999, corrected: true },
  presets: {
    "default": { label: "Start", state: {} },
    "loud": { label: "Gradient 1,000", state: { g: 1000 } },
    "quiet": { label: "Gradient 10\u207b\u2074", state: { g: 1e-4 } },
    "silent": { label: "Hardly a gradient", state: { g: 1e-10 } },
    "no-correction": { label: "No correction", state: { corrected: false } },
    "no-correction-095": { label: "No correction, \u03b22 0.95", state: { corrected: false, beta2: 0.95 } },
  },
  draw(kit, r, { g, corrected }) {
    const wide = !kit.narrow, h = wide ? 180 : 150, half = wide ? kit.w / 2 : kit.w, cls = corrected ? "s1" : "s2", ends = [1e-10, 1e3], ticks = [1e-10, 1e-6, 0.01, 1e3];
    const a = kit.plot({ x: 58, y: 30, w: half - 82, h, xs: ends, ys: ends, xticks: ticks, yticks: ticks, xlog: true, ylog: true, xlabel: "size of the gradient", ylabel: "first step, in lr" });
    a.curve(r.sizes.map((s) => [s, s]), "s6 d");
    a.curve(r.sizes.map((s, i) => [s, r.by_size[i]]), cls);
    const side = g > 1 ? -9 : 9, anchor = g > 1 ? "end" : "start";
    for (const [v, name, c] of [[r.sgd, "SGD", "s6"], [r.first, "AdamW", cls]]) {
      kit.circle(a.X(g), a.Y(v), 5, c);
      kit.text(a.X(g) + side, name === "SGD" ? Math.min(a.Y(v) + 18, h + 20) : a.Y(v) + (g > 1 ? 20 : -10), `${name} ${fmt(v)}`, { anchor, cls: c === "s6" ? "m" : "b", nudge: true });
    }
    const top = nice(Math.max(...r.on, ...r.off)), y = wide ? 30 : h + 110, x = 58 + kit.w - half;
    const b = kit.plot({ x, y, w: half - 82, h, xs: [1, 100], ys: [0, top], xticks: [1, 25, 50, 75, 100], yticks: [0, top / 2, top], xlabel: "update" });
    kit.text(x - 58, y - 12, "step, in lr", { cls: "m t" });
    for (const [list, name, chosen, c] of [[r.off, "no correction", !corrected, "s2"], [r.on, "corrected", corrected, "s1"]]) {
      b.curve(list.map((v, i) => [i + 1, v]), c + (chosen ? "" : " d"));
      kit.text(kit.w - 24, b.Y(list[99]) + (c === "s1" && r.off[99] < 2 * r.on[99] ? 20 : -12), `${name} ${fmt(list[99])}`, { anchor: "end", cls: chosen ? "b" : "m", nudge: true });
    }
    let z = y + h + 70;
    kit.text(0, z, "Update 1, weight 1, in lr", { cls: "b" });
    const full = nice(r.first + DECAY), px = (v) => v / full * (kit.w - 2);
    for (const [name, decay] of [["matrix", DECAY], ["gain", 0]]) {
      z += 24;
      kit.text(0, z, `${name}: step ${fmt(r.first)}, decay ${fmt(decay)}`);
      kit.rect(1, z + 7, px(r.first), 16, cls + " soft");
      if (decay) kit.rect(1 + px(r.first), z + 7, px(decay), 16, "s4");
      z += 20;
    }
    return z + 14;
  },
  table(r, { g }) {
    return {
      caption: `Steps in units of lr, gradient ${fmt(g)} in every update`,
      columns: ["update", "AdamW", "no correction", "SGD"],
      rows: [...[1, 2, 5, 12, 30, 100].map((t) => [t, r.on[t - 1], r.off[t - 1], r.sgd]), ["decay, matrix", DECAY, DECAY, "none"], ["decay, gain", 0, 0, "none"]],
    };
  },
  summary(r, { g, corrected }) {
    return `With a gradient of ${fmt(g)} in every update, AdamW ${corrected ? "with" : "without"} bias correction moves a weight by ${fmt(r.first)} lr in update 1 and by at most ` +
      `${fmt(r.longest)} lr in 100 updates; SGD moves it by ${fmt(r.sgd)} lr. With a weight decay \u03bb of 0.1 a weight of 1 in a matrix also shrinks by ${fmt(DECAY)} lr; the gain of a norm has none.`;
  },
};

export default figure(spec, compute);
