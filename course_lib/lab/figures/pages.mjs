import { figure, fmt } from "./engine.mjs";

const PAGES = 240, PAGE_BYTES = 4096, PAGE_TOKENS = 2048, B = 8, NUM_TOKENS = PAGES * PAGE_TOKENS, BATCHES = 60;
const ORDERS = { random: "at random", "in-order": "one after the other" };

// Starts of all windows; Park-Miller, whose products stay below 2^53.
function startsOf(T, order) {
  let x = 2026;
  return Array.from({ length: BATCHES * B }, (_, j) => {
    x = (x * 16807) % 2147483647;
    return (order === "in-order" ? j * T : x) % (NUM_TOKENS - T);
  });
}

export function compute({ T, batch, order }) {
  const starts = startsOf(T, order), seen = new Set(), curve = [0], up = (set) => [...set].sort((a, b) => a - b);
  let now, cached, fresh;
  for (let k = 1; k <= BATCHES; k++) {
    const touched = new Set();
    for (const s of starts.slice((k - 1) * B, k * B)) {
      for (let p = Math.floor(s / PAGE_TOKENS); p <= Math.floor((s + T) / PAGE_TOKENS); p++) touched.add(p);
    }
    const before = seen.size;
    for (const p of touched) seen.add(p);
    curve.push(seen.size);
    if (k === batch) now = up(touched), cached = up(seen), fresh = seen.size - before;
  }
  return { now, cached, curve, used: 2 * B * (T + 1), touched: PAGE_BYTES * now.length, read: PAGE_BYTES * fresh, share: curve[batch] / PAGES };
}

export const spec = {
  name: "pages",
  title: "Pages that a batch touches",
  intro: "A file of tokens, 240 pages of 4,096 bytes, mapped into memory. A batch is 8 windows of T + 1 tokens. Pages it touches are read once; then they stay in the page cache as long as there is room.",
  predict: {
    question: "8 windows of 257 tokens, 514 bytes each, at random places. What does the first batch read from the disk?",
    choices: ["4 KB: exactly what it uses", "32 KB or a little more", "960 KB: the whole file"],
    answer: 1,
    why: "Each window lies on one page, sometimes on two, and a page is read whole: 4,096 bytes.",
  },
  controls: [
    { key: "T", label: "Sequence length T", type: "range", values: [16, 64, 256, 1024, 4096] },
    { key: "batch", label: "Batch", type: "range", min: 1, max: 60, step: 1 },
    { key: "order", label: "Windows", type: "select", options: Object.entries(ORDERS) },
  ],
  defaults: { T: 256, batch: 1, order: "random" },
  presets: {
    "default": { label: "Start", state: {} },
    "warm": { label: "After 60 batches", state: { batch: 60 } },
    "short": { label: "Short windows", state: { T: 16 } },
    "long": { label: "Long windows", state: { T: 4096 } },
    "in-order": { label: "In order", state: { order: "in-order", batch: 60 } },
  },
  draw(kit, r, { batch }) {
    const across = kit.narrow ? 20 : 40, cell = kit.w / across, tall = Math.min(cell, 16), beside = kit.narrow ? 0 : kit.w / 3, y = 24;
    const now = new Set(r.now), cached = new Set(r.cached);
    kit.text(0, 12, "the file, page by page", { cls: "b" });
    for (let p = 0; p < PAGES; p++) {
      const cls = now.has(p) ? "s2" : cached.has(p) ? "s1 soft" : "s6 o";
      kit.rect((p % across) * cell + 1, y + Math.floor(p / across) * tall + 1, cell - 2, tall - 2, cls);
    }
    let top = y + (PAGES / across) * tall + 22;
    [["s2", "touched by this batch"], ["s1 soft", "read before, in the page cache"], ["s6 o", "never read"]].forEach(([cls, name], i) => {
      const x = i * beside, low = top + (beside ? 0 : i * 20);
      kit.rect(x, low - 11, 14, 12, cls);
      kit.text(x + 22, low, name, { cls: "m t" });
    });
    top += beside ? 38 : 84;
    const full = Math.max(r.touched, r.used);
    [["used by the batch", r.used, "s3"], ["pages it touches", r.touched, "s2"], ["read from the disk", r.read, "s2 soft"]].forEach(([name, bytes, cls], i) => {
      kit.text(0, top + i * 42, `${name}: ${fmt(bytes)} bytes`);
      kit.rect(0, top + i * 42 + 7, Math.max(1, (bytes / full) * kit.w), 14, cls);
    });
    top += 148;
    const plot = kit.plot({ x: 40, y: top, w: kit.w - 52, h: 84, xs: [0, 60], ys: [0, 240], xticks: [0, 20, 40, 60], yticks: [0, 120, 240], xlabel: "batches so far", ylabel: "pages in memory" });
    plot.curve(r.curve.map((v, k) => [k, v]), "s1");
    kit.circle(plot.X(batch), plot.Y(r.curve[batch]), 5, "s1");
    kit.text(plot.X(batch) + (batch > 40 ? -10 : 10), plot.Y(r.curve[batch]) + 20, fmt(r.curve[batch]), { anchor: batch > 40 ? "end" : "start", cls: "b", nudge: true });
    kit.slider("batch", { x: plot.X(0), y: top, w: plot.X(60) - plot.X(0), h: 84, label: "Batch", value: batch, min: 1, max: 60, step: 1, set: (b) => ({ batch: b }) });
    return top + 84 + 44;
  },
  table(r, { batch, T }) {
    const pages = [r.now.length, r.read / PAGE_BYTES, r.cached.length, PAGES];
    const names = ["touched by this batch", "read from the disk for it", "in memory by now", "whole file"];
    return {
      caption: `Batch ${batch}: 8 windows of ${T} tokens and one`,
      columns: ["what", "pages", "bytes"],
      rows: [...names.map((n, i) => [n, pages[i], pages[i] * PAGE_BYTES]), ["used by the batch", "", r.used]],
    };
  },
  summary(r, { batch, order }) {
    return `Batch ${batch}, windows ${ORDERS[order]}: it uses ${fmt(r.used)} bytes on ${r.now.length} pages, ${fmt(r.touched)} bytes, ` +
      `of which ${fmt(r.read)} come from the disk. By now ${r.cached.length} of ${PAGES} pages are in memory.`;
  },
};

export default figure(spec, compute);
