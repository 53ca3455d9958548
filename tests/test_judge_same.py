"""Equal answers of a class: found under other names, with the partners, and never in short ones."""

import itertools
import json
import random
import re

import pytest

from course_lib.lab.registry import exercise, exercises
from grader.course import ROOT
from grader.judge import sameness
from grader.judge.batch import find_jobs, grade_in_processes
from grader.judge.grade import GRADED, ExerciseResult, Result
from grader.judge.judge_process import Options
from grader.judge.prints import FEWEST, SHARE, compute_share, find_prints, is_published
from grader.judge.sameness import Partners
from grader.judge.store import Store, read_results
from tests.answers import answers
from tests.course import solved

LONG = "flash-backward"
FAKE = Options(judge="tests.judges:Fake")


COPIES = {  # right answers kept here that are another one, a line or a name changed
    ("gpt-forward", "in one loop"),
    ("adamw-step", "in plain steps again"),
    ("param-groups", "in plain steps again"),
    ("flash-forward", "in plain steps once more"),
    ("flash-backward", "in plain steps once more"),
}


def right(about: str) -> list[str]:
    return [a.text for a in answers(about) if a.code is None and (about, a.name) not in COPIES]


def prints(about: str, text: str) -> tuple[int, ...]:
    return find_prints(text, exercise(about).stub)


def disguised(text: str) -> str:
    """The same with other names for what is its own, comments, blank lines and a docstring."""
    names = set(re.findall(r"^ +(\w+) = ", text, re.M)) - {"self"}
    for i, name in enumerate(sorted(names)):
        text = re.sub(rf"(?<![\w.]){name}\b(?!=)", f"other_{i}", text)
    return "# my own work\n\n" + text.replace("\n    ", "\n\n    # a thought\n    ", 3)


def test_names_comments_and_spacing_hide_nothing():
    text = right(LONG)[0]
    other = disguised(text)
    assert other != text and "other_3" in other
    assert compute_share(prints(LONG, text), prints(LONG, other)) > SHARE


def test_one_changed_line_hides_nothing_and_another_way_is_another_answer():
    text = solved("train-step")
    more = text.replace("return {", "print('done')\n        return {")
    assert more != text
    assert compute_share(prints("train-step", text), prints("train-step", more)) > SHARE
    for one, other in itertools.combinations(right(LONG), 2):
        assert compute_share(prints(LONG, one), prints(LONG, other)) < SHARE


def test_answers_that_were_written_apart_are_not_called_the_same():
    """Of all right answers kept here, but those that are the solution itself; the most that two share
    is what the docstring of SHARE says."""
    most = 0.0
    for about in exercises():
        kept = [prints(about, text) for text in right(about)]
        kept = [found for found in kept if not is_published(exercise(about), found)]
        shares = [compute_share(one, other) for one, other in itertools.combinations(kept, 2)]
        most = max(most, *shares, 0.0)
    assert round(most, 2) <= 0.77 < SHARE


def test_a_short_answer_is_nobodys():
    for about in ("rotate-half", "swiglu", "bytes", "mfu", "fsdp-policy", "ddp-no-sync"):
        found = prints(about, solved(about))
        assert len(found) < FEWEST and not is_published(exercise(about), found)
    assert find_prints("def broken(") == find_prints("") == ()


def test_the_published_solution_is_known_in_disguise():
    for about in exercises():
        text = solved(about)
        found = prints(about, text)
        assert is_published(exercise(about), found) == (len(found) >= FEWEST), about
    assert is_published(exercise(LONG), prints(LONG, disguised(solved(LONG))))
    assert not any(is_published(exercise(LONG), prints(LONG, t)) for t in right(LONG))


def result(notebook: str, text: str) -> Result:
    row = ExerciseResult("PASS", 3, 3, "PASS", "", prints=prints(LONG, text))
    return Result(notebook, GRADED, "16_flash_attention", exercises={LONG: row})


