import { figure, fmt } from "./engine.mjs";

const PARTS = ["Weights", "Gradients", "Optimizer"], BYTES = [2, 2, 12], FIRST = [3, 2, 1], STAGES = [0, 1, 2, 3], CARD = 80;
const sum = (list) => list.reduce((a, b) => a + b, 0);

export function compute({ billions, ranks, stage, claim }) {
  const all = Math.round(billions * 1e9), shard = Math.ceil(all / ranks), ring = (ranks - 1) / ranks;
  const held = STAGES.map((s) => BYTES.map((b, i) => ((s >= FIRST[i] ? shard : all) * b) / 1e9)), total = held.map(sum);
  const sent = STAGES.map((s) => ((s === 3 ? 3 : 2) * ring * all * 2) / 1e9);
  return { held, total, sent, claimed: claim ? sent[0] / 2 : null, factor: total[0] / total[stage], most: (CARD * billions) / total[stage] };
}

export const spec = {
  name: "zero",
  title: "ZeRO: what one rank holds, and what it sends",
  intro: "One bar a stage: GB of training state on each rank, with 2, 2 and 12 bytes a parameter. Below, what a rank sends for one update. The dashed mark is one card of 80 GB; activations come on top.",
  predict: {
    question: "7 billion parameters at stage 1, 8 ranks: 38.5 GB each. With 64 ranks, what is left of them?",
    choices: ["About an eighth", "About three quarters", "All: stage 1 ignores the ranks"],
    answer: 1,
    why: "Weights and gradients, 28 GB, stay whole on every rank; only the optimizer is shared out.",
    preset: "many",
  },
  controls: [
    { key: "billions", label: "Parameters, billions", type: "range", values: [0.1, 0.35, 1, 3, 7, 13, 30, 70, 175, 400] },
    { key: "ranks", label: "Ranks", type: "range", values: [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64] },
    { key: "stage", label: "Stage", type: "select", options: STAGES.map((s) => [s, String(s)]) },
  ],
  defaults: { billions: 7, ranks: 8, stage: 1, claim: false },
  presets: {
    "default": { label: "Stage 1", state: {} },
    "one": { label: "Nothing shared", state: { ranks: 1 } },
    "many": { label: "64 ranks", state: { ranks: 64 } },
    "stage-2": { label: "Stage 2", state: { stage: 2 } },
    "halves": { label: "Half the traffic?", state: { stage: 2, claim: true } },
    "large": { label: "70 billion", state: { billions: 70, ranks: 64, stage: 3 } },
  },
  draw(kit, r, { stage, ranks }) {
    let at = 0;
    PARTS.forEach((name, i) => {
      kit.rect(at, 3, 12, 12, `s${i + 1}`);
      kit.text(at + 17, 14, name, { cls: "t" });
      at += name.length * 7 + 24;
    });
    const row = (y, s, text, w, h) => {
      kit.text(0, y, `Stage ${s}: ${text}`, { cls: s === stage ? "b" : "m" });
      kit.button(`${y}`, { x: 0, y: y - 15, w: kit.w, h: h + 23, label: `Stage ${s}`, pressed: s === stage, set: () => ({ stage: s }) });
      if (s === stage) kit.rect(-3, y + 5, w + 6, h + 6, "axis o");
    };
    const wide = kit.w - 6, X = wide / r.total[0], line = CARD * X;
    r.held.forEach((parts, s) => {
      const y = 48 + 42 * s;
      let x = 0;
      row(y, s, `${fmt(r.total[s])} GB`, r.total[s] * X, 18);
      parts.forEach((b, i) => (kit.rect(x, y + 8, b * X, 18, `s${i + 1}`), (x += b * X)));
      if (line <= wide) kit.line(line, y + 3, line, y + 31, "s6 d");
    });
    if (line <= wide) kit.text(line, 216, "80 GB", { cls: "m t", anchor: line < 20 ? "start" : line > wide - 20 ? "end" : "middle" });
    else kit.text(kit.w, 216, "80 GB lies further right", { cls: "m t", anchor: "end" });
    const Y = ranks > 1 ? wide / r.sent[3] : 0;
    kit.text(0, 248, "Sent by each rank per update", { cls: "b" });
    r.sent.forEach((b, s) => {
      const y = 272 + 34 * s, told = r.claimed !== null && s === 2;
      row(y, s, `${fmt(b)} GB${told ? `, not ${fmt(r.claimed)}` : ""}`, b * Y, 10);
      kit.rect(0, y + 8, b * Y, 10, "s4");
      if (told) kit.line(r.claimed * Y, y + 4, r.claimed * Y, y + 24, "s2 d");
    });
    return 396;
  },
  table(r) {
    return {
      caption: "GB on each rank, and GB that it sends for one update",
      columns: ["Stage", ...PARTS, "Together", "Sent"],
      rows: STAGES.map((s) => [`Stage ${s}`, ...r.held[s], r.total[s], r.sent[s]]),
    };
  },
  summary(r, { billions, ranks, stage }) {
    const sent = stage === 3 ? "half as much again as" : stage ? "as much as" : "the measure for";
    const said = r.claimed === null ? "" : ` The claim that stage 2 halves it would be ${fmt(r.claimed)} GB.`;
    return `${fmt(billions)} billion parameters, ${fmt(ranks)} rank${ranks > 1 ? "s" : ""}, stage ${stage}: ${fmt(r.total[stage])} GB on each, ${fmt(r.factor)} times less than at stage 0. Sent: ${fmt(r.sent[stage])} GB, ${sent} ${stage ? "stage 0" : "the others"}.${said} One card of 80 GB holds the state of up to ${fmt(r.most)} billion parameters.`;
  },
};

export default figure(spec, compute);
