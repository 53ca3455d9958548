import { figure, fmt } from "./engine.mjs";

const SPEEDS = [1, 0.1]; // radians per token of the two pairs: theta = 100, K = 4
const sum = (v) => v[0] + v[1];

// x at a position; `mixed` takes the other layout's quarter turn with these tables.
function turn(x, position, mixed) {
  const quarter = mixed ? [-x[1], x[0], -x[3], x[2]] : [-x[2], -x[3], x[0], x[1]];
  return x.map((a, i) => a * Math.cos(position * SPEEDS[i % 2]) + quarter[i] * Math.sin(position * SPEEDS[i % 2]));
}

function product({ q, k, code }, n, gap) {
  const a = turn(q, n + gap, code === "mixed"), b = turn(k, code === "q-only" ? 0 : n, code === "mixed");
  return { a, b, pairs: [0, 1].map((i) => a[i] * b[i] + a[i + 2] * b[i + 2]) };
}

const lengths = (x) => [0, 1].map((i) => Math.round(1e12 * Math.sqrt(x[i] * x[i] + x[i + 2] * x[i + 2])) / 1e12); // 1, not 1.0000000000000002
const angles = (x) => [0, 1].map((i) => (Math.atan2(x[i + 2], x[i]) + 2 * Math.PI) % (2 * Math.PI));

export function compute(state) {
  const { n, gap } = state, { a, b, pairs } = product(state, n, gap);
  const score = sum(pairs), at_zero = sum(product(state, 0, gap).pairs), moved = Math.abs(score - at_zero);
  const curve = (from) => Array.from({ length: 17 }, (_, g) => sum(product(state, from, g).pairs));
  return {
    m: n + gap, q: a, k: b, lengths_q: lengths(a), lengths_k: lengths(b), pairs, score, at_zero,
    moved: moved < 1e-12 ? 0 : moved, curve: curve(n), curve_at_zero: curve(0),
  };
}

// One clock: a rim of radius 1, the hand now, dashed the hand at position 0.
function clock(kit, { x, y, r, hand, start, cls, label, note }) {
  const tip = (v, s) => [x + v[0] * r * s, y - v[1] * r * s];
  kit.circle(x, y, r, "o axis");
  for (let i = 0; i < 12; i++) {
    const v = [Math.cos((i * Math.PI) / 6), Math.sin((i * Math.PI) / 6)];
    kit.line(...tip(v, 0.93), ...tip(v, 1), "axis");
  }
  kit.line(x, y, ...tip(start, 1), "s6 d");
  kit.arrow(x, y, ...tip(hand, 1), cls);
  kit.circle(x, y, 3, cls);
  kit.text(x, y + r + 26, label, { anchor: "middle", cls: "b" });
  kit.text(x, y + r + 43, note, { anchor: "middle", cls: "m t" });
}

