"""Grading a class: rows for everything, a store that survives kills, workers that may die."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from grader.cli import main
from grader.course import ROOT
from grader.judge import batch, cluster, store
from grader.judge.grade import grade_submission, result_from_json
from grader.judge.judge_process import Options
from grader.judge.store import Store
from grader.judge.submission import read_submission
from tests.judges import Fake

FAKE = "tests.judges:Fake"


@pytest.fixture(autouse=True)
def reachable(monkeypatch, tmp_path):
    """Hands are started without the current folder on their path, so tests must be named."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "asked"))
    monkeypatch.setattr(batch, "Options", lambda **given: Options(**{"judge": FAKE, **given}))
    monkeypatch.setattr(
        store, "environment_digest", lambda: "the same"
    )  # while files here are edited
    monkeypatch.chdir(tmp_path)


def notebook(word: str = "", view: str = "solutions", lesson: str = "02_rope") -> bytes:
    """The solved notebook with `word` as a comment in its answer to rotate-half."""
    nb = json.loads((ROOT / view / f"{lesson}.ipynb").read_text(encoding="utf-8"))
    cell = next(c for c in nb["cells"] if c.get("id") == "rotate-half")
    cell["source"] = "".join(cell["source"]) + f"\n# {word}"
    return json.dumps(nb).encode()


def write_class(folder, words) -> None:
    for number, word in enumerate(words):
        path = folder / f"s{number:03}" / "02_rope.ipynb"
        path.parent.mkdir(parents=True)
        path.write_bytes(notebook(word))


def asked(tmp_path) -> int:
    log = tmp_path / "asked"
    return len(log.read_text().splitlines()) if log.exists() else 0


def results() -> dict[str, dict]:
    return {result.notebook: result.json() for result in store.read_results(Path("grades.jsonl"))}


def test_the_environment_is_part_of_the_key(monkeypatch):
    made = {"lesson": None, "seed": 1, "options": Options()}
    keys = {
        store.cache_key(b"a", **made),
        store.cache_key(b"b", **made),
        store.cache_key(b"a", **made | {"seed": 2}),
    }
    keys.add(store.cache_key(b"a", **made | {"options": Options(unsafe=True)}))
    monkeypatch.setattr(store, "environment_digest", lambda: "another")
    assert len(keys | {store.cache_key(b"a", **made)}) == 5


def test_one_submission_through_a_judge():
    result = grade_submission(read_submission(notebook("WRONG"), name="a.ipynb"), Fake(), 7)
    assert (result.status, result.score, result.max_score) == ("graded", 4, 5)
    first = result.exercises["rotate-half"]
    assert (first.verdict, first.points, first.code, first.flags) == ("WRONG", 0, "SIGN", ("SLOW",))
    assert result.exercises["apply-rope"].verdict == "PASS" and result.tier == "fake"
    values = json.loads(json.dumps(result.json()))
    assert result_from_json(values) == result
    assert {"notebook", "status", "score", "max_score", "exercises", "tier", "seconds"} <= set(
        values
    )


def test_a_broken_judge_costs_a_row_not_the_class():
    result = grade_submission(read_submission(notebook("RAISE")), Fake(), 7)
    assert result.failed and result.exercises["rotate-half"].verdict == "UNGRADABLE"
    assert "RuntimeError" in result.exercises["rotate-half"].person
    assert result.exercises["apply-rope"].verdict == "PASS"


def test_what_is_missing_or_unreadable_is_a_row():
    result = grade_submission(read_submission(b"no", name="x"), Fake(), 7)
    assert (result.status, result.reason) == ("ungradable", "its text is not JSON")
    nb = json.loads(notebook())
    nb["cells"] = [c for c in nb["cells"] if c.get("id") != "rotate-half"]
    row = grade_submission(read_submission(json.dumps(nb).encode()), Fake(), 7).exercises[
        "rotate-half"
    ]
    assert (row.verdict, row.points, row.max_points) == ("UNGRADABLE", None, 1) and row.person


