// Replays tests/fixtures/figures/*.json, written by the Python references, in the figures' own JavaScript.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

const FIXTURES = new URL("./fixtures/figures/", import.meta.url);
const FIGURES = new URL("../course_lib/lab/figures/", import.meta.url);
const TOLERANCE = 1e-9;

function same(got, want, where) {
  if (typeof got === "number" && typeof want === "string") return assert.equal(String(got), want, where);
  if (typeof want === "number") {
    const close = Math.abs(got - want) <= TOLERANCE * Math.max(1, Math.abs(want));
    return assert.ok(typeof got === "number" && close, `${where}: got ${got}, expected ${want}`);
  }
  if (want === null || typeof want !== "object") return assert.equal(got, want, where);
  assert.deepEqual(Object.keys(got).sort(), Object.keys(want).sort(), where);
  for (const key of Object.keys(want)) same(got[key], want[key], `${where}.${key}`);
}

for (const file of readdirSync(FIXTURES).filter((name) => name.endsWith(".json"))) {
  const name = file.replace(".json", "");
  const { compute } = await import(new URL(`${name}.mjs`, FIGURES));
  const cases = JSON.parse(readFileSync(new URL(file, FIXTURES), "utf8"));
  test(`${name}: ${cases.length} cases`, () => {
    assert.ok(cases.length >= 20);
    cases.forEach(({ state, expect }, i) => {
      const before = JSON.stringify(state);
      same(compute(state), expect, `case ${i}`);
      assert.equal(JSON.stringify(state), before, `case ${i}: compute changed its state`);
    });
  });
}
