"""The journal: entries made, searched, indexed, exported; feedback; nothing written is lost."""

import argparse
import errno
import json
import os
import re
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

from course_lib.lab import events
from course_lib.lab.journal import assistant, command, export, feedback, magic, rules
from course_lib.lab.journal import template as templates
from course_lib.lab.journal.entry import entries, files, folder, read, slug
from course_lib.lab.journal.new import open_entry
from course_lib.lab.journal.references import REFERENCE
from course_lib.lab.journal.search import search
from course_lib.lab.journal.sections import SECTIONS
from course_lib.lab.journal.subject import lessons, subject

ROOT = Path(__file__).resolve().parents[1]
TODAY = date(2026, 11, 20)
GUESS = lessons()["01_rmsnorm"]["predictions"][0]


@pytest.fixture(autouse=True)
def learner(course_home, monkeypatch):
    """An empty course home; no terminal."""
    monkeypatch.setattr(command, "_today", lambda: TODAY)
    return course_home


def journal(line: str) -> int:
    """`course journal LINE`, without the words `course journal`."""
    parser = argparse.ArgumentParser()
    command.add_arguments(parser)
    return command.run(parser.parse_args(line.split()))


def write(name: str, text: str) -> Path:
    folder().mkdir(parents=True, exist_ok=True)
    (folder() / name).write_text(text, encoding="utf-8")
    return folder() / name


def snapshot() -> dict[str, bytes]:
    """Every file of the journal and its bytes."""
    return {
        p.relative_to(folder()).as_posix(): p.read_bytes()
        for p in folder().rglob("*")
        if p.is_file()
    }


# A new entry


def test_a_new_entry_has_the_twenty_sections_as_prompts():
    path = open_entry(subject("rmsnorm"), [], today=TODAY).path
    assert path.name == "2026-11-20-rmsnorm.md"
    entry = read(path, templates.load())
    assert [part.key for part in entry.parts] == [section.key for section in SECTIONS]
    assert len(entry.parts) == 20 and not any(entry.is_answered(part) for part in entry.parts)
    assert entry.title.title == "RMSNorm.forward \N{MIDDLE DOT} 2026-11-20"


def test_a_prompt_is_told_from_an_answer():
    path = open_entry(subject("rmsnorm"), [], today=TODAY).path
    text = path.read_text(encoding="utf-8")
    ways = {
        "context": ("(> \\[ \\] What were.*)", r"\1 It was late."),  # on the prompt's own line
        "question": (r"> \[ \] (The one thing.*)", r"> [x] why?"),  # in its place
        "problem": (r"(> \[ \] What goes.*)", "\\1\n> 99 GB"),  # below, in the same quote
        "intuition": (r"(> \[ \] Two or.*)", "```python\nx = 1\n```\n\\1"),  # above, as code
        "insights": (r"(> \[ \] Three to.*)", "\\1\n\n```\n```\n<!-- later -->\n"),  # nothing
    }
    for old, changed in ways.values():
        text, count = re.subn(old, changed, text)
        assert count == 1
    path.write_text(text, encoding="utf-8")
    entry = read(path, templates.load())
    answered = {part.key for part in entry.parts if entry.is_answered(part)}
    assert answered == {"context", "question", "problem", "intuition"}


def test_an_entry_holds_what_the_course_knows(learner):
    for code, result in (("SHAPE", "fail"), ("SHAPE", "fail"), ("DTYPE", "fail"), ("PASS", "pass")):
        events.record("check", item="rmsnorm", code=code, result=result)
    events.record("hint", item="rmsnorm", hint=1)
    events.record("predict", item=GUESS, guess=2, unit="times")
    events.record("predict", item=GUESS, guess=1.5, unit="times")
    events.record("reveal", item=GUESS, measured=1.0)
    (learner / "mine").mkdir()
    (learner / "mine" / "rmsnorm.py").write_text("import torch\n\n\nclass RMSNorm:\n    pass\n")
    write("2026-11-18-norms.md", "---\ntitle: Norms\ntags: [upcasting]\n---\n# Norms\n")
    text = open_entry(subject("rmsnorm"), events.read(), today=TODAY).path.read_text(
        encoding="utf-8"
    )
    assert "4 checks, 1 passed. What came up: `SHAPE` 2 times, `DTYPE`. 1 hint opened." in text
    assert f"| {GUESS} | 1.5 times | 1 times |" in text
    assert "- `mine/rmsnorm.py:4` is your own" in text
    assert "- [Norms](2026-11-18-norms.md) also has upcasting" in text
    assert "tags: [rms-normalization, upcasting, lesson-01]" in text
    assert lessons()["01_rmsnorm"]["journal"] in text


