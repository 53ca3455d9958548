"""The reference pages: links, commands, examples, programs, sums and terms are held to the course."""

import doctest
import importlib.util
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import fields
from itertools import groupby
from pathlib import Path

import pytest
import torch
import yaml
from nbgrader.apps.nbgraderapp import NbGraderApp

from course_lib.lab.registry import exercises
from course_lib.training.train_config import TrainConfig
from grader.book import toc_files
from grader.cli import parser
from grader.course import ROOT

BOOK = ROOT / "book"
PAGES = sorted((BOOK / "reference").glob("*.md"))
TEXT = {page.stem: page.read_text(encoding="utf-8") for page in PAGES}
PROGRAMS = sorted((BOOK / "reference" / "programs").glob("*.py"))
LESSONS = sorted(page.stem for page in BOOK.glob("[0-9][0-9]_*.md"))
LINK = re.compile(r"\]\(([^)\s]+)\)")
TITLE = r"\*([^*\n]+)\*(?: \([^)\n]*\))?, "
YEAR = r"((?:19|20)\d\d)\b"
MONTHS = "January|February|March|April|May|June|July|August|September|October|November|December"
CITED = re.compile(
    rf"\b(?!(?:{MONTHS})\b)([A-Z]\w+)(?:'s \w+)?(?:, [A-Z]\w+)*(?: and [A-Z]\w+| et al\.)?"
    rf",? \(?(?:{TITLE})?{YEAR}"
)  # Dao 2023; Chen et al. (2016); Ma and Yarats (*title*, 2019); Young, *title*, 1974
FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.M | re.S)

page = pytest.mark.parametrize("name", TEXT)


def blocks(name: str, language: str) -> list[str]:
    """The contents of the page's code blocks in that language; "" for plain text."""
    return [text for found, text in FENCE.findall(TEXT[name]) if found == language]


def minutes(lessons: list[str]) -> float:
    """The exercises' cards of these lessons, and their words outside code at 120 a minute."""
    pages = [(BOOK / f"{name}.md").read_text(encoding="utf-8") for name in lessons]
    words = sum(len(FENCE.sub("", page).split()) for page in pages)
    cards = sum(card.minutes for card in exercises().values() if card.lesson in lessons)
    return cards + words / 120


def test_every_page_is_in_the_contents_and_nothing_else_is():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    named = {name for name in toc_files(toc) if "/reference/" in name}
    there = {f"book/reference/{name}" for name in TEXT}
    assert len(there) >= 10 and named == there, (
        f"_toc.yml and book/reference differ in {sorted(named ^ there)}: add a line `- file: NAME` "
        "to the part Reference, or the page"
    )


@page
def test_links_lead_somewhere(name):
    links = LINK.findall(TEXT[name])
    inside = [link for link in links if not link.startswith("https://")]
    missing = [link for link in inside if not (BOOK / "reference" / link).is_file()]
    assert not missing, f"{name}: no such page: {missing}"


@pytest.mark.parametrize("path", [*PAGES, *sorted(BOOK.glob("*.md"))], ids=lambda path: path.stem)
def test_no_page_speaks_of_a_lesson_that_is_not_there(path):
    there = {lesson[:2] for lesson in LESSONS}
    text = re.sub(r"\]\([^)]*\)", "]", path.read_text(encoding="utf-8"))
    said = re.finditer(r"\b[Ll]essons? \d\d(?:(?:,| to| and) \d\d)*", text)
    named = {number for words in said for number in re.findall(r"\d\d", words[0])}
    assert named <= there, f"{path.stem} names lessons {sorted(named - there)}"


def test_reading_list_names_title_year_and_matching_number():
    rows = [row for row in TEXT["reading"].splitlines() if "arxiv.org" in row]
    assert len(rows) >= 25
    for row in rows:
        label, address = re.search(r"\[arXiv (\S+)\]\(https://arxiv.org/abs/(\S+)\)", row).groups()
        assert label == address, row
        year = int(re.search(r"\*, (\d{4}),", row)[1])
        assert f"20{label[:2]}" == str(year), f"first version of {label} is not of {year}: {row}"
    assert max(Counter(re.findall(r"abs/(\S+)\)", TEXT["reading"])).values()) == 1


