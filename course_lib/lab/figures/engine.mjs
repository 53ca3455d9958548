/* The live-figure engine: one small kit that every figure of the book is drawn with.

A figure is one module NAME.mjs beside this file. `course build` runs it in Node and writes into figures.json what the page
without JavaScript, print and plain text show of each preset: its summary and its table.

  import { figure, fmt } from "./engine.mjs";
  export function compute(state) { ... }       pure: JSON in, JSON out; tests compare it with torch
  export const spec = {
    name, title, intro,                        intro: one sentence, what the drawing shows
    predict: { question, choices: [2-4 texts], answer: index, why: one sentence, preset?: shown on reveal },
    controls: [at most 3, each { key, label, type, ... }]
        "range"   { values: [...] } or { min, max, step }  a slider over these exact values
        "select"  { options: [[value, text], ...] }
        "check"   a boolean
    defaults: { ... },                         the whole state
    presets: { default: { label, state: {} }, name: { label, state: { what differs from defaults } } },
    draw(kit, result, state) { ...; return height; }
    table(result, state) { return { caption, columns: [no empty text], rows: [[text or number, ...], ...] }; }
    summary(result, state) { return one sentence with the numbers; }
  };
  export default figure(spec, compute);

Only this import line, on one line; no other import, no address, no top-level use of `document`.

kit, in CSS pixels, origin top left; kit.w is the width to fill (about 260 to 740), kit.narrow is w < 520:
  line(x1, y1, x2, y2, cls)   rect(x, y, w, h, cls)   circle(x, y, r, cls)   path(d, cls)   arrow(x1, y1, x2, y2, cls)
  text(x, y, string, { anchor: "start|middle|end", cls: "b m", nudge: true })   nudge: moved aside if it would overlap
  plot({ x, y, w, h, xs: [lo, hi], ys: [lo, hi], xticks, yticks, xlabel, ylabel, xlog, ylog })
      draws axes; returns { X, Y, curve(points, cls) } where X and Y turn values into pixels; keep points in range
  slider(id, { x, y, w, h, label, value, min, max, step, set: v => patch })   value min at x, max at x + w
  button(id, { x, y, w, h, label, pressed, set: () => patch })
      native, transparent, laid over what you drew, >= 28 px high; they work by mouse, touch and keyboard;
      `patch` is merged into the state; nothing else in the drawing may be interactive
Classes: s1..s6 color a series (fill of shapes, stroke of lines); add "o" for outline only, "d" dashed, "axis", "grid",
"soft" (pale fill), "f" a filled path; text: "b" bold, "m" muted, "t" small. Color is never the only sign: label, dash or outline as well.
Text that may meet other text takes nudge. Write for 260 px first, then use the width you have.
*/
const NS = "http://www.w3.org/2000/svg";
const SUPER = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

// About four digits, whole numbers in full, a true minus sign, otherwise powers of ten outside 0.001 .. 100000.
export function fmt(x) {
  if (typeof x !== "number" || Number.isNaN(x)) return String(x);
  const sign = x < 0 ? "\u2212" : "", a = Math.abs(x);
  if (a === Infinity) return sign + "inf";
  if (Number.isInteger(a) && a < 1e12) return sign + String(a).replace(/\B(?=(\d{3})+$)/g, ",");
  if (a < 1e-3 || a >= 1e5) {
    const [m, e] = a.toExponential(2).replace(/\.?0*e/, "e").split("e");
    return sign + (m === "1" ? "" : m + " \u00d7 ") + "10" + (e < 0 ? "\u207b" : "") + e.slice(1).replace(/./g, (d) => SUPER[d]);
  }
  return sign + a.toFixed([1000, 100, 10, 0.1, 0.01, 0].findIndex((v) => a >= v)).replace(/^(\d+)(\d{3}\b)/, "$1,$2");
}

// A round number 1, 2 or 5 times a power of ten, not below x: for axis ranges.
export function nice(x) {
  const p = 10 ** Math.floor(Math.log10(x));
  return x > 0 ? [1, 2, 5, 10].map((m) => m * p).find((v) => v >= x * 0.999999) : 1;
}

