import { figure, fmt, nice } from "./engine.mjs";

// Written by `python -m benchmarks.figures.init`: a line is one model, by depth, std, scaled or not;
// RMS of the stream after 0, STEP, 2 STEP, ... blocks, then the loss of the first batch.
const TABLE = `0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.011
0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.011
0.02 0.0205 0.0213 0.0222 0.0233 0.0244 0.0256 9.034
0.02 0.0262 0.0398 0.0575 0.0714 0.0797 0.0911 9.036
0.0599 0.11 0.152 0.189 0.221 0.247 0.276 9.234
0.0599 0.324 0.534 0.685 0.818 0.915 1.02 9.262
0.2 3.95 5.54 6.72 7.8 8.68 9.51 11.51
0.2 13.6 19.2 23.2 27 30 32.8 11.52
0.998 487 694 844 978 1090 1190 42.64
0.998 1680 2400 2920 3390 3770 4120 42.53
0.002 0.002 0.002 0.00201 0.00201 0.00201 0.00201 9.012
0.002 0.00201 0.00201 0.00201 0.00202 0.00202 0.00202 9.012
0.02 0.0207 0.0214 0.0225 0.0236 0.0253 0.0268 9.051
0.02 0.0386 0.0715 0.0946 0.113 0.131 0.153 9.03
0.0601 0.113 0.157 0.197 0.228 0.261 0.293 9.254
0.0601 0.528 0.818 1.06 1.21 1.39 1.56 9.239
0.2 3.85 5.49 6.77 7.76 8.65 9.46 11.45
0.2 18.8 26.9 33.2 38 42.3 46.4 11.5
1 483 682 845 961 1070 1180 42.79
1 2370 3340 4140 4710 5250 5750 42.82
0.002 0.002 0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.012
0.002 0.00201 0.00201 0.00203 0.00204 0.00205 0.00208 0.0021 0.00213 9.012
0.02 0.0204 0.021 0.0217 0.0225 0.0235 0.0249 0.0262 0.0279 9.047
0.02 0.104 0.152 0.2 0.227 0.26 0.285 0.305 0.336 9.044
0.0599 0.106 0.14 0.175 0.201 0.226 0.249 0.27 0.294 9.261
0.0599 1.07 1.55 1.96 2.22 2.46 2.74 2.96 3.19 9.26
0.2 3.31 4.74 5.8 6.67 7.46 8.19 8.84 9.46 11.66
0.2 32.7 46.2 57 65.7 73.2 80.3 86.6 93.1 11.54
0.998 414 589 723 837 942 1030 1120 1190 43.97
0.998 4050 5800 7110 8240 9240 10100 10900 11700 43.33`;
const DEPTHS = [[6, 1], [12, 2], [48, 6]], STDS = [0.002, 0.02, 0.06, 0.2, 1];
const options = (list) => list.map((v) => [v, String(v)]);

function modelOf(state, scaled) {
  const place = DEPTHS.findIndex((d) => d[0] === state.depth) * STDS.length + STDS.indexOf(state.std);
  const rms = TABLE.split("\n")[2 * place + !scaled].split(" ").map(Number), loss = rms.pop();
  return { rms, loss };
}

export function compute(state) {
  const on = modelOf(state, true), off = modelOf(state, false), now = state.scaled ? on : off;
  const step = DEPTHS.find((d) => d[0] === state.depth)[1];
  return { blocks: now.rms.map((_, i) => i * step), on, off, ln_v: Math.log(8192), growth: now.rms.at(-1) / now.rms[0], loss: now.loss };
}

