import { figure, fmt, nice } from "./engine.mjs";

const mean = (v) => v.reduce((sum, a) => sum + a, 0) / v.length;

function normalize(y, eps) {
  const center = mean(y), meanSquare = mean(y.map((a) => a * a)), variance = mean(y.map((a) => (a - center) ** 2));
  return {
    mean: center,
    rms: Math.sqrt(meanSquare),
    rmsnorm: y.map((a) => a / Math.sqrt(meanSquare + eps)),
    layernorm: y.map((a) => (a - center) / Math.sqrt(variance + eps)),
  };
}

// Largest distance between two outputs; below 1e-12 it is round-off and counts as 0.
function measureMove(a, b) {
  const gaps = a.map((v, i) => Math.abs(v - b[i])), most = Math.max(...gaps);
  return most < 1e-12 ? 0 : most;
}

export function compute({ x, k, c, eps }) {
  const input = x.map((a) => k * a + c), now = normalize(input, eps), base = normalize(x, eps);
  return {
    input, ...now,
    base_rmsnorm: base.rmsnorm,
    base_layernorm: base.layernorm,
    moved_rmsnorm: measureMove(now.rmsnorm, base.rmsnorm),
    moved_layernorm: measureMove(now.layernorm, base.layernorm),
  };
}

// One panel: four horizontal bars from a zero line, an outline where each bar would be for x itself, the value at the right.
function bars(kit, { x, y, w, title, note, values, ghost, range, cls, name }) {
  const left = x + 24, right = x + w - 82, zero = (left + right) / 2, half = (right - left) / 2;
  const at = (v) => zero + (Math.max(-range, Math.min(range, v)) / range) * half;
  kit.text(x, y + 12, title, { cls: "b" });
  kit.text(x, y + 29, note, { cls: "m t" });
  const top = y + 40;
  for (const v of [-range, range]) kit.line(at(v), top, at(v), top + 112, "grid");
  values.forEach((v, i) => {
    const row = top + 4 + i * 28;
    kit.text(x, row + 15, name + "\u2080\u2081\u2082\u2083\u2084"[i + 1], { cls: "m" });
    if (Number.isFinite(v)) kit.rect(zero, row + 3, at(v) - zero, 14, cls);
    if (ghost && Number.isFinite(ghost[i])) kit.rect(zero, row, at(ghost[i]) - zero, 20, "o d");
    kit.text(x + w, row + 15, fmt(v), { anchor: "end" });
  });
  kit.line(zero, top, zero, top + 112, "axis");
  kit.text(left, top + 127, fmt(-range), { anchor: "middle", cls: "m t" });
  kit.text(zero, top + 127, "0", { anchor: "middle", cls: "m t" });
  kit.text(right, top + 127, fmt(range), { anchor: "middle", cls: "m t" });
  return { top, at, left, half };
}

export const spec = {
  name: "rmsnorm",
  title: "RMSNorm and LayerNorm of k\u00b7x + c",
  intro: "Four numbers are multiplied by k, c is added to each, then the vector is normalized in two ways. Dashed outlines mark where x itself, with k = 1 and c = 0, ends up.",
  predict: {
    question: "The vector is multiplied by 10. What happens to RMSNorm\u2019s output?",
    choices: ["It grows 10 times", "It stays the same", "It shrinks 10 times"],
    answer: 1,
    why: "The root mean square grows 10 times too, and the division takes the factor out.",
    preset: "scaled-10x",
  },
  controls: [
    { key: "k", label: "Scale k", type: "range", values: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100] },
    { key: "c", label: "Added constant c", type: "range", values: [-5, -4, -3, -2, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 5] },
    { key: "eps", label: "eps", type: "select", options: [[0, "0"], [1e-8, "10\u207b\u2078"], [1e-5, "10\u207b\u2075"], [1e-2, "10\u207b\u00b2"]] },
  ],
  defaults: { x: [3, -1, 2, 0.5], k: 1, c: 0, eps: 1e-5 },
  presets: {
    "default": { label: "Start", state: {} },
    "scaled-10x": { label: "Times 10", state: { k: 10 } },
    "scaled-100x": { label: "Times 100", state: { k: 100 } },
    "shifted": { label: "Plus 2", state: { c: 2 } },
    "tiny": { label: "Tiny: eps wins", state: { k: 0.001 } },
    "all-zero": { label: "All zero", state: { x: [0, 0, 0, 0] } },
    "no-eps": { label: "All zero, eps 0", state: { x: [0, 0, 0, 0], eps: 0 } },
  },
  draw(kit, r, state) {
    const wide = !kit.narrow, w = wide ? (kit.w - 40) / 2 : kit.w, tall = 190;
    const place = (i) => (wide ? { x: (i % 2) * (w + 40), y: Math.floor(i / 2) * tall, w } : { x: 0, y: i * tall, w });
    const range = nice(Math.max(...r.input.map(Math.abs), ...state.x.map(Math.abs)));
    const panel = bars(kit, { ...place(0), title: "x", note: "drag a bar, or use the arrow keys", values: state.x, range: 4, cls: "s6", name: "x" });
    state.x.forEach((v, i) => {
      const y = panel.top + i * 28;
      kit.circle(panel.at(v), y + 14, 7);
      kit.slider("x" + i, {
        x: panel.left, y, w: panel.half * 2, h: 28, label: `Component ${i + 1} of x`, value: v, min: -4, max: 4, step: 0.5,
        set: (value) => ({ x: state.x.map((old, j) => (j === i ? value : old)) }),
      });
    });
    bars(kit, { ...place(1), title: "k\u00b7x + c", note: `RMS ${fmt(r.rms)}, mean ${fmt(r.mean)}`, values: r.input, ghost: state.x, range, cls: "s6", name: "y" });
    bars(kit, { ...place(2), title: "RMSNorm", note: `moved by at most ${fmt(r.moved_rmsnorm)}`, values: r.rmsnorm, ghost: r.base_rmsnorm, range: 2, cls: "s1", name: "r" });
    bars(kit, { ...place(3), title: "LayerNorm", note: `moved by at most ${fmt(r.moved_layernorm)}`, values: r.layernorm, ghost: r.base_layernorm, range: 2, cls: "s2", name: "l" });
    return (wide ? 2 : 4) * tall - 18;
  },
  table(r, state) {
    return {
      caption: "The same numbers, by component",
      columns: ["i", "x", "k\u00b7x + c", "RMSNorm", "LayerNorm"],
      rows: state.x.map((v, i) => [String(i + 1), v, r.input[i], r.rmsnorm[i], r.layernorm[i]]),
    };
  },
  summary(r, { k, c, eps }) {
    const head = `With k = ${fmt(k)}, c = ${fmt(c)} and eps = ${fmt(eps)} the input has RMS ${fmt(r.rms)} and mean ${fmt(r.mean)}.`;
    if (Number.isNaN(r.moved_rmsnorm)) return head + " A vector of zeros with eps = 0 is 0 / 0: RMSNorm\u2019s output is NaN.";
    return `${head} Against k = 1 and c = 0, RMSNorm\u2019s output moved by at most ${fmt(r.moved_rmsnorm)} and LayerNorm\u2019s by at most ${fmt(r.moved_layernorm)}.`;
  },
};

export default figure(spec, compute);