def test_references_to_code_resolve_to_the_definition():
    for card in ("rmsnorm", "swiglu", "save-checkpoint", "adamw-step"):
        text = open_entry(subject(card), [], today=TODAY).path.read_text(encoding="utf-8")
        (found,) = REFERENCE.findall(text)
        line = (ROOT / found[0]).read_text(encoding="utf-8").splitlines()[int(found[1]) - 1]
        name = subject(card).exercises[0].path.rpartition(".")[2]
        assert re.match(rf"\s*(def|class) {name}\b", line), line


@pytest.mark.parametrize(
    ("said", "name", "title"),
    [
        ("rmsnorm", "rmsnorm", "RMSNorm.forward"),
        ("RMSNorm", "rmsnorm", "RMSNorm.forward"),
        ("bias-correction", "bias-correction", "bias correction"),
        ("bias correction", "bias-correction", "bias correction"),
        ("4", "04-attention", "04 Attention"),
        ("04_attention", "04-attention", "04 Attention"),
        ("Tea break", "tea-break", "Tea break"),
        ("在线 softmax", "在线-softmax", "在线 softmax"),
        ("../../etc/passwd", "etc-passwd", "../../etc/passwd"),
    ],
)
def test_subjects(said, name, title):
    about = subject(said)
    assert (about.slug, about.title) == (name, title)


def test_a_typing_error_is_answered_with_the_nearest_name():
    with pytest.raises(ValueError, match="did you mean 'rmsnorm'.*--own"):
        subject("rmsnrom")
    assert subject("rmsnrom", own=True).slug == "rmsnrom"
    with pytest.raises(ValueError, match="no letter"):
        subject("???")


def test_without_a_subject_it_is_the_last_exercise(capsys):
    with pytest.raises(ValueError, match="what about"):
        journal("new")
    events.record("check", item="swiglu", result="fail", code="SHAPE")
    assert journal("new") == 0
    assert capsys.readouterr().out.startswith("learning/journal/2026-11-20-swiglu.md\n")
    assert [(e["action"], e["item"]) for e in events.read() if e["kind"] == "journal"] == [
        ("new", "2026-11-20-swiglu")
    ]


def test_the_same_entry_again_is_opened_and_never_written(capsys):
    journal("new rmsnorm")
    (path,) = files()
    path.write_text("mine now", encoding="utf-8")
    assert journal("new rmsnorm") == 0 and path.read_text(encoding="utf-8") == "mine now"
    assert "as you left it" in capsys.readouterr().out
    assert journal("new rmsnorm --again") == 0
    assert [p.name for p in files()] == ["2026-11-20-rmsnorm-2.md", "2026-11-20-rmsnorm.md"]
    assert [e["action"] for e in events.read()] == ["new", "open", "new"]


def test_values_from_the_record_cannot_break_an_entry():
    hostile = "<!-- journal:end context --> | ``` \n## [!] The problem\x1b[2J"
    record = [
        {"kind": "predict", "item": GUESS, "guess": hostile, "unit": [1]},
        {"kind": "check", "item": "rmsnorm", "code": hostile, "result": 5},
        {"kind": "check", "item": ["rmsnorm"]},
        {"kind": "hint", "item": "rmsnorm", "hint": {"a": 1}},
    ]
    entry = read(open_entry(subject("rmsnorm"), record, today=TODAY).path, templates.load())
    assert len(entry.parts) == 20 and not any(entry.is_answered(part) for part in entry.parts)
    assert "\x1b" not in entry.text


