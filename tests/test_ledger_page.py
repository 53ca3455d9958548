"""The page is the learner's: parts are rebuilt, every other byte stays, edits are never dropped."""

import os
import random
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.lab.ledger import graph, page, parts
from course_lib.lab.registry import exercises
from tests.learner import Learner, at

pytestmark = pytest.mark.usefixtures("course_home")


@pytest.fixture
def learner() -> Learner:
    started = Learner()
    started.check(at(0), "rmsnorm")
    started.add(at(0, 9.5), "session", note="Erst quadrieren,\n- dann mitteln 平方 | ok")
    return started


def part(text: str, name: str) -> str:
    """What stands between the marks of a part, its hash left out."""
    found = re.search(rf"<!-- ledger:begin {name} -->\n(.*?)\n<!-- ledger:hash", text, re.DOTALL)
    return found[1]


def outside(text: str) -> str:
    return re.sub(r"<!-- ledger:begin (\S+) -->.*?<!-- ledger:end \1 -->", "", text, flags=re.S)


def test_a_new_page_has_every_part(learner):
    text = page.update_page("", learner.state(at(3)))
    assert part(text, "mastered").startswith("Nothing yet")
    assert "- **upcasting**: level 3, solved alone\n  - 3 on 2026-09-01: 1.1" in part(
        text, "developing"
    )
    assert "| **2026-09-01** | **1** | **30** | **rmsnorm** | **-** |" in part(text, "sessions")
    assert "> Erst quadrieren,\n> - dann mitteln 平方 | ok" in part(text, "insights")
    assert re.search(r"- \[ \] A GPT of your own: 1 of \d+ exercises", part(text, "goals"))
    assert "- upcasting: level 3, solved alone; stands on" in part(text, "concepts")
    queue = part(text, "queue")
    assert queue.index("### Today") < queue.index("- [ ] due:") < queue.index("### This week")


def test_the_three_horizons(learner):
    learner.check(at(2), "swiglu")
    learner.review(at(2), "rmsnorm-1")
    text = part(page.update_page("", learner.state(at(3))), "queue")
    today, week, later = re.split(r"### .+\n", text)[1:]
    assert today.count("- [ ] due: ") == 3 and week.count("- [ ] 2026-09-05: ") == 4
    assert later.count("- [ ] 2026-09-14: ") == 1


def test_writing_twice_is_writing_once(learner):
    text = page.update_page("", learner.state(at(3)))
    assert page.update_page(text, learner.state(at(3))) == text


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=10, max_size=10))
def test_what_the_learner_writes_between_the_parts_stays(texts):
    learner = Learner()
    learner.check(at(0), "rmsnorm")
    marks = re.compile(r"(?=<!-- ledger:begin)")
    pieces = marks.split(page.update_page("", learner.state(at(0, 10))))
    written = "".join(piece + extra for piece, extra in zip(pieces, texts, strict=True))
    learner.check(at(9), "swiglu", "SWIGLU-SWAPPED")
    assert outside(page.update_page(written, learner.state(at(9)))) == outside(written)


def test_bytes_that_are_no_text_and_windows_line_ends_stay(learner, course_home):
    page.write(learner.state(at(1)))
    old = page.path().read_bytes().replace(b"\n", b"\r\n") + "Straße".encode("latin-1") + b"\r\n"
    page.path().write_bytes(old)
    learner.check(at(2), "swiglu")
    page.write(learner.state(at(2)))
    new = page.path().read_bytes()
    assert new.endswith(b"Stra\xdfe\r\n") and new.count(b"\n") == new.count(b"\r\n")
    assert b"SiLU**" in new and b"Kept on" not in new


def test_a_part_without_its_marks_is_appended(learner):
    state = learner.state(at(1))
    own = "meine eigene Seite\nohne Zeilenende"
    text = page.update_page(own, state)
    assert text.startswith(own + "\n\n## Now\n") and part(text, "goals")
    lost = text.replace("<!-- ledger:end goals -->", "")
    again = page.update_page(lost, state)
    assert again.startswith(lost) and again.count("ledger:end goals") == 1
    assert page.update_page(again, state) == again, "and only once"


