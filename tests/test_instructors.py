"""The page for instructors, from the first release to exported grades: every command of it is run.

In the page's order and as it stands there, in a copy of the folders that the page names. Commands
of one block run in one shell, which is where `cd` leads. Only the students' homes are elsewhere.
"""

import json
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pandas
import pytest

from course_lib.checks import suite
from course_lib.lab.registry import exercises
from grader.course import ROOT
from grader.judge.prints import FEWEST, find_prints, read_solution
from tests.confined import shared_client

PAGE = (ROOT / "book/reference/instructors.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)
WATCH = "course grade submissions --watch"
HUB = """c = get_config()
c.CourseDirectory.course_id = "course"
c.Exchange.root = "{exchange}"
"""


class Teaching:
    """The instructor's folder, a student's home, and a shell that goes on where it was."""

    def __init__(self, root: Path):
        self.course, self.student, self.config = (root / name for name in ("course", "ada", "etc"))
        for folder in ("notebooks", "solutions", "grader/source", "grader/templates"):
            shutil.copytree(ROOT / folder, self.course / folder)
        shutil.copy(ROOT / "grader/nbgrader_config.py", self.course / "grader")
        for folder in (self.student, self.config):
            folder.mkdir()
        text = HUB.format(exchange=root / "exchange")
        (self.config / "nbgrader_config.py").write_text(text, encoding="utf-8")
        self.env = os.environ | {
            "HOME": str(root),
            "JUPYTER_CONFIG_DIR": str(self.config),
            "JUPYTER_DATA_DIR": str(root / "data"),
            "COURSE_HOME": str(self.course),
        }
        self.here = self.course

    def run(self, block: str, where: Path | None = None) -> str:
        """What a block of the page prints; the test fails with it when a command does."""
        script = f"set -e\n{block}\npwd > {self.config}/here"
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=where or self.here,
            env=self.env,
            capture_output=True,
            text=True,
            timeout=900,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{block}\n{said[-3000:]}"
        if where is None:
            self.here = Path((self.config / "here").read_text().strip())
        return said

    def watch(self, command: str, lines: int) -> str:
        """What a command prints that only Ctrl-C ends, which comes after some lines."""
        shell = f"trap - INT; exec {command}"
        running = subprocess.Popen(
            ["bash", "-c", shell], cwd=self.here, env=self.env, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )  # fmt: skip
        said = "".join(running.stdout.readline() for _ in range(lines))
        os.killpg(running.pid, signal.SIGINT)
        out, err = running.communicate(timeout=300)
        assert running.returncode == 0, said + err
        return said + out + err


@pytest.fixture(scope="module")
def teaching(tmp_path_factory) -> Teaching:
    shared_client()  # or a skip, where answers cannot be confined
    return Teaching(tmp_path_factory.mktemp("teaching"))


def take(*words: str) -> str:
    """The first block that has all these words and was not taken yet."""
    block = next(one for one in BLOCKS if all(word in one for word in words))
    BLOCKS.remove(block)
    return block


def test_a_class_from_the_first_release_to_exported_grades(teaching):
    said = teaching.run(take("course doctor --sandbox", "trial"))
    assert "2/2" in said and re.search(r"untouched\.ipynb +0/2", said)

    teaching.run(take("generate_assignment", "cd .."))
    released = teaching.course / "grader/release/01_rmsnorm/01_rmsnorm.ipynb"
    assert released.is_file() and teaching.here == teaching.course

    for student, view in (("ada", "solutions"), ("ben", "notebooks")):
        for lesson in ("01_rmsnorm", "02_rope")[: 1 + (student == "ada")]:
            target = teaching.course / "submissions" / student
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / view / f"{lesson}.ipynb", target)
    assert "3 notebooks" in teaching.run(take("course grade submissions\n"))
    assert "ada/01_rmsnorm.ipynb" in teaching.watch(take(WATCH).strip(), lines=3)

    teaching.run(take("course report\n"))
    assert "2 pages of feedback" in teaching.run(take("--feedback feedback"))
    assert {path.name for path in (teaching.course / "feedback").iterdir()} == {
        "ada.html", "ben.html",
    }  # fmt: skip
    table = pandas.read_csv(teaching.course / "grades.csv").set_index("SIS Login ID")
    assert table.loc["ada", ["01_rmsnorm", "02_rope", "Final Points"]].tolist() == [2, 5, 7]
    assert table.loc["ben", ["01_rmsnorm", "Final Points"]].tolist() == [0, 0]

    teaching.run(take("again.jsonl"))
    assert "held" in teaching.run(take("course doctor --sandbox"))
    again = pandas.read_csv(teaching.course / "again.csv").set_index("SIS Login ID")
    assert again.equals(table)


