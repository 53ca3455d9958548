"""The finished site, made light: what a page loads and does not need is taken out.

What it is: the theme's icon program (half a megabyte) gives way to a few drawings, stylesheets lose
the rules that nothing on the site matches, pictures of plots become palettes, and the search's
index loads on the search page alone. What it leaves out: formulas (formulas.py).

Every step can run again over pages it has done: Sphinx rewrites only those that changed.
"""

from __future__ import annotations

import re
from pathlib import Path

import tinycss2
from PIL import Image

SVG = (
    '<svg aria-hidden="true" viewBox="0 0 16 16" fill="none" stroke="currentColor" '
    'stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round">{}</svg>'
)
DRAWINGS = {
    "bars": '<path d="M2 4h12M2 8h12M2 12h12"/>',
    "list": '<path d="M6 4h8M6 8h8M6 12h8M2 4h.1M2 8h.1M2 12h.1"/>',
    "magnifying-glass": '<circle cx="7" cy="7" r="4.6"/><path d="M10.5 10.5 14 14"/>',
    "angle-left": '<path d="M10 3 5 8l5 5"/>',
    "angle-right": '<path d="m6 3 5 5-5 5"/>',
    "chevron-right": '<path d="m6 3 5 5-5 5"/>',
    "chevron-down": '<path d="m3 6 5 5 5-5"/>',
    "sun": '<circle cx="8" cy="8" r="3"/><path d="M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1.1 1.1'
    'M11.9 11.9 13 13M3 13l1.1-1.1M11.9 4.1 13 3"/>',
    "moon": '<path d="M13.5 9.8A6 6 0 1 1 6.2 2.5a4.8 4.8 0 0 0 7.3 7.3z"/>',
    "circle-half-stroke": '<circle cx="8" cy="8" r="6"/><path d="M8 2a6 6 0 0 1 0 12z" '
    'fill="currentColor"/>',
}
ICON = re.compile(r'<(i|span) class="([^"]*\bfa-(?:solid|regular|brands)\b[^"]*)"([^>]*)>\s*</\1>')
SIZES = re.compile(r"^fa-(?:solid|regular|brands|lg|sm|fw|\dx)$")
ICON_PROGRAM = re.compile(r"\s*<script[^>]*/fontawesome\.js[^>]*></script>")
SEARCH = re.compile(
    r'\s*<script[^>]*["/](?:searchtools|language_data|searchindex)\.js[^>]*></script>'
)
PICTURE = re.compile(r'<img(?![^>]*\swidth=)([^>]*\ssrc="([^"]+\.png)"[^>]*?)(\s*/?)>')
WORD = re.compile(r"[\w-]+")
COLOURS = 128  # a plot has a dozen, and their blends at edges


class IconError(ValueError):
    """The theme shows an icon that has no drawing here."""


def lighten(folder: Path) -> None:
    """Does all of it to the site in `folder`, in place."""
    pages = [page for page in sorted(folder.rglob("*.html")) if "_static" not in page.parts]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        found = ICON_PROGRAM.sub("", ICON.sub(draw_icon, text))
        if page.name != "search.html":
            found = SEARCH.sub("", found)
        found = PICTURE.sub(lambda picture, page=page: with_size(picture, page.parent), found)
        if found != text:
            page.write_text(found, encoding="utf-8")
    for picture in sorted((folder / "_images").glob("*.png")):
        shrink(picture)
    words = used_words(folder, pages)
    for sheet in sorted((folder / "_static").rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        sheet.write_text(prune(text, words), encoding="utf-8")


def draw_icon(icon: re.Match) -> str:
    """The element with a drawing inside and without the icon font's classes."""
    tag, classes, rest = icon[1], icon[2].split(), icon[3]
    names = [c[3:] for c in classes if c.startswith("fa-") and not SIZES.match(c)]
    if len(names) != 1 or names[0] not in DRAWINGS:
        raise IconError(f"no drawing for {icon[0]}: add one to grader/light.py")
    others = [c for c in classes if not c.startswith("fa")]
    kind = " ".join([*others, "icon", *(["icon-large"] if "fa-lg" in classes else [])])
    return f'<{tag} class="{kind}"{rest}>{SVG.format(DRAWINGS[names[0]])}</{tag}>'


def with_size(picture: re.Match, folder: Path) -> str:
    """The picture with its width and height, so that the text does not jump when it arrives."""
    path = folder / picture[2]
    if not path.is_file():
        return picture[0]
    with Image.open(path) as image:
        width, height = image.size
    return f'<img{picture[1]} width="{width}" height="{height}" loading="lazy"{picture[3]}>'


def shrink(path: Path) -> None:
    """A true-colour PNG becomes one with a palette; one that has a palette is left."""
    with Image.open(path) as image:
        if image.mode == "P":
            return
        small = image.convert("RGBA").quantize(COLOURS, Image.Quantize.FASTOCTREE,
                                               dither=Image.Dither.NONE)  # fmt: skip
    small.save(path, optimize=True)


def used_words(folder: Path, pages: list[Path]) -> set[str]:
    """Every word of pages and scripts: a class that is in use is one of them."""
    scripts = [
        path for suffix in ("*.js", "*.mjs") for path in folder.rglob(suffix)
        if "mathjax" not in path.parts and path.name not in ("fontawesome.js", "searchindex.js")
    ]  # fmt: skip
    words: set[str] = set()
    for path in (*pages, *scripts):
        words.update(WORD.findall(path.read_text(encoding="utf-8")))
    return words


def prune(css: str, words: set[str]) -> str:
    """The stylesheet without the rules whose classes or ids are no words of the site."""
    rules = tinycss2.parse_stylesheet(css, skip_comments=True, skip_whitespace=True)
    kept = [text for rule in rules if (text := _kept(rule, words))]
    return "".join(kept)


def _kept(rule, words: set[str]) -> str:
    """The rule's text with the selectors that can match; empty when none can."""
    if rule.type == "at-rule" and rule.content and rule.lower_at_keyword in ("media", "supports"):
        inner = prune(tinycss2.serialize(rule.content), words)
        head = f"@{rule.at_keyword}{tinycss2.serialize(rule.prelude)}"
        return f"{head}{{{inner}}}" if inner else ""
    if rule.type != "qualified-rule":
        return rule.serialize()
    selectors = [s for s in _selectors(rule.prelude) if _names(s) <= words]
    if not selectors:
        return ""
    names = ",".join(tinycss2.serialize(selector).strip() for selector in selectors)
    return f"{names}{{{tinycss2.serialize(rule.content).strip()}}}"


def _selectors(prelude: list) -> list[list]:
    """The parts between commas."""
    parts: list[list] = [[]]
    for token in prelude:
        if token == ",":
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def _names(selector: list) -> set[str]:
    """Classes and ids that an element must have; those inside `:not()` and `:is()` it need not."""
    found = {token.value for token in selector if token.type == "hash"}
    for before, token in zip(selector, selector[1:], strict=False):
        if before == "." and token.type == "ident":
            found.add(token.value)
    return found