const CSS = `
.cf{color-scheme:light dark;--bg:light-dark(#fff,#16191d);--ink:light-dark(#1f2328,#e6e9ed);--mut:light-dark(#57606a,#a8b1bc);--rule:light-dark(#d8dee4,#343a42);--edge:light-dark(#7d8590,#7f8994);--wash:light-dark(#f4f6f8,#1f242a);--acc:light-dark(#0b5fa5,#6cb9ee);
background:var(--bg);color:var(--ink);border:1px solid var(--rule);border-radius:12px;padding:8px clamp(12px,3vw,16px);
margin:1.5em 0;max-width:50rem;line-height:1.5;text-align:start;font-size:.9rem}
html.dark .cf,body[data-jp-theme-light=false] .cf{color-scheme:dark}body[data-jp-theme-light=true] .cf{color-scheme:light}
html[data-theme=dark] .cf{color-scheme:dark}html[data-theme=light] .cf{color-scheme:light}
.cf *{box-sizing:border-box}
.cf .cf-t{font-size:1.15em;font-weight:650;line-height:1.3;margin:0;padding:0;border:0;color:inherit}
.cf p{margin:.2em 0 0;color:inherit;line-height:1.4}
.cf .cf-i,.cf small,.cf caption,.cf thead th{color:var(--mut)}
.cf-p{background:var(--wash);border-inline-start:3px solid var(--acc);padding:6px 14px 8px;margin-top:8px}
.cf-p strong{display:block}
.cf label{display:inline-flex;margin:0 1.6em 0 0;gap:.6em;align-items:center;min-height:26px;font-weight:400}
.cf input{accent-color:var(--acc);margin:0;flex:none}
.cf label input{width:18px;height:18px}
.cf-r{display:flex;flex-wrap:wrap;gap:6px;margin-top:6px;align-items:center}
.cf-c{border:0;margin:6px 0 0;padding:0;min-width:0}.cf-c:disabled{display:none}@media screen{.cf:has(.cf-c:enabled) .cf-i{display:none}}
.cf-k{display:grid;grid-template-columns:repeat(auto-fit,minmax(11rem,1fr));gap:2px 28px}
.cf-k label{display:flex;margin:0}.cf-k label :nth-child(2){margin-inline-start:auto}
.cf output{font-weight:600}
.cf input[type=range]{display:block;width:100%;height:24px}
.cf :is(select,button){font:inherit;font-size:.92em;color:inherit;background:var(--bg);border:1px solid var(--edge);border-radius:7px;min-height:28px;padding:2px 10px;margin:0}
.cf :is(.cf-go,[aria-pressed=true]):is(button){background:var(--acc);border-color:var(--acc);color:var(--bg)}
.cf :disabled{opacity:.6}
.cf :focus-visible{outline:3px solid var(--acc);outline-offset:2px}
.cf svg{display:block;width:100%;height:auto;overflow:visible}
.cf svg,.cf table,.cf output{font-variant-numeric:tabular-nums}
.cf text{fill:var(--ink);font-size:13px;paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}
.cf .b{font-weight:650}.cf .m{fill:var(--mut)}.cf .t{font-size:12px}
.s1{--c:light-dark(#0072b2,#56b4e9)}.s2{--c:light-dark(#d55e00,#e69f00)}.s3{--c:light-dark(#008560,#2fbf94)}.s4{--c:light-dark(#a8518a,#e08fbf)}.s5{--c:light-dark(#7a6a00,#f0e442)}.s6{--c:light-dark(#6b7280,#9aa3ad)}
.cf :is(rect,circle,line,path){fill:var(--c,var(--wash));stroke:var(--c,var(--edge))}
.cf :is(line,path){fill:none;stroke-width:2}.cf .f{fill:var(--c)}
.cf .soft{fill-opacity:.16}.cf .o{fill:none}.cf .d{stroke-dasharray:4 3}
.cf .axis{stroke:var(--edge);stroke-width:1}.cf .grid{stroke:var(--rule);stroke-width:1}
.cf-d{position:relative;margin-top:6px}.cf .cf-h:focus-visible{outline-offset:-3px}
.cf .cf-d .cf-h{position:absolute;appearance:none;min-height:0;padding:0;border:0;background:none}
.cf-h::-webkit-slider-thumb{appearance:none;width:20px;height:28px}.cf-h::-moz-range-thumb{width:20px;border:0;background:none}
.cf .cf-s{margin-top:6px;min-height:2.8em}
.cf-w{overflow-x:auto;margin-top:10px}
.cf table{border-collapse:collapse;width:100%;margin:0;font-size:clamp(12px,3.6vw,.88em);color:inherit}
.cf caption{caption-side:top;text-align:start;padding:0 0 6px}
.cf :is(th,td){padding:5px 3px;text-align:end;border:0;border-bottom:1px solid var(--rule);font-weight:400;background:none;color:inherit}
.cf :is(th,td):first-child{text-align:start}
@media print{.cf.cf.cf{color-scheme:light;break-inside:avoid}.cf .cf-p,.cf .cf-c,.cf .cf-h.cf-h{display:none}.cf [hidden]{display:block}}
`;