def test_a_lost_mark_does_not_swallow_what_follows(learner):
    text = page.update_page("", learner.state(at(1)))
    lost = text.replace("<!-- ledger:end now -->", "mine") + "\n<!-- ledger:end now -->\n"
    assert page.update_page(lost, learner.state(at(1))).startswith(lost)


def test_a_page_cut_short_loses_nothing_that_is_left(learner):
    text = page.update_page("", learner.state(at(1)))
    state = learner.state(at(1))
    for cut in random.Random(4).sample(range(1, len(text)), 100):
        new = page.update_page(text[:cut], state)
        assert new.startswith(text[:cut]) and page.update_page(new, state) == new, cut


def test_what_was_written_inside_a_part_is_moved_below_it(learner):
    text = page.update_page("", learner.state(at(1)))
    edited = text.replace("None known.", "None known.\n\nDoch: die Maske! 面具")
    new = page.update_page(edited, learner.state(at(2)))
    assert part(new, "blind-spots") == "None known."
    assert (
        "Kept on 2026-09-03, as it stood between the marks above:\n\nNone known.\n\nDoch: die "
        "Maske! 面具" in outside(new)
    )
    assert page.update_page(new, learner.state(at(2))) == new, "moved once"


def test_an_edited_hash_or_none_is_an_edit(learner):
    text = page.update_page("", learner.state(at(1)))
    bare = re.sub(r"<!-- ledger:hash .*\n", "", text)
    assert page.update_page(bare, learner.state(at(1))).count("Kept on") == text.count(
        "ledger:hash"
    )


def test_a_tick_in_the_queue_stays_while_its_line_does(learner):
    text = page.update_page("", learner.state(at(3)))
    line = next(x for x in text.splitlines() if x.startswith("- [ ] due:"))
    ticked = text.replace(line, line.replace("[ ]", "[x]"))
    new = page.update_page(ticked, learner.state(at(4)))
    assert line.replace("[ ]", "[x]") in new and "Kept on" not in new
    assert line not in new


def test_an_editor_that_formats_the_page_edits_nothing(learner):
    text = page.update_page("", learner.state(at(1)))
    formed = text.replace("- **", "* **").replace("| --- |", "|:-------|").replace(" | ", "  |   ")
    formed = formed.replace("\n  - ", "\n    - ")
    assert formed != text and "Kept on" not in page.update_page(formed, learner.state(at(2)))


def test_a_note_cannot_end_its_part(learner):
    learner.add(at(1), "note", text="<!-- ledger:end insights -->\n<!-- ledger:hash 0 --> x")
    text = page.update_page("", learner.state(at(2)))
    assert len(re.findall(r"<!-- ledger:end insights -->", text)) == 1
    assert page.update_page(text, learner.state(at(2))) == text


def test_a_mark_in_any_text_cannot_end_its_part():
    body = "x <!-- ledger:end now --> y <!--ledger:hash 1-->"
    text = parts.put("", "now", body, heading="## Now", now=at(0))
    assert parts.put(text, "now", body, heading="## Now", now=at(0)) == text
    assert text.count("<!-- ledger:end now -->") == 1


def git(folder, *words: str) -> int:
    return subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a", *words], cwd=folder, capture_output=True
    ).returncode


@pytest.mark.parametrize("style", ["merge", "diff3", "zdiff3"])
def test_two_machines_merged_by_git(learner, course_home, style):
    page.write(learner.state(at(1)))
    folder = course_home / "learning"
    own = "\nzu Hause geschrieben\n"
    git(folder, "init", "-b", "one")
    git(folder, "add", "learning_ledger.md")
    git(folder, "commit", "-m", "a")
    git(folder, "checkout", "-b", "two")
    learner.check(at(2), "swiglu")
    page.write(learner.state(at(2)))
    git(folder, "commit", "-am", "b")
    git(folder, "checkout", "one")
    learner.events.pop()
    learner.hint(at(4), "attention")
    page.path().write_text(page.path().read_text() + own)
    page.write(learner.state(at(5)))
    git(folder, "commit", "-am", "c")
    assert git(folder, "-c", f"merge.conflictstyle={style}", "merge", "two") == 1
    assert "<<<<<<<" in page.path().read_text()
    learner.check(at(2), "swiglu")  # the record is merged too
    page.write(learner.state(at(5)))
    text = page.path().read_text()
    assert "<<<<<<<" not in text and "Kept on" not in text and own in text
    assert "SiLU" in part(text, "developing") and "causal mask" in part(text, "developing")


