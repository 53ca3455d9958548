import { figure, fmt } from "./engine.mjs";

const D = 384, SAMPLES = [-4, -2, -1, 0, 1, 2, 4], ROOT = Math.sqrt(2 / Math.PI);
const sigmoid = (a) => 1 / (1 + Math.exp(-a));
const ACTS = {
  silu: ["SiLU", (a) => a * sigmoid(a)],
  gelu: ["GELU, tanh", (a) => 0.5 * a * (1 + Math.tanh(ROOT * (a + 0.044715 * a ** 3)))],
  relu: ["ReLU", (a) => Math.max(a, 0)],
  sigmoid: ["sigmoid", sigmoid],
  none: ["no SiLU", (a) => a],
};

// One hidden unit at input x: gate after its activation, up, and their product.
function unit(x, { wg, wu, act }) {
  const gate = ACTS[act][1](wg * x), up = wu * x;
  return { gate, up, product: gate * up };
}

export function compute(state) {
  const two = 2 * D * 4 * D, three = 3 * D * state.f;
  return { ...unit(state.x, state), samples: SAMPLES.map((x) => unit(x, state)), two, three, ratio: three / two };
}

const WEIGHTS = [-4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4], LOW = -4, HIGH = 8;
const clampValue = (v) => Math.max(LOW, Math.min(HIGH, v));

// The stretches of a curve between LOW and HIGH, each ending exactly where it leaves.
function cutVisible(points) {
  const runs = [[]];
  points.forEach(([x, v], i) => {
    const [px, pv] = points[i - 1] ?? [x, v], edge = clampValue(v) === v ? clampValue(pv) : clampValue(v);
    if (clampValue(v) !== v && clampValue(pv) !== pv) return;
    if (v !== pv && edge !== v && edge !== pv) runs.at(-1).push([px + ((edge - pv) / (v - pv)) * (x - px), edge]);
    clampValue(v) === v ? runs.at(-1).push([x, v]) : runs.push([]);
  });
  return runs.filter((run) => run.length > 1);
}

const LINES = [["gate", "s1"], ["up", "s3 d"], ["product", "s2"]];