def test_a_class_by_the_command(tmp_path, capsys):
    write_class(tmp_path / "class", ["", "WRONG", "PERSON", ""])
    (tmp_path / "class/s001/.ipynb_checkpoints").mkdir()
    (tmp_path / "class/s001/.ipynb_checkpoints/02_rope.ipynb").write_text("old")
    assert main(["grade", "class", "--json", "--workers", "2"]) == 1, "one is undecided"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["notebook"] for line in lines] == [f"class/s00{i}/02_rope.ipynb" for i in range(4)]
    assert [line["score"] for line in lines] == [5, 4, 4, 5]
    assert asked(tmp_path) == 9, "the two equal notebooks are graded once"

    (tmp_path / "class/broken.ipynb").write_text("no")
    (tmp_path / "class/s001/02_rope.ipynb").write_bytes(notebook("better"))
    assert main(["grade", "class", "--workers", "1"]) == 2
    said = capsys.readouterr().out
    assert "ungradable: its text is not JSON" in said and "5 notebooks, 1 ungradable" in said
    assert asked(tmp_path) == 12, "only the changed notebook is graded again"
    assert results()["class/s001/02_rope.ipynb"]["score"] == 5


def test_nobody_vanishes(tmp_path, capsys, monkeypatch):
    """Every file has a row, or is counted with its kind."""
    scan = os.scandir

    def refuse_closed(path):  # as the kernel does, but to root
        if not os.stat(path).st_mode & 0o400:
            raise PermissionError(13, "Permission denied", path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse_closed)
    write_class(tmp_path / "class", ["", ""])
    names = ["s2/02_ROPE.IPYNB", ".s3/02_rope.ipynb", "s4/.hidden/02_rope.ipynb", "s5/02_rope.ipynb.txt",
             "s6/x.ipynb/02_rope.ipynb", "s7/01_rmsnorm.ipynb"]  # fmt: skip
    for name in names:
        path = tmp_path / "class" / name
        path.parent.mkdir(parents=True)
        path.write_bytes(notebook(name))
    for name in ("s8/rope.py", "s8/notes/a.csv", "s9/b.csv", "s2/._02_rope.ipynb", "README"):
        path = tmp_path / "class" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (tmp_path / "class/s10").symlink_to(tmp_path / "class/s000")
    (tmp_path / "class/s11").mkdir(0)
    (tmp_path / "class/s12").mkdir()
    try:
        assert main(["grade", "class", "--workers", "2"]) == 2
    finally:
        (tmp_path / "class/s11").chmod(0o700)
    said, found = capsys.readouterr().err, results()
    graded = {f"class/{name}" for name in [*names, "s000/02_rope.ipynb", "s001/02_rope.ipynb"]}
    assert {name for name, row in found.items() if row["status"] == "graded"} == graded
    reasons = {name: row["reason"] for name, row in found.items() if row["status"] != "graded"}
    folders = ("s6/x.ipynb", "s8", "s9", "s10", "s11", "s12")
    assert reasons.keys() == {f"class/{one}" for one in folders}
    assert "link" in reasons["class/s10"] and "b.csv" in reasons["class/s9"]
    assert "2 .csv" in said and "1 .py" in said and "1 without extension" in said
    assert found["class/s7/01_rmsnorm.ipynb"]["notes"] == (
        "it is called 01_rmsnorm, and its cells are of 02_rope",
    )


def test_what_cannot_be_graded_here_has_no_points_and_is_no_cached_verdict(tmp_path, capsys):
    write_class(tmp_path / "class", ["RANKS", "WRONG"])
    assert main(["grade", "class", "--workers", "1"]) == 1
    said = capsys.readouterr().out
    assert "4+?/5" in said and "1 exercises without a decision" in said
    row = results()["class/s000/02_rope.ipynb"]["exercises"]["rotate-half"]
    assert (row["verdict"], row["points"], row["max_points"]) == ("UNGRADABLE", None, 1)
    before = asked(tmp_path)
    assert main(["grade", "class", "--workers", "1"]) == 1
    assert asked(tmp_path) == before + 3, "another machine, or another day, may decide it"


def delete_answer(data: bytes) -> bytes:
    """The notebook without its first answer."""
    nb = json.loads(data)
    nb["cells"] = [c for c in nb["cells"] if c.get("id") != "rotate-half"]
    return json.dumps(nb).encode()


