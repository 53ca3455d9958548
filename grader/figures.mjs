// Prints as JSON what a figure says at each of its presets: node figures.mjs ENGINE FIGURE ..., all addresses.
const [engine, ...modules] = process.argv.slice(2);
const { fmt } = await import(engine);

function renderPreset({ spec, compute }, preset) {
  const state = { ...spec.defaults, ...spec.presets[preset].state }, result = compute(state);
  const { caption, columns, rows } = spec.table(result, state);
  return { summary: spec.summary(result, state), caption, columns, rows: rows.map((row) => row.map(fmt)) };
}

const shown = [];
for (const address of modules) {
  const module = await import(address), names = Object.keys(module.spec.presets);
  shown.push({ title: module.spec.title, presets: Object.fromEntries(names.map((name) => [name, renderPreset(module, name)])) });
}
console.log(JSON.stringify(shown));
