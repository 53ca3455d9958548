// Static host: mounts every [data-figure] of a page without a kernel. Load with <script type="module" src=".../host.mjs">.
// A check message links to a preset with the hash #figure-NAME=PRESET.
function makeModel(values) {
  const listeners = new Map();
  return {
    get: (key) => values[key],
    set(key, value) {
      if (Object.is(values[key], value)) return;
      values[key] = value;
      for (const call of [...(listeners.get("change:" + key) ?? [])]) call();
    },
    on(event, call) {
      if (!listeners.has(event)) listeners.set(event, new Set());
      listeners.get(event).add(call);
    },
    off: (event, call) => listeners.get(event)?.delete(call),
    save_changes() {},
    send() {},
  };
}

function readTarget() {
  const found = /^#figure-([a-z0-9-]+)(?:=([a-z0-9-]+))?$/.exec(decodeURIComponent(location.hash));
  return found ? { name: found[1], preset: found[2] } : null;
}

async function mount(box) {
  const name = box.dataset.figure, slot = document.createElement("div");
  const target = readTarget();
  const model = makeModel({ preset: (target?.name === name && target.preset) || box.dataset.preset || "default", prediction: null });
  try {
    if (!/^[a-z0-9_-]+$/.test(name)) throw new Error("bad figure name " + name);
    const widget = (await import(new URL(`./${name}.mjs`, import.meta.url))).default;
    box.append(slot);
    await widget.render({ model, el: slot });
    box.querySelector("[data-fallback]")?.remove();
    box.dataset.state = "ready";
  } catch (error) {
    slot.remove();
    box.dataset.state = "failed";
    console.warn(`figure ${name} could not be drawn; its text stays`, error);
    return null;
  }
  return { name, model, box };
}

export async function mountAll(root = document) {
  const all = await Promise.all([...root.querySelectorAll("[data-figure]:not([data-state])")].map(mount));
  const figures = all.filter(Boolean);
  const follow = () => {
    const target = readTarget(), figure = figures.find((f) => f.name === target?.name);
    if (!figure) return;
    if (target.preset) figure.model.set("preset", target.preset);
    figure.box.scrollIntoView();
  };
  addEventListener("hashchange", follow);
  follow();
  return figures;
}

mountAll();
