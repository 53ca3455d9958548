/* The review form in JupyterLab: shows `card`, sends what the learner does. Python judges.

card: { phase: "ask" | "grade" | "told" | "end", title, question, choices, format, problem, verdict, answer, coming, text, notes }
Sent: { do: "answer", typed, confidence } { do: "unknown" } { do: "reveal", confidence } { do: "grade", rating } { do: "later" } { do: "next" } */
const CSS = `
.cr{color-scheme:light dark;--bg:light-dark(#fff,#16191d);--ink:light-dark(#1f2328,#e6e9ed);--mut:light-dark(#57606a,#a8b1bc);--edge:light-dark(#7d8590,#7f8994);--acc:light-dark(#0b5fa5,#6cb9ee);
background:var(--bg);color:var(--ink);border:1px solid var(--edge);border-radius:12px;padding:16px 20px;max-width:50rem;line-height:1.5;font-size:1rem}
body[data-jp-theme-light=false] .cr{color-scheme:dark}body[data-jp-theme-light=true] .cr{color-scheme:light}
.cr *{box-sizing:border-box}.cr h3{font-size:1.1em;margin:.2em 0 .6em;color:inherit}.cr p{margin:.4em 0;color:inherit}
.cr small,.cr .note{color:var(--mut)}.cr fieldset{border:0;margin:0;padding:0;min-width:0}
.cr label{display:flex;flex-wrap:wrap;gap:.6em;align-items:center;min-height:32px;margin:.2em 0}
.cr input[type=radio]{width:18px;height:18px;margin:0;accent-color:var(--acc)}
.cr :is(input[type=text],select,button){font:inherit;color:inherit;background:var(--bg);border:1px solid var(--edge);border-radius:7px;min-height:34px;padding:4px 12px;max-width:100%}
.cr .row{display:flex;flex-wrap:wrap;gap:8px;margin-top:12px}.cr .go{background:var(--acc);border-color:var(--acc);color:var(--bg)}
.cr :focus-visible{outline:3px solid var(--acc);outline-offset:2px}.cr code{font-size:.95em}`;

function h(tag, attrs, ...kids) {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) typeof v === "function" ? node.addEventListener(k, v) : node.setAttribute(k, v);
  node.append(...kids);
  return node;
}
// Text with `code` in it; never as HTML.
const rich = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

function render({ model, el }) {
  const id = "cr" + Math.random().toString(36).slice(2, 8);
  const send = (message) => model.send(message);
  const button = (text, message, cls = "") => h("button", { type: "button", class: cls, click: () => send(message) }, text);
  const body = h("div", {}), status = h("div", { role: "status" });
  // JupyterLab has single keys for a focus in an output: x would cut the cell. Escape still leaves.
  const root = h("section", { class: "cr", "aria-label": "Review", keydown: (e) => e.key !== "Escape" && e.stopPropagation() }, h("style", {}, CSS), body, status);
  let typed = "", sure = "", asked = "";

  function sureness() {
    const pick = h("select", { change: () => (sure = pick.value) }, h("option", { value: "" }, "not said"), ...[1, 2, 3, 4, 5].map((n) => h("option", { value: n }, String(n))));
    pick.value = sure;
    return h("label", {}, "How sure, 1 to 5 (optional)", pick);
  }
  const confidence = () => (sure ? { confidence: +sure } : {});
  function field(card) {
    if (card.choices.length) {
      const pick = (text) => {
        const radio = h("input", { type: "radio", name: id, value: text, change: () => (typed = text) });
        radio.checked = typed === text;
        return h("label", {}, radio, h("span", {}, ...rich(text)));
      };
      return h("div", { role: "radiogroup", "aria-labelledby": id + "q" }, ...card.choices.map(pick));
    }
    const input = h("input", { type: "text", autocomplete: "off", "aria-describedby": id + "p", input: () => (typed = input.value) });
    input.value = typed;
    return h("label", {}, `Your answer, ${card.format}`, input);
  }
  function form(card) {
    const later = button("Later", { do: "later" });
    if (card.phase === "grade") {
      const grades = [["No", 1], ["With effort", 2], ["Yes", 3], ["At once", 4]];
      return h("div", { role: "group", "aria-label": "Did you have it?" }, h("p", {}, "Did you have it?"), h("div", { class: "row" }, ...grades.map(([text, rating]) => button(text, { do: "grade", rating }))));
    }
    if (!card.format) return h("div", {}, h("p", {}, "Say your answer, or write it anywhere."), sureness(), h("div", { class: "row" }, h("button", { type: "button", class: "go", click: () => send({ do: "reveal", ...confidence() }) }, "Show the answer"), later));
    return h("form", { submit: (e) => (e.preventDefault(), send({ do: "answer", typed, ...confidence() })) }, field(card), sureness(),
      h("div", { class: "row" }, h("button", { class: "go" }, "Answer"), button("I do not know", { do: "unknown" }), later));
  }
  function show() {
    const card = model.get("card"), had = root.contains(document.activeElement);
    const notes = (card.notes ?? []).map((note) => h("p", { class: "note" }, note));
    if (card.phase === "ask" && asked !== card.title) (asked = card.title), (typed = sure = "");
    const head = card.phase === "end" ? [] : [h("small", {}, card.title), h("h3", { id: id + "q" }, ...rich(card.question))];
    body.replaceChildren(...notes, ...head, ...(card.phase === "ask" || card.phase === "grade" ? [form(card)] : []));
    const said = { ask: card.problem ? [h("p", { id: id + "p" }, card.problem)] : [], end: [h("p", {}, card.text)] }[card.phase];
    status.replaceChildren(...(said ?? [h("p", {}, h("strong", {}, card.verdict || ""), " ", ...rich(card.answer)), ...(card.coming ? [h("p", { class: "note" }, card.coming)] : [])]));
    if (card.phase === "told") body.append(h("div", { class: "row" }, button("Next", { do: "next" }, "go")));
    root.dataset.phase = card.phase;
    if (had) root.querySelector(card.problem && card.phase === "ask" ? "input" : card.phase === "ask" ? "input,button" : "button")?.focus();
  }
  model.on("change:card", show);
  el.append(root);
  show();
  return () => (model.off("change:card", show), root.remove());
}
export default { render };
