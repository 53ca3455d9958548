"""The site's formulas, drawn once when it is built and not in each reader's browser.

What it is: MathJax, run by Node over the finished pages. It saves a reader 266 KB of program and the
seconds it runs, and formulas are there without JavaScript. What it leaves out: a machine without
Node. There the pages keep MathJax's own script, and look the same once it has run.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path

from grader.node import find_node

PROGRAM = Path(__file__).with_suffix(".cjs")
FONTS = "_static/mathjax/output/chtml/fonts/woff-v2"
SPOT = re.compile(
    r'(<(span|div) class="(?:amsmath )?math notranslate nohighlight"[^>]*>)\s*'
    r"\\([(\[])(.*?)\\[)\]]\s*(?=</\2>)",
    re.S,
)
LOOSE = re.compile(r"</mjx-container></span>([.,;:!?)]+)")  # a line must not begin with these
SCRIPTS = re.compile(
    r"\s*<script>window\.MathJax = .*?</script>|\s*<script[^>]*/mathjax/tex-[^>]*></script>", re.S
)


class FormulaError(ValueError):
    """A formula is not TeX; the message holds it and what MathJax says."""


def draw_pages(folder: Path, mathjax: Path) -> int:
    """Draws what is still TeX on the pages of the site in `folder`; how many pages had some.

    `mathjax` is MathJax's folder. A drawn page carries its styles, and its formulas hold MathML for
    screen readers; no page asks for a script of MathJax. Pages drawn before are left alone.
    """
    program = find_node()
    if program is None:
        return 0
    pages = {page: page.read_text(encoding="utf-8") for page in sorted(folder.rglob("*.html"))}
    spots = {page: found for page, text in pages.items() if (found := SPOT.findall(text))}
    asked = [[(html.unescape(tex), kind == "[") for _, _, kind, tex in s] for s in spots.values()]
    drawn = dict(zip(spots, ask(program, mathjax, asked), strict=True))
    for page, text in pages.items():
        to_root = "../" * len(page.relative_to(folder).parent.parts)
        if page in drawn:
            text = drawn_page(text, drawn[page], f"{to_root}{FONTS}")
        if (text := SCRIPTS.sub("", text)) != pages[page]:
            page.write_text(text, encoding="utf-8")
    return len(drawn)


def ask(program: Path, mathjax: Path, pages: list[list[tuple[str, bool]]]) -> list[dict]:
    """HTML of each formula and the styles of each page, from one run of Node."""
    if not pages:
        return []
    done = subprocess.run(
        [program, PROGRAM, mathjax.resolve()],
        input=json.dumps(pages),
        capture_output=True,
        encoding="utf-8",
    )
    if done.returncode:
        raise FormulaError(f"a formula cannot be drawn: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def drawn_page(text: str, drawn: dict, fonts: str) -> str:
    """The page with drawings in place of TeX, and with their styles."""
    ready = iter(drawn["html"])
    text = SPOT.sub(lambda spot: spot[1] + next(ready), text)
    text = LOOSE.sub(r"</mjx-container>\1</span>", text)
    css = re.sub(r"\s*\n\s*", "", drawn["css"]).replace("FONTS", fonts)
    return text.replace("</head>", f"<style>{css}</style>\n</head>", 1)