function makeNode(tag, attrs, kids, ns) {
  const node = ns ? document.createElementNS(NS, tag) : document.createElement(tag);
  setAttributes(node, attrs);
  node.append(...kids);
  return node;
}
function setAttributes(node, attrs) {
  for (const [k, v] of Object.entries(attrs)) {
    if (typeof v === "function") node.addEventListener(k, v);
    else if (v == null) node.removeAttribute(k);
    else node.setAttribute(k, v);
  }
}
const h = (tag, attrs, ...kids) => makeNode(tag, attrs, kids);
const s = (tag, attrs, ...kids) => makeNode(tag, attrs, kids, true);

// One level below the heading that stands before the figure, so that the page's outline has no gap.
function headingLevel(el) {
  const before = [...document.querySelectorAll("h1,h2,h3,h4,h5")].filter((n) => !n.closest(".cf") && n.compareDocumentPosition(el) === 4);
  return before.length ? +before.pop().tagName[1] + 1 : 3;
}

// Move the texts marked `nudge` off their neighbors and into the box; the others stay where they were put.
function settleTexts(ink, width, height) {
  const placed = [], all = [...ink.querySelectorAll("text")], loose = (t) => t.dataset.nudge;
  for (const t of [...all.filter((t) => !loose(t)), ...all.filter(loose)]) {
    const b = t.getBBox(), dx = Math.max(-b.x, Math.min(0, width - b.width - b.x)), x = b.x + dx;
    let y = b.y;
    const bad = () => y < 0 || y + b.height > height ||
      placed.some((p) => x < p.x + p.width + 2 && p.x < x + b.width + 2 && y < p.y + p.height && p.y < y + b.height);
    if (loose(t)) {
      for (let i = 1; bad() && i < 50; i++) y = b.y + (i % 2 ? 4 : -4) * Math.ceil(i / 2);
      t.setAttribute("transform", `translate(${dx} ${y - b.y})`);
    }
    placed.push({ x, y, width: b.width, height: b.height });
  }
}

