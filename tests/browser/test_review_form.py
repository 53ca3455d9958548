"""The review form in a browser, with Python behind it: keyboard alone, labels, both schemes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import harness
import pytest
from pages import opened

from course_lib.lab import events, registry
from course_lib.lab.reviews import notebook, queue
from course_lib.lab.reviews.items import items
from course_lib.lab.reviews.sitting import Sitting

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">
<meta name="viewport" content="width=device-width"><title>Review</title></head>
<body><main><h1>Lesson</h1><h2>Review</h2><div id="here"></div></main><script type="module">
import form from "./form.mjs";
const listeners = new Set();
const model = {
  card: JSON.parse(await python("{}")),
  get: (name) => model[name],
  on: (event, f) => listeners.add(f),
  off: (event, f) => listeners.delete(f),
  async send(message) {
    model.card = JSON.parse(await python(JSON.stringify(message)));
    for (const f of listeners) f();
  },
};
window.leaked = [];  // what a notebook's own keys would see
document.addEventListener("keydown", (e) => window.leaked.push(e.key));
form.render({ model, el: document.getElementById("here") });
document.body.dataset.ready = "";
</script></body></html>"""
KINDS = ("swiglu-1", "rmsnorm-4", "load-checkpoint-1", "bytes-2", "apply-rope-3")


@pytest.fixture
def form(tmp_path, monkeypatch) -> notebook.Form:
    """A sitting with one question of each kind."""
    monkeypatch.setenv("COURSE_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)
    file = events.path()
    file.parent.mkdir(parents=True)
    then = events.stamp(datetime.now(UTC) - timedelta(days=3))
    for name in KINDS:
        event = {"v": 1, "t": then, "kind": "check", "item": items()[name].exercise}
        with file.open("a", encoding="utf-8") as record:
            record.write(json.dumps(event | {"result": "pass", "code": "PASS"}) + "\n")
    every = {c: 3 for card in registry.exercises().values() for c in card.teaches}
    sitting = Sitting(levels=lambda *_: every)
    due = {one.item: one for one in queue.waiting(sitting.events, sitting.now, every)}
    sitting.due = [due[name] for name in KINDS]
    return notebook.Form(sitting)


def show(page: harness.Page, form: notebook.Form, folder, origin: str) -> None:
    (folder / "index.html").write_text(PAGE, encoding="utf-8")
    (folder / "form.mjs").write_bytes(notebook.MODULE.read_bytes())

    def python(message: str) -> str:
        form.receive(json.loads(message))
        return json.dumps(form.widget.card)

    page.expose_function("python", python)
    page.goto(f"{origin}/index.html")
    page.wait_for_selector("[data-ready]")


def recorded() -> list[dict]:
    return [event for event in events.read() if event["kind"] == "review"]


def test_a_sitting_by_keyboard_alone(chrome, form, tmp_path):
    (folder := tmp_path / "site").mkdir()
    with harness.serve(folder) as origin, opened(chrome) as page:
        watched = harness.watch(page, origin)
        show(page, form, folder, origin)
        page.keyboard.press("Tab")  # a number
        page.keyboard.type("x = b", delay=1)
        page.keyboard.press("Enter")
        page.get_by_text("expected a number").wait_for()
        assert recorded() == []
        assert page.evaluate("() => document.activeElement.value") == "x = b", "typed text is kept"
        page.keyboard.press("Control+A")
        page.keyboard.type(form.question.variant.accept.right, delay=1)
        page.keyboard.press("Tab")
        page.keyboard.press("5")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.get_by_text("Right.").wait_for()
        assert page.evaluate("() => document.activeElement.textContent") == "Next"
        page.keyboard.press("Enter")
        page.get_by_text("2 of 5").wait_for()  # a shape: the field has the focus
        page.keyboard.type("(B, T)", delay=1)
        page.keyboard.press("Enter")
        page.get_by_text("Not this time.").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("3 of 5").wait_for()  # a choice
        options = form.widget.card["choices"]
        wanted = options.index(form.question.variant.accept.right)
        page.keyboard.press("Space")
        for _ in range(wanted):
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.get_by_text("Right.").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("4 of 5").wait_for()
        page.keyboard.press("Space")
        page.keyboard.press("x")
        page.keyboard.press("b")
        page.get_by_role("button", name="I do not know").press("Enter")
        page.get_by_text("The answer:").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("5 of 5").wait_for()  # words
        page.get_by_role("button", name="Show the answer").press("Enter")
        page.get_by_text("Did you have it?").wait_for()
        page.get_by_role("button", name="With effort").press("Enter")
        page.get_by_text("comes back on").wait_for()
        page.keyboard.press("Enter")
        page.get_by_text("5 answered, 3 right").wait_for()
        assert [event["rating"] for event in recorded()] == [4, 1, 3, 1, 2]
        assert recorded()[0]["confidence"] == 5
        assert set(page.evaluate("() => window.leaked")) <= {"Tab"}, "before the form has a focus"
        assert watched.problems() == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_question_is_for_everyone(chrome, form, tmp_path, scheme):
    (folder := tmp_path / "site").mkdir()
    size = {"width": 320, "height": 900}
    with harness.serve(folder) as origin:
        with opened(chrome, color_scheme=scheme, viewport=size) as page:
            show(page, form, folder, origin)
            for number in range(len(KINDS)):
                page.get_by_text(f"{number + 1} of 5").wait_for()
                assert harness.axe(page) == [] and harness.sideways(page) == []
                button = "Show the answer" if number == 4 else "I do not know"
                page.get_by_role("button", name=button).click()
                page.get_by_role("button", name="Next" if number < 4 else "No").last.wait_for()
                assert harness.axe(page) == [] and harness.sideways(page) == []
                if number < 4:
                    page.get_by_role("button", name="Next").click()
