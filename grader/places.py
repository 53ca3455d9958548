"""What stands beside a lesson's page: where the lesson is named, and the line to add where it is not.

`course build` prints what `find_missing` finds and fails; `course build --add` and `course
new-lesson` add it. What is inside the page is checked elsewhere (`grader.lesson`).
"""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from string import Template

import yaml

from grader.lesson import ExerciseSource, LessonError, LessonSource, lessons

FILES = Path(__file__).with_name("new_lesson_files")
PLAN_MINUTES = 15  # by how much a plan's day may differ from its lessons
TODO = re.compile(r"\bTODO\b")
WRITTEN_BY_HAND = (
    "_toc.yml book/*.md book/*.yaml book/reference/*.md course_lib/**/*.py tests/answers/*.py "
    "tests/reviews/*.py"
).split()


@dataclass(frozen=True)
class Edit:
    """What a file lacks: `text` after `line`, or `instead` of it; line 0 of a file yet to write."""

    path: str
    line: int
    text: str
    why: str
    instead: bool = False

    def __str__(self) -> str:
        where = "in place of this line" if self.instead else "after this line"
        text = "\n".join(f"    {line}".rstrip() for line in self.text.splitlines())
        return (
            f"{self.path}:{self.line}: {self.why}: write {where if self.line else 'it'}\n\n{text}\n"
        )

    def apply(self, root: Path) -> None:
        """Change the file, or write it."""
        path = root / self.path
        lines = path.read_text(encoding="utf-8").splitlines() if self.line else []
        lines[self.line - self.instead : self.line] = self.text.splitlines()
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def find_missing(root: Path, found: list[LessonSource]) -> list[Edit]:
    """Every line that some file lacks for one of the lessons `found`, in the order to add them."""
    return [edit for look in LOOKS for edit in look(root, found)]


def add_missing(root: Path, found: list[LessonSource]) -> list[Edit]:
    """Make all these edits and return them; a page that one of them changes is read again."""
    made = []
    while missing := find_missing(root, found):
        missing[0].apply(root)
        made.append(missing[0])
        if re.fullmatch(r"book/\d\d_\w+\.md", missing[0].path):
            found = lessons(root)
    return made


def find_todos(root: Path) -> list[str]:
    """`file:line: text` for every TODO that an author has left."""
    return [
        f"{path.relative_to(root)}:{number}: {line.strip()}"
        for pattern in WRITTEN_BY_HAND
        for path in sorted(root.glob(pattern))
        if TODO.search(text := path.read_text(encoding="utf-8"))
        for number, line in enumerate(text.splitlines(), 1)
        if TODO.search(line)
    ]


def fill(name: str, lesson: LessonSource, exercise: ExerciseSource) -> str:
    """One of the files in new_lesson_files, for that exercise."""
    module, _, function = exercise.target.partition(":")
    text = (FILES / f"{name}.txt").read_text(encoding="utf-8")
    return Template(text).substitute(
        name=lesson.name,
        number=lesson.name[:2],
        exercise=exercise.id,
        item=exercise.id.replace("-", "_"),
        code=exercise.id.upper(),
        module=module,
        function=function,
        concept=next(iter(exercise.card["teaches"]), "TODO"),
    )


def _read(root: Path, path: str) -> list[str]:
    if not (root / path).is_file():
        raise LessonError(f"no {path} in {root}: the course does not build without it")
    return (root / path).read_text(encoding="utf-8").splitlines()


def _link(lesson: LessonSource) -> str:
    return f"[{lesson.name[:2]}](../{lesson.name}.md)"


def _neighbor(
    lines: list[str], found: list[LessonSource], lesson: LessonSource, form: str
) -> tuple[int, str]:
    """Number of the last line that has `form` of the nearest lesson before, and that lesson's name."""
    before = [other.name for other in found if other.name < lesson.name]
    for name in reversed(before):
        numbers = [i for i, line in enumerate(lines, 1) if form.format(name) in line]
        if numbers:
            return numbers[-1], name
    raise LessonError(f"{lesson.name}: nothing says where it belongs, since no lesson is before it")


