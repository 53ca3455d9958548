import { figure, fmt } from "./engine.mjs";

const UPDATES = 40, STEEP = 10, FLAT = 0.1, START = [-1, 0.3]; // START: along the valley, across it
const RATES = [1, 1.5, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1000].map((v) => v / 1000);
const XS = [-1.25, 0.5], YS = [-0.82, 0.42];

// Places of the two weights at the start and after each update, and the loss there.
function run(rate, angle, momentum, adamw) {
  const c = Math.cos(angle * Math.PI / 180), s = Math.sin(angle * Math.PI / 180);
  const axes = ([x, y]) => [c * x + s * y, c * y - s * x], back = ([f, d]) => [c * f - s * d, s * f + c * d];
  let w = back(START), m = [0, 0], v = [0, 0];
  const path = [w], losses = [];
  for (let t = 1; t <= UPDATES; t++) {
    const [f, d] = axes(w), g = back([FLAT * f, STEEP * d]);
    m = m.map((old, i) => (adamw ? 0.9 * old + 0.1 * g[i] : momentum * old + g[i]));
    v = v.map((old, i) => 0.95 * old + 0.05 * g[i] ** 2);
    const step = adamw ? m.map((a, i) => a / (1 - 0.9 ** t) / (Math.sqrt(v[i] / (1 - 0.95 ** t)) + 1e-8)) : m;
    w = w.map((x, i) => x - rate * step[i]);
    path.push(w);
    losses.push((FLAT * axes(w)[0] ** 2 + STEEP * axes(w)[1] ** 2) / 2);
  }
  const [along, across] = axes(w);
  return { path, loss: losses.slice(-10).reduce((a, b) => a + b / 10, 0), covered: 100 * (1 + along), across };
}

export function compute({ rate, angle, momentum }) {
  const all = (adamw) => RATES.map((r) => run(r, angle, momentum ? 0.9 : 0, adamw).loss);
  const [sgd, adamw] = [false, true].map((which) => ({ ...run(rate, angle, momentum ? 0.9 : 0, which), losses: all(which) }));
  for (const one of [sgd, adamw]) one.best = RATES[one.losses.indexOf(Math.min(...one.losses))];
  return { rates: RATES, sgd, adamw };
}

// The pieces of a line that are inside the drawing.
function trim(points) {
  return points.slice(1).flatMap((q, i) => {
    const p = points[i], at = (t) => p.map((a, k) => a + t * (q[k] - a));
    let lo = 0, hi = 1;
    [XS, YS].forEach(([l, h], k) => {
      const d = q[k] - p[k] || 1e-12, ends = [(l - p[k]) / d, (h - p[k]) / d];
      lo = Math.max(lo, Math.min(...ends));
      hi = Math.min(hi, Math.max(...ends));
    });
    return lo < hi ? [[at(lo), at(hi)]] : [];
  });
}
const inside = ([x, y]) => x > XS[0] && x < XS[1] && y > YS[0] && y < YS[1];
const named = (momentum) => (momentum ? "SGD, momentum" : "SGD");

