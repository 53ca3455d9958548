"""Which addresses outside an HTML page a browser would load with it, found without a browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser

LOADING = {"src", "srcset", "poster", "data", "background", "xlink:href", "style"}
ADDRESS = re.compile(r"(?<![\w+/])(?:https?:)?//[\w.-]+\.\w+[^\s\"')]*")
LOADED_BY_CSS = re.compile(rf"(?:url\(\s*|@import\s+)[\"']?({ADDRESS.pattern})")
NAMES = re.compile(r"https?://www\.w3\.org/")  # names of languages, such as SVG; never loaded


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag if tag in ("script", "style") else ""
        for name, value in attrs:
            if name in LOADING or (name == "href" and tag not in ("a", "area")):
                self.found += ADDRESS.findall(value or "")

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside == "script":
            self.found += ADDRESS.findall(re.sub(r"^\s*//.*", "", data, flags=re.M))
        elif self.inside == "style":
            self.found += LOADED_BY_CSS.findall(re.sub(r"/\*.*?\*/", "", data, flags=re.S))


def loads(html: str) -> list[str]:
    """Outside addresses in what a page loads: scripts, styles, images, frames; links are free.

    Text inside scripts counts as loaded when it looks like an address, so that a script which
    adds another one is seen too.
    """
    reader = _Reader()
    reader.feed(html)
    reader.close()
    return [address for address in reader.found if not NAMES.match(address)]
