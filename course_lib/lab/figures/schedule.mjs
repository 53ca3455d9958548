import { figure, fmt } from "./engine.mjs";

const PLANNED = 50, HIGH = 1, LOW = 0.1; // rates in thousandths

function rightRate(step, warmup, low = LOW, clamp = true) {
  if (step < warmup) return HIGH * (step + 1) / warmup;
  if (clamp && step >= PLANNED) return low;
  return low + 0.5 * (HIGH - low) * (1 + Math.cos(Math.PI * (step - warmup) / (PLANNED - warmup)));
}

function rate(step, { warmup, resume, code }) {
  if (code === "zero-first" && step < warmup) return HIGH * step / warmup;
  if (code === "micro-steps") step *= 4;
  if (code === "restart" && step >= resume) step -= resume;
  return rightRate(step, warmup, code === "to-zero" ? 0 : LOW, code !== "climbs");
}

export function compute(state) {
  const { warmup, resume, beyond } = state;
  const rates = Array.from({ length: PLANNED + beyond }, (_, step) => rate(step, state));
  return {
    rates, before: rates[resume ? resume - 1 : 0], after: rates[resume],
    off: rates.filter((r, step) => Math.abs(r - rightRate(step, warmup)) > 1e-9).length,
  };
}

const phase = (step, warmup) => (step < warmup ? "warmup" : step < PLANNED ? "cosine" : "after the end");

export const spec = {
  name: "schedule",
  title: "The learning rate, update by update",
  intro: "A run planned for 50 updates, highest rate 0.001, lowest 0.0001. The axis is in thousandths; the dashed line is the right schedule.",
  predict: {
    question: "The run goes on after its 50 planned updates, and nothing clamps. What does the cosine do?",
    choices: ["It stays at the lowest rate", "It falls to 0", "It climbs back to the highest rate"],
    answer: 2,
    why: "A cosine is periodic: after the planned end it runs backwards, and is at the top again when as many updates have passed as the decay took.",
    preset: "climbs",
  },
  controls: [
    { key: "warmup", label: "Warmup updates", type: "range", values: [0, 1, 2, 5, 10, 15, 20, 25] },
    { key: "resume", label: "Resume at update, 0 for none", type: "range", min: 0, max: 45, step: 5 },
    { key: "beyond", label: "Updates beyond the plan", type: "range", min: 0, max: 50, step: 10 },
  ],
  defaults: { warmup: 10, resume: 0, beyond: 10, code: "right" },
  presets: {
    "default": { label: "Start", state: {} },
    "no-warmup": { label: "No warmup", state: { warmup: 0 } },
    "resumed": { label: "Resumed at 30", state: { resume: 30 } },
    "climbs": { label: "No clamp", state: { beyond: 50, code: "climbs" } },
    "micro-steps": { label: "Counts micro-batches", state: { code: "micro-steps" } },
    "zero-first": { label: "First rate zero", state: { code: "zero-first" } },
    "to-zero": { label: "Ends at zero", state: { code: "to-zero" } },
    "restart": { label: "Resume restarts", state: { resume: 30, code: "restart" } },
  },
  draw(kit, r, { warmup, resume, code }) {
    const total = r.rates.length, wrong = code !== "right", cls = wrong ? "s2" : "s1", last = r.rates[total - 1];
    const h = kit.narrow ? 210 : 260, xticks = [0, 25, 50, 75, 100].filter((v) => v <= total);
    const p = kit.plot({ y: 46, h, xs: [0, total], ys: [0, 1.1], xticks, yticks: [0, 0.1, 0.5, 1], xlabel: "update", ylabel: "rate, thousandths" });
    const mark = (x, name, row) => {
      kit.line(p.X(x), p.Y(1.1), p.X(x), p.Y(0), "s6 d");
      kit.text(p.X(x) + (x > total / 2 ? -5 : 5), p.Y(1.1) + 13 + row * 16, name, { anchor: x > total / 2 ? "end" : "start", cls: "m t", nudge: true });
    };
    if (total > PLANNED) mark(PLANNED, "planned end", 0);
    if (resume) mark(resume, "resume", 1);
    p.curve(r.rates.map((_, step) => [step, rightRate(step, warmup)]), "s6 d");
    p.curve(r.rates.map((v, step) => [step, v]), cls);
    if (!kit.narrow) r.rates.forEach((v, step) => kit.circle(p.X(step), p.Y(v), 2, cls));
    for (const [step, v, anchor] of [[0, r.rates[0], "start"], [total - 1, last, "end"]]) {
      kit.circle(p.X(step), p.Y(v), 5, cls);
      kit.text(p.X(step) + (step ? 0 : 9), p.Y(v) - 12, fmt(v), { anchor, cls: "b", nudge: true });
    }
    return h + 92;
  },
  table(r, { warmup, resume }) {
    const total = r.rates.length;
    const shown = [...new Set([0, warmup - 1, warmup, PLANNED / 2, resume, PLANNED - 1, PLANNED, total - 1])];
    return {
      caption: "Rates in thousandths",
      columns: ["update", "part", "rate", "right"],
      rows: shown.filter((s) => s >= 0 && s < total).sort((a, b) => a - b).map((s) => [s, phase(s, warmup), r.rates[s], rightRate(s, warmup)]),
    };
  },
  summary(r, { warmup, resume }) {
    const { rates, off } = r, total = rates.length;
    return `${PLANNED} updates planned, ${total} made, warmup ${warmup}. Update 0 takes ${fmt(rates[0])}, ` +
      `the highest rate is ${fmt(Math.max(...rates))}, the last update takes ${fmt(rates[total - 1])}. ` +
      (resume ? `At the resume, update ${resume}, the rate goes from ${fmt(r.before)} to ${fmt(r.after)}. ` : "") +
      (off ? `${off} of ${total} updates have a wrong rate.` : "Every rate is right.");
  },
};

export default figure(spec, compute);
