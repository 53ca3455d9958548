import { figure, fmt } from "./engine.mjs";

const L = 6, H = 6, D = 384, F = 1024;
const WAYS = ["Explicit attention", "Fused attention", "Explicit, products kept", "Blocks recomputed"];
const PARTS = ["Norms", "Attention", "T × T", "MLP", "Inputs", "Head"];
const sum = (list) => list.reduce((a, b) => a + b, 0);

// Numbers of 4 bytes; the mask has one byte an entry. The formula is that of course_lib/measure/activations.py.
export function compute({ T, B, V }) {
  const N = T * B, wide = N * D, hidden = N * F, norm = 2 * wide + N, square = N * H * T, loss = wide + N * V;
  const norms = (2 * L + 1) * norm, mlp = L * (wide + 4 * hidden);
  const kept = [
    [norms, L * 5 * wide, L * (square + (T * T) / 4), mlp, 0, loss],
    [norms, L * (5 * wide + N * H), 0, mlp, 0, loss],
    [norm, L * 5 * wide, L * square, L * (wide + 2 * hidden), L * wide, loss],
    [norm, 0, 0, 0, L * wide, loss],
  ].map((parts) => parts.map((x) => (4 * x) / 1e9));
  const total = kept.map(sum);
  return { kept, total, share: kept.map((parts, i) => (100 * parts[5]) / total[i]) };
}

export const spec = {
  name: "activations",
  title: "What a forward pass keeps",
  intro: "GB that a GPT of 6 blocks (preset small, float32) keeps for its backward pass. One bar for each way to run it; Inputs are those of recomputed blocks, and Head includes the loss.",
  predict: {
    question: "Eight sequences of 256 tokens become one of 2,048: as many tokens. With explicit attention, what happens to T × T and to the MLP?",
    choices: ["Both stay", "T × T grows 8 times, the MLP stays", "T × T grows 64 times, the MLP stays", "Both grow 8 times"],
    answer: 1,
    why: "Each token has a row of T weights in every head, and T is 8 times as long. All else counts tokens.",
    preset: "long",
  },
  controls: [
    { key: "T", label: "Tokens in a sequence, T", type: "range", values: [64, 128, 256, 512, 1024, 2048, 4096] },
    { key: "B", label: "Sequences, B", type: "range", values: [1, 2, 4, 8, 16, 32, 64] },
    { key: "V", label: "Vocabulary, V", type: "range", values: [8192, 32000, 50304, 128256] },
  ],
  defaults: { T: 256, B: 8, V: 8192 },
  presets: {
    "default": { label: "Start", state: {} },
    "long": { label: "One long sequence", state: { T: 2048, B: 1 } },
    "logits": { label: "The logits nobody counts", state: { V: 50304 } },
    "selective": { label: "Products kept", state: { T: 1024, B: 2 } },
    "large-batch": { label: "64 sequences", state: { B: 64 } },
  },
  draw(kit, r) {
    let at = 0, y = 14;
    PARTS.forEach((name, i) => {
      const w = name.length * 7 + 34;
      if (at + w > kit.w + 12) at = 0, y += 20;
      kit.rect(at, y - 11, 12, 12, `s${i + 1}`);
      kit.text(at + 17, y, name, { cls: "t" });
      at += w;
    });
    const X = (kit.w - 2) / Math.max(...r.total);
    r.kept.forEach((parts, way) => {
      let x = 0;
      y += way ? 56 : 34;
      kit.text(0, y, `${WAYS[way]}: ${fmt(r.total[way])} GB`);
      parts.forEach((b, i) => {
        const w = b * X, label = i === 5 ? `${Math.round(r.share[way])} %` : PARTS[i];
        if (w > 0) kit.rect(x, y + 8, w, 22, `s${i + 1}`);
        if (w > label.length * 8 + 8) kit.text(x + w / 2, y + 24, label, { anchor: "middle", cls: "t" });
        x += w;
      });
    });
    return y + 40;
  },
  table(r) {
    return {
      caption: "GB kept for the backward pass",
      columns: ["Way", ...PARTS, "Together"],
      rows: WAYS.map((way, i) => [way, ...r.kept[i], r.total[i]]),
    };
  },
  summary({ kept, total, share }, { T, B, V }) {
    return `${fmt(B)} × ${fmt(T)} tokens, V = ${fmt(V)}: explicit attention keeps ${fmt(total[0])} GB, ${fmt(kept[0][2])} of them T × T; ` +
      `fused ${fmt(total[1])} GB; explicit with the products kept ${fmt(total[2])} GB; with all blocks recomputed ${fmt(total[3])} GB. ` +
      `The head with its loss is ${fmt(share[1])} percent of the fused bar and ${fmt(share[3])} percent of the last.`;
  },
};

export default figure(spec, compute);
