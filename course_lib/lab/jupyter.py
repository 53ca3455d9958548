"""`course lab`: JupyterLab on a lesson, from this environment, without a single outside request.

Jupyter's own settings and the learner's stay in force; the course only adds defaults below them
(`jupyterlab/settings`), a kernel that is surely this environment's (`jupyterlab/kernels`) and a
workspace named "course" that begins with the table of contents open (`jupyterlab/workspace.json`).
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO

from course_lib.lab.home import find_lesson, home
from course_lib.lab.progress import greet

SHARE = Path(__file__).parent / "jupyterlab"
WORKSPACE = "course"
FIRST = "00_start"
PATIENCE = 120  # seconds; a cold start from a slow disk takes 30


def run(args) -> int:
    """`course lab [LESSON] [--port N] [--ip ADDRESS] [--no-browser]`: serves until Ctrl-C.

    Raises ValueError when the lesson is unknown or its notebook was not generated.
    """
    page = notebook(getattr(args, "lesson", None))
    command = server_command(
        page,
        port=getattr(args, "port", None),
        ip=getattr(args, "ip", None),
        browser=not getattr(args, "no_browser", False),
    )
    _add_workspace()
    log = _log()
    # In a session of its own: Ctrl-C reaches this process alone, which ends the server in order.
    server = subprocess.Popen(
        command,
        env=server_environment(),
        cwd=home(),
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    for ending in (signal.SIGTERM, signal.SIGHUP):  # killed, or the terminal was closed
        signal.signal(ending, lambda *_: server.terminate())
    try:
        return _serve(server, page, log)
    except KeyboardInterrupt:
        print("\nclosing JupyterLab", flush=True)
        return _close(server)


def notebook(lesson: str | None) -> str:
    """The notebook to open, relative to the course home: "notebooks/01_rmsnorm.ipynb".

    ValueError when no lesson is called so, or its notebook is not there.
    """
    name = find_lesson(lesson) if lesson else FIRST
    page = f"notebooks/{name}.ipynb"
    if not (home() / page).is_file():
        raise ValueError(f"{page} is not in {home()}: run `course update` there, then try again.")
    return page


def server_command(
    page: str, *, port: int | None = None, ip: str | None = None, browser: bool = True
) -> list[str]:
    """The command that starts the server and, with `browser`, opens `page` in one."""
    command = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={home()}"]
    command += [
        f"--LabApp.app_settings_dir={SHARE / 'settings'}",
        f"--LabApp.default_url=/{_place(page)}",
        "--LabApp.news_url=None",
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
        "--LabApp.extension_manager=readonly",
        "--ServerApp.answer_yes=True",  # Ctrl-C ends it, without a question
        "--Application.log_level=ERROR",
    ]
    if port:  # the first to try: the address printed names the one that was free
        command.append(f"--ServerApp.port={port}")
    if ip:
        command.append(f"--ServerApp.ip={ip}")
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-root")
    return command + _browser_options(wanted=browser)


def server_environment() -> dict[str, str]:
    """This process's environment, with this Python's tools and kernel found before any other."""
    own = os.environ
    tools = str(Path(sys.executable).parent)  # nbgrader calls alembic as a command
    return {
        **own,
        "PATH": os.pathsep.join(filter(None, [tools, own.get("PATH")])),
        "JUPYTER_PATH": os.pathsep.join(filter(None, [str(SHARE), own.get("JUPYTER_PATH")])),
        "COURSE_HOME": str(home()),  # kernels work in notebooks/, ranks anywhere: one home for all
        "NPM_CONFIG_UPDATE_NOTIFIER": "false",  # jupyter-lsp asks npm where node's packages are
    }


def _place(page: str) -> str:
    return f"lab/workspaces/{WORKSPACE}/tree/{page}"


def _browser_options(*, wanted: bool) -> list[str]:
    wsl = "microsoft" in platform.release().lower()
    screen = (
        sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    )
    if not wanted or not (wsl or screen or os.environ.get("BROWSER")):
        return ["--no-browser"]
    if not wsl:
        return []
    # A browser of Windows cannot read the file in Linux that Jupyter would send it to.
    options = ["--ServerApp.use_redirect_file=False"]
    if not os.environ.get("BROWSER") and not shutil.which("wslview"):
        options.append("--ServerApp.browser=powershell.exe -NoProfile -Command Start-Process %s")
    return options


def _add_workspace() -> None:
    """Give the workspace its first layout; from then on it is the learner's and stays as left."""
    from jupyter_core.paths import jupyter_config_dir

    folder = os.environ.get("JUPYTERLAB_WORKSPACES_DIR") or f"{jupyter_config_dir()}/lab/workspaces"
    # JupyterLab's own name for it. (Its manager would tell, at the price of a second's import.)
    mark = hashlib.sha256(WORKSPACE.encode()).hexdigest()[:4]
    file = Path(folder) / f"{WORKSPACE}-{mark}.jupyterlab-workspace"
    # Read-only home folder: the lesson opens all the same, with JupyterLab's usual layout.
    with contextlib.suppress(OSError):
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(SHARE / "workspace.json", file)


def _log() -> IO[bytes]:
    """What Jupyter and its kernels say: kept for a failure, out of the way otherwise."""
    try:
        (home() / "learning").mkdir(parents=True, exist_ok=True)
        file = home() / "learning" / "lab.log"
        return open(file, "w+b", opener=lambda path, flags: os.open(path, flags, 0o600))  # a token
    except OSError:
        return tempfile.TemporaryFile()


def _serve(server: subprocess.Popen, page: str, log: IO[bytes]) -> int:
    print("starting JupyterLab", flush=True)
    greet()  # while the server starts: it needs seconds, this some hundredths of one
    if address := _address(server, page):
        print(f"JupyterLab is ready (Ctrl-C ends it): {address}", flush=True)
    code = server.wait()
    if code in (0, -signal.SIGTERM):
        return 0
    log.seek(0)
    said = log.read().decode(errors="replace").strip().splitlines()[-12:]
    print("JupyterLab ended with an error. Its last words:", *said, sep="\n  ", file=sys.stderr)
    return 1


def _address(server: subprocess.Popen, page: str) -> str | None:
    """Where the page is, token included, once the server listens; None when it ended before."""
    from jupyter_core.paths import jupyter_runtime_dir

    note = Path(jupyter_runtime_dir()) / f"jpserver-{server.pid}.json"
    deadline = time.monotonic() + PATIENCE
    while server.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, ValueError):  # not there yet, or half written
            info = json.loads(note.read_text(encoding="utf-8"))
            token = f"?token={info['token']}" if info.get("token") else ""
            return f"{info['url']}{_place(page)}{token}"
        time.sleep(0.1)
    return None


def _close(server: subprocess.Popen) -> int:
    """End the server and its kernels; a second Ctrl-C, or ten seconds, ends it at once."""
    try:
        server.terminate()
        server.wait(timeout=10)
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        server.kill()
        server.wait()
    return 0