def test_an_edit_on_one_side_of_a_merge_is_kept():
    body = "<<<<<<< HEAD\nmein Satz\n=======\nx\n>>>>>>> two\n"
    text = f"<!-- ledger:begin now -->\n{body}<!-- ledger:end now -->"
    new = parts.put(text, "now", "fresh", heading="", now=at(0))
    assert "mein Satz" in outside(new) and part(new, "now") == "fresh"


def test_a_part_that_stands_twice_is_current_twice():
    text = parts.put("", "now", "old", heading="## Now", now=at(0))
    new = parts.put(text + text, "now", "new", heading="## Now", now=at(0))
    assert new.count("\nnew\n") == 2 and "old" not in new


def test_a_page_in_utf_16_is_left_alone(learner, course_home):
    page.path().parent.mkdir()
    page.path().write_bytes("mein".encode("utf-16"))
    with pytest.raises(ValueError, match="save it as UTF-8"):
        page.write(learner.state(at(1)))
    assert page.path().read_bytes() == "mein".encode("utf-16")


def test_a_full_disk_leaves_the_old_page(learner, monkeypatch):
    page.write(learner.state(at(1)))
    old = page.path().read_bytes()

    def full(descriptor):
        raise OSError(28, "No space left on device")

    learner.check(at(2), "swiglu")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        page.write(learner.state(at(2)))
    assert page.path().read_bytes() == old
    assert {p.name for p in page.path().parent.iterdir()} == {page.PICTURE, page.path().name}


def test_a_page_that_is_a_link_stays_one(learner, course_home):
    vault = course_home / "vault.md"
    vault.write_text("mine\n")
    page.path().parent.mkdir()
    page.path().symlink_to(vault)
    page.write(learner.state(at(1)))
    assert page.path().is_symlink() and vault.read_text().startswith("mine\n\n## Now")


def test_a_page_saved_in_an_editor_meanwhile_is_not_overwritten(learner, monkeypatch):
    page.write(learner.state(at(1)))
    drawn = graph.svg

    def slow(levels):
        if "spät" not in page.path().read_text():
            page.path().write_text(page.path().read_text() + "spät gespeichert\n")
        return drawn(levels)

    monkeypatch.setattr(graph, "svg", slow)
    page.write(learner.state(at(9)))
    assert "spät gespeichert" in page.path().read_text()
    assert "Updated 2026-09-10" in page.path().read_text()


def test_the_picture(learner):
    text = graph.svg(learner.state(at(1)).levels)
    root = ElementTree.fromstring(text)
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    namespace = "{http://www.w3.org/2000/svg}"
    assert (
        root.find(f"{namespace}title").text and "2 at level 3" in root.find(f"{namespace}desc").text
    )
    found, labels = graph.boxes()
    cards = exercises().values()
    taught = {concept for card in cards for concept in card.teaches}
    assert {box.slug for box in found} == taught and len(found) == len(taught)
    assert len(labels) == len({card.lesson for card in cards})
    assert len({(box.x, box.y) for box in found}) == len(taught), "boxes on top of each other"
    assert all(len(box.lines) <= 2 and max(map(len, box.lines)) <= 15 for box in found)
    assert len(graph.text_list({})) == len(taught)


def luminance(color: str) -> float:
    parts_ = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts_]
    return sum(weight * c for weight, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_the_picture_can_be_read_in_both_schemes(dark):
    rules = graph.STYLE.partition("@media")[2 if dark else 0]
    fills = dict(re.findall(r"\.concepts (\S+) {.*?fill: (#\w{6})", rules))
    lines = dict(re.findall(r"\.concepts (\S+) {.*?stroke: (#\w{6})", rules))
    boxes = [fill for name, fill in fills.items() if name not in ("text", ".tip")]
    assert len(boxes) == 7 and min(contrast(fills["text"], box) for box in boxes) >= 4.5
    assert min(contrast(line, fills[".paper"]) for line in lines.values()) >= 3
