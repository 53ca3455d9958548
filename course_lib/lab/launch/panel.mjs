// The live panel of a run: one row per rank, and one rank's log. Numbers come from Python; nothing
// is computed here. Keys stay inside: JupyterLab would take `x` for "cut this cell".

const HEADINGS = ["Rank", "State", "Step", "Loss", "Tokens/s", "Memory", "Last line"];
const STYLE = `
.course-launch { font-family: var(--jp-ui-font-family, system-ui, sans-serif); font-size: 13px;
  line-height: 1.4; color: var(--jp-ui-font-color0, CanvasText); padding: 4px 2px; }
.course-launch table { border-collapse: collapse; width: 100%; margin: 6px 0; table-layout: fixed; }
.course-launch th, .course-launch td { text-align: left; padding: 3px 8px; overflow: hidden;
  text-overflow: ellipsis; white-space: nowrap; color: inherit;
  border-bottom: 1px solid var(--jp-border-color1, GrayText); }
.course-launch .num, .course-launch thead .num { text-align: right; font-variant-numeric: tabular-nums; }
.course-launch progress { display: block; width: 100%; height: 8px; }
.course-launch pre { max-height: 15em; overflow: auto; margin: 4px 0; padding: 6px;
  font-family: var(--jp-code-font-family, monospace); font-size: 12px; white-space: pre-wrap;
  color: inherit; background: var(--jp-layout-color1, Canvas);
  border: 1px solid var(--jp-border-color1, GrayText); }
.course-launch select { min-height: 28px; min-width: 6em; font: inherit; color: inherit;
  background: var(--jp-layout-color1, Canvas); border: 1px solid var(--jp-ui-font-color1, GrayText); }
.course-launch :focus-visible { outline: 2px solid var(--jp-brand-color0, Highlight);
  outline-offset: 1px; }
.course-launch [data-state=failed] th, .course-launch [data-state=failed] .state { font-weight: 700; }
`;

function make(tag, text, attributes = {}) {
  const element = document.createElement(tag);
  if (text !== "") element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

const kind = (column) => (column === 1 ? "state" : column > 1 && column < 6 ? "num" : "text");

function stepCell(cell, row) {
  const [label, bar] = cell.children;
  label.textContent = row.cells[2];
  bar.hidden = !(row.total > 0);
  bar.max = row.total || 1;
  bar.value = row.step || 0;
}

function makeRow(number) {
  const row = make("tr", "");
  row.append(make("th", number, { scope: "row" }));
  for (let i = 1; i < HEADINGS.length; i++) {
    row.append(make("td", "", { class: kind(i) }));
  }
  const label = `Steps of rank ${number}`;
  row.children[2].append(make("span", ""), make("progress", "", { "aria-label": label }));
  return row;
}

function render({ model, el }) {
  const root = make("section", "", { class: "course-launch", "aria-label": "Ranks of this run" });
  const status = make("p", "", { role: "status" });
  const gauges = make("p", "");
  const table = make("table", "", { "aria-label": "Ranks" }), head = make("tr", ""), body = make("tbody", "");
  const widths = ["4.5em", "9em", "8em", "6em", "7.5em", "7em", ""];
  const columns = make("colgroup", "");
  for (const width of widths) columns.append(make("col", "", width ? { style: `width:${width}` } : {}));
  HEADINGS.forEach((name, i) => head.append(make("th", name, { scope: "col", class: kind(i) })));
  const top = make("thead", "");
  top.append(head);
  table.append(columns, top, body);
  const label = make("label", "Log of rank "), choice = make("select", "");
  label.append(choice);
  const log = make("pre", "", { tabindex: "0", role: "region", "aria-label": "Log of the rank" });
  root.append(make("style", STYLE), status, gauges, table, label, log);
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") event.stopPropagation();
  });

  function drawRows() {
    const rows = model.get("rows");
    while (body.children.length < rows.length) {
      const number = String(body.children.length);
      body.append(makeRow(number));
      choice.append(make("option", number, { value: number }));
    }
    rows.forEach((row, place) => {
      const cells = body.children[place].children;
      body.children[place].dataset.state = row.cells[1];
      row.cells.forEach((text, i) => {
        if (i === 2) stepCell(cells[2], row);
        else if (cells[i].textContent !== text) cells[i].textContent = text;
        if (i === 6) cells[i].title = text;
      });
    });
    gauges.textContent = model.get("gauges");
    gauges.hidden = !gauges.textContent;
  }
  function drawLog() {
    const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 20;
    const text = model.get("logs")[choice.value || "0"] || "nothing yet";
    if (log.textContent !== text) log.textContent = text;
    if (atEnd) log.scrollTop = log.scrollHeight;
  }
  function drawStatus() {
    status.textContent = model.get("status");  // changes with a state, not with each step
    root.dataset.state = model.get("state");
  }
  choice.addEventListener("change", drawLog);
  const drawn = [["rows", drawRows], ["gauges", drawRows], ["logs", drawLog],
    ["status", drawStatus], ["state", drawStatus]];
  for (const [name, draw] of drawn) model.on(`change:${name}`, draw);
  drawRows();
  drawLog();
  drawStatus();
  el.append(root);
  return () => drawn.forEach(([name, draw]) => model.off(`change:${name}`, draw));
}

export default { render };
