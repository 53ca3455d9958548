import { figure, fmt } from "./engine.mjs";

const T = 8, ROW = 6, SCORES = [1, 3, 2, 0, 2, 1, 5, 4];
const sum = (list) => list.reduce((a, b) => a + b, 0);

function order(tile, causal) {
  const n = Math.ceil(T / tile), found = [];
  for (let i = 0; i < n; i++) for (let j = 0; j < (causal ? i + 1 : n); j++) found.push([i, j]);
  return found;
}

export function compute({ step, tile, causal, code }) {
  const tiles = order(tile, causal), done = tiles.slice(0, step), keys = causal ? ROW + 1 : T, trace = [];
  let peak = -Infinity, total = 0, seen = [];
  for (const [i, j] of done) {
    const scores = SCORES.slice(j * tile, Math.min((j + 1) * tile, keys));
    if (i !== Math.floor(ROW / tile) || !scores.length) continue;
    const max = Math.max(peak, ...scores), keep = code === "forgets" ? 1 : Math.exp(peak - max);
    total = total * keep + sum(scores.map((s) => Math.exp(s - max)));
    peak = max;
    seen = [...seen, ...scores];
    trace.push({ tile: j, scores, keep, peak, total });
  }
  return {
    tiles: tiles.length, square: Math.ceil(T / tile) ** 2, done: done.length, at: done[done.length - 1], trace,
    lse: peak + Math.log(total), right: Math.log(sum(seen.map(Math.exp))), held: tile * tile,
  };
}

const span = (n, tile) => `${n * tile} to ${Math.min((n + 1) * tile, T) - 1}`;
const isRight = (r) => Math.abs(r.lse - r.right) < 1e-9;

export const spec = {
  name: "flash",
  title: "Flash attention: the square, tile by tile",
  intro: "8 queries down, 8 keys across. Numbers say in which order the tiles are computed; the framed row is query 6, with its scores. Only the tile in the other color is held; the row remembers a maximum, a total, and its mix of values, not shown.",
  predict: {
    question: "Query 6 has maximum 3. Its next tile holds a 5. What happens to the total summed so far?",
    choices: ["It stays as it is", "It is multiplied by 0.135", "It is multiplied by 7.39", "It begins again at 0"],
    answer: 1,
    why: "Each old term was taken against 3. Against 5 it is smaller by the factor exp(3 − 5), the same for all.",
    preset: "rises",
  },
  controls: [
    { key: "step", label: "Tiles computed", type: "range", min: 1, max: 16, step: 1 },
    { key: "tile", label: "Tile size", type: "range", values: [2, 3, 4, 8] },
    { key: "causal", label: "Causal", type: "check" },
  ],
  defaults: { step: 9, tile: 2, causal: true, code: "right" },
  presets: {
    "default": { label: "Before the largest", state: {} },
    "rises": { label: "The maximum rises", state: { step: 10 } },
    "no-rescale": { label: "Never scaled", state: { step: 10, code: "forgets" } },
    "lucky": { label: "Never scaled, one tile", state: { step: 1, tile: 8, code: "forgets" } },
    "short": { label: "A short tile", state: { step: 6, tile: 3 } },
    "all": { label: "No mask", state: { step: 16, causal: false } },
  },
  draw(kit, r, { tile, causal, code }) {
    const cell = Math.min(34, (kit.w - 24) / T), x0 = 22, y0 = 22, size = cell * T;
    for (let n = 0; n < T; n++) {
      kit.text(x0 + (n + 0.5) * cell, 14, n, { anchor: "middle", cls: "m t" });
      kit.text(8, y0 + (n + 0.5) * cell + 4, n, { anchor: "middle", cls: "m t" });
    }
    kit.rect(x0, y0, size, size, "axis");
    order(tile, causal).forEach(([i, j], n) => {
      const y = y0 + i * tile * cell, x = x0 + j * tile * cell, side = (k) => Math.min(tile, T - k * tile) * cell;
      const cls = n === r.done - 1 ? "s2 soft" : n < r.done ? "s1 soft" : "s6 o";
      kit.rect(x + 1.5, y + 1.5, side(j) - 3, side(i) - 3, cls);
      const meets = kit.narrow && i === Math.floor(ROW / tile); // there the scores stand
      if (!meets) kit.text(x + 6, y + 16, n + 1, { cls: "m t" });
    });
    if (causal) kit.path(`M${x0} ${y0}` + Array.from({ length: T }, (_, n) => `h${cell}v${cell}`).join(""), "s6 d");
    kit.rect(x0, y0 + ROW * cell, size, cell, "s4 o");
    SCORES.forEach((s, j) => (j <= ROW || !causal) && kit.text(x0 + (j + 0.74) * cell, y0 + (ROW + 0.8) * cell, s, { anchor: "middle", cls: "b" }));
    const last = r.trace[r.trace.length - 1], side = kit.w > size + 240, x = side ? x0 + size + 28 : 0;
    let y = side ? y0 + 16 : y0 + size + 28;
    const line = (text, cls) => (kit.text(x, y, text, { cls }), (y += 24));
    line(`${r.tiles} of ${r.square} tiles are computed`, "b");
    line(`held: ${r.held} of ${T * T} scores`);
    line(last ? `query ${ROW}: maximum ${fmt(last.peak)}, total ${fmt(last.total)}` : `query ${ROW}: nothing yet`);
    line(last ? `old sums times ${fmt(last.keep)}` + (code === "forgets" ? ", always" : "") : "maximum −inf, total 0");
    if (last) line(`logsumexp ${fmt(r.lse)}` + (isRight(r) ? ", right" : `, right is ${fmt(r.right)}`), "b");
    return Math.max(y, y0 + size + 12);
  },
  table(r) {
    return {
      caption: `What query ${ROW} remembers after each of its tiles`,
      columns: ["Tile of keys", "Scores", "Old sums times", "Maximum", "Total"],
      rows: [["none", "none", "none", -Infinity, 0], ...r.trace.map((t) => [t.tile, t.scores.join(", "), t.keep, t.peak, t.total])],
    };
  },
  summary(r, { tile }) {
    const last = r.trace[r.trace.length - 1];
    return `Tile ${r.done} of ${r.tiles}: queries ${span(r.at[0], tile)}, keys ${span(r.at[1], tile)}. Held at once: ${r.held} of ${T * T} scores. ` +
      (!last ? `Query ${ROW} has not been reached.` : `Query ${ROW}: maximum ${fmt(last.peak)}, total ${fmt(last.total)}, logsumexp so far ${fmt(r.lse)}` +
        (isRight(r) ? ", which is right." : `, right is ${fmt(r.right)}.`));
  },
};

export default figure(spec, compute);
