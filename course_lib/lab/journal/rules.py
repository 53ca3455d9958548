"""How feedback changes the template: five stated rules, and a section of the learner's own."""

from dataclasses import dataclass, replace

from course_lib.lab.journal.entry import slug
from course_lib.lab.journal.sections import Section


@dataclass(frozen=True, kw_only=True, eq=False)
class Rule:
    """One rule: when it is proposed, and what it does to the sections."""

    name: str
    when: str
    does: str
    words: dict[str, tuple[str, ...]]
    """Question -> word stems; a question's answer that holds one of them proposes the rule."""
    titled: str = ""
    """A section whose title, in the learner's language, counts as such a word."""
    with_words: tuple[str, ...] = ()
    """And one of these too, when there are any."""
    required: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()
    """(section, sentence added to its prompt)"""
    last: str = ""
    """The section that moves behind the analysis."""
    new: Section | None = None


PRACTICE = Section(
    key="practice",
    title="Practice",
    mark="[x]",
    required=True,
    prompt="A problem for yourself in a month: what is given, what is asked, and step by step how "
    "to verify the answer.",
)
RULES = (
    Rule(
        name="examples",
        when="worked examples help most",
        does="the worked example is required, three times, at three scales",
        words={"helped": ("example",), "missing": ("example",), "suggest": ("more example",)},
        titled="example",
        required=("example",),
        extra=(("example", "Three times: with 2 numbers, with 8, with those of your model."),),
    ),
    Rule(
        name="math-last",
        when="there is too much mathematics",
        does="mathematics moves behind the analysis; intuition and analogy are required",
        words={"change": ("math", "formula", "equation")},
        with_words=("too", "less", "long", "heavy", "much", "end", "last", "later"),
        required=("intuition", "analogy"),
        extra=(("intuition", "Say it a second time with another picture."),),
        last="math",
    ),
    Rule(
        name="flow",
        when="diagrams of what moves are missing",
        does="the flow over time is required, with an arrow for each transfer",
        words=dict.fromkeys(
            ("helped", "missing", "suggest"), ("diagram", "flow", "timeline", "arrow", "picture")
        ),
        titled="flow",
        required=("flow",),
        extra=(("flow", "An arrow for every transfer, with its bytes on it."),),
    ),
    Rule(
        name="traces",
        when="following an execution step by step helps",
        does="the worked example is required, as a trace",
        words=dict.fromkeys(
            ("helped", "missing", "suggest"), ("trace", "step by step", "step-by-step")
        ),
        required=("example",),
        extra=(("example", "As a trace: step, line of code, the values before and after it."),),
    ),
    Rule(
        name="practice",
        when="you want problems to practice on",
        does="a required section Practice is added, with steps that verify the answer",
        words=dict.fromkeys(("missing", "change", "suggest"), ("practi", "exercise", "drill")),
        required=("practice",),
        new=PRACTICE,
    ),
)
BY_NAME = {rule.name: rule for rule in RULES}


def apply(change: dict, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """The sections after one change; an unknown rule, from a later course, changes nothing."""
    if change.get("rule") == "section":
        return _add_section(_own_section(str(change.get("title", "Own"))), sections)
    rule = BY_NAME.get(str(change.get("rule")))
    if rule is None:
        return sections
    if rule.new:
        sections = _add_section(rule.new, sections)
    if rule.last:
        sections = _behind_analysis(rule.last, sections)
    return tuple(_change_section(section, rule) for section in sections)


def propose_rules(answers: dict[str, str], sections: tuple[Section, ...]) -> list[Rule]:
    """The rules that the four answers ask for, by their words and by the learner's own titles."""
    titles = {section.key: section.title.casefold() for section in sections}
    found = []
    for rule in RULES:
        for question, stems in rule.words.items():
            said = answers.get(question, "").casefold()
            words = [*stems, *([titles[rule.titled]] if titles.get(rule.titled) else [])]
            hit = any(word in said for word in words)
            if hit and (not rule.with_words or any(word in said for word in rule.with_words)):
                found.append(rule)
                break
    return found


def _change_section(section: Section, rule: Rule) -> Section:
    extra = " ".join(text for key, text in rule.extra if key == section.key)
    prompt = section.prompt
    if extra and extra not in prompt:
        prompt = f"{prompt} {extra}".strip()
    required = section.required or section.key in rule.required
    return replace(section, prompt=prompt, required=required)


def _own_section(title: str) -> Section:
    title = " ".join(title.split())
    return Section(key=slug(title), title=title, prompt=f"{title}: your own section.")


def _add_section(new: Section, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    """In front of what links out: related, open questions, tags."""
    if any(section.key == new.key for section in sections):
        return sections
    at = next((i for i, s in enumerate(sections) if s.key == "related"), len(sections))
    return (*sections[:at], new, *sections[at:])


def _behind_analysis(key: str, sections: tuple[Section, ...]) -> tuple[Section, ...]:
    moved = [section for section in sections if section.key == key]
    rest = tuple(section for section in sections if section.key != key)
    return _add_section(moved[0], rest) if moved else sections
