// Every live figure, driven through all the states that its knobs can reach, not those of its presets alone.
import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { test } from "node:test";

const FIGURES = new URL("../course_lib/lab/figures/", import.meta.url);
const { fmt } = await import(new URL("engine.mjs", FIGURES));

function freezeAll(value) {
  if (value && typeof value === "object") Object.values(Object.freeze(value)).forEach(freezeAll);
  return value;
}

function listValues({ type, options, values, min, max, step }) {
  if (type === "check") return [true, false];
  return values ?? options?.map((o) => o[0]) ?? Array.from({ length: Math.round((max - min) / step) + 1 }, (_, i) => +(min + i * step).toFixed(9));
}

// What the knobs make of each preset; every state once.
function listStates({ defaults, presets, controls }) {
  const found = new Map();
  for (const { state } of Object.values(presets)) {
    let states = [{ ...defaults, ...state }];
    for (const c of controls) states = states.flatMap((s) => listValues(c).map((value) => ({ ...s, [c.key]: value })));
    for (const s of states) found.set(JSON.stringify(s), freezeAll(s));
  }
  return [...found.values()];
}

// Something to draw on: keeps the texts and what sliders and buttons in the drawing would set, lets everything else pass.
function makeKit(w, texts, patches) {
  const node = { style: {}, setAttribute() {} }, pass = () => node;
  const own = {
    w, narrow: w < 520,
    plot: () => ({ X: (v) => v, Y: (v) => v, curve: pass }),
    text: (x, y, text) => (texts.push(String(text)), node),
    slider: (id, { min, max, set }) => patches.push(set(min), set(max)),
    button: (id, { set }) => patches.push(set()),
  };
  return new Proxy(own, { get: (kit, key) => kit[key] ?? pass });
}

// Raises for a state that cannot be shown; returns the states one move of a hand in the drawing leads to.
function checkState({ spec, compute }, state) {
  const result = freezeAll(compute(state)), { caption, columns, rows } = spec.table(result, state), texts = [], patches = [];
  const heights = [260, 740].map((w) => spec.draw(makeKit(w, texts, patches), result, state));
  assert.ok(heights.every((v) => v > 0 && v < 2000), `height ${heights}`);
  assert.ok(rows.length && rows.every((row) => row.length === columns.length), "a row and its columns");
  assert.ok(rows.flat().every((cell) => ["string", "number"].includes(typeof cell)), "a cell is text or a number");
  assert.ok(columns.every(Boolean) && new Set(columns).size === columns.length, "names of columns");
  const said = [spec.summary(result, state), caption, ...rows.flat(), ...texts].join("\n");
  assert.doesNotMatch(said, /undefined|null|\[object/);
  return patches.map((patch) => freezeAll({ ...state, ...patch }));
}

for (const file of readdirSync(FIGURES).filter((f) => f.endsWith(".mjs") && f !== "engine.mjs" && f !== "host.mjs")) {
  const module = await import(new URL(file, FIGURES)), { spec } = module, states = listStates(spec);
  test(`${file} at ${states.length} states`, () => {
    assert.equal(spec.name + ".mjs", file);
    assert.ok(states.length >= 4);
    const reached = Object.values(spec.presets).flatMap((preset) => checkState(module, freezeAll({ ...spec.defaults, ...preset.state })));
    for (const state of [...reached, ...states]) {
      try {
        checkState(module, state);
      } catch (error) {
        error.message = `at ${JSON.stringify(state)}: ${error.message}`;
        throw error;
      }
    }
  });
  test(`${file} asks first and has few knobs`, () => {
    const { predict: ask, controls, presets, defaults } = spec;
    assert.ok(ask.question && ask.why && ask.choices.length >= 2 && ask.choices.length <= 4);
    assert.ok(ask.choices[ask.answer] && presets[ask.preset ?? "default"]);
    assert.ok(controls.length >= 1 && controls.length <= 3);
    assert.equal(Object.keys(presets)[0], "default");
    assert.deepEqual(presets.default.state, {});
    for (const control of controls) {
      assert.ok(control.key in defaults && control.label && ["range", "select", "check"].includes(control.type));
      for (const { state } of Object.values(presets)) assert.ok(listValues(control).includes({ ...defaults, ...state }[control.key]), control.key);
    }
    for (const [name, { label, state }] of Object.entries(presets)) {
      assert.match(name, /^[a-z0-9-]+$/);
      assert.ok(label && Object.keys(state).every((key) => key in defaults), name);
    }
  });
}

test("numbers are written with about four digits", () => {
  const written = [
    [0, "0"], [-0.0, "0"], [1, "1"], [-1, "−1"], [0.5, "0.500"], [9.9996, "10.000"],
    [99.996, "100.00"], [999.96, "1,000.0"], [1000.5, "1,001"], [1234.5, "1,235"], [99999.7, "100,000"], [123456.7, "1.23 × 10⁵"],
    [124439808, "124,439,808"], [1125899906842624, "1.13 × 10¹⁵"], [0.0625, "0.0625"], [0.001887, "0.00189"], [0.0123456, "0.0123"], [0.1, "0.100"],
    [1.0005, "1.000"], [-0.1235, "−0.123"], [0.0009999, "10⁻³"], [1e-3, "0.00100"], [9.996e-7, "10⁻⁶"], [1e-5, "10⁻⁵"],
    [-3.14159e-12, "−3.14 × 10⁻¹²"], [1e20, "10²⁰"], [5e-324, "4.94 × 10⁻³²⁴"], [Infinity, "inf"], [-Infinity, "−inf"], [NaN, "NaN"],
    ["text", "text"],
  ];
  for (const [number, text] of written) assert.equal(fmt(number), text);
});
