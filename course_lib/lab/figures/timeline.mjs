import { figure, fmt } from "./engine.mjs";

const LAYERS = 8, RANKS = 4, MB = 8;
const MODES = [["ddp", "DDP"], ["front", "DDP, from the front"], ["free", "FSDP, freed"], ["keep", "FSDP, kept"]];
const KINDS = { F: ["Forward", "s1"], B: ["Backward", "s3"], G: ["Gather", "s2"], S: ["Reduce-scatter", "s4 d"], A: ["All-reduce", "s4"] };

// Two ranks stand for all, since all but rank 1 are alike. Each has a lane that computes and one that communicates; a lane
// does one thing at a time, and a collective starts when the last rank is ready for it. Lesson 20: DDP; lesson 23: FSDP.
export function compute({ mode, size, overlap, slow }) {
  const boxes = [], ends = [[0, 0], [0, 0]], last = LAYERS / size - 1, fsdp = mode === "free" || mode === "keep";
  // Boxes of ranks 0 and 1. One starts after those of its lane and those in `after`; with `mb` it is a collective.
  function add(kind, unit, time, mb, ...after) {
    const lane = +!!mb, waits = [ends[lane], ...after.filter(Boolean).map((b) => b.end)];
    let start = [0, 1].map((r) => Math.max(...waits.map((w) => w[r])));
    if (mb) start = start.map(() => Math.max(...start));
    const box = { kind, unit, mb, start, end: (ends[lane] = [start[0] + time, start[1] + time * (mb ? 1 : slow)]) };
    boxes.push(box);
    return box;
  }
  const sendLayers = (kind, unit, ...after) => {
    const mb = ((kind === "A" ? 2 : 1) * size * MB * (RANKS - 1)) / RANKS;
    return add(kind, unit, 1 + mb / 8, mb, ...after);
  };
  const up = [...Array(last + 1).keys()], down = [...up].reverse(), G = [], F = [], again = [], B = [], S = [];
  const ahead = overlap ? 2 : 1; // one unit ahead: at most two are whole
  for (const u of up) {
    if (fsdp) G[u] = sendLayers("G", u, F[u - ahead]);
    F[u] = add("F", u, size, 0, G[u]);
  }
  for (const u of down) {
    for (let v = u; mode === "free" && v > u - ahead && v >= 0; v--) again[v] ??= sendLayers("G", v, B[v + ahead] ?? F[last]);
    B[u] = add("B", u, 2 * size, 0, F[last], again[u], !overlap && S[u + 1]);
    if (fsdp) S[u] = sendLayers("S", u, B[u]);
  }
  if (!fsdp) for (const u of mode === "front" ? up : down) sendLayers("A", u, B[overlap ? u : 0]);

  let now = fsdp ? (LAYERS * MB) / RANKS : LAYERS * MB;
  const changes = [], span = (a, b) => changes.push([a.start[0], 1], [b.end[0], -1]), held = [[0, now]];
  if (fsdp) for (const u of up) mode === "free" ? (span(G[u], F[u]), span(again[u], B[u])) : span(G[u], B[u]);
  for (const [t, sign] of changes.sort((a, b) => a[0] - b[0] || a[1] - b[1])) held.push([t, (now += sign * size * MB)]);
  const sent = boxes.filter((b) => b.mb), end = Math.max(...boxes.flatMap((b) => b.end));
  return {
    boxes, end, waits: end - slow * 3 * LAYERS, sent: sent.reduce((sum, b) => sum + b.mb, 0), collectives: sent.length,
    held, peak: Math.max(...held.map((h) => h[1])),
  };
}

