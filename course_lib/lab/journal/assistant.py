"""Files for those who work with a coding assistant: the journal's structure as its instructions.

Two files in the folders where such tools look: a command, which asks and writes with the learner,
and a helper, which searches code and writes on its own while the learner goes on. The sections are
those of the course; they are named here from the same list.
"""

import os
from pathlib import Path

from course_lib.lab.journal.feedback import QUESTIONS
from course_lib.lab.journal.rules import RULES
from course_lib.lab.journal.sections import SECTIONS

COMMAND = Path(".claude") / "commands" / "learn.md"
HELPER = Path(".claude") / "agents" / "learning-journal.md"
GROUPS = {
    "opening": "Opening, always",
    "core": "Core",
    "visual": "Pictures, whenever several parts or devices take part",
    "analysis": "Analysis",
    "extension": "Going further",
}
WHEN = (  # on one line of the front matter: not every tool reads YAML in full
    "Writes an entry in the learning journal while other work goes on. Use it to document a concept, "
    "how a piece of code works, or what an experiment showed, when the entry may take a while."
)
PRINCIPLES = """\
## What an entry is for

It rebuilds an understanding. A list of facts does not.

1. The problem comes first, with numbers, and only then what solves it.
2. The way to a conclusion is written down, wrong turns included.
3. A concrete case comes before the general one.
4. The learner gets the means to find the next thing out alone: a command, a test, a question.
5. What the learner said and asked stays in their words and in their language.
"""
FORM = """\
## Form

1. Markdown in full: headings, lists, tables, code blocks.
2. Code is cited as `path/file.py:line`, and the line is looked up before it is cited.
3. Numbers instead of letters: 8 weights on 2 ranks, not N on R.
4. Tensors come with their dimensions, such as `(B, T, 768)`.
5. Sections carry their short mark, `[?]` or `[=]`, to be found when scrolling.
6. Analogies come from everyday life and say where they end.
7. A calculation shows every value in between.
8. `[ok]`, `[no]` and `[!]` say what works, what fails and what needs care.
9. A table of amounts has a total, and the total is the sum.
10. Entries link to one another.
"""
PATTERNS = """\
## Four ways to teach

- **Four forms.** The central idea appears in words, as mathematics, as code and as a drawing.
- **Layers.** First the idea in a sentence, then how it works, then what is sent, then how it is
  made fast, then what experts argue about. A reader may stop after each.
- **Why this way.** Say what an example or an analogy was chosen to show.
- **No step left out.** An update of one weight is computed to its last digit: mean, variance,
  corrected mean, step, new value.
"""


def write(into: Path) -> list[Path]:
    """Write both files below `into`; ValueError, and nothing written, when one of them is there."""
    if not into.is_dir():
        raise ValueError(f"there is no folder {into}; make it first, or name another with --into")
    wanted = {into / COMMAND: command(), into / HELPER: helper()}
    there = [str(path) for path in wanted if os.path.lexists(path)]
    if there:
        raise ValueError(
            f"already there, and left as it is: {', '.join(there)}; nothing was "
            "written. Rename it, or choose another folder with --into."
        )
    written: list[Path] = []
    try:
        for path, text in wanted.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "x", encoding="utf-8") as handle:
                written.append(path)
                handle.write(text)
    except OSError:
        for path in written:  # made in this moment, so it holds nothing of anybody's
            path.unlink(missing_ok=True)
        raise
    return written


def command() -> str:
    """The command `learn`: asks, writes, checks, asks for feedback."""
    return f"""\
---
description: Write down what I have just understood, as an entry in my learning journal
---

# Record something learned

Works for any concept, technique or piece of code, in this course and outside of it.

{PRINCIPLES}
## What to do

1. Ask which concept or question the entry is about, if that was not said.
2. Run `course journal new SUBJECT`. It prints the file of the entry: date, context, predictions,
   code references, related entries and tags are filled in. For a subject that the course does not
   know, add `--own`. Without the `course` command, make
   `learning/journal/YYYY-MM-DD-subject.md` with the sections below and a front matter with `date`,
   `title` and `tags`.
3. Fill every section that has something to say, below its prompt; then delete the prompt. Ask the
   learner what only they know: what they were doing, what confused them, what they expected.
   Leave `<!-- section: ... -->` and `<!-- journal:... -->` lines as they are.
4. Run `course journal check FILE` and correct what it finds.
5. Never change what the learner wrote, in this entry or in another, without being asked.

{sections()}
{PATTERNS}
{FORM}
{feedback()}"""


def helper() -> str:
    """The helper `learning-journal`: the same entry, written beside the learner's work."""
    return f"""\
---
name: learning-journal
description: {WHEN}
tools: Read, Write, Edit, Grep, Glob, Bash
---

# Keeper of the learning journal

{PRINCIPLES}
## What to do

1. If it was not said which concept or question to record, ask for it and stop.
2. Search the code with Grep and Glob for places where the idea is at work.
3. Read those files. Note exact lines, as `path/file.py:line`; cite none that was not read.
4. Run `course journal new SUBJECT` (`--own` for a subject that is not the course's), and write into
   the file it prints. It is made once and never overwritten; an entry that exists is added to,
   below what stands there.
5. Use every section that has something to say. An entry is worked out, not jotted down. What only
   the learner can know stays an open prompt: do not invent a confusion for them.
6. Run `course journal check FILE`, correct what it finds, and report the file and what is open.

{sections()}
{FORM}"""


def sections() -> str:
    """The twenty sections in their groups, each with what it asks."""
    lines = ["## The sections, in this order", "",
             "The title above them carries the date. `course journal template` prints the learner's "
             "own list, which may differ and then counts.", ""]  # fmt: skip
    for group, title in GROUPS.items():
        lines += [f"### {title}", ""]
        lines += [
            f"- **{s.mark} {s.title}** (`{s.key}`): {s.prompt}"
            for s in SECTIONS
            if s.group == group
        ]
        lines.append("")
    return "\n".join(lines)


def feedback() -> str:
    """The questions after an entry and what follows from them."""
    asked = "\n".join(f"{n}. {question}" for n, question in enumerate(QUESTIONS.values(), 1))
    rules = "\n".join(f"- `{rule.name}`, when {rule.when}: {rule.does}." for rule in RULES)
    flags = " ".join(f'--{key} "..."' for key in QUESTIONS)
    return f"""\
## After the entry

Ask the learner, and wait for the answers:

{asked}

Then run `course journal feedback {flags}`, with `--rule NAME` for a change they want:

{rules}

It changes the template of the entries to come and says what it did;
`course journal template --undo` takes the last change back.
"""
