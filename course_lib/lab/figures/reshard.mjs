import { figure, fmt } from "./engine.mjs";

const TENSORS = [["embedding.weight", 10, 16], ["q_proj.weight", 6, 16], ["norm.weight", 3, 4]];
const SAVED = { sharded: "each its shard", gathered: "gathered", rank0: "rank 0\u2019s shard" };
const sum = (list) => list.reduce((a, b) => a + b, 0), zeros = (n) => Array(n).fill(0);

// Begin and end of the rows of each rank: FSDP2 gives ceil(n / R) to each, to the last ones what is left.
function rows(n, ranks) {
  const c = Math.ceil(n / ranks);
  return zeros(ranks).map((_, r) => [Math.min(r * c, n), Math.min((r + 1) * c, n)]);
}

// "gathered": rank 0 has received all rows and writes one file; "rank0": its own rows are taken for the whole.
export function compute({ R, R2, saved }) {
  const writers = saved === "gathered" ? 1 : R, files = saved === "rank0" ? 1 : writers;
  const read = zeros(R2).map(() => zeros(files)), missing = zeros(R2), sizes = zeros(files), pieces = [];
  TENSORS.forEach(([, n, width], t) => rows(n, writers).forEach(([begin, end], r) => {
    if (r < files) sizes[r] += (end - begin) * width;
    rows(n, R2).forEach(([first, last], q) => {
      const lo = Math.max(begin, first), hi = Math.min(end, last);
      if (hi <= lo) return;
      pieces.push([t, q, r, lo, hi]);
      if (r < files) read[q][r] += (hi - lo) * width;
      else missing[q] += (hi - lo) * width;
    });
  }));
  const total = sum(TENSORS.map(([, n, width]) => n * width)), own = sum(TENSORS.map(([, n, width]) => rows(n, R)[0][1] * width));
  return { pieces, read, missing, sizes, reads: pieces.filter((p) => p[2] < files).length, moved: saved === "gathered" ? total - own : 0, total };
}

export const spec = {
  name: "reshard",
  title: "Saved on R ranks, loaded on R\u2032",
  intro: "Each box is a row. Above, the file it was written to; below, the new rank that needs it. An arrow is one read; dashed: a row that is in no file.",
  predict: {
    question: "Two ranks have saved a tensor of ten rows, three load it. In how many pieces is it read?",
    choices: ["2", "3", "4", "6"],
    answer: 2,
    why: "One old border and two new ones cut it into four.",
  },
  controls: [
    { key: "R", label: "Saved on R ranks", type: "range", min: 1, max: 4, step: 1 },
    { key: "R2", label: "Loaded on R\u2032 ranks", type: "range", min: 1, max: 4, step: 1 },
    { key: "saved", label: "Saved", type: "select", options: Object.entries(SAVED) },
  ],
  defaults: { R: 2, R2: 3, saved: "sharded" },
  presets: {
    "default": { label: "Start", state: {} },
    "same": { label: "2 to 2", state: { R2: 2 } },
    "grows": { label: "2 to 4", state: { R2: 4 } },
    "shrinks": { label: "4 to 1", state: { R: 4, R2: 1 } },
    "gathered": { label: "Gathered", state: { R: 4, saved: "gathered" } },
    "rank0": { label: "Rank 0 as the whole", state: { saved: "rank0" } },
  },
  draw(kit, r, { R2, saved }) {
    const gap = 14, cell = (kit.w - 2 * gap) / sum(TENSORS.map((t) => t[1])), files = r.sizes.length;
    const left = (t) => t * gap + cell * sum(TENSORS.slice(0, t).map((x) => x[1]));
    TENSORS.forEach(([name], t) => kit.text(left(t), t % 2 ? 34 : 14, kit.narrow ? name.replace(".weight", "") : name, { cls: "m t", nudge: true }));
    for (const [t, q, f, lo, hi] of r.pieces) {
      const x = left(t) + lo * cell, w = (hi - lo) * cell, lost = f >= files, cls = lost ? "s6 o d" : `s${f + 1}`;
      for (let i = lo; i < hi; i++) {
        kit.rect(left(t) + i * cell + 1, 44, cell - 2, 30, lost ? cls : cls + " soft");
        kit.rect(left(t) + i * cell + 1, 134, cell - 2, 30, lost ? cls : cls + " soft");
      }
      if (!lost) kit.arrow(x + w / 2, 78, x + w / 2, 130, cls);
      kit.text(x + w / 2, 64, lost ? "\u2013" : f, { anchor: "middle", cls: "b" });
      kit.text(x + w / 2, 154, q, { anchor: "middle", cls: lost ? "m" : "b" });
    }
    TENSORS.forEach(([, n], t) => rows(n, R2).forEach(([, end]) => end < n && kit.line(left(t) + end * cell, 124, left(t) + end * cell, 174, "axis")));
    kit.text(0, 196, kit.narrow ? "Above: file. Below: new rank." : "Above: number of the file. Below: number of the new rank, a line between two.", { cls: "m t" });
    const full = Math.max(...r.read.map((line, q) => sum(line) + r.missing[q])), scale = (kit.w - 76) / full;
    r.read.forEach((line, q) => {
      let x = 70;
      const y = 214 + q * 36;
      kit.text(0, y + 18, `new rank ${q}`, { cls: "t" });
      [...line, r.missing[q]].forEach((bytes, f) => {
        if (!bytes) return;
        kit.rect(x, y, bytes * scale - 2, 26, f < files ? `s${f + 1} soft` : "s6 o d");
        if (bytes * scale > 30) kit.text(x + 6, y + 18, bytes, { cls: "t" });
        x += bytes * scale;
      });
    });
    return 222 + R2 * 36;
  },
  table(r, { saved }) {
    return {
      caption: `Bytes that each new rank takes; saved: ${SAVED[saved]}`,
      columns: ["new rank", ...r.sizes.map((_, f) => `file ${f}`), "in no file"],
      rows: r.read.map((line, q) => [String(q), ...line, r.missing[q]]),
    };
  },
  summary(r, { R, R2, saved }) {
    return `Saved by ${R}, loaded by ${R2}, ${SAVED[saved]}: ${r.reads} reads from ${r.sizes.length === 1 ? "one file" : r.sizes.length + " files"} of ${r.sizes.map(fmt).join(", ")} bytes. ` +
      `${fmt(r.moved)} bytes moved between ranks to save, ${fmt(sum(r.missing))} of ${fmt(r.total)} are in no file.`;
  },
};

export default figure(spec, compute);