@pytest.mark.parametrize("word, why", [
    ("", "rotate-half: no cell"),
    ("RANKS", "needs 4 ranks"),
    ("RAISE", "the judge failed with RuntimeError"),
    ("BROKEN", "the check itself failed"),
    ("PERSON", "odd output"),
])  # fmt: skip
def test_status_summary_and_table_agree_on_what_has_no_points(tmp_path, capsys, word, why):
    """Whoever's cell is empty in grades.csv is counted, named, and makes the exit status 1."""
    write_class(tmp_path / "class", ["", word])
    file = tmp_path / "class/s001/02_rope.ipynb"
    if not word:
        file.write_bytes(delete_answer(file.read_bytes()))
    for again in range(2):
        before = asked(tmp_path)
        assert main(["grade", "class", "--workers", "1"]) == 1
        said = capsys.readouterr().out
        assert "1 exercises without a decision" in said and "4+?/5" in said
        named = said.partition("without points until a person decides:\n")[2]
        assert named.startswith("  class/s001/02_rope.ipynb: ") and why in named
        assert not again or (asked(tmp_path) > before) == (word in ("RANKS", "RAISE"))
    row = results()["class/s001/02_rope.ipynb"]
    assert (row["exercises"]["rotate-half"]["points"], row["undecided"]) == (None, 1)
    assert main(["report"]) == 0
    lines = Path("grades.csv").read_text(encoding="utf-8-sig").splitlines()
    assert [line.split(",")[5:] for line in lines[1:]] == [["5", "5"], ["", ""]]
    capsys.readouterr()
    assert main(["grade", "class", "--workers", "1", "--json"]) == 1
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2 and "class/s001/02_rope.ipynb: rotate-half" in err


def test_what_is_gone_from_the_folder_is_kept_and_counts_no_longer(tmp_path, capsys):
    write_class(tmp_path / "class", ["", "WRONG", "PERSON", "WRONG 2"])
    (tmp_path / "class/new").mkdir()
    assert main(["grade", "class", "--workers", "1"]) == 2, "a student has handed nothing in"
    before = (tmp_path / "grades.jsonl").read_bytes()

    (tmp_path / "class/new/02_rope.ipynb").write_bytes(notebook("late"))
    (tmp_path / "class/s001/02_rope.ipynb").rename(tmp_path / "class/s001/again.ipynb")
    (tmp_path / "class/s002/02_rope.ipynb").rename(tmp_path / "kept")
    (tmp_path / "class/s002").rmdir()
    capsys.readouterr()
    assert main(["grade", "class", "--workers", "1"]) == 0
    said = capsys.readouterr()
    assert "4 notebooks, 0 ungradable" in said.out
    assert said.err == (
        "course grade: no longer in the folder, so not counted, and kept in grades.jsonl: "
        "class/s001/02_rope.ipynb, class/s002/02_rope.ipynb\n"
    )
    assert (tmp_path / "grades.jsonl").read_bytes().startswith(before), "nothing is taken away"
    assert main(["grade", "class", "--workers", "1"]) == 0
    assert "no longer" not in capsys.readouterr().err, "it is said once"

    def report() -> tuple[dict, str]:
        assert main(["report", "--feedback", "pages"]) == 0
        lines = Path("grades.csv").read_text(encoding="utf-8-sig").splitlines()
        points = {line.split(",")[0]: line.split(",")[5] for line in lines[1:]}
        return points, Path("report.html").read_text()

    points, page = report()
    assert points == {"new": "5", "s000": "5", "s001": "4", "s003": "4"}
    assert "4 notebooks of 4 students" in page and page.count("class/s002/02_rope.ipynb") == 1
    assert "No longer in the folder" in page and "it is a folder" not in page
    assert "More than one notebook" not in page, "one that is gone has no better one beside it"
    assert "4 students, median 4.5" in page and not (tmp_path / "pages/s002.html").exists()
    assert "Other files" not in (tmp_path / "pages/new.html").read_text()

    (tmp_path / "class/s002").mkdir()
    (tmp_path / "kept").rename(tmp_path / "class/s002/02_rope.ipynb")
    count = asked(tmp_path)
    assert main(["grade", "class", "--workers", "1"]) == 1, "it is back, and as undecided as before"
    assert asked(tmp_path) == count and report()[0]["s002"] == ""