export const spec = {
  name: "init",
  title: "The residual stream before the first step",
  intro: "The course\u2019s GPT with 8,192 tokens and width 128, weights just drawn, one batch of random tokens. The final norm divides the stream\u2019s growth out again, so the first loss does not show it.",
  predict: {
    question: "Weights of std 0.02, V = 8,192 tokens. What is the first loss, before any training?",
    choices: ["0", "1", "ln 8,192 = 9.01", "8,192"],
    answer: 2,
    why: "Small weights give logits near 0: every token gets about 1/V, and \u2212ln(1/V) = ln V.",
  },
  controls: [
    { key: "std", label: "Std of the weights", type: "select", options: options(STDS) },
    { key: "depth", label: "Blocks L", type: "select", options: options(DEPTHS.map((d) => d[0])) },
    { key: "scaled", label: "Residual scale 1/\u221a(2L)", type: "check" },
  ],
  defaults: { std: 0.02, scaled: true, depth: 48 },
  presets: {
    "default": { label: "Start", state: {} },
    "no-residual-scaling": { label: "No residual scale", state: { scaled: false } },
    "std-too-large": { label: "Std 0.2", state: { std: 0.2 } },
    "std-one": { label: "Std 1, no scale", state: { std: 1, scaled: false } },
    "std-too-small": { label: "Std 0.002", state: { std: 0.002 } },
    "shallow": { label: "6 blocks, no scale", state: { depth: 6, scaled: false } },
  },
  draw(kit, r, { depth, scaled }) {
    const top = nice(Math.max(...r.on.rms, ...r.off.rms)), h = kit.narrow ? 190 : 230;
    const plot = kit.plot({
      x: 58, y: 30, w: kit.w - 70, h, xs: [0, depth], ys: [0, top], xticks: [0, depth / 3, depth * 2 / 3, depth], yticks: [0, top / 2, top], xlabel: "after block", ylabel: "RMS of the residual stream",
    });
    const close = plot.Y(r.on.rms.at(-1)) - plot.Y(r.off.rms.at(-1)) < 30;
    for (const [{ rms }, name, chosen, cls] of [[r.off, "not scaled", !scaled, "s2"], [r.on, "scaled", scaled, "s1"]]) {
      plot.curve(rms.map((v, i) => [r.blocks[i], v]), cls + (chosen ? "" : " d"));
      if (chosen) rms.forEach((v, i) => kit.circle(plot.X(r.blocks[i]), plot.Y(v), 4, cls));
      kit.text(kit.w - 12, plot.Y(rms.at(-1)) + (close && cls === "s1" ? 22 : -12), `${name} ${fmt(rms.at(-1))}`, { anchor: "end", cls: chosen ? "b" : "m", nudge: true });
    }
    const y = h + 100, end = kit.w - 2, full = nice(Math.max(10, r.loss)), at = (v) => 1 + v / full * end;
    kit.text(0, y, "First loss, nats", { cls: "b" });
    kit.text(kit.w, y, fmt(r.loss), { anchor: "end", cls: "b" });
    kit.rect(1, y + 12, end, 26, "s6 o");
    kit.rect(1, y + 12, at(r.loss) - 1, 26, (scaled ? "s1" : "s2") + " soft");
    kit.line(at(r.ln_v), y + 6, at(r.ln_v), y + 46, "s3");
    kit.text(at(r.ln_v) + 4, y + 60, `ln V = ${fmt(r.ln_v)}`, { anchor: full > 10 ? "start" : "end", cls: "m" });
    return y + 70;
  },
  table(r, { std }) {
    return {
      caption: `RMS of the stream, weights of std ${std}`,
      columns: ["after block", "scaled", "not scaled"],
      rows: [...r.blocks.map((n, i) => [n, r.on.rms[i], r.off.rms[i]]), ["first loss", r.on.loss, r.off.loss]],
    };
  },
  summary(r, { std, depth, scaled }) {
    return `With std ${std}, ${depth} blocks, ${scaled ? "with" : "without"} residual scaling, the stream\u2019s RMS at the last block is ${fmt(r.growth)} times that of the embedding. ` +
      `The first loss is ${fmt(r.loss)}; ln V is ${fmt(r.ln_v)}.`;
  },
};

export default figure(spec, compute);
