"""`course doctor --sandbox` attacks the confinement, and tells what held from what did not."""

import json
from argparse import Namespace

import pytest

from grader import cli
from grader.judge import sandbox
from grader.judge.zygote_client import ZygoteError
from tests.confined import probe, variant

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