export const spec = {
  name: "swiglu",
  title: "SwiGLU: a gate, an up value, their product",
  intro: "One hidden unit with a single input x. Below it, the weight matrices of two MLPs of width D = 384: length is number of weights.",
  predict: {
    question: "The GELU MLP has two matrices with hidden width 4 D. Which hidden width F gives three matrices as many parameters?",
    choices: ["2 D", "8/3 D", "3 D", "4 D"],
    answer: 1,
    why: "Two matrices hold 2 \u00b7 D \u00b7 4 D = 8 D\u00b2 numbers, three hold 3 \u00b7 D \u00b7 F. Divide 8 D\u00b2 by 3 D.",
    preset: "matched",
  },
  controls: [
    { key: "act", label: "Gate", type: "select", options: Object.entries(ACTS).map(([k, [text]]) => [k, text]) },
    { key: "wg", label: "Gate weight", type: "range", values: WEIGHTS },
    { key: "wu", label: "Up weight", type: "range", values: WEIGHTS },
  ],
  defaults: { act: "silu", wg: 1, wu: 1, x: 2, f: 1536 },
  presets: {
    "default": { label: "Start", state: {} },
    "matched": { label: "Equal parameters", state: { f: 1024 } },
    "closed": { label: "Closed gate", state: { wg: -4, f: 1024 } },
    "bilinear": { label: "No activation", state: { act: "none", x: -2, f: 1024 } },
    "sigmoid": { label: "Sigmoid", state: { act: "sigmoid", f: 1024 } },
    "gelu": { label: "GELU", state: { act: "gelu", x: -1, f: 1024 } },
    "relu": { label: "ReLU", state: { act: "relu", x: -1, f: 1024 } },
  },
  draw(kit, r, state) {
    const xs = Array.from({ length: 161 }, (_, i) => -4 + i / 20), points = xs.map((x) => unit(x, state));
    const h = kit.narrow ? 210 : 145, right = kit.narrow ? 12 : 150;
    const plot = kit.plot({ x: 40, y: 30, w: kit.w - 40 - right, h, xs: [-4, 4], ys: [LOW, HIGH], xticks: [-4, -2, 0, 2, 4], yticks: [-4, 0, 4, 8], xlabel: "input x" });
    kit.line(plot.X(state.x), 30, plot.X(state.x), 30 + h, "axis d");
    for (const [key, cls] of LINES) for (const run of cutVisible(xs.map((x, i) => [x, points[i][key]]))) plot.curve(run, cls);
    LINES.forEach(([key, cls], i) => {
      const v = r[key];
      kit.circle(plot.X(state.x), plot.Y(clampValue(v)), 5, v === clampValue(v) ? cls.slice(0, 2) : cls.slice(0, 2) + " o");
      const lx = kit.narrow ? 44 + i * ((kit.w - 44) / 3) : kit.w - 134, ly = kit.narrow ? h + 84 : 60 + i * 50;
      kit.line(lx, ly - 4, lx + 22, ly - 4, cls);
      kit.text(kit.narrow ? lx : lx + 30, kit.narrow ? ly + 14 : ly, key, { cls: "b" });
      kit.text(kit.narrow ? lx : lx + 30, kit.narrow ? ly + 31 : ly + 18, fmt(v));
    });
    kit.slider("x", {
      x: 40, y: 30, w: kit.w - 40 - right, h, label: "Input x", value: state.x, min: -4, max: 4, step: 0.5, set: (x) => ({ x }),
    });
    const top = h + (kit.narrow ? 152 : 92), unitW = (kit.w - 2) / (12 * D), tall = 34;
    const row = (y, n, width, title, total, cls) => {
      kit.text(0, y, title, { cls: "b" });
      kit.text(0, y + 17, total, { cls: "m" });
      for (let i = 0; i < n; i++) kit.rect(1 + i * width * unitW, y + 26, width * unitW, tall, cls[i] + " soft");
    };
    row(top, 2, 4 * D, "GELU MLP: up, down", `4 D = ${fmt(4 * D)}: ${fmt(r.two)} weights`, ["s6", "s6"]);
    row(top + 84, 3, state.f, "SwiGLU: gate, up, down", `F = ${fmt(state.f)}: ${fmt(r.three)} weights`, ["s1", "s3", "s6"]);
    const end = 1 + 8 * D * unitW, grip = 1 + 3 * state.f * unitW;
    kit.line(end, top + 104, end, top + 116 + tall, "s6 d");
    kit.circle(grip, top + 110 + tall / 2, 7, "s2");
    kit.slider("f", {
      x: 1 + 768 * unitW, y: top + 106, w: 3840 * unitW, h: tall + 8, label: "Hidden width F of the SwiGLU", value: state.f, min: 256, max: 1536, step: 64, set: (f) => ({ f }),
    });
    kit.text(0, top + 110 + tall + 24, "drag the end, or use the arrow keys", { cls: "m t" });
    return top + 110 + tall + 32;
  },
  table(r) {
    return {
      caption: "The unit at seven inputs",
      columns: ["x", "gate", "up", "product"],
      rows: SAMPLES.map((x, i) => [x, r.samples[i].gate, r.samples[i].up, r.samples[i].product]),
    };
  },
  summary(r, { act, x, f }) {
    return `At x = ${fmt(x)} the gate (${ACTS[act][0]}) is ${fmt(r.gate)}, up is ${fmt(r.up)}, their product ${fmt(r.product)}. ` +
      `Hidden width ${fmt(f)} gives ${fmt(r.three)} weights, ${r.ratio === 1 ? "as many as" : fmt(r.ratio) + " times those of"} the two-matrix MLP.`;
  },
};

export default figure(spec, compute);
