"""What every browser test uses: a browser, a local server, a watch on a page, the axe rules."""

from __future__ import annotations

import functools
import gzip
import http.server
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from chromium import BrowserMissing, find_chromium, node_modules

try:
    from playwright.sync_api import Browser, ConsoleMessage, Page, Response, sync_playwright
    from playwright.sync_api import TimeoutError as TooLate  # noqa: F401  for the tests
except ImportError as error:  # the reason is reported by browser(), as a test that did not run
    IMPORT_ERROR: ImportError | None = error
else:
    IMPORT_ERROR = None

AXE_TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
COLOUR_RULES = ("color-contrast", "link-in-text-block")
OFFLINE_ARGS = (
    "--no-sandbox",  # as root, and in containers, Chromium cannot start its own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--font-render-hinting=none",
)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless Chromium that talks to nobody but the pages' own hosts.

    Raises BrowserMissing, whose message is the reason to report with `pytest.skip`.
    """
    if IMPORT_ERROR is not None:
        raise BrowserMissing(f"playwright is not installed: {IMPORT_ERROR}")
    found = find_chromium()
    with sync_playwright() as playwright:
        try:
            started = playwright.chromium.launch(
                executable_path=str(found.path),
                args=[*OFFLINE_ARGS, *found.args],
                env={**os.environ, **found.env},
            )
        except Exception as error:
            first = str(error).strip().splitlines()[0]
            raise BrowserMissing(f"{found.path} does not start: {first}") from error
        try:
            yield started
        finally:
            started.close()


@dataclass
class Watch:
    """What a page did wrong since `watch`: three lists of plain strings, empty when all is well.

    external: addresses asked for outside the origin; errors: console errors and uncaught
    exceptions; not_found: answers of the origin with status 400 or more.
    """

    origin: str
    external: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)

    def on_request(self, address: str) -> None:
        local = address.startswith((self.origin + "/", "data:", "blob:", "about:"))
        if not local and address != self.origin:
            self.external.append(address)

    def on_console(self, message: ConsoleMessage) -> None:
        if message.type == "error":
            self.errors.append(message.text)

    def on_response(self, response: Response) -> None:
        if response.status >= 400:
            self.not_found.append(f"{response.status} {response.url}")

    def problems(self) -> list[str]:
        """All three lists in one, each line saying which list it comes from."""
        return (
            [f"external request: {line}" for line in self.external]
            + [f"console error: {line}" for line in self.errors]
            + [f"not found: {line}" for line in self.not_found]
        )

    def clear(self) -> None:
        """Forgets what was seen, so that one page object can visit many addresses."""
        for seen in (self.external, self.errors, self.not_found):
            seen.clear()


def watch(page: Page, origin: str) -> Watch:
    """Starts to watch a page. `origin` is scheme://host:port, websockets are compared too."""
    seen = Watch(origin.rstrip("/"))
    page.on("request", lambda request: seen.on_request(request.url))
    page.on("websocket", lambda socket: seen.on_request(socket.url.replace("ws", "http", 1)))
    page.on("console", seen.on_console)
    page.on("pageerror", lambda error: seen.errors.append(f"uncaught: {error}"))
    page.on("response", seen.on_response)
    return seen


@functools.cache
def axe_source() -> str:
    """The text of axe-core, as pinned in package.json; raises BrowserMissing."""
    return (node_modules() / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def axe(page: Page, include: str | None = None, rules: Sequence[str] = ()) -> list[str]:
    """Violations of the accessibility rules in the page, or in the elements `include` selects.

    One line per failing element: rule, impact, element, what to change. Empty means none.
    `rules` names the only rules to apply; without it all rules tagged AXE_TAGS are.
    """
    only = {"type": "rule", "values": [*rules]} if rules else {"type": "tag", "values": [*AXE_TAGS]}
    if not page.evaluate("() => Boolean(window.axe)"):
        page.evaluate(axe_source())
    found = page.evaluate(
        """async ({include, only}) => {
            const where = include ? {include: [include]} : document;
            const options = {runOnly: only, resultTypes: ['violations']};
            return (await window.axe.run(where, options)).violations;
        }""",
        {"include": include, "only": only},
    )
    return [describe(rule, node) for rule in found for node in rule["nodes"]]


def describe(rule: dict, node: dict) -> str:
    """One line for one element that breaks one rule."""
    summary = " ".join(node.get("failureSummary", "").split())
    return f"{rule['id']} ({rule['impact']}) at {node['target']}: {node['html'][:160]} | {summary}"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    """Serves files without writing each request to the terminal."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".woff2": "font/woff2",
    }

    def log_message(self, format: str, *args: object) -> None:
        pass


class PackingHandler(QuietHandler):
    """Sends text packed with gzip, as static servers do."""

    protocol_version = "HTTP/1.1"  # one connection for many files
    PACKED = {".html", ".css", ".js", ".mjs", ".json", ".svg"}

    def do_GET(self) -> None:  # noqa: N802  the name that the base class calls
        path = Path(self.translate_path(self.path))
        if path.is_dir() or path.suffix not in self.PACKED or not path.is_file():
            return super().do_GET()
        body = packed(path, path.stat().st_mtime_ns)
        self.send_response(200)
        self.send_header("Content-Type", f"{self.guess_type(str(path))}; charset=utf-8")
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "max-age=600")
        self.end_headers()
        self.wfile.write(body)


@functools.cache
def packed(path: Path, changed_ns: int) -> bytes:
    """The file through gzip at its usual level."""
    return gzip.compress(path.read_bytes(), 6, mtime=0)


@contextmanager
def serve(folder: Path, *, gzipped: bool = False) -> Iterator[str]:
    """Serves a folder on a free local port; yields the origin, such as http://127.0.0.1:40123."""
    kind = PackingHandler if gzipped else QuietHandler
    handler = functools.partial(kind, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


LABELS_SCRIPT = """(selector) => {
    const problems = [];
    for (const svg of document.querySelectorAll(selector)) {
        const frame = svg.getBoundingClientRect();
        if (!frame.width) continue;
        const seen = [];
        for (const text of svg.querySelectorAll('text')) {
            const box = text.getBoundingClientRect(), words = text.textContent.trim();
            if (!words || !box.width || getComputedStyle(text).visibility === 'hidden') continue;
            if (box.left < frame.left - 1 || box.right > frame.right + 1 ||
                box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
                problems.push(`"${words}" leaves its drawing`);
            for (const [other, name] of seen) {
                const wide = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                const high = Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top);
                if (wide > 1 && high > 1) problems.push(`"${words}" overlaps "${name}"`);
            }
            seen.push([box, words]);
        }
    }
    return problems;
}"""


def label_problems(page: Page, selector: str = "svg") -> list[str]:
    """SVG labels that overlap another by more than 1 px or leave their drawing. Empty is well."""
    return page.evaluate(LABELS_SCRIPT, selector)


SIDEWAYS_SCRIPT = """() => {
    const page = document.documentElement, limit = page.clientWidth;
    if (page.scrollWidth <= limit + 1) return [];
    const wide = [...document.body.querySelectorAll('*')].filter(
        (element) => element.getBoundingClientRect().right > limit + 1);
    return [`page is ${page.scrollWidth} px wide in a window of ${limit} px`,
            ...wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 100))];
}"""


def sideways(page: Page) -> list[str]:
    """Why the page scrolls sideways: its width and the first elements that stick out; or empty."""
    return page.evaluate(SIDEWAYS_SCRIPT)