def test_rows_stay_where_nobody_looked(tmp_path, monkeypatch, capsys):
    """Another folder, another place to start from, a folder that cannot be read: nothing is gone."""
    write_class(tmp_path / "class", [""])
    write_class(tmp_path / "other/class", ["WRONG"])
    write_class(tmp_path / "other/more", ["PERSON"])
    out = ["--workers", "1", "--out", str(tmp_path / "grades.jsonl")]
    main(["grade", "class", *out])
    monkeypatch.chdir(tmp_path / "other")
    main(["grade", "more", *out])
    (tmp_path / "other/class/s000").rename(tmp_path / "other/class/s001")
    main(["grade", "class", *out])
    assert "no longer" not in capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert not [one for one in store.read_results(tmp_path / "grades.jsonl") if one.gone]
    lstat = Path.lstat

    def refuse_closed(path):  # as the kernel does, but to root
        if path.parent.name == "s000":
            raise PermissionError(13, "Permission denied", str(path))
        return lstat(path)

    (tmp_path / "class/s000/02_rope.ipynb").unlink()
    monkeypatch.setattr(Path, "lstat", refuse_closed)
    main(["grade", "class", *out])
    assert "no longer" not in capsys.readouterr().err


def test_errors_say_what_to_do(tmp_path, capsys, monkeypatch):
    assert main(["grade", "nowhere"]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "empty").mkdir()
    assert main(["grade", "empty"]) == 2
    assert "no notebook" in capsys.readouterr().err
    write_class(tmp_path / "class", [""])
    assert main(["grade", "class", "--out", "class/s000/02_rope.ipynb"]) == 2
    assert "no results file" in capsys.readouterr().err
    assert (tmp_path / "class/s000/02_rope.ipynb").read_bytes() == notebook(""), "left as it was"
    with Store(tmp_path / "grades.jsonl"):
        assert main(["grade", "class"]) == 2
    assert "in use" in capsys.readouterr().err
    refusing = {"judge": "tests.judges:Refusing"}
    monkeypatch.setattr(batch, "Options", lambda **given: Options(**refusing, **given))
    assert main(["grade", "class"]) == 2
    assert "no sandbox on this machine" in capsys.readouterr().err
    assert main(["grade", "class", "--unsafe"]) == 0
    assert "without a sandbox" in capsys.readouterr().err
    monkeypatch.setattr(batch, "Options", lambda **given: Options(judge="tests.judges:None"))
    assert main(["grade", "class", "--seed", "5"]) == 2


def test_a_judge_that_dies_is_replaced(tmp_path):
    write_class(tmp_path / "class", ["DIE-ONCE", "", "DIE-ALWAYS", "last"])
    assert main(["grade", "class", "--workers", "2"]) == 2
    found = results()
    assert [found[f"class/s00{i}/02_rope.ipynb"]["score"] for i in (0, 1, 3)] == [5, 5, 5]
    lost = found["class/s002/02_rope.ipynb"]
    assert lost["status"] == "ungradable" and "a person must look" in lost["reason"]
    before = asked(tmp_path)
    assert main(["grade", "class", "--workers", "1"]) == 2, "and it is tried again the next time"
    assert asked(tmp_path) == before + 2 * 2, "twice, as far as the answer that ends the judge"


def test_a_verdict_of_a_clock_is_tried_again_alone_and_never_copied(tmp_path, capsys):
    write_class(tmp_path / "class", ["LATE-ONCE", "LATE-ALWAYS", "", "LATE-ALWAYS"])
    assert main(["grade", "class", "--workers", "2"]) == 0
    said = capsys.readouterr().out
    assert "2 stopped by a clock twice" in said and "TIMEOUT TIMEOUT; CLOCK" in said
    found = [results()[f"class/s00{i}/02_rope.ipynb"] for i in range(4)]
    assert [one["score"] for one in found] == [5, 4, 5, 4]
    assert found[1]["exercises"]["rotate-half"]["flags"] == ("CLOCK",)
    assert asked(tmp_path) == 3 * (4 + 3), "each of the three late ones twice, equal or not"
    last = (tmp_path / "asked").read_text().splitlines()[-9:]
    assert len({line.split()[2] for line in last}) == 1, "one judge alone has the second tries"
    main(["grade", "class", "--workers", "2"])
    assert asked(tmp_path) == 3 * (4 + 3 + 2 + 2), "and they are no cached verdicts"