def cited() -> list[tuple[str, str, str, str]]:
    """(lesson, first author, title, year) of what the lessons cite; author or title may be ""."""
    found = set()
    for lesson in LESSONS:
        text = (BOOK / f"{lesson}.md").read_text(encoding="utf-8")
        found |= {(lesson, *parts) for parts in CITED.findall(text)}
        found |= {(lesson, "", *parts) for parts in re.findall(TITLE + YEAR, text)}
    return sorted(found)


def test_what_a_lesson_cites_is_in_the_reading_list():
    """One row for each, no more: so without it nothing else would stand for it."""
    rows = [row.split("|")[1] for row in TEXT["reading"].splitlines() if row.startswith("| ")]
    found, wrong = cited(), []
    assert len({lesson for lesson, *_ in found}) >= 20 and len(found) >= 60
    for lesson, author, title, year in found:
        fitting = [
            row
            for row in rows
            if re.search(rf"\b{author}\b", row)
            and title.lower() in row.lower()
            and re.search(rf"\b{year}\b", row)
        ]
        if len(fitting) != 1:
            wrong.append(f"{lesson}: {author} {title} {year}: {len(fitting)} rows")
    assert not wrong, wrong


def commands() -> list[tuple[str, str]]:
    """(page, command) of every line in a bash block and every inline `course ...`, `python ...`."""
    found = []
    for name, text in TEXT.items():
        lines = [line for block in blocks(name, "bash") for line in block.splitlines()]
        lines = [] if name == "instructors" else lines  # all of them are run by test_instructors
        inline = re.findall(r"`((?:course|python|make|torchrun|nbgrader) [^`\n]+)`", text)
        found += [(name, line.partition(" #")[0].strip()) for line in lines + inline]
    return [pair for pair in found if pair[1]]


@pytest.mark.parametrize(("name", "command"), commands())
def test_commands_exist(name, command, capsys):
    """Parsed by the real parsers; running them is the business of other tests."""
    first, *rest = command.split()
    if first == "course":
        if len(rest) == 1:  # the command is spoken of, without its arguments
            rest.append("--help")
        try:
            parser().parse_args(rest)
        except SystemExit as end:
            if end.code == 0:
                return
            pytest.fail(f"{name}: {command}: {capsys.readouterr().err.splitlines()[-1]}")
    elif first == "make":
        targets = [word for word in rest if "=" not in word and '"' not in word][:1]
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{target}:", makefile, re.M) for target in targets), command
    elif first in ("python", "torchrun"):
        assert_python(command, rest)
    else:
        assert first == "nbgrader" and rest[0] in NbGraderApp.subcommands, (
            f"{name}: what is {command}?"
        )


def assert_python(command: str, rest: list[str]) -> None:
    """The module or file exists, and the trainer knows each option."""
    if "-m" in rest:
        module = rest[rest.index("-m") + 1]
        assert importlib.util.find_spec(module), command
        if module == "course_lib.training.ddp_trainer":
            asked = {word[2:] for word in rest[rest.index("-m") :] if word.startswith("--")}
            assert asked <= {field.name for field in fields(TrainConfig)} | {"help"}, command
    else:
        assert (ROOT / rest[0]).is_file(), command


@pytest.mark.parametrize("name", [n for n in TEXT if ">>> " in "".join(blocks(n, "python"))])
def test_examples_give_what_the_page_says(name):
    text = "\n".join(blocks(name, "python"))
    example = doctest.DocTestParser().get_doctest(text, {}, name, f"{name}.md", 0)
    told: list[str] = []
    torch.set_warn_always(True)  # else torch is silent where another test has seen the warning
    try:
        failed, tried = doctest.DocTestRunner(verbose=False).run(example, out=told.append)
    finally:
        torch.set_warn_always(False)
    assert tried and not failed, "".join(told)


def test_thirty_things_are_thirty_and_each_is_shown():
    parts = re.split(r"^### ", TEXT["thirty_things"], flags=re.M)[1:]
    assert [int(part.partition(".")[0]) for part in parts] == list(range(1, 31))
    bare = [part.splitlines()[0] for part in parts if ">>>" not in part]
    assert not bare, f"without a measurement: {bare}"
    folded = re.compile(r"[^\n]+\n\n:::\{dropdown\} [^\n]+\n.*\n:::\n*(## .*)?", re.S)
    open_answers = [part.splitlines()[0] for part in parts if not folded.fullmatch(part)]
    assert not open_answers, f"the answer stands open: {open_answers}"


