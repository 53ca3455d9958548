import { figure, fmt } from "./engine.mjs";

const RANKS = 4;
const CALLS = [["BC", 8], ["AR", 4096], ["AR", 4096], ["AR", 1024], ["AG", 512], ["BA", 4]];
const FAULTS = [["none", "none"], ["absent", "does not come"], ["skip", "leaves one out"], ["extra", "makes one more"], ["size", "has fewer bytes"], ["order", "swaps two"]];
const nameFault = (fault) => FAULTS.find((f) => f[0] === fault)[1];

// What the rank with the fault would issue, if nothing ever waited.
function listCalls({ fault, place }) {
  const calls = CALLS.map((c) => [...c]);
  if (fault === "absent") return calls.slice(0, place);
  if (fault === "skip") calls.splice(place, 1);
  if (fault === "extra") calls.splice(place, 0, ["AG", 64]);
  if (fault === "size") calls[place][1] = Math.floor(calls[place][1] / 2);
  if (fault === "order") [calls[place], calls[place + 1]] = [calls[place + 1], calls[place]];
  return calls;
}

export function compute(state) {
  const plans = Array.from({ length: RANKS }, (_, r) => (r === state.rank ? listCalls(state) : CALLS));
  const longest = Math.max(...plans.map((p) => p.length));
  let at = -1;
  for (let i = 0; i < longest && at < 0; i++) if (new Set(plans.map((p) => String(p[i]))).size > 1) at = i;
  const calls = plans.map((p) => p.slice(0, at < 0 ? CALLS.length : at + 1).map((c, i) => [...c, i !== at]));
  const waits = calls.flatMap((own, r) => (own.length && !own.at(-1)[2] ? [r] : []));
  return { calls, at, waits, odd: at < 0 ? [] : [state.rank] };
}

const nameRanks = (ranks) => (ranks.length === 1 ? "rank " : "ranks ") + ranks.join(", ");

export const spec = {
  name: "desync",
  title: "A hang: who waits, and for whom?",
  intro: "A row is a rank, a box a collective with its bytes: broadcast (BC), all-reduce (AR), all-gather (AG), barrier (BA). Filled: it came back. Dashed: the rank waits in it.",
  predict: {
    question: "Rank 2 leaves out the collective at place 1 and goes on. At which place do the ranks part?",
    choices: ["Place 1", "Place 2", "None: nobody notices"],
    answer: 1,
    why: "At place 1 it makes its next call, which looks the same; only the one after that differs.",
    preset: "late",
  },
  controls: [
    { key: "rank", label: "Rank", type: "range", min: 0, max: 3, step: 1 },
    { key: "fault", label: "Fault", type: "select", options: FAULTS },
    { key: "place", label: "At place", type: "range", min: 1, max: 4, step: 1 },
  ],
  defaults: { fault: "absent", rank: 2, place: 3 },
  presets: {
    "default": { label: "Does not come", state: {} },
    "skip": { label: "Leaves one out", state: { fault: "skip" } },
    "late": { label: "Seen later", state: { fault: "skip", place: 1 } },
    "extra": { label: "Rank 0 makes one more", state: { fault: "extra", rank: 0, place: 2 } },
    "size": { label: "Fewer bytes", state: { fault: "size" } },
    "order": { label: "Swapped", state: { fault: "order" } },
    "unseen": { label: "Swapped, unseen", state: { fault: "order", place: 1 } },
    "none": { label: "No fault", state: { fault: "none" } },
  },
  draw(kit, r) {
    const left = kit.narrow ? 34 : 74, step = (kit.w - left) / CALLS.length, high = 46;
    kit.text(0, 14, kit.narrow ? "" : "Place", { cls: "m t" });
    for (let i = 0; i < CALLS.length; i++) kit.text(left + (i + 0.5) * step, 14, i, { anchor: "middle", cls: "m t" });
    if (r.at >= 0) kit.rect(left + r.at * step, 20, step - 2, RANKS * high + 4, "s2 soft");
    r.calls.forEach((own, rank) => {
      const y = 24 + rank * high, odd = r.odd.includes(rank);
      kit.text(0, y + 25, (kit.narrow ? "" : "Rank ") + rank + (odd ? " \u25c0" : ""), { cls: odd ? "b" : "" });
      own.forEach(([name, bytes, done], i) => {
        kit.rect(left + i * step + 2, y, step - 6, high - 8, done ? "s1 soft" : "s2 o d");
        kit.text(left + (i + 0.5) * step - 1, y + 16, name, { anchor: "middle", cls: "t b" });
        kit.text(left + (i + 0.5) * step - 1, y + 31, bytes, { anchor: "middle", cls: "t" });
      });
    });
    const y = 24 + RANKS * high + 20;
    kit.text(left, y, r.at < 0 ? "nobody waits" : `${nameRanks(r.waits)} will complain`, { cls: "m t" });
    return y + 8;
  },
  table(r) {
    return {
      caption: "What each rank has issued; in brackets: it waits there",
      columns: ["Rank", ...CALLS.map((_, i) => `Place ${i}`)],
      rows: r.calls.map((own, rank) => [`Rank ${rank}`, ...CALLS.map((_, i) => {
        const [name, bytes, done] = own[i] ?? [];
        return name ? (done ? `${name} ${bytes}` : `(${name} ${bytes})`) : "\u2013";
      })]),
    };
  },
  summary(r, { fault, rank, place }) {
    if (fault === "none") return "All six collectives end: nobody waits.";
    const head = `Rank ${fmt(rank)} ${nameFault(fault)} at place ${fmt(place)}: `;
    if (r.at < 0) return head + "no hang, because both calls look the same, and wrong tensors are summed.";
    return head + `the ranks part at place ${fmt(r.at)}, where ${nameRanks(r.waits)} ${r.waits.length === 1 ? "waits" : "wait"}; look at rank ${fmt(rank)}.`;
  },
};

export default figure(spec, compute);