export const spec = {
  name: "timeline",
  title: "One step: computing beside communicating",
  intro: "A model of 8 layers on 4 ranks; two are drawn. In units of time, not measured: a layer takes 1 forward (F) and 2 backward (B), a collective 1 and 1 more per 8 MB sent. A: all-reduce of gradients, G: gather of parameters, S: reduce-scatter of gradients. A layer has 8 MB.",
  predict: {
    question: "Collectives run beside computing. Of the 8 layers, how many should travel together for the step to end soonest?",
    choices: ["1", "2", "8", "It makes no difference"],
    answer: 1,
    why: "Single layers pay for the start of a collective eight times; all together have nothing left to compute beside them.",
    preset: "buckets",
  },
  controls: [
    { key: "mode", label: "Run", type: "select", options: MODES },
    { key: "size", label: "Layers together", type: "range", values: [1, 2, 4, 8] },
    { key: "overlap", label: "Beside computing", type: "check" },
  ],
  defaults: { mode: "ddp", size: 8, overlap: true, slow: 1 },
  presets: {
    "default": { label: "One bucket", state: {} },
    "buckets": { label: "Buckets of 2", state: { size: 2 } },
    "single": { label: "A bucket each", state: { size: 1 } },
    "late": { label: "After backward", state: { size: 2, overlap: false } },
    "front": { label: "From the front", state: { size: 2, mode: "front" } },
    "slow": { label: "Slow rank 1", state: { size: 2, slow: 1.5 } },
    "fsdp": { label: "FSDP", state: { mode: "free", size: 1 } },
    "fsdp-kept": { label: "FSDP, kept", state: { mode: "keep", size: 1 } },
    "fsdp-waits": { label: "FSDP, no prefetch", state: { mode: "free", size: 1, overlap: false } },
    "fsdp-whole": { label: "FSDP, one unit", state: { mode: "free" } },
  },
  draw(kit, r, { size }) {
    const top = 178, most = r.end > 48 ? 68 : 48, ticks = [0, 12, 24, 36, 48, 60].filter((t) => t < most + 1);
    const p = kit.plot({ y: top, x: 30, w: kit.w - 40, h: 70, xs: [0, most], ys: [0, 80], xticks: ticks, yticks: [0, 40, 80], xlabel: "time, in units", ylabel: "MB of parameters held by rank 0" });
    for (const k of [0, 1]) {
      const y = 72 * k + 16;
      kit.text(0, y - 4, `Rank ${k}: computing, messages below`, { cls: "m t" });
      for (const b of r.boxes) {
        const x = p.X(b.start[k]), w = p.X(b.end[k]) - x, low = y + (b.mb ? 25 : 2), first = b.unit * size + 1;
        kit.rect(x, low, w, 21, KINDS[b.kind][1] + " soft");
        const layers = size > 1 ? `${first}\u2013${first + size - 1}` : first;
        const names = [`${b.kind} ${layers}: ${fmt(b.mb)} MB`, `${b.kind} ${layers}`, b.kind].slice(b.mb ? 0 : 1);
        const name = names.find((n) => 7 * n.length + 2 < w);
        if (name) kit.text(x + w / 2, low + 15, name, { anchor: "middle", cls: "t" });
      }
      kit.line(p.X(r.end), y, p.X(r.end), y + 48, "s6 d");
    }
    const steps = r.held.flatMap(([t, mb], i) => (i ? [[t, r.held[i - 1][1]], [t, mb]] : [[t, mb]]));
    p.curve([...steps, [r.end, r.held.at(-1)[1]]], "s2");
    return top + 112;
  },
  table(r) {
    const rows = Object.entries(KINDS).map(([kind, [name]]) => [name, r.boxes.filter((b) => b.kind === kind)]);
    return {
      caption: "Boxes of rank 0, by kind; times in units",
      columns: ["Kind", "Boxes", "First starts", "Last ends", "MB sent"],
      rows: rows.filter(([, b]) => b.length).map(([name, b]) => [name, b.length, b[0].start[0], b.at(-1).end[0], b.reduce((sum, c) => sum + c.mb, 0)]),
    };
  },
  summary(r, { mode, size, overlap, slow }) {
    const how = (overlap ? "" : ", nothing beside computing") + (slow > 1 ? `; rank 1 computes ${fmt(100 * (slow - 1))} percent longer` : "");
    return `${MODES.find((m) => m[0] === mode)[1]}, ${fmt(size)} of ${LAYERS} layers together${how}: the step ends at ${fmt(r.end)}, ${fmt(r.waits)} later than computing alone. A rank sends ${fmt(r.sent)} MB in ${fmt(r.collectives)} collective${r.collectives > 1 ? "s" : ""} and holds up to ${fmt(r.peak)} MB of parameters.`;
  },
};

export default figure(spec, compute);