def test_a_full_disk_leaves_no_half_entry(monkeypatch):
    write("2026-11-19-old.md", "old")
    before = snapshot()
    about, real = subject("rmsnorm"), open

    class Full:
        def __init__(self, file):
            self.file = file

        def __enter__(self):
            return self

        def __exit__(self, *args):
            self.file.close()

        def write(self, text):
            self.file.write(text[:99])
            raise OSError(errno.ENOSPC, "No space left on device")

    def full(path, mode="r", **kwargs):
        file = real(path, mode, **kwargs)
        return Full(file) if mode == "x" else file

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space"):
        patch.setattr("builtins.open", full)
        open_entry(about, [], today=TODAY)
    assert before == snapshot()


# The index


def test_the_index_is_written_between_its_markers_only(learner):
    journal("new rmsnorm")
    journal("index")
    index = folder() / "INDEX.md"
    text = index.read_text(encoding="utf-8")
    assert "[RMSNorm.forward](<2026-11-20-rmsnorm.md>)" in text and "- upcasting: " in text
    index.write_bytes(("我的话\r\n\r\n" + text + "\nbelow\n").encode())
    journal("new swiglu")
    journal("index")
    changed = index.read_bytes().decode()
    assert changed.startswith("我的话\r\n\r\n# My journal") and changed.endswith("\nbelow\n")
    assert "swiglu" in changed and changed.count("ledger:begin") == 1
    before = index.stat().st_mtime_ns
    journal("index")
    assert index.stat().st_mtime_ns == before, "nothing new, nothing written"


@pytest.mark.parametrize("lost", ["begin", "end", "both"])
def test_an_index_with_a_lost_marker_keeps_every_line(lost):
    journal("new rmsnorm")
    journal("index")
    index = folder() / "INDEX.md"
    kept = [
        line
        for line in index.read_text(encoding="utf-8").splitlines()
        if not (
            (lost in ("begin", "both") and "ledger:begin" in line)
            or (lost in ("end", "both") and "ledger:end" in line)
        )
    ]
    index.write_text("\n".join(["mine above", *kept, "mine below"]), encoding="utf-8")
    for _ in range(2):
        journal("index")
        lines = index.read_text(encoding="utf-8").splitlines()
        assert set(kept) <= set(lines) and {"mine above", "mine below"} <= set(lines)
        assert lines.index("mine below") < len(lines) - 10, "the part is appended"


def test_what_was_written_inside_the_courses_part_is_kept_below_it():
    journal("new rmsnorm")
    journal("index")
    index = folder() / "INDEX.md"
    text = index.read_text(encoding="utf-8").replace("## Tags", "my own thought\n\n## Tags")
    index.write_text(text, encoding="utf-8")
    for _ in range(2):
        journal("index")
        changed = index.read_text(encoding="utf-8")
        assert changed.count("my own thought") == 1
        assert changed.index("my own thought") > changed.index("ledger:end")


def test_indexes_of_two_machines_merged_by_git(capsys):
    """Rows of both sides inside the part are the course's and are written anew; the rest stays."""
    journal("new rmsnorm")
    journal("index")
    index = folder() / "INDEX.md"
    ours = index.read_text(encoding="utf-8")
    journal("new swiglu")
    journal("index")
    theirs = index.read_text(encoding="utf-8")
    begin, end = "<!-- ledger:begin index -->\n", "<!-- ledger:end index -->"
    inside = [text.split(begin)[1].split(end)[0] for text in (ours, theirs)]
    merged = f"{begin}<<<<<<< HEAD\n{inside[0]}=======\n{inside[1]}>>>>>>> other\n{end}"
    own = "<<<<<<< HEAD\nmy words\n=======\nmy other words\n>>>>>>> other\n\n"
    index.write_text(own + merged + "\n", encoding="utf-8")
    journal("index")
    text = index.read_text(encoding="utf-8")
    assert text.startswith(own) and text.count("<<<<<<<") == 1 and "swiglu" in text