def test_a_line_cut_short_is_dropped(tmp_path):
    write_class(tmp_path / "class", ["", "WRONG"])
    main(["grade", "class", "--workers", "1"])
    whole = results()
    path = tmp_path / "grades.jsonl"
    data = path.read_bytes()
    for cut in (1, 40, len(data.splitlines()[-1]), len(data) - 3):
        path.write_bytes(data[:-cut])
        main(
            ["grade", "class", "--workers", "1", "--seed", str(next(iter(whole.values()))["seed"])]
        )
        assert stable(results()) == stable(whole)


def stable(found: dict[str, dict]) -> dict:
    """Without what a clock decides."""
    return {
        name: {
            **values,
            "seconds": 0,
            "exercises": {i: {**row, "seconds": 0} for i, row in values["exercises"].items()},
        }
        for name, values in found.items()
    }


PROGRAM = f"""
import sys
from grader.judge import batch, store
from grader.judge.judge_process import Options
store.environment_digest = lambda: "the same"
batch.Options = lambda **given: Options(**{{"judge": {FAKE!r}, **given}})
from grader.cli import main
sys.exit(main(["grade", "class", "--workers", "2"]))
"""


def alive(log) -> list[int]:
    """Hands that the log names and that still run."""
    pids = {int(line.split()[2]) for line in log.read_text().splitlines()} if log.exists() else ()
    return [pid for pid in pids if os.path.exists(f"/proc/{pid}")]


@pytest.mark.skipif(not os.path.exists("/proc/self"), reason="needs /proc to count processes")
def test_kills_lose_nothing_and_grade_nothing_twice(tmp_path):
    write_class(tmp_path / "class", [f"SLEEP {number}" for number in range(240)])
    chance, cut = random.Random(3), 0
    for _ in range(20):
        run = subprocess.Popen(
            [sys.executable, "-c", PROGRAM],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + chance.uniform(0.2, 1.0)
        while run.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        cut += run.poll() is None
        run.send_signal(signal.SIGKILL)
        run.wait()
    assert cut >= 15, "the kills came too late to prove anything"
    log = tmp_path / "asked"
    deadline = time.monotonic() + 10
    while alive(log) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not alive(log), "a judge outlived the one who started it"
    last = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True)
    assert last.returncode == 0, last.stderr.decode()
    kept = [json.loads(line) for line in (tmp_path / "grades.jsonl").read_text().splitlines()[1:]]
    names = [record["result"]["notebook"] for record in kept]
    assert sorted(names) == [f"class/s{i:03}/02_rope.ipynb" for i in range(240)], "one row each"
    found, seed = results(), kept[0]["result"]["seed"]
    os.rename("grades.jsonl", "killed.jsonl")
    main(["grade", "class", "--workers", "2", "--seed", str(seed)])
    assert stable(results()) == stable(found)


def test_without_dask_the_message_says_what_to_install(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    write_class(tmp_path / "class", [""])
    assert main(["grade", "class", "--dask"]) == 2
    assert "pip install distributed" in capsys.readouterr().err


def test_a_cluster_of_two_workers_gives_the_same_results(tmp_path, capsys, monkeypatch):
    distributed = pytest.importorskip("distributed", reason="Dask is not installed")
    monkeypatch.setattr(cluster, "environment_digest", lambda: "the same")
    write_class(tmp_path / "class", ["", "WRONG", "PERSON", "DIE-ALWAYS", *map(str, range(20))])
    main(["grade", "class", "--workers", "1", "--out", "serial.jsonl", "--seed", "9"])
    os.rename("serial.jsonl", "grades.jsonl")
    serial = stable(results())
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as there:
        same = "import grader.judge.cluster as c; c.environment_digest = lambda: 'the same'"
        with distributed.Client(there) as client:
            client.run(exec, same)
        address = there.scheduler_address
        assert (
            main(["grade", "class", "--scheduler", address, "--out", "c.jsonl", "--seed", "9"]) == 2
        )
        os.rename("c.jsonl", "grades.jsonl")
        assert stable(results()) == serial
        with distributed.Client(there) as client:
            client.run(exec, same.replace("the same", "another"))
        assert main(["grade", "class", "--scheduler", address, "--out", "d.jsonl"]) == 2
    assert "another version of the course" in capsys.readouterr().err
    assert not alive(tmp_path / "asked"), "judges are gone with the run"
