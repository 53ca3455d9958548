"""What goes out can be read back: Anki, Obsidian, CSV, xAPI, and the page for a browser."""

import csv
import html
import io
import json
import re
from html.parser import HTMLParser

import pytest

from course_lib.lab import events
from course_lib.lab.ledger import exports, web
from course_lib.lab.reviews.items import items
from grader.cli import main
from tests.learner import Learner, at
from tests.outside import loads

pytestmark = pytest.mark.usefixtures("course_home")


@pytest.fixture
def learner() -> Learner:
    learner = Learner()
    learner.add(at(0), "predict", item="x", guess='1,5\n"zwei" 三', unit="GB", confidence=4)
    learner.check(at(0), "rmsnorm", "RMS-NO-EPS", preset="rmsnorm:tiny", confidence=5)
    for item in ("rmsnorm", "rotate-half", "get-lr", "attention"):
        learner.check(at(0, 10), item)
    learner.hint(at(0, 10.1), "swiglu", 2)
    learner.review(at(3), "rmsnorm-1", secs=12.5, variant=7)
    learner.add(at(3), "note", text="<b> & ::\t|")
    learner.add(at(3), "note", text="<b> & ::\t|")
    learner.add(at(3, 9.2), "session", note="fin", number=2)
    return learner


@pytest.fixture
def state(learner):
    return learner.state(at(4))


def test_anki_reads_back(state):
    lines = exports.anki(state).splitlines()
    assert lines[:2] == ["#separator:tab", "#html:true"] and "#guid column:1" in lines
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    assert [row[0] for row in rows] == [
        f"course-{item}" for item in items() if item in state.schedule
    ]
    for guid, question, answer, tags in rows:
        item = items()[guid.removeprefix("course-")]
        assert plain(question) == item.question.strip() and plain(answer) == item.answer.strip()
        assert tags.split(" ") == [item.lesson, *item.concepts]
    assert exports.anki(state) == exports.anki(state)


def plain(field: str) -> str:
    return html.unescape(field.replace("<br>", "\n"))


def test_a_tab_does_not_end_a_field():
    assert exports._html("a\tb\n<c>") == "a    b<br>&lt;c&gt;"


def test_csv_reads_back(state):
    text = exports.table(state)
    assert text.startswith("\ufefft,kind,item")
    rows = csv.DictReader(io.StringIO(text.removeprefix("\ufeff"), newline=""))
    found = []
    for row in rows:
        event = json.loads(row.pop("other"))
        event |= {k: v for k, v in row.items() if v != ""}
        found.append(event)
    wanted = [
        {
            k: " ".join(v) if k == "concepts" else str(v) if k in exports.COLUMNS else v
            for k, v in event.items()
        }
        for event in state.events
    ]
    assert found == wanted


@pytest.mark.parametrize("form", exports.FORMATS)
def test_an_export_never_overwrites(form, learner, course_home, capsys):
    events.path().parent.mkdir()
    events.path().write_text("".join(json.dumps(e) + "\n" for e in learner.events))
    assert main(["ledger", "export", form]) == main(["ledger", "export", form]) == 0
    assert len(list((course_home / "learning/export").iterdir())) == 2
    mine = course_home / "mine.txt"
    mine.write_text("mine")
    assert main(["ledger", "export", form, str(mine)]) == 2
    assert mine.read_text() == "mine" and "name another file" in capsys.readouterr().err


def test_nothing_to_export_is_said(capsys):
    assert main(["ledger", "export", "anki"]) == 2
    assert "nothing to export yet" in capsys.readouterr().err


class Page(HTMLParser):
    """Headings, and what is open at the end."""

    def __init__(self, text: str):
        super().__init__()
        self.headings, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "link", "rect", "path", "br"):
            self.open.append(tag)
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_and_asks_for_nothing(state):
    text = web.html(state)
    shown = Page(text)
    assert shown.open == [] and shown.headings[0] == 1 and shown.headings.count(1) == 1
    assert all(b - a <= 1 for a, b in zip(shown.headings, shown.headings[1:], strict=False))
    assert loads(text) == [] and "<script" not in text
    assert '<link rel="icon" href="data:,">' in text, "else a browser asks for /favicon.ico"
    assert "&lt;b&gt; &amp; ::" in text and "<b>" not in text
    assert "prefers-color-scheme: dark" in text and 'lang="en"' in text


def test_the_page_of_someone_who_just_began_is_whole():
    assert Page(web.html(Learner().state(at(0)))).open == []


def test_the_page_replaces_itself_alone(course_home, capsys):
    (course_home / "notebooks").mkdir()
    (course_home / "notebooks" / "01_rmsnorm.ipynb").write_text("{}")
    file = course_home / "ledger.html"
    assert main(["ledger", "--html", str(file)]) == main(["ledger", "--html", str(file)]) == 0
    file.write_text("<html>mine</html>")
    assert main(["ledger", "--html", str(file)]) == 2
    assert file.read_text() == "<html>mine</html>"