// What `draw` receives. The SVG is drawn anew each time; the native inputs over it stay, so a drag or a focus survives.
function makeKit(ink, canvas, set) {
  const areas = new Map(), seen = new Set();
  const add = (tag, attrs, ...kids) => ink.appendChild(s(tag, attrs, ...kids));
  function area(id, o, tag, pad) {
    let n = areas.get(id);
    if (!n) areas.set(id, (n = canvas.appendChild(h(tag, { class: "cf-h", type: tag === "input" ? "range" : tag, [tag === "input" ? tag : "click"]: () => set(n.o.set(+n.value)) }))));
    n.o = o;
    seen.add(id);
    setAttributes(n, { "aria-label": o.label, "aria-pressed": o.pressed, min: o.min, max: o.max, step: o.step });
    if (o.max != null) n.value = o.value;
    Object.assign(n.style, { left: o.x - pad + "px", top: o.y + "px", width: o.w + 2 * pad + "px", height: o.h + "px" });
  }
  const kit = {
    add,
    start(w) { ink.replaceChildren(); seen.clear(); kit.w = w; kit.narrow = w < 520; },
    finish(locked) { for (const [id, n] of areas) if ((n.disabled = locked), !seen.has(id)) n.remove(), areas.delete(id); },
    line: (x1, y1, x2, y2, cls) => add("line", { x1, y1, x2, y2, class: cls }),
    rect: (x, y, w, h, cls) => add("rect", { x: Math.min(x, x + w), y: Math.min(y, y + h), width: Math.abs(w), height: Math.abs(h), class: cls, rx: 2 }),
    circle: (cx, cy, r, cls) => add("circle", { cx, cy, r, class: cls }),
    path: (d, cls) => add("path", { d, class: cls }),
    text: (x, y, text, o = {}) => add("text", { x, y, "text-anchor": o.anchor, class: o.cls, "data-nudge": o.nudge }, String(text)),
    arrow(x1, y1, x2, y2, cls) {
      const a = Math.atan2(y2 - y1, x2 - x1), p = (d) => `${x2 - 9 * Math.cos(a + d)} ${y2 - 9 * Math.sin(a + d)}`;
      kit.path(`M${x1} ${y1}L${x2} ${y2}M${p(0.45)}L${x2} ${y2}L${p(-0.45)}`, cls);
    },
    plot({ x = 46, y = 26, w = kit.w - 58, h = 200, xs, ys, xticks = xs, yticks = ys, xlabel = "", ylabel = "", xlog, ylog }) {
      const map = ([lo, hi], p, q, log) => {
        const f = log ? Math.log : (v) => v;
        return (v) => p + ((f(v) - f(lo)) / (f(hi) - f(lo))) * (q - p);
      };
      const X = map(xs, x, x + w, xlog), Y = map(ys, y + h, y, ylog), m = "m t";
      for (const v of yticks) kit.line(x, Y(v), x + w, Y(v), "grid"), kit.text(x - 7, Y(v) + 4, fmt(v), { anchor: "end", cls: m });
      for (const v of xticks) kit.line(X(v), y + h, X(v), y + h + 5, "axis"), kit.text(X(v), y + h + 19, fmt(v), { anchor: "middle", cls: m });
      kit.line(x, y + h, x + w, y + h, "axis");
      kit.text(x + w, y + h + 37, xlabel, { anchor: "end", cls: m });
      kit.text(0, y - 12, ylabel, { cls: m });
      return { X, Y, curve: (points, cls) => kit.path("M" + points.map(([a, b]) => X(a).toFixed(2) + " " + Y(b).toFixed(2)).join("L"), cls) };
    },
    slider: (id, o) => area(id, o, "input", 10),
    button: (id, o) => area(id, o, "button", 0),
  };
  return kit;
}

// A native control: its node and the function that shows a value in it.
function makeControl({ key, label, type, min, max, step, options, values }, set) {
  const even = (_, i) => +(min + i * step).toFixed(9);
  const list = values ?? options?.map((o) => o[0]) ?? Array.from({ length: step && Math.round((max - min) / step) + 1 }, even), send = (v) => set({ [key]: v });
  const index = (v) => list.reduce((best, w, i) => (w === v || Math.abs(w - v) < Math.abs(list[best] - v) ? i : best), 0);
  const name = h("span", {}, label);
  if (type === "check") {
    const input = h("input", { type: "checkbox", change: () => send(input.checked) });
    return { node: h("label", {}, name, input), show: (v) => (input.checked = v) };
  }
  if (type === "select") {
    const input = h("select", { change: () => send(list[input.value]) }, ...options.map(([, text], value) => h("option", { value }, text)));
    return { node: h("label", {}, name, input), show: (v) => (input.value = index(v)) };
  }
  const out = h("output", {}), input = h("input", { type, max: list.length - 1, "aria-label": label, input: () => send(list[input.value]) });
  const show = (v) => {
    input.value = index(v);
    out.textContent = fmt(v);
    setAttributes(input, { "aria-valuetext": fmt(v) });
  };
  return { node: h("div", {}, h("label", {}, name, out), input), show };
}

function makeTable({ caption, columns, rows }) {
  return h("table", {}, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, ...columns.map((c) => h("th", { scope: "col" }, c)))),
    h("tbody", {}, ...rows.map((r) => h("tr", {}, ...r.map((c, i) => (i ? h("td", {}, fmt(c)) : h("th", { scope: "row" }, fmt(c))))))));
}

// The prediction: a question, radios, Commit and Skip; afterwards one line that says what happens and why.
function makePredict({ question, choices, answer, why }, id, done) {
  const go = h("button", { class: "cf-go", disabled: "" }, "Commit"), ask = h("strong", { id }, question);
  const radio = (text, value) => h("label", {}, h("input", { type: "radio", name: id, value, change: () => (go.disabled = false) }), text);
  const node = h("form", { class: "cf-p", submit: (e) => (e.preventDefault(), done(+new FormData(node).get(id))) },
    h("small", {}, "Predict first"), h("div", { role: "radiogroup", "aria-labelledby": id }, ask, ...choices.map(radio)),
    h("div", { class: "cf-r" }, go, h("button", { type: "button", click: () => done(-1) }, "Skip")));
  const reveal = (i) => {
    const line = h("p", { tabindex: -1 }, i < 0 ? "" : i === answer ? "As predicted: " : `Predicted: ${choices[i]}. What happens: `, h("strong", {}, choices[answer] + "."), " " + why);
    node.replaceChildren(ask, line);
    return line;
  };
  return { node, reveal };
}

