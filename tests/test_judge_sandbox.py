"""`course doctor --sandbox` attacks the confinement, and tells what held from what did not."""

import functools
import json
import re
import subprocess
import sys
import tempfile
from argparse import Namespace
from pathlib import Path

import pytest

from grader import cli
from grader.course import ROOT
from grader.judge import batch, judge_process, sandbox, seccomp
from grader.judge.zygote_client import ZygoteError
from tests.confined import probe, variant

RENAMED = {"fstatat": "newfstatat"}
OPEN = {
    "landlock": {"files", "gradebook", "solutions"},
    "seccomp": {"processes"},
    "erasure": {"reference"},
    "limits": {"memory"},
}


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_everything_is_held(tier):
    found = sandbox.attack_workers(variant(tier=tier))
    assert [p["name"] for p in found if not p["held"]] == []
    assert {p["name"] for p in found} == set(sandbox.PROBES)


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_an_instructors_own_files_are_held_too(tier):
    """A worker that keeps its user, as an ordinary instructor's does, owns what it attacks."""
    found = sandbox.attack_workers(variant(tier=tier, without="uid"))
    assert [p["name"] for p in found if not p["held"]] == []


TRIES = """
import os
BOOK, OTHER, COURSE = {book!r}, {other!r}, {course!r}
TRIES = [
    lambda: os.chmod(BOOK, 0o777), lambda: os.chmod(OTHER, 0), lambda: os.chmod(COURSE, 0o777),
    lambda: os.chown(BOOK, os.getuid(), os.getgid()), lambda: os.utime(BOOK, (1, 1)),
    lambda: os.setxattr(BOOK, "user.course", b"x"), lambda: os.link(BOOK, BOOK + ".link"),
    lambda: os.rename(OTHER, OTHER + ".gone"), lambda: os.remove(BOOK), lambda: os.rmdir(OTHER),
    lambda: os.truncate(BOOK, 0), lambda: os.open(BOOK, os.O_RDONLY | os.O_TRUNC),
    lambda: os.symlink(BOOK, OTHER + "/link"), lambda: os.mkdir(OTHER + "/more"),
    lambda: __import__("fcntl").ioctl(os.open(BOOK, 3), 0x40087602, bytes([7, 0, 0, 0, 0, 0, 0, 0])),
]
for attempt in TRIES:
    try:
        attempt()
    except OSError:
        pass
"""


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_a_class_is_as_it_was_when_an_answer_has_tried_all_it_can(tier, monkeypatch, capsys):
    """A student whose name comes first goes for the gradebook and for the next student's folder."""
    variant(tier=tier)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    if tier == "landlock":
        options = functools.partial(judge_process.Options, "tests.judges:landlock")
        monkeypatch.setattr(batch, "Options", options)
    # not under /tmp, where a worker has a folder of its own
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        course, solved = Path(folder), ROOT / "solutions/01_rmsnorm.ipynb"
        book, other = course / "gradebook.db", course / "class/zoe"
        book.write_text("grades")
        nb = json.loads(solved.read_text(encoding="utf-8"))
        cell = next(one for one in nb["cells"] if one.get("id") == "rmsnorm")
        tries = TRIES.format(book=str(book), other=str(other), course=str(course))
        cell["source"] = tries + "".join(cell["source"])
        for student, text in (("adam", json.dumps(nb)), ("zoe", solved.read_text("utf-8"))):
            (course / "class" / student).mkdir(parents=True)
            (course / "class" / student / solved.name).write_text(text, encoding="utf-8")
        for path in (course, *course.rglob("*")):  # to root's workers, which are nobody, too
            path.chmod(0o777 if path.is_dir() else 0o666)
        before = state(course)
        with tempfile.TemporaryDirectory() as results:
            out = ["--out", f"{results}/grades.jsonl", "--json", "--workers", "1"]
            assert cli.main(["grade", str(course / "class"), *out]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        assert [(row["tier"], row["score"], row["max_score"]) for row in rows] == [(tier, 2, 2)] * 2
        assert state(course) == before


def state(folder: Path) -> dict:
    """What can be seen of each file, the time of its last change of any kind included."""
    found = {path: path.lstat() for path in (folder, *folder.rglob("*"))}
    return {
        path: (it.st_mode, it.st_uid, it.st_nlink, it.st_size, it.st_mtime_ns, it.st_ctime_ns)
        for path, it in found.items()
    }


OLD_KERNEL = """
import os, sys
from grader.judge import landlock, seccomp
landlock.version = lambda: 1  # Linux 5.13 to 5.18, of which Ubuntu 22.04 has one
folder, file = sys.argv[1:]
landlock.restrict_process([(folder, landlock.READ)], network=False)
seccomp.install_filter()
for attack in (
    lambda: os.open(file, os.O_RDONLY | os.O_TRUNC),
    lambda: os.open(file, 3 | os.O_TRUNC),
    lambda: os.open(f"{folder}/read", os.O_RDONLY | os.O_TRUNC),
    lambda: os.truncate(file, 0),
):
    try:
        attack()
    except PermissionError:
        continue
    sys.exit("it went through")
os.read(os.open(f"{folder}/read", os.O_RDONLY), 1)
"""


def test_a_landlock_that_knows_of_no_truncation_is_not_relied_on(tmp_path):
    """Versions 1 and 2 let a worker empty what it may only read, and what it may not even read."""
    folder, file = tmp_path / "readable", tmp_path / "gradebook.db"
    folder.mkdir()
    for path in (file, folder / "read"):
        path.write_text("grades")
    command = [sys.executable, "-c", OLD_KERNEL, str(folder), str(file)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert file.read_text() == (folder / "read").read_text() == "grades"


def test_the_numbers_of_calls_are_those_of_this_kernel():
    """A number that is mistyped would let another call through."""
    listed = seccomp.NEEDED | seccomp.FOR_RANKS | seccomp.PROCESSES | seccomp.SPECIAL
    for header, column in (("asm/unistd_64.h", 0), ("asm-generic/unistd.h", 1)):
        found = [path for path in Path("/usr/include").glob(f"**/{header}") if path.is_file()]
        if not found:
            pytest.skip(f"no {header} here")
        lines = re.findall(r"#define __NR(?:3264)?_(\w+)\s+(\d+)", found[0].read_text())
        known = {RENAMED.get(name, name): int(number) for name, number in lines}
        wrong = {
            name: n[column] for name, n in listed.items() if known.get(name, n[column]) != n[column]
        }
        assert not wrong and len(known) > 250, (header, wrong)


def test_what_an_answer_may_do_with_files_of_its_own_goes_on():
    """Refused modes and times stop nobody: shutil.copy2 and touch go through."""
    source = (
        "def training_state_bytes(n):\n    import os, shutil, tempfile, pathlib, socket\n"
        "    folder = pathlib.Path(tempfile.mkdtemp())\n    one = folder / 'one'\n"
        "    one.write_text('x')\n    one.touch()\n    one.chmod(0o600)\n"
        "    shutil.copy2(one, folder / 'two')\n    os.replace(folder / 'two', folder / 'three')\n"
        "    a, b = socket.socketpair()\n    a.send(b'y')\n    assert b.recv(1) == b'y'\n"
        "    return len(list(folder.iterdir()))\n"
    )
    assert probe(source, over=variant(tier="namespaces")) == 2


@pytest.mark.parametrize("name", OPEN)
def test_a_missing_defence_shows(name):
    found = sandbox.attack_workers(variant(tier="namespaces", without=name))
    assert OPEN[name] <= {p["name"] for p in found if not p["held"]}


def test_without_any_tier_the_report_says_why_and_the_status_is_1(monkeypatch, capsys):
    def refuse(**options):
        raise ZygoteError("landlock: this kernel has no Landlock")

    monkeypatch.setattr(sandbox, "ZygoteClient", refuse)
    assert cli.main(["doctor", "--sandbox"]) == 1
    out = capsys.readouterr().out
    assert "cannot be confined here" in out and "no Landlock" in out
    assert sandbox.run(Namespace(json=True)) == 1
    assert json.loads(capsys.readouterr().out)["tier"] == ""


def test_the_report_names_the_tier_and_what_to_do():
    said = sandbox.format_report(
        {
            "tier": "landlock",
            "refused": {"namespaces": "cannot unshare"},
            "notes": ["a note"],
            "probes": [{"name": "files", "tries": "to read", "held": False, "met": "reached"}],
        }
    )
    assert said.startswith("tier    landlock") and "-> Ubuntu" in said and "a note" in said
    assert "OPEN    files" in said
