import { figure, fmt } from "./engine.mjs";

// A language in which all successors of a word are equally likely.
const FOLLOWS = { a: "cat dog", cat: "sat ran", dog: "sat ran", sat: "on", ran: "to", on: "the", to: "the", the: "mat park", mat: ".", park: ".", ".": "a" };
const TAPE = ". a cat sat on the mat . a dog".split(" ");
// Written by `python -m benchmarks.figures.loss_shift`: a line is one shift, from -1 to 2;
// the loss at steps 0, 10, ... 120, then the seven words the trained model writes from "a".
const TABLE = `2.48 1.61 1.14 0.775 0.511 0.363 0.289 0.253 0.199 0.155 0.135 0.124 0.118 a . park the on sat dog
1.86 1.10 0.546 0.251 0.127 0.075 0.051 0.038 0.030 0.025 0.021 0.018 0.016 a a a a a a a
2.47 1.63 1.19 0.795 0.559 0.432 0.372 0.349 0.335 0.328 0.324 0.313 0.317 a cat ran to the mat .
2.48 1.64 1.19 0.832 0.630 0.524 0.464 0.444 0.433 0.431 0.431 0.410 0.424 a ran the . cat to mat`;
const SHIFTS = [-1, 0, 1, 2], STEPS = 120, NAMES = ["the word before", "the input itself", "the next word", "the word after the next"];
const RUNS = TABLE.split("\n").map((line) => line.split(" ")), at = [0, 1, 2, 3, 4, 5, 6];
const losses = (shift) => RUNS[shift + 1].slice(0, 13).map(Number), writeSigned = (v) => (v > 0 ? "+" : "") + fmt(v);

// The equally likely words n places after one of `words`, with repetition.
const listWordsAhead = (words, n) => (n ? listWordsAhead(words.flatMap((w) => FOLLOWS[w].split(" ")), n - 1) : words);

// Best possible probability of the target, knowing the words up to position t.
function chance(shift, t) {
  if (shift < 1) return 1;
  const words = listWordsAhead([TAPE[t + 1]], shift);
  return words.filter((w) => w === TAPE[t + 1 + shift]).length / words.length;
}

export function compute(state) {
  const { shift } = state, chances = at.map((t) => chance(shift, t)), curve = losses(shift);
  return {
    inputs: TAPE.slice(1, 8),
    targets: TAPE.slice(1 + shift, 8 + shift),
    read: at.map((t) => shift < 1 && t + shift >= 0),
    chances,
    floor: chances.reduce((sum, p) => sum - Math.log(p), 0) / 7,
    curve,
    final: curve[12],
    writes: RUNS[shift + 1].slice(13).join(" "),
    target: TAPE[1 + state.at + shift],
  };
}

