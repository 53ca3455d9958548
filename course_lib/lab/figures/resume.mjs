import { figure, fmt, nice } from "./engine.mjs";

// Written by `python -m benchmarks.figures.resume`: the run that nobody interrupts, the loss of every
// second update, in hundredths; then one line per step of the resume and forgotten part.
const TABLE = `415 392 369 340 314 285 271 241 245 217 212 197 187 184 174 178 174 151 168 157 156 162 152 150 140 152 146 139
426 332 300 266 263 240 232 212 204 195 181 189 181 159 172 164 163 164 155 153 145 159 150 147
314 288 276 237 237 212 208 196 183 183 178 182 175 150 165 156 157 159 149 152 142 155 146 141
314 307 295 268 270 242 232 212 201 195 186 182 179 157 170 161 159 160 152 148 138 157 141 138
307 276 246 239 242 221 212 190 202 186 178 166 174 166 161 164 165 143 158 151 153 158 146 147
422 390 348 310 273 265 245 221 233 216 210 207 194 190 189 195 191 187
212 214 211 198 187 184 186 162 174 161 166 166 156 152 148 159 152 147
212 200 196 188 184 183 183 161 172 165 160 161 151 145 139 162 150 142
223 190 173 178 176 168 169 145 166 153 156 149 156 151 153 156 156 141
429 405 389 375 356 344 321 312 304 297 293 286
174 165 176 168 159 160 153 151 147 159 147 141
174 153 169 157 157 165 156 154 146 168 159 152
171 151 155 162 162 154 157 137 158 142 138 137
424 418 408 401 397 391
152 151 138 158 145 140
152 150 138 158 149 154
162 138 146 146 151 144`;
const RUNS = TABLE.split("\n").map((line) => line.split(" ").map((v) => v / 100));
const STEPS = 56, WARMUP = 10, LR = 3e-3, MIN_LR = 1e-4, RESUMES = [8, 20, 32, 44], MEASURED = ["model", "optimizer", "step", "loader"];
const NAMES = { nothing: "nothing", model: "the weights", optimizer: "the moments", step: "the step", loader: "the place in the data", random: "the random states" };
const EFFECTS = {
  nothing: "Every loss is that of the run that went on, to the bit.",
  model: "The run begins again from nothing.",
  optimizer: "The first loss is right; the updates after it are not.",
  step: "The first loss is right; the rate climbs through the warmup again.",
  loader: "Windows are read twice, others never.",
  random: "This model draws nothing in training: with dropout the losses would differ.",
};
const round = (v) => Math.round(v * 1000) / 1000;

function rate(step) {
  if (step < WARMUP) return LR * (step + 1) / WARMUP;
  return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + Math.cos(Math.PI * (step - WARMUP) / (STEPS - WARMUP)));
}

export function compute({ forgotten, at }) {
  const [whole] = RUNS, part = MEASURED.indexOf(forgotten), rest = whole.slice(at / 2);
  const resumed = part < 0 ? rest : RUNS[1 + RESUMES.indexOf(at) * 4 + part];
  const differences = resumed.map((v, i) => v - rest[i]);
  return {
    steps: whole.map((_, i) => i * 2),
    whole,
    resumed,
    differences,
    first: differences[0],
    largest: differences.reduce((a, b) => (Math.abs(b) > Math.abs(a) ? b : a)),
    rates: [rate(at), rate(forgotten === "step" ? 0 : at)],
  };
}

export const spec = {
  name: "resume",
  title: "Killed and resumed",
  intro: "The tiny preset learns a language of 64 tokens in 56 updates. It is killed, and resumed from a checkpoint in which one part is missing. Dashed: the run that nobody interrupts.",
  predict: {
    question: "The optimizer\u2019s moments are not restored. How does the first loss after the resume compare with that of the run that went on?",
    choices: ["It is higher", "It is the same to the bit", "It is lower"],
    answer: 1,
    why: "The first loss comes from the weights and the batch. The moments act in the update after it.",
    preset: "no-optimizer",
  },
  controls: [
    { key: "forgotten", label: "Lost", type: "select", options: Object.entries(NAMES) },
    { key: "at", label: "Resumed at step", type: "range", values: RESUMES },
  ],
  defaults: { forgotten: "optimizer", at: 32 },
  presets: {
    "default": { label: "Start", state: {} },
    "exact": { label: "Nothing", state: { forgotten: "nothing" } },
    "no-model": { label: "Weights", state: { forgotten: "model" } },
    "no-optimizer": { label: "Moments", state: { forgotten: "optimizer" } },
    "no-step": { label: "Step", state: { forgotten: "step" } },
    "no-loader": { label: "Place in the data", state: { forgotten: "loader" } },
    "no-random": { label: "Random states", state: { forgotten: "random" } },
  },
  draw(kit, r, { at }) {
    const box = { x: 54, w: kit.w - 66, xs: [0, STEPS], xticks: [0, 14, 28, 42, 56] }, rest = r.steps.slice(at / 2);
    const plot = kit.plot({ ...box, y: 30, h: 150, ys: [1, 4.5], yticks: [1, 2, 3, 4], ylabel: "training loss, nats" });
    plot.curve(r.whole.map((v, i) => [r.steps[i], v]), "s6 d");
    plot.curve(r.resumed.map((v, i) => [rest[i], v]), "s2");
    kit.line(plot.X(at), 30, plot.X(at), 180, "axis d");
    kit.text(plot.X(at) + 5, 44, "killed, resumed", { cls: "m t", nudge: true });
    const top = nice(Math.max(0.1, Math.abs(r.largest))), low = kit.plot({ ...box, y: 240, h: 100, ys: [-top, top], yticks: [-top, 0, top], xlabel: "step", ylabel: "difference, nats" });
    low.curve(r.differences.map((v, i) => [rest[i], v]), "s2");
    kit.circle(low.X(at), low.Y(r.first), 4, "s2");
    kit.text(low.X(at) - 8, low.Y(r.first) - 10, `first: ${fmt(round(r.first))}`, { anchor: "end", cls: "b", nudge: true });
    return 386;
  },
  table(r, { forgotten, at }) {
    return {
      caption: `Loss after the resume at step ${at}; lost: ${NAMES[forgotten]}`,
      columns: ["step", "went on", "resumed", "difference"],
      rows: r.resumed.map((v, i) => [String(at + 2 * i), r.whole[at / 2 + i], v, round(r.differences[i])]),
    };
  },
  summary(r, { forgotten, at }) {
    return `Resumed at step ${at}, lost: ${NAMES[forgotten]}. The first loss differs by ${fmt(round(r.first))} nats, later ones by up to ${fmt(round(Math.abs(r.largest)))}. ` +
      `The rate of the next update is ${fmt(r.rates[1])}, it was to be ${fmt(r.rates[0])}. ${EFFECTS[forgotten]}`;
  },
};

export default figure(spec, compute);
