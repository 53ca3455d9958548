"""The finished site, made light: what a page loads and does not need is taken out.

What it is: the theme's icon program (half a megabyte) gives way to a few drawings, stylesheets lose
the rules that nothing on the site matches and become one file, pictures of plots become palettes,
the search's index loads on the search page alone, and scripts wait until the page is there. What it
leaves out: formulas (formulas.py).

Every step can run again over pages it has done: Sphinx rewrites only those that changed.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
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
OPTIONS = re.compile(r'<script src="([^"?]*documentation_options\.js)[^"]*"></script>')
BLOCKING = re.compile(r'<script((?![^>]*\b(?:defer|async|type)\b)[^>]*\ssrc="[^"]+"[^>]*)>')
PICTURE = re.compile(r'<img(?![^>]*\swidth=)([^>]*\ssrc="([^"]+\.png)"[^>]*?)(\s*/?)>')
SHEET = re.compile(
    r'<link (?=[^>]*rel="stylesheet")(?![^>]*\smedia=)[^>]*?href="([^"?]+)[^"]*"'
    r'(?:[^>]*?data-parts="([^"]+)")?[^>]*>\s*'
)
ADDRESS = re.compile(r"""url\(["']?(?!data:|#|[a-z]+:|/)([^"')]+)["']?\)""")
IMPORT = re.compile(r"""@import\s*["']([^"']+)["']\s*;""")
PRELOAD = re.compile(r'<link rel="preload" as="script"[^>]*>\s*')
WORD = re.compile(r"[\w-]+")
COLOURS = 128  # a plot has a dozen, and their blends at edges


class IconError(ValueError):
    """The theme shows an icon that has no drawing here."""


def lighten(folder: Path) -> None:
    """Does all of it to the site in `folder`, in place."""
    pages = [page for page in sorted(folder.rglob("*.html")) if "_static" not in page.parts]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        found = OPTIONS.sub(lambda link: inlined(link, page.parent), text)  # noqa: B023
        found = PRELOAD.sub("", ICON_PROGRAM.sub("", ICON.sub(draw_icon, found)))
        if page.name != "search.html":  # that one talks to its scripts while it is read
            found = BLOCKING.sub(r"<script defer\1>", SEARCH.sub("", found))
        found = PICTURE.sub(lambda picture, page=page: with_size(picture, page.parent), found)
        if found != text:
            page.write_text(found, encoding="utf-8")
    for picture in sorted((folder / "_images").glob("*.png")):
        shrink(picture)
    for old in (folder / "_static").glob("pages-*.css"):
        old.unlink()
    words = used_words(folder, pages)
    for sheet in sorted((folder / "_static").rglob("*.css")):
        text = sheet.read_text(encoding="utf-8")
        sheet.write_text(prune(text, words), encoding="utf-8")
    for page in pages:
        text = page.read_text(encoding="utf-8")
        page.write_text(with_one_sheet(text, page.parent, folder / "_static"), encoding="utf-8")


def inlined(link: re.Match, folder: Path) -> str:
    """The script's own text: a few lines, which the lines after it need at once."""
    return f"<script>{(folder / link[1]).read_text(encoding='utf-8')}</script>"


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
        small = image.convert("RGBA").quantize(
            COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE
        )
    small.save(path, optimize=True)


def with_one_sheet(text: str, folder: Path, static: Path) -> str:
    """The page with one stylesheet in place of many: the first paint waits for each of them.

    The link names its parts, so that a page which has it already gets a fresh one.
    """
    links = list(SHEET.finditer(text))
    if not links:
        return text
    parts = [
        (folder / name).resolve().relative_to(static.resolve()).as_posix()
        for link in links
        for name in (link[2].split() if link[2] else [link[1]])
    ]
    css = "".join(_moved(part, static) for part in parts)
    name = f"pages-{hashlib.sha256(css.encode()).hexdigest()[:10]}.css"
    (static / name).write_text(css, encoding="utf-8")
    to_static = Path(os.path.relpath(static, folder)).as_posix()
    listed = " ".join(f"{to_static}/{part}" for part in parts)
    link = f'<link rel="stylesheet" href="{to_static}/{name}" data-parts="{listed}" />\n'
    for found in reversed(links[1:]):
        text = text[: found.start()] + text[found.end() :]
    return text[: links[0].start()] + link + text[links[0].end() :]


def _moved(part: str, static: Path) -> str:
    """A stylesheet as it must stand in `static` itself: addresses begin there, imports are done."""
    home = posixpath.dirname(part)
    css = (static / part).read_text(encoding="utf-8").removeprefix('@charset "UTF-8";')

    def place(address: str) -> str:
        return posixpath.normpath(posixpath.join(home, address))

    css = ADDRESS.sub(lambda found: f'url("{place(found[1])}")', css)
    return IMPORT.sub(lambda found: _moved(place(found[1]), static), css)


def used_words(folder: Path, pages: list[Path]) -> set[str]:
    """Every word of pages and scripts: a class that is in use is one of them."""
    scripts = [
        path
        for suffix in ("*.js", "*.mjs")
        for path in folder.rglob(suffix)
        if "mathjax" not in path.parts and path.name not in ("fontawesome.js", "searchindex.js")
    ]
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