def test_an_index_that_is_no_text_is_left_alone():
    write("INDEX.md", "").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8"):
        journal("index")
    assert (folder() / "INDEX.md").read_bytes() == b"\xff\xfe"


def test_the_index_counts_what_was_opened_and_found():
    journal("new rmsnorm")
    journal("new rmsnorm")
    journal("search RMSNorm")
    journal("index")
    text = (folder() / "INDEX.md").read_text(encoding="utf-8")
    assert "| 0 of 20 | 1 | 1 |" in text and "- Intuition: 0 of 1" in text


# Search


def test_search_ranks_by_words_found_then_by_place():
    write(
        "2026-11-17-a.md", "---\ntitle: Queues\n---\n# Queues\n\na norm is mentioned, and a ring\n"
    )
    write("2026-11-18-b.md", "---\ntitle: RMSNorm\ntags: [norm]\n---\n# RMSNorm\n\nthe size\n")
    write("2026-11-19-c.md", "# 归一化\n\n为什么要做层归一化？\n")
    found = search("norm", entries(templates.load()))
    assert [hit.entry.slug[-1] for hit in found] == ["b", "a"]
    assert [hit.entry.slug[-1] for hit in search("norm ring", entries(templates.load()))][0] == "a"
    assert found[1].text == "a norm is mentioned, and a ring" and found[1].line == 6
    assert [hit.entry.slug[-1] for hit in search("归一化", entries(templates.load()))] == ["c"]
    assert [hit.entry.slug[-1] for hit in search("层归一", entries(templates.load()))] == ["c"]
    assert search("归一方法", entries(templates.load()))[0].line in (1, 3), "by pairs"
    assert search("ＮＯＲＭ", entries(templates.load())), "full-width letters are letters"
    assert not search("zebra", entries(templates.load()))


def test_prompts_are_not_searched(capsys):
    journal("new rmsnorm")
    assert journal("search everyday scene") == 0
    assert "no entry holds 'everyday scene'" in capsys.readouterr().out


# The template and feedback


def test_each_rule_changes_the_template_visibly_and_reversibly(capsys):
    for rule in rules.RULES:
        before = templates.load().sections
        assert journal(f"feedback --rule {rule.name}") == 0
        after = templates.load().sections
        assert after != before and f"template  {rule.name}: {rule.does}" in capsys.readouterr().out
        assert journal("template --undo") == 0
        assert templates.load().sections == before
    lines = templates.file().read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("- {") for line in lines) == 2 * len(rules.RULES), "the history"
    with pytest.raises(ValueError, match="no change to take back"):
        journal("template --undo")


def required() -> set[str]:
    return {section.key for section in templates.load().sections if section.required}


def test_the_stated_rules():
    """R-215 to R-219: examples, mathematics last, flow, traces, practice."""
    by_key = lambda: {s.key: s for s in templates.load().sections}  # noqa: E731
    place = lambda key: [s.key for s in templates.load().sections].index(key)  # noqa: E731
    journal("feedback --rule examples")
    assert "example" in required() and "Three times" in by_key()["example"].prompt
    journal("feedback --rule math-last")
    assert place("math") > place("tips") and {"intuition", "analogy"} <= required()
    journal("feedback --rule flow")
    assert "flow" in required() and "arrow for every transfer" in by_key()["flow"].prompt
    journal("feedback --rule traces")
    assert "As a trace" in by_key()["example"].prompt
    journal("feedback --rule practice")
    assert "verify" in by_key()["practice"].prompt and "practice" in required()
    journal("template --reset")
    assert templates.load().sections == SECTIONS
    journal("template --undo")
    assert "practice" in required(), "a reset can be taken back too"
    text = open_entry(subject("rmsnorm"), [], today=TODAY).path.read_text(encoding="utf-8")
    assert "## [x] Practice" in text and text.index("[=] Math") > text.index("[$] Practical")


