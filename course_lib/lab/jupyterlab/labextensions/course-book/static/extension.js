// What the course adds to JupyterLab, in the form its loader takes: folded answers look like the cards they are on
// the page, and a notebook that was only opened, where the kernel changes a line of metadata, does not count as modified.
(() => {
  const CSS = `
.jp-RenderedMarkdown details,.myst details{border:1px solid var(--jp-border-color1);border-radius:6px;margin:0 0 12px;padding:0}
.jp-RenderedMarkdown details>summary,.myst details>summary{background:var(--jp-layout-color2);border-radius:5px;cursor:pointer;display:list-item;font-weight:600;list-style:disclosure-closed inside;margin:0;padding:10px 14px}
.jp-RenderedMarkdown details[open]>summary,.myst details[open]>summary{list-style-type:disclosure-open}
.jp-RenderedMarkdown summary:focus-visible,.myst summary:focus-visible{outline:3px solid var(--jp-brand-color1);outline-offset:-3px}
.jp-RenderedMarkdown details>:not(summary),.myst details>:not(summary){margin:10px 14px}`;

  // Until the first cell changes, a change is no edit: it is undone in what JupyterLab takes for unsaved.
  async function stayClean(context) {
    await context.ready;
    const { model } = context, cells = () => JSON.stringify(model.toJSON().cells), opened = cells();
    const look = (_, change) => {
      if (change && (change.name !== "dirty" || !change.newValue)) return;
      if (cells() === opened) model.dirty = false;
      else model.stateChanged.disconnect(look);
    };
    model.stateChanged.connect(look);
    if (model.dirty) look();
  }

  const plugin = {
    id: "course-book:plugin",
    autoStart: true,
    activate(app) {
      document.head.append(Object.assign(document.createElement("style"), { textContent: CSS }));
      app.docRegistry.addWidgetExtension("Notebook", { createNew: (panel, context) => void stayClean(context) });
    },
  };
  (window._JUPYTERLAB ??= {})["course-book"] = { init() {}, get: async () => () => ({ __esModule: true, default: plugin }) };
})();