def test_partners_are_named_and_no_point_is_taken():
    one, other = right(LONG)[:2]
    class_ = [result("ada", one), result("ben", disguised(one)), result("cleo", other),
              result("dan", one), result("eve", "x = 1")]  # fmt: skip
    partners = Partners(class_)
    marked = {r.notebook: partners.mark(r) for r in class_}
    assert marked["ada"].notes == (f"{LONG}: as in ben, dan",)
    assert marked["ben"].notes == (f"{LONG}: as in ada, dan",)
    assert {n: r.exercises[LONG].flags for n, r in marked.items()} == {
        "ada": ("SAME",), "ben": ("SAME",), "dan": ("SAME",), "cleo": (), "eve": ()}  # fmt: skip
    assert all(r.score == 3 and not r.exercises[LONG].prints for r in marked.values())


def test_the_order_of_a_class_does_not_count_and_many_partners_are_counted():
    one = right(LONG)[0]
    class_ = [result(f"s{i:02}", one if i % 2 else disguised(one)) for i in range(20)]
    sayings = set()
    for seed in range(3):
        shuffled = random.Random(seed).sample(class_, len(class_))
        partners = Partners(shuffled)
        sayings.add(tuple(partners.mark(r).notes for r in class_))
    ((first, *_),) = sayings
    assert first == (f"{LONG}: as in s01, s02, s03, s04, s05 and 14 more",)


def test_all_pairs_are_found_that_looking_at_each_would_find():
    """The short cut over the rarest hashes, against every pair."""
    draw = random.Random(5)
    base = draw.sample(range(10**6), 60)
    found = set()
    for _ in range(60):
        kept = draw.sample(base, draw.randint(48, 60))
        found.add(tuple(sorted([*kept, *draw.sample(range(10**6, 10**7), draw.randint(0, 9))])))
    near = sameness._find_near(found)
    pairs = {(a, b) for a in found for b in found if a != b and compute_share(a, b) >= SHARE}
    assert pairs == {(a, b) for a, others in near.items() for b in others} and len(pairs) > 10


def write(path, view: str, source: str | None = None) -> None:
    nb = json.loads((ROOT / view / "16_flash_attention.ipynb").read_text(encoding="utf-8"))
    if source is not None:
        next(c for c in nb["cells"] if c.get("id") == LONG)["source"] = source
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(nb))


@pytest.fixture
def handed_in(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # the judge's process imports tests.judges
    one, other = right(LONG)[:2]
    texts = {"ada": one, "ben": disguised(one), "cleo": other, "dan": one, "solver": None}
    paths = []
    for student, text in texts.items():
        paths.append(tmp_path / student / "16_flash_attention.ipynb")
        write(paths[-1], "solutions", text)
    return paths


def flagged(results) -> dict[str, tuple]:
    return {r.notebook.split("/")[-2]: (r.exercises[LONG].flags, r.notes) for r in results}


def grade_all(paths, out) -> None:
    with Store(out, seed=3) as store:
        for _ in grade_in_processes(find_jobs(paths, store, FAKE), store, FAKE, workers=1):
            pass


def test_grading_in_parts_and_again_says_the_same(handed_in, tmp_path):
    grade_all(handed_in, tmp_path / "at_once.jsonl")
    at_once = flagged(read_results(tmp_path / "at_once.jsonl"))
    for paths in (handed_in[2:], handed_in[:1], handed_in, handed_in):
        grade_all(paths, tmp_path / "in_parts.jsonl")
    assert flagged(read_results(tmp_path / "in_parts.jsonl")) == at_once
    with Store(tmp_path / "in_parts.jsonl", seed=3) as store:
        assert flagged(store.read_marked(map(str, handed_in))) == at_once
    assert [bool(flags) for flags, _ in at_once.values()] == [True, True, False, True, True]
    assert at_once["cleo"][0] == ()
    ben, dan = (str(handed_in[i]) for i in (1, 3))
    assert f"{LONG}: as in {ben}, {dan}" in at_once["ada"][1]
    assert f"{LONG}: as in the published solution" in at_once["solver"][1]