@pytest.mark.parametrize(
    ("answers", "names"),
    [
        ({"helped": "the toy example, by far"}, ["examples"]),
        ({"change": "Too much math!"}, ["math-last"]),
        ({"change": "the math was fine"}, []),
        ({"missing": "data flow diagrams"}, ["flow"]),
        ({"helped": "The step-by-step traces"}, ["traces"]),
        ({"suggest": "I want practice problems"}, ["practice"]),
        ({"helped": "everything", "missing": "nothing", "change": "no", "suggest": ""}, []),
        ({"helped": "Worked example", "change": "less formulas"}, ["examples", "math-last"]),
    ],
)
def test_what_an_answer_asks_for(answers, names):
    assert [rule.name for rule in rules.propose_rules(answers, SECTIONS)] == names


def test_the_learners_own_titles_are_understood(learner):
    write("template.yaml", "v: 1\nsections:\n  example: {title: 例子}\nchanges:\n")
    assert journal("feedback --helped 例子最有用") == 0
    (change,) = templates.load().changes
    assert change == {"on": "2026-11-20", "rule": "examples", "said": "例子最有用"}


def test_the_four_questions_are_asked_and_answered_by_number(monkeypatch, capsys):
    asked = []

    def reply(question):
        asked.append(question)
        return {4: "5, 2", 3: "schön"}.get(len(asked) - 1, "")

    monkeypatch.setattr("builtins.input", reply)
    monkeypatch.setattr(feedback.ask, "__defaults__", (reply,))
    monkeypatch.setattr(feedback.choose, "__defaults__", (reply,))
    write("2026-11-19-a.md", "---\nconcepts: [rope]\n---\n# A\n")
    assert journal("feedback") == 0
    assert len(asked) == 5 and "Which sections helped you most?" in asked[0]
    assert [change["rule"] for change in templates.load().changes] == ["practice", "math-last"]
    assert events.read()[-1] == {
        **events.read()[-1],
        "action": "feedback",
        "item": "2026-11-19-a",
        "suggest": "schön",
        "concepts": ["rope"],
    }
    assert "template  practice" in capsys.readouterr().out


def test_without_a_terminal_the_flags_are_named(monkeypatch):
    monkeypatch.setattr("sys.stdin", open(os.devnull))
    monkeypatch.setattr(feedback.ask, "__defaults__", (input,))
    with pytest.raises(ValueError, match="--helped"):
        journal("feedback")


def test_answers_given_before_the_input_ended_are_kept(monkeypatch):
    def reply(question):
        if "missing" in question:
            raise EOFError
        return "ganz viel"

    monkeypatch.setattr(feedback.ask, "__defaults__", (reply,))
    monkeypatch.setattr(feedback.choose, "__defaults__", (reply,))
    assert journal("feedback") == 0
    assert events.read()[-1]["helped"] == "ganz viel"


def test_a_section_of_ones_own():
    args = argparse.Namespace(
        entry=None,
        helped=None,
        missing=None,
        change=None,
        suggest=None,
        rule=None,
        section="Was mich überrascht hat",
    )
    command._feedback(args)
    path = open_entry(subject("rmsnorm"), [], today=TODAY).path
    assert "## Was mich überrascht hat\n<!-- section: was-mich-überrascht-hat -->" in (
        path.read_text(encoding="utf-8")
    )
    entry = read(path, templates.load())
    assert len([part for part in entry.parts]) == 21
    with pytest.raises(ValueError, match="already"):
        command._feedback(args)


HAND = """\
# my notes on the template, which must stay
v: 1
sections:
  context: {title: Kontext}   # because
  analogy: {required: true}
  proof: {title: Beweis, prompt: In fünf Zeilen.}
order: [question, context]
changes:
"""


