"""`course doctor --sandbox` attacks the confinement, and tells what held from what did not."""

import json
from argparse import Namespace

import pytest

from grader import cli
from grader.judge import sandbox
from grader.judge.zygote_client import ZygoteError
from tests.confined import variant

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
