import { figure, fmt } from "./engine.mjs";

// Bytes a number, bytes in a microsecond, microseconds to issue a launch.
const SIZE = 4, WIDTH = 2e6, LAUNCH = 6;
const NAMES = ["square", "+ eps", "root", "scale", "gain", "gate", "add", "round"];

export function compute({ ops, shape, fused, code }) {
  const [rows, cols] = shape.split("x").map(Number), each = SIZE * rows * cols;
  const kernels = fused ? 1 : ops, reads = fused ? (code === "twice" ? 2 : 1) : ops;
  const bytes = (reads + kernels) * each, kernel = bytes / kernels / WIDTH;
  return {
    each, kernels, reads, writes: kernels, bytes, least: 2 * each, times: bytes / each / 2, kernel,
    launches: kernels * LAUNCH, end: LAUNCH + kernel + (kernels - 1) * Math.max(LAUNCH, kernel),
  };
}

const nameLeast = (r) => (r.times === 1 ? "the least possible" : `${fmt(r.times)} times the least`);
const limit = (r) => (LAUNCH > r.kernel ? "launches" : "memory");

export const spec = {
  name: "fusion",
  title: "A chain, and what it carries through memory",
  intro: "Elementwise operations over rows of float32, one input and one result each. Arrows up are reads, arrows down are writes. The machine is made up: 2 TB/s, and 6 microseconds to issue a launch.",
  predict: {
    question: "Five operations over 2048 x 1024 numbers become one kernel. How many bytes cross memory then?",
    choices: ["As many as before: the arithmetic is the same", "Half of them", "A fifth of them"],
    answer: 2,
    why: "Each operation read and wrote the whole tensor: ten times its size. One kernel reads it once and writes it once.",
    preset: "fused",
  },
  controls: [
    { key: "ops", label: "Operations", type: "range", min: 1, max: 8, step: 1 },
    { key: "shape", label: "Size", type: "select", options: ["16x256", "256x1024", "2048x1024", "16384x4096"].map((s) => [s, s.replace("x", " x ")]) },
    { key: "fused", label: "Fused into one kernel", type: "check" },
  ],
  defaults: { ops: 5, shape: "2048x1024", fused: false, code: "right" },
  presets: {
    "default": { label: "One at a time", state: {} },
    "fused": { label: "Fused", state: { fused: true } },
    "twice": { label: "Fused, reads twice", state: { fused: true, code: "twice" } },
    "small": { label: "Small rows", state: { shape: "16x256" } },
    "small-fused": { label: "Small rows, fused", state: { shape: "16x256", fused: true } },
    "large": { label: "Large rows", state: { shape: "16384x4096" } },
  },
  draw(kit, r, { ops, fused }) {
    const top = 8, tall = 46, floor = 112, gap = 8, w = (kit.w - (ops - 1) * gap) / ops, mid = top + tall;
    const label = (i) => (kit.narrow && ops > 3 ? i + 1 : NAMES[i]);
    if (fused) kit.rect(1, top, kit.w - 2, tall, "s3 soft");
    for (let i = 0; i < ops; i++) {
      const x = i * (w + gap);
      if (!fused) kit.rect(x + 1, top, w - 2, tall, "s6 soft");
      kit.text(x + w / 2, top + 28, label(i), { anchor: "middle", cls: w < 64 ? "t" : "b" });
      if (fused) continue;
      kit.arrow(x + w * 0.3, floor, x + w * 0.3, mid + 2, "s1");
      kit.arrow(x + w * 0.7, mid, x + w * 0.7, floor - 2, "s2");
    }
    if (fused) {
      for (let i = 0; i < r.reads; i++) kit.arrow(kit.w * (0.1 + 0.3 * i), floor, kit.w * (0.1 + 0.3 * i), mid + 2, "s1");
      kit.arrow(kit.w * 0.9, mid, kit.w * 0.9, floor - 2, "s2");
    }
    kit.rect(1, floor, kit.w - 2, 30, "s5 soft");
    kit.text(kit.w / 2, floor + 20, `memory: ${r.reads} read, ${r.writes} written`, { anchor: "middle" });
    const y = floor + 58;
    kit.text(0, y, `${fmt(r.bytes / 1e6)} MB, ${nameLeast(r)}`, { cls: "b" });
    kit.text(0, y + 24, `${fmt(r.end)} us; limited by ${limit(r)}`);
    return y + 36;
  },
  table(r) {
    return {
      caption: "The chain on the made-up machine",
      columns: ["quantity", "value"],
      rows: [
        ["kernels", r.kernels], ["MB in one tensor", r.each / 1e6], ["MB through memory", r.bytes / 1e6],
        ["least possible, MB", r.least / 1e6], ["one kernel, us", r.kernel],
        ["all launches, us", r.launches], ["last kernel ends, us", r.end],
      ],
    };
  },
  summary(r, { ops, fused }) {
    return `${ops === 1 ? "One operation" : ops + " operations"} ${fused ? "in one kernel" : "one at a time"}: ${r.reads} reads and ${r.writes} writes of ` +
      `${fmt(r.each / 1e6)} MB, ${fmt(r.bytes / 1e6)} MB in all, ${nameLeast(r)}. ` +
      `It ends after ${fmt(r.end)} microseconds, and ${limit(r)} set the pace.`;
  },
};

export default figure(spec, compute);