def test_a_template_edited_by_hand_keeps_every_byte():
    file = write("template.yaml", HAND)
    sections = templates.load().sections
    assert [s.key for s in sections[:3]] == ["question", "context", "problem"]
    assert sections[1].title == "Kontext" and sections[-1].prompt == "In fünf Zeilen."
    assert "analogy" in required()
    journal("feedback --rule flow")
    text = file.read_text(encoding="utf-8")
    assert text.startswith(HAND) and len(text.splitlines()) == len(HAND.splitlines()) + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("v: 2\n", "version 2"),
        ("v: 1\nsections: [", "line "),
        ("v: 1\n<<<<<<< HEAD\nsections: {}\n", "conflict markers"),
        ("v: 1\nsections: {context: no}\n", "write `context: {title: ...}`"),
        ("v: 1\norder: [contxt]\n", "'contxt'"),
        ("v: 1\nchanges: {}\n  rule: x\n", "line"),
        ("v: 1\nchanges: [x]\n", "must read"),
        ("- 1\n", "as a table"),
    ],
)
def test_a_template_that_cannot_be_read_is_explained_and_left_alone(text, said):
    write("template.yaml", text)
    for line in ("feedback --rule flow", "template", "new rmsnorm", "check"):
        with pytest.raises(ValueError, match="template.yaml") as problem:
            journal(line)
        assert said in str(problem.value)
    assert (folder() / "template.yaml").read_text(encoding="utf-8") == text


def test_line_ends_of_a_template_stay_as_they_are():
    file = write("template.yaml", "")
    file.write_bytes(b"\xef\xbb\xbf" + HAND.replace("\n", "\r\n").encode())
    before = file.read_bytes()
    assert templates.load().sections[1].title == "Kontext"
    journal("feedback --rule flow")
    assert file.read_bytes().startswith(before) and "flow" in required()


def test_a_change_from_a_later_course_is_passed_over_and_kept():
    file = write("template.yaml", "v: 1\nchanges:\n- {on: 2026-11-01, rule: colors, x: 1}\n")
    assert templates.load().sections == SECTIONS
    journal("feedback --rule flow")
    assert "rule: colors, x: 1" in file.read_text(encoding="utf-8")


def test_changes_of_two_machines_join_line_by_line():
    journal("feedback --rule flow")
    flow = templates.file().read_text(encoding="utf-8").splitlines()[-1]
    templates.file().unlink()
    journal("feedback --rule practice")
    with open(templates.file(), "a", encoding="utf-8") as file:
        file.write(flow + "\n")  # as git's union merge leaves it
    assert {"flow", "practice"} <= required()


@pytest.mark.parametrize(
    "text", ["v: 1\nchanges: []\nsections: {}\n", "v: 1\nchanges:\n- {rule: flow}\nmine:\n- one\n"]
)
def test_a_file_where_no_line_can_be_added_says_what_to_do(text):
    file = write("template.yaml", text)
    with pytest.raises(ValueError, match="make `changes:` the last"):
        journal("feedback --rule practice")
    assert file.read_text(encoding="utf-8") == text


def test_a_full_disk_keeps_the_old_template(monkeypatch):
    file = write("template.yaml", HAND)

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        journal("feedback --rule flow")
    assert file.read_text(encoding="utf-8") == HAND and not list(folder().glob(".*"))


def test_questions_come_once_after_an_entry_without_findings(monkeypatch, capsys):
    text = "---\ndate: 2026-11-20\ntags: [x]\n---\n# A\n" + "".join(
        f"\n## {section.title}\n\nwritten\n" for section in SECTIONS if section.required
    )
    write("2026-11-20-a.md", text)
    assert journal("check a") == 0
    assert "no findings, 5 of 20 sections written" in capsys.readouterr().out
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True, raising=False)
    asked = []
    monkeypatch.setattr(command, "_feedback", lambda args: asked.append(args.entry))
    journal("check a")
    events.record("journal", item="2026-11-20-a", action="feedback")
    journal("check a")
    assert asked == ["2026-11-20-a"]


def test_check_tells_findings_by_its_status(capsys):
    journal("new rmsnorm")
    capsys.readouterr()
    assert journal("check") == 1
    said = capsys.readouterr().out
    first = said.split("\n\n")[0].splitlines()
    assert re.fullmatch(r"learning/journal/2026-11-20-rmsnorm\.md:\d+ \[EMPTY\] .+", first[0])
    assert [line.split()[0] for line in first[1:]] == ["expected", "got", "next"]
    with pytest.raises(ValueError, match="no entry is called 'nothing'"):
        journal("check nothing")


# Export