export const spec = {
  name: "rope",
  title: "RoPE clocks: what q\u00b7k can see of two positions",
  intro: "Two pairs of numbers, one clock each for q and for k. A position turns the hands counter-clockwise, pair 0 by 1 radian per token, pair 1 by 0.1; dashed hands show position 0.",
  predict: {
    question: "k stands at 3 and q at 5. Both move 40 positions on. What happens to q\u00b7k?",
    choices: ["It grows", "It stays the same", "It shrinks"],
    answer: 1,
    why: "Both hands of a pair turn by the same angle, and the product sees only the angle between them.",
    preset: "slid",
  },
  controls: [
    { key: "n", label: "Slide both: k at", type: "range", min: 0, max: 60, step: 1 },
    { key: "gap", label: "Gap: q later by", type: "range", min: 0, max: 16, step: 1 },
    { key: "code", label: "Code", type: "select", options: [["right", "right"], ["mixed", "both layouts mixed"], ["q-only", "only q turned"]] },
  ],
  defaults: { q: [0.8, 0.6, 0.6, 0.8], k: [1, 0.8, 0, -0.6], n: 3, gap: 2, code: "right" },
  presets: {
    "default": { label: "Start", state: {} },
    "slid": { label: "Both 40 later", state: { n: 43 } },
    "wider": { label: "Wider gap", state: { gap: 8 } },
    "together": { label: "No gap", state: { gap: 0 } },
    "mixed": { label: "Layouts mixed", state: { n: 43, code: "mixed" } },
    "q-only": { label: "Only q turned", state: { n: 43, code: "q-only" } },
  },
  draw(kit, r, state) {
    const across = kit.narrow ? 2 : 4, cell = kit.w / across, radius = Math.min(kit.narrow ? 52 : 36, cell / 2 - 22), margin = radius * 0.45;
    const tall = 24 + 2 * radius + 2 * margin + 36, turned = state.code === "q-only" ? 0 : state.n;
    for (const i of [0, 1]) {
      const left = kit.narrow ? 0 : i * 2 * cell, top = kit.narrow ? i * tall : 0, y = top + 24 + margin + radius;
      kit.text(left + cell, top + 14, `Pair ${i}: ${SPEEDS[i]} radian per token`, { anchor: "middle", cls: "m" });
      [["q", r.m, r.m, "s1"], ["k", state.n, turned, "s2"]].forEach(([name, at, by, cls], j) =>
        clock(kit, {
          x: left + (j + 0.5) * cell, y, r: radius, cls, hand: [r[name][i], r[name][i + 2]], start: [state[name][i], state[name][i + 2]],
          label: `${name} at ${at}`, note: `turned by ${fmt(by * SPEEDS[i])}`,
        }));
    }
    const top = (kit.narrow ? 2 : 1) * tall + 58, ends = [-2.5, 2.5];
    const p = kit.plot({ y: top, h: 130, xs: [0, 16], ys: ends, xticks: [0, 4, 8, 12, 16], yticks: [-2, -1, 0, 1, 2], xlabel: "gap, tokens", ylabel: "q\u00b7k" });
    const points = (curve) => curve.map((v, g) => [g, v]);
    const same = r.curve.every((v, g) => Math.abs(v - r.curve_at_zero[g]) < 1e-9);
    p.curve(points(r.curve), "s1");
    p.curve(points(r.curve_at_zero), "s6 d");
    kit.line(p.X(state.gap), p.Y(ends[0]), p.X(state.gap), p.Y(ends[1]), "grid");
    kit.circle(p.X(state.gap), p.Y(r.at_zero), 7, "s6 o");
    kit.circle(p.X(state.gap), p.Y(r.score), 5, "s1");
    kit.text(kit.w - 12, top - (kit.narrow ? 30 : 12), same ? `k at ${state.n}, and at 0 dashed: one curve` : `k at ${state.n}; dashed: k at 0`, { anchor: "end", cls: "m t" });
    kit.text(p.X(state.gap) + (state.gap > 11 ? -11 : 11), p.Y(r.score) - 10, fmt(r.score), { anchor: state.gap > 11 ? "end" : "start", cls: "b", nudge: true });
    kit.slider("gap", {
      x: p.X(0) - 10, y: top, w: p.X(16) - p.X(0) + 20, h: 130, label: "Gap", value: state.gap, min: 0, max: 16, step: 1,
      at: (px) => ((px - p.X(0)) / (p.X(16) - p.X(0))) * 16,
      set: (gap) => ({ gap }),
    });
    return top + 130 + 44;
  },
  table(r) {
    const of_q = angles(r.q), of_k = angles(r.k);
    return {
      caption: "By pair: angles of the hands in radians, their lengths, share of q\u00b7k",
      columns: ["Pair", "q angle", "k angle", "q length", "k length", "q\u00b7k"],
      rows: SPEEDS.map((_, i) => [String(i), of_q[i], of_k[i], r.lengths_q[i], r.lengths_k[i], r.pairs[i]]),
    };
  },
  summary(r, { n, gap }) {
    const head = `k stands at ${fmt(n)}, q at ${fmt(r.m)}, a gap of ${fmt(gap)}: q\u00b7k = ${fmt(r.score)}.`;
    const same = `With k at 0 and the same gap it is ${fmt(r.at_zero)}`;
    return r.moved === 0 ? `${head} ${same}: the gap alone decides.` : `${head} ${same}: the place moved it by ${fmt(r.moved)}.`;
  },
};

export default figure(spec, compute);
