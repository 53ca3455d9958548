"""`course doctor --sandbox`: how answers are confined on this machine, shown by attacks on it.

Each probe is a hostile answer, run in a real worker. "held" means that it was refused.
"""

import json
import os
import socket
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from course_lib.checks.subject import AnswerError, OutOfTime
from course_lib.lab.registry import exercises
from grader.judge.judge import worker_card
from grader.judge.remote import RemoteSubject, WorkerLost
from grader.judge.zygote_client import ZygoteClient, ZygoteError

# name: (what it tries, code that gets there or raises)
PROBES = {
    "files": ("read a file of the instructor", "open({file!r}).read()"),
    "gradebook": ("write into it", "open({file!r}, 'r+').write('x')"),
    "opens": ("open it for neither reading nor writing", "os.open({file!r}, 3)"),
    "empties": ("empty it", "os.truncate({file!r}, 0)"),
    "watching": ("watch a folder of the instructor",
                 "libc = ctypes.CDLL(None)\nif libc.inotify_add_watch(libc.inotify_init(), "
                 "os.path.dirname({file!r}).encode(), 0xFFF) < 0: raise OSError('refused')"),
    "solutions": ("read the library's text", "open({library!r}).read()"),
    "reference": ("import the solution", "from {module} import {name}"),
    "modes": ("change who may read it",
              "os.chmod({file!r}, 0o600)\nif os.stat({file!r}).st_mode & 0o777 != 0o600: "
              "raise OSError('nothing changed')"),
    "times": ("change its times",
              "os.utime({file!r}, (1, 1))\nif os.stat({file!r}).st_mtime != 1: "
              "raise OSError('nothing changed')"),
    "attributes": ("give it an attribute", "os.setxattr({file!r}, 'user.course', b'x')"),
    "owner": ("give it away", "os.chown({file!r}, os.getuid(), os.getgid())"),
    "links": ("give it a second name", "os.link({file!r}, {file!r} + '.link')"),
    "network": ("connect to a port here", "socket.create_connection(('127.0.0.1', {port}), 1)"),
    "datagrams": ("send a message to a socket here",
                  "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0]"
                  ".sendto(b'out', {datagrams!r})"),
    "programs": ("start a program", "os.execv({python!r}, [{python!r}, '-V'])"),
    "processes": ("start processes", "if os.fork() == 0: os._exit(0)"),
    "signals": ("signal the judge", "os.kill({pid}, 0)"),
    "memory": ("take 16 GiB", "mmap.mmap(-1, 1 << 34).close()"),
    "environment": ("read the environment", "os.environ[{variable!r}]"),
    "namespaces": ("gain rights in a namespace of its own",
                   "if ctypes.CDLL(None).unshare(0x10000000): raise OSError('refused')"),
}  # fmt: skip
HELP = {
    "namespaces": "Ubuntu 24.04: sysctl kernel.apparmor_restrict_unprivileged_userns=0; "
    "Docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined",
    "landlock": "Linux 5.13 or newer, with landlock in /sys/kernel/security/lsm",
}
MEANS = {
    "namespaces": "namespaces, Landlock, seccomp and resource limits: the strongest there is here",
    "landlock": "Landlock, seccomp and resource limits: no exercises with several ranks",
}


def run(args) -> int:
    """Print the tier and what each probe met; exit status 1 when something is open."""
    report = examine_machine()
    if getattr(args, "json", False):
        print(json.dumps(report, indent=1))
    else:
        print(format_report(report))
    return 0 if report["tier"] and all(p["held"] for p in report["probes"]) else 1


def examine_machine() -> dict:
    """The tier, why a better one could not be had, and the probes' results."""
    try:
        workers = ZygoteClient(spares=False)
    except ZygoteError as problem:
        return {"tier": "", "refused": {"all": str(problem)}, "notes": [], "probes": []}
    try:
        found = attack_workers(workers)
    finally:
        workers.close()
    return {
        "tier": workers.tier,
        "refused": workers.refused,
        "notes": workers.notes,
        "probes": found,
    }


def attack_workers(workers: ZygoteClient) -> list[dict]:
    """Each probe's name, what it tries, whether it was held, and what it met."""
    with _make_targets() as prey:
        return [
            _try_probe(workers, name, what, code.format(**prey))
            for name, (what, code) in PROBES.items()
        ]


@contextmanager
def _make_targets() -> Iterator[dict]:
    """Things of this process that no worker may reach."""
    card = next(e for e in exercises().values() if "." not in e.path)
    library = Path(sys.modules[__package__].__file__).parents[2] / "course_lib"
    variable = "COURSE_DOCTOR"
    os.environ[variable] = "secret"
    try:
        # not in /tmp, where a worker has a folder of its own
        where = "/var/tmp" if os.access("/var/tmp", os.W_OK) else None
        with (
            tempfile.TemporaryDirectory(dir=where) as folder,
            tempfile.NamedTemporaryFile(dir=folder) as file,
            socket.create_server(("127.0.0.1", 0)) as port,
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as datagrams,
        ):
            datagrams.bind(f"{folder}/datagrams")
            for path, mode in ((folder, 0o777), (file.name, 0o666), (f"{folder}/datagrams", 0o666)):
                os.chmod(path, mode)
            yield dict(
                datagrams=f"{folder}/datagrams",
                file=file.name,
                library=str(library / "gpt.py"),
                module=card.module,
                name=card.name,
                port=port.getsockname()[1],
                python=sys.executable,
                pid=os.getpid(),
                variable=variable,
            )
    finally:
        os.environ.pop(variable)


def _try_probe(workers: ZygoteClient, name: str, what: str, code: str) -> dict:
    card = next(e for e in exercises().values() if "." not in e.path)
    source = "import ctypes, mmap, os, socket\ndef " + card.name + "():\n"
    source += textwrap.indent(code + "\nreturn 'reached'", "    ")
    worker = workers.spawn_worker()
    try:
        subject = RemoteSubject(worker, budget_s=10, call_s=10)
        subject.prepare(worker_card(card), "")
        subject.start(source)
        met = subject.call()
    except AnswerError as refused:
        met = str(refused)
    except (WorkerLost, OutOfTime) as gone:
        met = f"{type(gone).__name__}: {gone}"
    finally:
        worker.close()
    return {"name": name, "tries": f"to {what}", "held": met != "reached", "met": str(met)[:100]}


def format_report(report: dict) -> str:
    """The report as lines, in the manner of `course doctor`."""
    tier = report["tier"]
    lines = [f"tier    {tier or 'none'}: {MEANS.get(tier, 'answers cannot be confined here')}"]
    for refused, why in report["refused"].items():
        lines += [f"no      {refused}: {why}"]
        lines += [f"{'':<8}-> {HELP[refused]}"] if refused in HELP else []
    lines += [f"note    {note}" for note in report["notes"]]
    for probe in report["probes"]:
        state = "held" if probe["held"] else "OPEN"
        lines.append(f"{state:<8}{probe['name']:<12} {probe['tries']}: {probe['met']}")
    return "\n".join(lines)
