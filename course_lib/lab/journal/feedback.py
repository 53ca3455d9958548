"""Four questions after an entry, and the change of the template that the answers ask for."""

from collections.abc import Callable
from datetime import date

from course_lib.lab.journal import template as templates
from course_lib.lab.journal.rules import BY_NAME, RULES, Rule, propose_rules
from course_lib.lab.journal.template import Template

QUESTIONS = {
    "helped": "Which sections helped you most?",
    "missing": "What was missing?",
    "change": "What should change: too long, too short, the wrong thing in front?",
    "suggest": "What would you try next time: a new section, another form?",
}


def ask(read: Callable[[str], str] = input) -> dict[str, str]:
    """The four answers from a terminal; an empty one is an answer. ValueError without any."""
    print("Four questions about this entry; Enter passes one over.")
    answers: dict[str, str] = {}
    try:
        for key, question in QUESTIONS.items():
            answers[key] = clean(read(f"  {question} "))
    except (EOFError, NotImplementedError):  # NotImplementedError: a notebook that runs by itself
        if not any(answers.values()):
            raise ValueError(
                "the questions need a terminal; or answer with "
                '--helped "..." --missing "..." --change "..." --suggest "..."'
            ) from None
        print()  # what was answered before the end counts
    return {key: answers.get(key, "") for key in QUESTIONS}


def clean(text: str) -> str:
    """One line of what can be printed."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def choose(found: list[Rule], read: Callable[[str], str] = input) -> list[Rule]:
    """Let the learner confirm or replace the proposed rules, in whatever language they answered."""
    print("The template can change like this:")
    for number, rule in enumerate(RULES, 1):
        mark = "*" if rule in found else " "
        print(f"  {mark} {number}  {rule.when}: {rule.does}")
    default = "the marked ones" if found else "none"
    try:
        said = read(f"  Numbers, 0 for none, Enter for {default}: ").replace(",", " ").split()
    except (EOFError, NotImplementedError):
        return []
    if not said:
        return found
    chosen = [RULES[int(n) - 1] for n in said if n.isdecimal() and 1 <= int(n) <= len(RULES)]
    return list(dict.fromkeys(chosen))


def find_rules(names: list[str]) -> list[Rule]:
    """The rules called so; ValueError for another name, with the names there are."""
    for name in names:
        if name not in BY_NAME:
            raise ValueError(f"no rule is called {name!r}; the rules are {', '.join(BY_NAME)}")
    return [BY_NAME[name] for name in names]


def adapt(answers: dict[str, str], chosen: list[Rule], *, today: date) -> list[str]:
    """Apply the rules that change anything, one line of history each; says what was done."""
    said = "; ".join(text for text in answers.values() if text)
    lines = []
    for rule in chosen:
        before = templates.load()
        if Template(before.sections, ({"rule": rule.name},)).sections == before.sections:
            lines.append(f"{rule.name}: the template is so already")
            continue
        templates.add({"rule": rule.name, "said": said[:300]}, today=today)
        lines.append(f"{rule.name}: {rule.does}")
    return lines


def add_section(title: str, *, today: date) -> str:
    """A section of the learner's own, in front of Related; ValueError when there is one."""
    title = clean(title)
    before = templates.load()
    change = {"rule": "section", "title": title}
    if Template(before.sections, (change,)).sections == before.sections:
        raise ValueError(f"the template has a section {title!r} already")
    templates.add(change, today=today)
    return f"section: {title!r} is new"


__all__ = [
    "QUESTIONS",
    "adapt",
    "add_section",
    "ask",
    "choose",
    "clean",
    "find_rules",
    "propose_rules",
]