export const spec = {
  name: "paths",
  title: "One rate for a steep and a flat direction",
  intro: "Two weights in a long valley, 100 times as curved across as along. Dots are 40 updates. The curves show the loss at every rate of the slider, as a mean over the last 10 updates.",
  predict: {
    question: "At a rate of 0.05 SGD covers 18 percent of its way along the valley. What does it do at 0.3?",
    choices: ["It covers about 70 percent, and settles across the valley", "It covers about 70 percent, and is thrown further across it in every update", "It stays near its start"],
    answer: 1,
    why: "Each update multiplies a distance by 1 \u2212 rate \u00d7 curvature, which is 0.97 along the valley and \u22122 across it.",
    preset: "thrown",
  },
  controls: [
    { key: "rate", label: "Learning rate", type: "range", values: RATES },
    { key: "angle", label: "Valley turned by, degrees", type: "range", values: [0, 15, 30, 45] },
    { key: "momentum", label: "SGD with momentum 0.9", type: "check" },
  ],
  defaults: { rate: 0.05, angle: 0, momentum: false },
  presets: {
    "default": { label: "Start", state: {} },
    "sgd-best": { label: "Best for SGD", state: { rate: 0.15 } },
    "thrown": { label: "Too high for SGD", state: { rate: 0.3 } },
    "momentum": { label: "With momentum", state: { momentum: true } },
    "turned": { label: "Turned", state: { angle: 45 } },
  },
  draw(kit, r, { rate, angle, momentum }) {
    const wide = !kit.narrow, w = (wide ? kit.w * 0.48 : kit.w) - 24, h = w * (YS[1] - YS[0]) / (XS[1] - XS[0]), y = 52;
    const names = [named(momentum), "AdamW"];
    const a = kit.plot({ x: 20, y, w, h, xs: XS, ys: YS, xticks: [-1, 0], yticks: [0], xlabel: angle ? "weight 1" : "flat weight" });
    kit.text(0, 14, angle ? "weight 2" : "steep weight", { cls: "m t" });
    const draw = (points, cls) => {
      for (const [p, q] of trim(points)) kit.line(a.X(p[0]), a.Y(p[1]), a.X(q[0]), a.Y(q[1]), cls);
    };
    const turn = angle * Math.PI / 180, c = Math.cos(turn), s = Math.sin(turn);
    for (const f of [0.5, 1, 2, 3]) {
      draw(Array.from({ length: 121 }, (_, i) => [f * Math.cos(i * Math.PI / 60), f / 10 * Math.sin(i * Math.PI / 60)]).map(([p, q]) => [c * p - s * q, s * p + c * q]), "axis");
    }
    [r.sgd, r.adamw].forEach(({ path }, i) => {
      const end = path.findIndex((p) => !inside(p)), seen = path.slice(0, end < 0 ? undefined : end + 1), cls = i ? "s1 o" : "s2";
      draw(seen, i ? "s1 d" : "s2");
      for (const p of seen.filter(inside)) kit.circle(a.X(p[0]), a.Y(p[1]), i ? 3.5 : 2.5, cls);
      kit.circle(5 + i * w * 0.6, 34, 4, cls);
      kit.text(15 + i * w * 0.6, 38, names[i], { cls: "b" });
    });
    kit.circle(a.X(0), a.Y(0), 3, "s6");
    kit.text(a.X(0) + 6, a.Y(0) + 16, "lowest", { cls: "m t", nudge: true });

    const x = wide ? kit.w * 0.48 + 64 : 50, y2 = wide ? y : y + h + 78, h2 = wide ? h : 140;
    const b = kit.plot({ x, y: y2, w: kit.w - x - 14, h: h2, xs: [0.001, 1], ys: [1e-4, 10], xticks: [0.001, 0.01, 0.1, 1], yticks: [1e-4, 0.01, 1], xlog: true, ylog: true, xlabel: "learning rate" });
    kit.text(x - 50, y2 - 12, "loss, updates 31 to 40", { cls: "m t" });
    const level = (v) => Math.min(10, Math.max(1e-4, v));
    kit.line(b.X(rate), y2, b.X(rate), y2 + h2, "s6 d");
    [r.sgd, r.adamw].forEach((one, i) => {
      b.curve(one.losses.map((v, k) => [RATES[k], level(v)]), i ? "s1 d" : "s2");
      kit.circle(b.X(rate), b.Y(level(one.loss)), 5, i ? "s1 o" : "s2");
      kit.text(b.X(rate) + (rate > 0.02 ? -10 : 10), b.Y(level(one.loss)) + (i ? 18 : -10), `${names[i]} ${fmt(one.loss)}`, { anchor: rate > 0.02 ? "end" : "start", cls: "b", nudge: true });
    });
    return y2 + h2 + 46;
  },
  table(r, { angle, momentum }) {
    return {
      caption: `Mean loss of updates 31 to 40${angle ? `, valley turned by ${angle} degrees` : ""}; at this rate, percent of the way along the valley after 40`,
      columns: ["rate", named(momentum), "AdamW"],
      rows: [...[0.001, 0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.3, 1].map((v) => [v, ...[r.sgd, r.adamw].map((one) => one.losses[RATES.indexOf(v)])]), ["way, percent", r.sgd.covered, r.adamw.covered]],
    };
  },
  summary(r, { rate, momentum }) {
    const tell = (one, name) => `${name} has covered ${fmt(Math.round(one.covered))} percent of the way along the valley and is ${fmt(Math.round(Math.abs(one.across) * 1000) / 1000)} from its middle`;
    return `At a rate of ${fmt(rate)}, after 40 updates, ${tell(r.sgd, named(momentum))}; ${tell(r.adamw, "AdamW")}. ` +
      [[r.sgd, named(momentum)], [r.adamw, "AdamW"]].map(([one, name]) => `${name}\u2019s best rate here is ${fmt(one.best)}, with a loss of ${fmt(Math.min(...one.losses))}.`).join(" ");
  },
};

export default figure(spec, compute);