export function figure(spec, compute) {
  const { name, title, presets, predict } = spec;
  function render({ model, el }) {
    const uid = name + Math.random().toString(36).slice(2, 8), start = (p) => ({ ...spec.defaults, ...presets[p].state });
    let preset = presets[model.get("preset")] ? model.get("preset") : "default", state = start(preset), locked = true, width = 0;

    const ink = s("g", {}), desc = s("desc", { id: uid + "d" });
    const svg = s("svg", { role: "img", "aria-labelledby": uid + "s", "aria-describedby": uid + "d" }, s("title", { id: uid + "s" }, title), desc, ink);
    const canvas = h("div", { class: "cf-d" }, svg), status = h("p", { class: "cf-s", role: "status" }), numbers = h("div", { class: "cf-w", hidden: "", tabindex: 0, role: "region", "aria-label": title + ": numbers" });
    const byHand = (patch) => change(patch, null), kit = makeKit(ink, canvas, byHand);
    const controls = spec.controls.map((c) => makeControl(c, byHand));
    const picks = Object.keys(presets).map((p) => h("button", { type: "button", "data-preset": p, click: () => choose(p) }, presets[p].label));
    const fold = h("button", { type: "button", "aria-expanded": false, click: () => (fold.ariaExpanded = !(numbers.hidden = !numbers.hidden)) }, "Table");
    const panel = h("fieldset", { class: "cf-c", "aria-label": "Controls" }, h("div", { class: "cf-k" }, ...controls.map((c) => c.node)), h("div", { class: "cf-r" }, ...picks, fold));
    const ask = makePredict(predict, uid + "p", (i) => (unlock(i).focus(), tell("prediction", i)));
    const root = h("section", { class: "cf", "aria-labelledby": uid + "t", keydown: (e) => e.key !== "Escape" && e.stopPropagation() }, h("style", {}, CSS),
      h("h" + headingLevel(el), { class: "cf-t", id: uid + "t" }, title), h("p", { class: "cf-i" }, spec.intro), ask.node, panel, canvas, status, numbers);

    function change(patch, name) {
      state = { ...state, ...patch };
      preset = name;
      const result = compute(state), text = spec.summary(result, state);
      width = canvas.clientWidth;
      kit.start(width || 600);
      const height = spec.draw(kit, result, state);
      setAttributes(svg, { viewBox: `0 0 ${kit.w} ${height}` });
      kit.finish(locked);
      if (width) settleTexts(ink, kit.w, height);
      if (status.textContent !== text) status.textContent = desc.textContent = text;
      numbers.replaceChildren(makeTable(spec.table(result, state)));
      controls.forEach((c, i) => c.show(state[spec.controls[i].key]));
      for (const b of picks) setAttributes(b, { "aria-pressed": b.dataset.preset === preset });
      panel.disabled = locked;
      setAttributes(root, { "data-preset": preset ?? "", "data-values": JSON.stringify(state) });
    }
    function tell(key, value) {
      if (model.get(key) !== value) model.set(key, value), model.save_changes();
    }
    function choose(p) {
      change(start(p), p);
      tell("preset", p);
    }
    function unlock(i) {
      locked = false;
      if (predict.preset && preset === "default") choose(predict.preset);
      else change({}, preset);
      return ask.reveal(i);
    }
    const on = {
      "change:preset": () => presets[model.get("preset")] && model.get("preset") !== preset && choose(model.get("preset")),
      "change:prediction": () => locked && model.get("prediction") != null && unlock(model.get("prediction")),
    };
    for (const e in on) model.on(e, on[e]);
    el.append(root);
    change({}, preset);
    on["change:prediction"]();
    const size = new ResizeObserver(() => canvas.clientWidth !== width && change({}, preset));
    size.observe(canvas);
    root.dataset.state = "ready";
    return () => {
      size.disconnect();
      for (const e in on) model.off(e, on[e]);
      root.remove();
    };
  }
  return { render };
}