def test_the_export_holds_what_was_written_and_nothing_else():
    write("2026-11-19-rope.md", "# RoPE\n\n## Context\n\nturns\n")
    path = open_entry(subject("rmsnorm"), [], today=TODAY).path
    text = path.read_text(encoding="utf-8").replace(
        "## [?]",
        "Seen in [[rope]], [there](../../book/02_rope.md) and [here](2026-11-19-rope.md).\n"
        "\n```{code-cell} ipython3\n1 / 0\n```\n\n## [?]",
    )
    path.write_text(text, encoding="utf-8")
    assert journal("export") == 0
    page = (export.target() / path.name).read_text(encoding="utf-8")
    assert page.startswith("# RMSNorm.forward") and "> [ ]" not in page and "## [?]" not in page
    assert "section:" not in page and "journal:begin" not in page and "date:" not in page
    assert "[RoPE](<2026-11-19-rope.md>), [there](../../../book/02_rope.md)" in page
    assert "[here](2026-11-19-rope.md)" in page
    assert "{code-cell}" not in page and "```python\n1 / 0" in page, "shown, never run"
    index = (export.target() / "index.md").read_text(encoding="utf-8")
    assert index.index("RMSNorm") < index.index("RoPE")
    assert (export.target() / ".gitignore").read_text() == "*\n"
    assert files() == [folder() / "2026-11-19-rope.md", path], "pages are no entries"


def test_a_page_that_was_edited_is_not_overwritten():
    write("2026-11-19-rope.md", "# RoPE\n\n## Context\n\nturns\n")
    journal("export")
    journal("export")
    page = export.target() / "2026-11-19-rope.md"
    page.write_text(page.read_text(encoding="utf-8").replace("turns", "spins"), encoding="utf-8")
    before = snapshot()
    for line in ("export", "export --remove"):
        with pytest.raises(ValueError, match="was edited or is your own"):
            journal(line)
        assert snapshot() == before
    page.unlink()
    (folder() / "2026-11-19-rope.md").rename(folder() / "2026-11-19-rotary.md")
    journal("export")
    assert {p.name for p in export.target().glob("*.md")} == {"index.md", "2026-11-19-rotary.md"}
    journal("export --remove")
    assert not export.target().exists() and files()


# Files for an assistant


def test_the_assistants_files_have_the_usual_layout_and_the_courses_structure(learner):
    assert journal("assistant") == 0
    learn = (learner / ".claude/commands/learn.md").read_text(encoding="utf-8")
    helper = (learner / ".claude/agents/learning-journal.md").read_text(encoding="utf-8")
    import yaml

    assert all(len(text.split("---\n")[1].splitlines()) in (1, 3) for text in (learn, helper))
    fronts = [yaml.safe_load(text.split("---\n")[1]) for text in (learn, helper)]
    assert list(fronts[0]) == ["description"]
    assert fronts[1]["name"] == "learning-journal" and len(fronts[1]["description"]) > 80
    assert fronts[1]["tools"] == "Read, Write, Edit, Grep, Glob, Bash"
    for text in (learn, helper):
        places = [text.index(f"(`{section.key}`)") for section in SECTIONS]
        assert places == sorted(places) and len(re.findall(r"^\d+\. .+", text, re.M)) >= 15
        assert "course journal new" in text and "course journal check" in text
        assert text.isascii()
    assert all(word in learn for word in ("Four forms", "Layers", *feedback.QUESTIONS.values()))
    assert "Four forms" not in helper and "course journal feedback" not in helper
    assert all(f"`{rule.name}`" in learn for rule in rules.RULES)


@pytest.mark.parametrize("there", [assistant.COMMAND, assistant.HELPER])
def test_an_assistants_file_that_exists_is_never_overwritten(learner, there):
    (learner / there).parent.mkdir(parents=True)
    (learner / there).write_text("mine")
    with pytest.raises(ValueError, match="nothing was written"):
        journal("assistant")
    left = [p for p in (learner / ".claude").rglob("*") if p.is_file()]
    assert left == [learner / there] and left[0].read_text() == "mine"