def shown_lines(block: str) -> list[str]:
    """Lines of an output, with every number replaced: another machine, other numbers."""
    return [re.sub(r"\d[\d.,]*", "N", line).split() for line in block.splitlines() if line.strip()]


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What each program prints, by the command on the page; each is run once."""
    found = {}
    for program in PROGRAMS:
        for option in ([], ["--fixed"]) if program.stem == "hang" else ([],):
            done = subprocess.run(
                [sys.executable, program, *option],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=120,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            found[" ".join([program.stem, *option])] = done.stdout
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="limits its memory through /proc")
def test_out_of_memory_fails_and_then_fits(said):
    assert re.search(
        r"^1 micro-batch of 64 rows: does not fit.* [1-9]\d* MB$", said["out_of_memory"], re.M
    )
    assert "8 micro-batch of 8 rows: fits" in said["out_of_memory"]


def test_slow_names_every_part(said):
    for row in said["slow"].splitlines():
        assert re.findall(r"(\w+) +\d+%", row) == ["data", "forward", "backward", "optimizer"]
    assert said["slow"].count("slowest: ") == 2


def test_not_a_number_finds_both_faults(said):
    assert said["not_a_number"].splitlines() == [
        "healthy: none",
        "no target counts: the loss",
        "mask takes the diagonal: blocks.0.attention.o_proj",
        "clipping it: norm nan, finite gradients left: False",
    ]


def test_hang_ends_by_its_timeout_and_the_cure_works(said):
    assert "rank 0  step 1: gave up after 3 s (" in said["hang"]
    assert "rank 1  step 1: skips a bad batch" in said["hang"]
    assert "gave up" not in said["hang --fixed"]
    for rank in (0, 1):
        assert f"rank {rank}  step 1: all skip this batch" in said["hang --fixed"]
        assert f"rank {rank}  step 2: leaves it" in said["hang --fixed"]


def test_outputs_on_the_page_are_those_of_the_programs(said):
    shown = [b for b in blocks("debugging", "") if "|-" not in b]
    assert len(shown) == 4
    for block in shown:
        real = [shown_lines(text) for text in said.values()]
        assert any(all(line in lines for line in shown_lines(block)) for lines in real), block


def test_programs_are_on_the_page_and_their_excerpts_exist():
    for program in PROGRAMS:
        source = program.read_text(encoding="utf-8")
        assert f"python book/reference/programs/{program.name}" in TEXT["debugging"]
        found = re.search(
            rf"literalinclude}} programs/{program.name}\n.*\n:start-at: \"(.+)\"\n:end-before: \"(.+)\"",
            TEXT["debugging"],
        )
        assert found and source.index(found[1]) < source.index(found[2])


@pytest.mark.parametrize("plan", ["One week", "In evenings"])
def test_study_plan_adds_up(plan):
    table = TEXT["study_plan"].partition(f"## {plan}\n")[2].partition("\n## ")[0]
    rows = [row.strip("|").split("|") for row in table.splitlines() if re.match(r"\| [\ds]", row)]
    *days, total = [[cell.strip() for cell in row] for row in rows]
    seen: list[str] = []
    for number, (day, text, stated) in enumerate(days, start=1):
        lessons = re.findall(r"\.\./(\w+)\.md", text)
        assert int(day) == number
        assert int(stated) == pytest.approx(minutes(lessons), abs=15, rel=0.05), (
            f"{plan}, day {number}: {lessons} take about {minutes(lessons):.0f} minutes"
        )
        seen += lessons
    assert seen == LESSONS, (
        f"{plan} leaves out or repeats {sorted(set(LESSONS) ^ set(seen)) or 'a lesson'}: "
        "`course build` prints the row to write"
    )
    assert total[:2] == ["sum", f"{len(LESSONS)} lessons"]
    assert int(total[2]) == pytest.approx(minutes(LESSONS), rel=0.05)


def glossary() -> dict[str, str]:
    """Definition by term, in lower case and with spaces for hyphens."""
    body = re.search(r"```\{glossary\}\n(.*?)```", TEXT["glossary"], re.S)[1]
    found: dict[str, str] = {}
    for indented, lines in groupby(body.splitlines(), key=lambda line: line[:1] in (" ", "")):
        if not indented:
            terms = [line.lower().replace("-", " ") for line in lines]
            assert not set(terms) & set(found), f"{terms} stand there twice"
            found |= dict.fromkeys(terms, "")
        else:
            found |= dict.fromkeys(terms, " ".join(lines))
    return found


def test_glossary_has_every_concept_with_the_lesson_that_teaches_it():
    terms, wrong = glossary(), []
    for card in exercises().values():
        for concept in card.teaches:
            text = terms.get(concept.replace("-", " "))
            if text is None or f"../{card.lesson}.md" not in text:
                wrong.append(f"{concept} ({card.lesson})")
        wrong += [concept for concept in card.uses if concept.replace("-", " ") not in terms]
    assert not wrong, (
        f"no term, or one without a link to its lesson: {wrong}: `course build` prints the lines to "
        "add to book/reference/glossary.md"
    )


def test_glossary_knows_the_concepts_of_the_graph_and_links_each_term():
    terms = glossary()
    assert all(re.search(r"\]\(\.\./\d\d_\w+\.md\)$", text.strip()) for text in terms.values())
    graph = ROOT / "course_lib" / "lab" / "concepts.json"
    if graph.is_file():
        known = json.loads(graph.read_text(encoding="utf-8"))["concepts"]
        missing = [slug for slug in known if slug.replace("-", " ") not in terms]
        assert not missing, f"book/reference/glossary.md: add terms for {missing}"


def test_interview_answers_are_whole():
    items = re.findall(
        r":::\{dropdown\} (\d+) · ([^\n]+)\n(.*?)^:::$", TEXT["interview"], re.M | re.S
    )
    assert [int(number) for number, *_ in items] == list(range(1, len(items) + 1))
    assert len(items) == 23 and TEXT["interview"].count("\nTwenty-three questions ") == 1
    for _, question, answer in items:
        assert "Limit: " in answer and re.search(r"\d", answer) and LINK.search(answer), question


def test_instructors_know_every_verdict_and_tier():
    from grader.judge.confine import TIERS
    from grader.judge.decision import VERDICTS
    from grader.judge.sandbox import PROBES

    for word in (*VERDICTS, *(f"`{tier}`" for tier in TIERS)):
        assert f"| {word} |" in TEXT["instructors"], word
    assert len(PROBES) == 20 and "twenty attacks" in TEXT["instructors"]


def test_formats_on_the_cheat_sheet_are_torchs():
    import torch

    for name in ("float32", "bfloat16", "float16", "float8_e5m2", "float8_e4m3fn"):
        info = torch.finfo(getattr(torch, name))
        row = re.search(rf"^\| {name} \| (.+) \|$", TEXT["cheat_sheet"], re.M)[1].split(" | ")
        assert sum(int(bits) for bits in row[0].split(" + ")) == info.bits
        assert float(row[1].replace(",", "")) == pytest.approx(info.max, rel=0.01)
        assert float(row[2]) == pytest.approx(info.tiny, rel=0.03)
        assert float(row[3]) == pytest.approx(info.eps, rel=0.03)


def test_the_cheat_sheet_is_a_sheet_and_has_every_lesson():
    linked = set(re.findall(r"\]\(\.\./(\w+)\.md\)", TEXT["cheat_sheet"]))
    assert LESSONS and not set(LESSONS) - linked, (
        f"no row links {sorted(set(LESSONS) - linked)}: `course build` prints the row to add to "
        "book/reference/cheat_sheet.md"
    )
    lines = len(TEXT["cheat_sheet"].splitlines())
    assert lines <= 250, f"the cheat sheet has {lines} lines, expected at most 250: join some rows"


def test_house_words_and_no_promises():
    later = re.compile(
        r"\b(?:coming soon|not yet written|will be added|to be written|TODO)\b", re.I
    )
    assert not [name for name, text in TEXT.items() if later.search(text)]


def test_programs_stand_alone():
    assert [p.stem for p in PROGRAMS] == ["hang", "not_a_number", "out_of_memory", "slow"]
    for program in PROGRAMS:
        assert Path(program).read_text(encoding="utf-8").startswith('"""')