export const spec = {
  name: "loss-shift",
  title: "Targets, shifted",
  intro: "One text on two tapes: what the model reads, and what the loss asks for at each position. Below, four GPTs of two blocks trained for 120 steps, one per shift, and what the chosen one writes. Press a column to see what its position has read.",
  predict: {
    question: "The targets are not shifted: targets[t] = idx[t]. What does the training loss do?",
    choices: ["It stays at ln V", "It ends where the right shift ends", "It falls toward 0"],
    answer: 2,
    why: "The answer stands in the input: copying it is enough, and the model learns nothing else.",
    preset: "copy",
  },
  controls: [{ key: "shift", label: "Shift: targets[t] = idx[t + shift]", type: "range", values: SHIFTS }],
  defaults: { shift: 1, at: 2 },
  presets: {
    "default": { label: "Start", state: {} },
    "right": { label: "Right: +1", state: { shift: 1 } },
    "copy": { label: "Copy: 0", state: { shift: 0 } },
    "twice": { label: "Shifted twice: +2", state: { shift: 2 } },
    "back": { label: "Looks back: \u22121", state: { shift: -1 } },
  },
  draw(kit, r, state) {
    const { shift } = state, cell = kit.w / 7, mid = (t) => (t + 0.5) * cell, low = 104;
    kit.text(0, 12, "input", { cls: "b" });
    kit.text(kit.w, 12, `filled: read at position ${state.at}`, { anchor: "end", cls: "m t" });
    at.forEach((t) => {
      const mine = t === state.at, cls = r.read[t] ? "s2" : "s3";
      if (at.includes(t + shift)) kit.arrow(mid(t + shift), 54, mid(t), low - 4, mine ? cls : "axis");
      kit.rect(t * cell + 2, 20, cell - 4, 32, t > state.at ? "s6 o" : "s1 soft");
      kit.rect(t * cell + 2, low, cell - 4, 32, mine ? cls + " soft" : "s6 o");
      kit.text(mid(t), 41, r.inputs[t], { anchor: "middle", cls: t === state.at ? "b" : "" });
      kit.text(mid(t), low + 21, r.targets[t], { anchor: "middle", cls: mine ? "b" : "" });
      kit.text(mid(t), low + 50, r.chances[t] < 1 ? "1/" + 1 / r.chances[t] : "1", { anchor: "middle", cls: "m t" });
      kit.button("t" + t, { x: t * cell, y: 16, w: cell, h: low + 20, label: `Position ${t}: input ${r.inputs[t]}, target ${r.targets[t]}`, pressed: mine, set: () => ({ at: t }) });
    });
    kit.text(0, low + 72, "target", { cls: "b" });
    kit.text(kit.w, low + 72, "best chance of naming it", { anchor: "end", cls: "m t" });
    const y = low + 116, h = 130, plot = kit.plot({
      x: 28, y, w: kit.w - 112, h, xs: [0, STEPS], ys: [0, 2.6], xticks: [0, 60, 120], yticks: [0, 1, 2], xlabel: "step", ylabel: "training loss, nats",
    });
    kit.line(28, plot.Y(r.floor), kit.w - 84, plot.Y(r.floor), "s3 d");
    kit.line(28, y + h + 54, 54, y + h + 54, "s3 d");
    kit.text(62, y + h + 58, `lowest possible: ${fmt(r.floor)}`, { cls: "m t" });
    kit.line(28, plot.Y(Math.log(11)), kit.w - 84, plot.Y(Math.log(11)), "axis d");
    kit.text(kit.w - 78, plot.Y(Math.log(11)) + 4, "ln V = 2.40", { cls: "m t" });
    for (const s of [...SHIFTS.filter((s) => s !== shift), shift]) plot.curve(losses(s).map((v, i) => [i * 10, v]), s === shift ? "s2" : "s6 d");
    kit.text(kit.w, y + h - 67, "shift: loss", { anchor: "end", cls: "m t" });
    [2, 1, -1, 0].forEach((s, i) => kit.text(kit.w, y + h - 48 + 17 * i, `${writeSigned(s)}: ${fmt(losses(s)[12])}`, { anchor: "end", cls: s === shift ? "b" : "m" }));
    kit.text(0, y + h + 86, "Trained so, it writes:", { cls: "m" });
    kit.text(0, y + h + 106, r.writes, { cls: "b" });
    return y + h + 116;
  },
  table(r, { shift }) {
    return {
      caption: `The loss rewards naming ${NAMES[shift + 1]}`,
      columns: ["t", "input", "target", "already read", "best chance"],
      rows: at.map((t) => [String(t), r.inputs[t], r.targets[t], r.read[t] ? "yes" : "no", r.chances[t]]),
    };
  },
  summary(r, { shift, at: t }) {
    return `Shift ${fmt(shift)}: position ${t} has read \u201c${r.inputs.slice(0, t + 1).join(" ")}\u201d and is asked for \u201c${r.target}\u201d, ${NAMES[shift + 1]}. ` +
      `After ${STEPS} steps the loss is ${fmt(r.final)}; the lowest possible is ${fmt(r.floor)}.`;
  },
};

export default figure(spec, compute);