def test_the_assistants_files_go_where_one_says(learner):
    with pytest.raises(ValueError, match="no folder"):
        journal(f"assistant --into {learner / 'none'}")
    (learner / "project").mkdir()
    assert journal(f"assistant --into {learner / 'project'}") == 0
    assert (learner / "project" / assistant.HELPER).is_file()


# Everywhere


def test_nothing_the_learner_wrote_changes_under_any_command(capsys):
    """Entries in every state of repair: each command runs or explains, and no byte of them moves."""
    whole = open_entry(subject("rmsnorm"), [], today=TODAY).path.read_bytes()
    states = {
        "2026-11-01-cut.md": whole[:700],
        "2026-11-02-merged.md": b"<<<<<<< HEAD\n" + whole + b"=======\n" + whole + b">>>>>>> x\n",
        "2026-11-03-later.md": whole.replace(b"v: 1", b"v: 9"),
        "2026-11-04-bytes.md": whole + b"\xff\xfe\x00",
        "2026-11-05-empty.md": b"",
        "2026-11-06-windows.md": whole.replace(b"\n", b"\r\n"),
        "2026-11-07-unmarked.md": re.sub(rb"<!--.*-->\n", b"", whole),
        "2026-11-08-front.md": b"---\n? [a]\n: b\ntags: {a: [b]}\ndate: [1]\n---\n# x\n",
        "2026-11-09-deep.md": b"---\na: " + b"[" * 5000 + b"\n---\n# x\n",
        "notes of mine.md": "随手记\n".encode(),
    }
    for name, content in states.items():
        (folder() / name).write_bytes(content)
    before = {path: path.read_bytes() for path in files()}
    assert len(before) == 11
    commands = ["list", "check", "search 随手", "index", "export", "feedback --rule flow",
                "template", "new swiglu", "new rmsnorm", "export", "export --remove"]  # fmt: skip
    for line in commands:
        assert journal(line) in (0, 1), line
    assert {path: path.read_bytes() for path in before} == before
    said = capsys.readouterr().out
    assert "[CONFLICT]" in said and "[VERSION]" in said and "[ENCODING]" in said


def test_while_a_notebook_is_graded_the_journal_is_closed(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    assert journal("new rmsnorm") == 0
    assert not folder().exists() and "graded" in capsys.readouterr().out


def test_names_for_files():
    assert slug("KV cache!") == "kv-cache" and slug("a" * 500) == "a" * 120
    assert len(slug("归" * 300).encode()) <= 120


def test_the_magic_takes_what_the_command_takes(capsys):
    magic.journal("rmsnorm")
    magic.journal("search what's new")
    magic.journal("check nothing")
    magic.journal("template --wrong")
    said = capsys.readouterr()
    assert "2026-11-20-rmsnorm.md" in said.out
    assert "%journal: no entry is called 'nothing'" in said.err and "usage" in said.err


def test_the_magic_is_there_wherever_the_lab_is_imported_in_a_notebook():
    program = (
        "from IPython.core.interactiveshell import InteractiveShell\n"
        "shell = InteractiveShell.instance()\n"
        "shell.run_cell('from course_lib.lab import check\\n%journal new rmsnorm')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_HOME": str(folder().parents[1])},
    )
    assert "-rmsnorm.md\nA new entry" in done.stdout, done.stdout + done.stderr


def test_nothing_of_the_journal_waits_for_torch():
    program = "import sys; from course_lib.lab.journal import magic; magic.journal('new rmsnorm')"
    done = subprocess.run(
        [sys.executable, "-c", program + "; assert 'torch' not in sys.modules"],
        capture_output=True,
        text=True,
        env={**os.environ, "COURSE_HOME": str(folder().parents[1])},
    )
    assert done.returncode == 0, done.stderr


def test_what_the_lessons_say_is_current():
    from grader.lesson import lessons as sources
    from grader.notes import notes

    stored = (ROOT / "course_lib/lab/lessons.json").read_text(encoding="utf-8")
    assert json.loads(stored) == notes(sources(ROOT)), "run: course build"
    for name, lesson in json.loads(stored).items():
        assert lesson["about"] and lesson["journal"] and lesson["predictions"], name