def _contents(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    lines = _read(root, "_toc.yml")
    for lesson in found:
        if not any(line.endswith(f"file: book/{lesson.name}") for line in lines):
            line, name = _neighbor(lines, found, lesson, "file: book/{}")
            text = lines[line - 1].replace(name, lesson.name)
            yield Edit("_toc.yml", line, text, f"the contents lack {lesson.name}")


def _concepts(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    path = "book/concepts.yaml"
    lines = _read(root, path)
    source = yaml.safe_load("\n".join(lines))["concepts"]
    ends = _ends_of_concepts(lines)
    end = max((ends[s] for s, c in source.items() if c and c.get("assumed")), default=0)
    taught = {s for x in found for e in x.exercises.values() for s in e.card["teaches"]}
    for lesson in found:
        own = [s for e in lesson.exercises.values() for s in e.card["teaches"]]
        used = [s for e in lesson.exercises.values() for s in e.card["uses"]]
        for slug in dict.fromkeys(s for s in used if s not in source and s not in taught):
            text = f"  {slug}: {{title: {slug.replace('-', ' ')}, assumed: true}}"
            why = f"{lesson.name} uses the concept {slug}, which no lesson teaches"
            yield Edit(path, end, f"{text}  # TODO: or name an exercise that teaches it", why)
        end = max([end, *(ends[slug] for slug in own if slug in ends)])
        new = list(dict.fromkeys(slug for slug in own if slug not in source))
        if not new:
            continue
        todo = "# TODO: its title, and which concepts it stands on"
        entries = [f"  {s}: {{title: {s.replace('-', ' ')}, requires: []}}  {todo}" for s in new]
        head = [] if set(own) & set(source) else ["", f"  # {lesson.title}"]
        yield Edit(path, end, "\n".join([*head, *entries]), f"{lesson.name} teaches {new}")


def _ends_of_concepts(lines: list[str]) -> dict[str, int]:
    """The last line of each concept's entry."""
    starts = [i for i, line in enumerate(lines, 1) if line and not line.startswith(("   ", "#"))]
    ends: dict[str, int] = {}
    for first, after in pairwise([*starts, len(lines) + 1]):
        if match := re.match(r"  ([\w-]+):", lines[first - 1]):
            own = (i for i in range(first, after) if lines[i - 1].strip())
            ends[match[1]] = max(i for i in own if lines[i - 1].lstrip()[0] != "#")
    return ends


def _milestones(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    path = "book/concepts.yaml"
    lines = _read(root, path)
    milestones = yaml.safe_load("\n".join(lines)).get("milestones", ())
    named = {name for milestone in milestones for name in milestone["lessons"]}
    for lesson in found:
        if lesson.name not in named:
            line, name = _neighbor(lines, found, lesson, "{}")
            text = lines[line - 1].replace(name, f"{name}, {lesson.name}")
            yield Edit(path, line, text, f"no milestone has {lesson.name}", instead=True)


def _study_plan(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    """Both plans: each lesson on a day, with its title, and about the minutes that it takes."""
    path = "book/reference/study_plan.md"
    lines = _read(root, path)
    heads = [i for i, line in enumerate(lines) if line.startswith("## ")] + [len(lines)]
    for first, end in pairwise(heads):
        if lines[first] not in ("## One week", "## In evenings"):
            continue
        rows = lines[first:end]
        for lesson in found:
            link = f"](../{lesson.name}.md)"
            if not any(link in row for row in rows):
                line, name = _neighbor(rows, found, lesson, "](../{}.md)")
                before = f"](../{name}.md)"
                rows[line - 1] = rows[line - 1].replace(before, f"{before}, [{link}")
            rows = [
                re.sub(rf"\[[^\]]*{re.escape(link)}", f"[{lesson.title}{link}", r) for r in rows
            ]
        for number, row in enumerate(rows, first + 1):
            text = _with_minutes(row, found) if re.match(r"\| [\ds]", row) else row
            if text != lines[number - 1]:
                why = f"a lesson, its title or its minutes differ under {lines[first][3:]!r}"
                yield Edit(path, number, text, why, instead=True)


def _with_minutes(row: str, found: list[LessonSource]) -> str:
    """The row of a plan with the minutes of the lessons that it links, or of all in the last.

    In tens, and the ones that stand there stay while they are right by the plan's own measure, or
    each word that an author adds would change it.
    """
    day, text, stated = (cell.strip() for cell in row.strip("|").split("|"))
    if day == "sum":
        text = f"{len(found)} lessons"
    chosen = [x for x in found if day == "sum" or f"../{x.name}.md" in text]
    minutes = sum(lesson.minutes for lesson in chosen)
    if not stated.isdecimal() or abs(int(stated) - minutes) > max(PLAN_MINUTES, minutes / 20):
        stated = str(10 * round(minutes / 10))
    return f"| {day} | {text} | {stated} |"


def _glossary(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    path = "book/reference/glossary.md"
    lines = _read(root, path)
    ends = _ends_of_terms(lines)
    for lesson in found:
        for exercise in lesson.exercises.values():
            for slug in (*exercise.card["teaches"], *exercise.card["uses"]):
                term = slug.replace("-", " ")
                if term not in ends:
                    end = max(end for other, end in ends.items() if other < term)
                    text = f"\n{term}\n  TODO: what it is, in a sentence or two. {_link(lesson)}"
                    yield Edit(path, end, text, f"no term for {slug}, which {lesson.name} has")
                    ends[term] = end
                elif slug in exercise.card["teaches"] and ends[term] not in _linking(lines, lesson):
                    last = lines[ends[term] - 1]
                    text = f"{last}{',' if last.endswith('.md)') else ''} {_link(lesson)}"
                    why = f"{term} has no link to {lesson.name}, which teaches it"
                    yield Edit(path, ends[term], text, why, instead=True)


def _ends_of_terms(lines: list[str]) -> dict[str, int]:
    """The last line of each term's definition, in which its links stand."""
    ends: dict[str, int] = {}
    terms: list[str] = []
    start = lines.index("```{glossary}")
    for number, line in enumerate(lines[start + 1 :], start + 2):
        if line.startswith("  "):
            ends |= dict.fromkeys(terms, number)
        elif not line:
            terms = []
        elif line == "```":
            break
        else:
            terms.append(line.lower().replace("-", " "))
    return ends


def _linking(lines: list[str], lesson: LessonSource) -> set[int]:
    return {number for number, line in enumerate(lines, 1) if f"../{lesson.name}.md" in line}


def _cheat_sheet(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    path = "book/reference/cheat_sheet.md"
    lines = _read(root, path)
    for lesson in found:
        if not any(f"](../{lesson.name}.md)" in line for line in lines):
            line, _ = _neighbor(lines, found, lesson, "](../{}.md) |")
            text = f"| TODO: its name | TODO: the idea, in one line | {_link(lesson)} |"
            yield Edit(path, line, text, f"no row of the tables links {lesson.name}")


def _suites(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    path = "course_lib/checks/__init__.py"
    tree = ast.parse("\n".join(_read(root, path)))
    table = next(n for n in ast.walk(tree) if isinstance(n, ast.Dict))
    home: dict[str, str] = {}  # the module of each exercise's suite
    lines: dict[str, int] = {}
    for key, value in zip(table.keys, table.values, strict=True):
        for exercise in ast.literal_eval(value):
            home[exercise], lines[exercise] = key.value, value.end_lineno
    line = table.lineno
    for lesson in found:
        for exercise in lesson.exercises.values():
            module = home.get(exercise.id) or _find_suite(root, exercise.id)
            if exercise.id not in home:
                text = f'    "{module}": ("{exercise.id}",),'
                yield Edit(path, line, text, f"the table of suites lacks {exercise.id}")
            line = max(line, lines.get(exercise.id, line))
            file = f"course_lib/checks/{module}.py"
            if not (root / file).is_file():
                why = f"no suite for {exercise.id}"
                yield Edit(file, 0, fill("suite", lesson, exercise), why)


def _find_suite(root: Path, exercise: str) -> str:
    """The module that has the exercise's suite, or the one that should."""
    for path in sorted((root / "course_lib/checks").glob("[a-z]*.py")):
        source = path.read_text(encoding="utf-8")
        if "SUITES" in source and f'"{exercise}"' in source:
            return path.stem
    return exercise.replace("-", "_")


def _answers(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    for lesson in found:
        for exercise in lesson.exercises.values():
            path = f"tests/answers/{exercise.id.replace('-', '_')}.py"
            if not (root / path).is_file():
                text = fill("answers", lesson, exercise)
                yield Edit(path, 0, text, f"no right and wrong answers to {exercise.id}")


def _reviews(root: Path, found: list[LessonSource]) -> Iterator[Edit]:
    """Items on the page, and the proof of each beside it."""
    for lesson in found:
        lines = lesson.text.splitlines()
        for exercise in lesson.exercises.values():
            if not any(item.exercise == exercise.id for item in lesson.reviews.values()):
                if "## Review" not in lines:
                    raise LessonError(f"book/{lesson.path.name}: add a line `## Review`")
                text = fill("items", lesson, exercise)
                path, why = f"book/{lesson.path.name}", f"no review item asks about {exercise.id}"
                yield Edit(path, lines.index("## Review") + 1, "\n" + text, why)
        path = f"tests/reviews/{lesson.name}.py"
        if not (root / path).is_file():
            for exercise in list(lesson.exercises.values())[:1]:
                text = fill("reviews", lesson, exercise)
                yield Edit(path, 0, text, f"no proofs of the review items of {lesson.name}")
            continue
        source = (root / path).read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(source)))
        proven = {n.name for n in nodes if isinstance(n, ast.FunctionDef)}
        argued = {n.value for n in nodes if isinstance(n, ast.Constant)}
        for name in lesson.reviews:
            function = name.replace("-", "_")
            if function not in proven and name not in argued:
                text = f"\n\ndef {function}(n):\n    return None  # TODO: the answer, computed"
                yield Edit(path, len(source.splitlines()), text, f"no proof of review-{name}")


LOOKS = (
    _contents,
    _concepts,
    _milestones,
    _study_plan,
    _glossary,
    _cheat_sheet,
    _suites,
    _answers,
    _reviews,
)
