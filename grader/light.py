"""The finished site without what its pages load and do not need.

What it is: the three parts that bring a page under 300 KB, with formulas.py. The theme's icon program
is emptied, since `book/web/icons.css` draws the icons; the search's index loads on the search page
alone; pictures of plots get a palette. What it leaves out: the theme's stylesheets and scripts, which
stay as they are. Where a new version of the theme has nothing that a rule here knows, the rule does
nothing, and the page weighs more.

Every step can run again over pages it has done: Sphinx rewrites only those that changed.
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

ICON_PROGRAM = "_static/scripts/fontawesome.js"
SEARCH = re.compile(
    r'\s*<script[^>]*["/](?:searchtools|language_data|searchindex)\.js[^>]*></script>'
)
COLOURS = 128  # a plot has a dozen, and their blends at edges


def lighten_site(folder: Path) -> None:
    """Do all of it to the site in `folder`, in place."""
    if (program := folder / ICON_PROGRAM).is_file():
        program.write_text("// the icons are in icons.css\n", encoding="utf-8")
    for page in folder.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        if page.name != "search.html" and (found := SEARCH.sub("", text)) != text:
            page.write_text(found, encoding="utf-8")
    for picture in (folder / "_images").glob("*.png"):
        shrink_picture(picture)


def shrink_picture(path: Path) -> None:
    """Give a true-color PNG a palette; one that has a palette is left as it is."""
    with Image.open(path) as image:
        if image.mode == "P":
            return
        small = image.convert("RGBA").quantize(
            COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
    small.save(path, optimize=True)
