"""The twenty sections of an entry: what each is for and what it asks."""

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Section:
    """One section. `key` names it for the course, `title` and `prompt` speak to the learner."""

    key: str
    title: str
    prompt: str
    mark: str = ""
    """A few characters in front of the title, to find the section when scrolling."""
    group: str = "own"
    required: bool = False
    aliases: tuple[str, ...] = ()
    """Other titles under which the section is recognized."""

    @property
    def heading(self) -> str:
        return f"## {self.mark} {self.title}" if self.mark else f"## {self.title}"


def reduce_title(text: str) -> str:
    """A title reduced to what tells it apart: no case, no numbering, no marks."""
    text = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.sub(r"[\W_]+", " ", re.sub(r"^[\W\d_]+", "", text)).split())


def _section(group: str, mark: str, key: str, title: str, prompt: str, *aliases: str) -> Section:
    required = key in ("context", "question", "problem", "intuition", "insights")
    return Section(
        key=key,
        title=title,
        prompt=prompt,
        mark=mark,
        group=group,
        required=required,
        aliases=aliases,
    )


SECTIONS = (
    _section(
        "opening", "[>]", "context", "Context",
        "What were you doing when this came up? One or two sentences.",
    ),
    _section(
        "opening", "[?]", "question", "The question I had",
        "The one thing you did not understand, as a question, *in italics*, as exact as you can.",
        "The key question I had", "Key question", "Question",
    ),
    _section(
        "opening", "[!]", "problem", "The problem",
        "What goes wrong without the idea? Put numbers on it before you name any solution: what is "
        "needed, what is there, what is missing.",
        "Problem",
    ),
    _section(
        "core", "[~]", "intuition", "Intuition",
        "Two or three sentences to a friend, in the present tense, tied to something they know.",
    ),
    _section(
        "core", "[*]", "insights", "Key insights",
        "Three to ten points, the most important first. Each stands alone and carries a number.",
        "Insights",
    ),
    _section(
        "core", "[=]", "math", "Mathematics",
        "The formulas with every step between them. For each symbol its meaning, its unit and its "
        "dimensions, such as (B, T, D).",
        "Mathematical explanation", "Math", "The mathematics",
    ),
    _section(
        "core", "[#]", "code", "Code, without and with",
        "The same job without the idea and with it, one under the other. Say for each line that "
        "matters why it is there, and where it stands, as file:line.",
        "Code", "Code examples", "Code example",
    ),
    _section(
        "core", "[:]", "analogy", "Analogy",
        "An everyday scene. Say what stands for what, as a table, and where the comparison ends.",
    ),
    _section(
        "core", "[1]", "example", "Worked example",
        "Numbered steps with small real numbers (8 weights, 2 ranks) and every value in between. "
        "What happens first, and what does it cause?",
        "Toy example", "Example", "Trace",
    ),
    _section(
        "visual", "[|]", "diagrams", "Diagrams",
        "Boxes drawn in plain text: who holds what, with totals. Mark [ok], [no] and [!].",
        "Diagram",
    ),
    _section(
        "visual", "[v]", "flow", "Flow over time",
        "Time runs down, one column for each rank. An arrow for data that moves, an estimate for "
        "how long each step takes.",
        "Communication flow", "Data flow", "Timeline",
    ),
    _section(
        "analysis", "[+]", "strengths", "What works well",
        "Five to ten strengths. How much is gained, why, and one case in which you saw it.",
        "Strengths",
    ),
    _section(
        "analysis", "[-]", "limits", "Limits and pitfalls",
        "Five to ten, honestly. How it fails, and when not to use it.",
        "Limitations/Pitfalls", "Limitations", "Limits", "Pitfalls",
    ),
    _section(
        "analysis", "[<>]", "comparison", "Comparison",
        "A table: the alternatives, and how each behaves as things grow.",
        "Comparisons",
    ),
    _section(
        "analysis", "[%]", "cost", "Cost and trade-offs",
        "Where the time goes, where the memory goes, what it does to quality. Tables have a total.",
        "Performance/Trade-offs", "Performance", "Trade-offs", "Performance and trade-offs",
    ),
    _section(
        "extension", "[/]", "extensions", "Ideas to go further",
        "Five to ten: what could be built on it, combined with it, or asked by research.",
        "Extension ideas", "Extensions",
    ),
    _section(
        "extension", "[$]", "tips", "Practical tips",
        "Commands and habits you would use tomorrow: to choose, to watch, to debug.",
        "Tips",
    ),
    _section(
        "extension", "[&]", "related", "Related",
        "Entries that this one stands on, and what comes next. Links to other entries.",
        "Related concepts",
    ),
    _section(
        "extension", "[..]", "open", "Open questions",
        "Five to ten things you still do not know, and how you would find out.",
        "Follow-up questions", "Questions", "Follow up questions",
    ),
    _section(
        "extension", "[@]", "tags", "Tags",
        "Words you will search for: the technique, the field, the model. #like-this",
    ),
)  # fmt: skip
BY_KEY = {section.key: section for section in SECTIONS}
assert len(BY_KEY) == 20