def test_the_same_over_the_exchange_of_a_hub(teaching):
    at_home = teaching.student
    said = teaching.run(take("release_assignment"))
    assert "course 01_rmsnorm" in said
    fetch, submit = take("fetch_assignment").splitlines()
    teaching.run(fetch, at_home)
    teaching.run(submit, at_home)  # as it was handed out

    first = teaching.run(take("nbgrader collect", "autograde 01_rmsnorm\n"))
    assert "Feedback released" in first
    teaching.run(take("fetch_feedback"), at_home)
    (page,) = (at_home / "01_rmsnorm/feedback").rglob("01_rmsnorm.html")
    assert "[STUB]" in page.read_text(encoding="utf-8")
    teaching.run(take("nbgrader export\n"))
    before = pandas.read_csv(teaching.here / "grades.csv")
    assert before[["01_rmsnorm", "Final Points"]].values.tolist() == [[0, 0]]

    shutil.copy(ROOT / "solutions/01_rmsnorm.ipynb", at_home / "01_rmsnorm")
    teaching.run(submit, at_home)
    teaching.run(take("--force", "autograde"))
    after = pandas.read_csv(teaching.here / "grades.csv")
    assert after[["01_rmsnorm", "Final Points"]].values.tolist() == [[2, 2]]
    assert BLOCKS == [], "commands of the page that were not run"


def test_the_page_counts_short_solutions():
    """Those of which `SAME` can say nothing."""
    known = exercises().values()
    short = [card for card in known if len(find_prints(read_solution(card), card.stub)) < FEWEST]
    assert f"{len(short)} of the {len(known)} published solutions" in PAGE


def test_the_page_names_the_lessons_that_need_ranks():
    needed = {card.lesson[:2] for card in exercises().values() if suite(card.id).ranks > 1}
    assert needed == {"11", "12", *map(str, range(19, 25))} and "11, 12 and 19 to 24" in PAGE


def test_the_page_has_the_speeds_of_the_record():
    record = json.loads((ROOT / "benchmarks/results/grading.json").read_text(encoding="utf-8"))
    speeds = [record["figures"][one]["judge_per_min"] for one in ("class", "compute_bound")]
    assert f"graded {speeds[0]:.0f} notebooks a minute" in PAGE and f"and {speeds[1]:.0f} " in PAGE
    medians, known = record["figures"]["one_exercise"]["p50_ms_by_exercise"], exercises().values()
    first, second = (
        sum(medians[card.id] / 1e3 for card in known if card.lesson.startswith(number))
        for number in ("23", "24")
    )
    assert f"{first:.1f} seconds per notebook in lesson 23 and to {second:.1f} in lesson 24" in PAGE
    workers = record["figures"]["class"]["workers"]
    fastest = [60 * workers / seconds for seconds in (first, second)]
    assert workers == 2 and f"at best {fastest[0]:.0f} and {fastest[1]:.0f} such notebooks" in PAGE
    assert f"300 of lesson 23 take about {300 / fastest[0]:.0f} minutes or more" in PAGE
