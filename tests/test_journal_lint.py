"""The journal's linter: each planted fault is found, and a clean entry in any style is left alone."""

import re
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.lab.journal import template as templates
from course_lib.lab.journal.dimensions import has_shape
from course_lib.lab.journal.entry import read
from course_lib.lab.journal.export import page
from course_lib.lab.journal.lint import Desk, lint
from course_lib.lab.journal.new import open_entry
from course_lib.lab.journal.search import search
from course_lib.lab.journal.subject import subject
from course_lib.lab.journal.sums import amount

ROOT = Path(__file__).resolve().parents[1]
TODAY, NOW = date(2026, 11, 20), datetime(2026, 11, 20, 12, tzinfo=UTC)
ANSWERS = {
    "context": "I read lesson 22 and met optimizer states.",
    "question": "*Why does the optimizer need more memory than the weights?*",
    "problem": "A model of 7 billion weights needs 112 GB to train, and the card has 80.",
    "intuition": "Every weight has two shadows that follow it. They are kept on the same shelf.",
    "insights": "- 12 of 16 bytes per weight belong to the optimizer.",
    "math": "A gradient is a tensor of shape (D, 4 D), as is its weight.",
    "code": "See `course_lib/gpt.py:3` for the norm.",
    "cost": """| part | bytes per weight | GB |
| --- | ---: | ---: |
| weights | 2 | 14 GB |
| gradients | 2 | 14 GB |
| optimizer | 12 | 84 GB |
| **Total** | **16** | **112 GB** |""",
    "related": "[the day before](2026-11-19-rope.md) and [[rope]]",
}


@pytest.fixture(autouse=True)
def journal(course_home):
    """A course home with an older entry in it."""
    folder = course_home / "learning" / "journal"
    folder.mkdir(parents=True)
    (folder / "2026-11-19-rope.md").write_text("# RoPE\n")
    return folder


def written() -> Path:
    """A new entry with its sections answered below the prompts."""
    path = open_entry(subject("a queue of my own"), [], today=TODAY).path
    text = path.read_text(encoding="utf-8")
    for key, answer in ANSWERS.items():
        text = re.sub(
            rf"(<!-- section: {key} -->\n(?:.*\n)*?> \[ \] .*\n)", rf"\1\n{answer}\n", text
        )
    path.write_text(text, encoding="utf-8")
    return path


def findings(path: Path, **changes):
    template = templates.load()
    desk = Desk(
        template=template,
        now=NOW,
        roots=(ROOT,),
        entries=frozenset(p.stem for p in path.parent.glob("2*.md")),
    )
    return lint(read(path, template), replace(desk, **changes))


def codes(path: Path, **changes) -> list[str]:
    return [finding.code for finding in findings(path, **changes)]


def edit(path: Path, old: str, new: str, count: int = 1) -> Path:
    text = path.read_text(encoding="utf-8")
    assert old in text, f"the test's own entry has no {old!r}"
    path.write_text(text.replace(old, new, count), encoding="utf-8")
    return path


def only(path: Path, code: str):
    """The one finding that must be there; it says where, what was expected and what to do."""
    (finding,) = findings(path)
    assert finding.code == code and finding.expected and finding.got and finding.next
    assert 1 <= finding.line <= len(path.read_text(encoding="utf-8").splitlines()) + 1
    return finding


def test_a_written_entry_has_no_findings():
    assert findings(written()) == []


# Twelve planted faults, one test each.


def test_fault_1_a_required_section_is_gone():
    path = written()
    text = path.read_text(encoding="utf-8")
    path.write_text(re.sub(r"## \[!\] The problem\n(?:.*\n)*?(?=## )", "", text), encoding="utf-8")
    assert "The problem" in only(path, "MISSING").what


def test_fault_2_a_required_section_is_still_a_prompt():
    finding = only(edit(written(), ANSWERS["intuition"], ""), "EMPTY")
    assert "Intuition" in finding.what and finding.got == "the prompt, and nothing below it"


def test_fault_3_a_section_stands_twice():
    path = edit(
        written(), "## [v] Flow over time", "## Intuition\n\nOnce more.\n\n## [v] Flow over time"
    )
    assert "TWICE" in codes(path)


def test_fault_4_sections_out_of_order():
    path = written()
    text = path.read_text(encoding="utf-8")
    block = re.search(r"## \[\*\] Key insights\n(?:.*\n)*?(?=## )", text)[0]
    path.write_text(text.replace(block, "").rstrip("\n") + "\n\n" + block, encoding="utf-8")
    assert "Key insights" in only(path, "ORDER").what


@pytest.mark.parametrize("day", ["2026-02-30", "20 November", "2026-1-1", ""])
def test_fault_5_a_date_that_does_not_exist(day):
    path = edit(written(), "date: 2026-11-20", f"date: {day}")
    assert "DATE" in codes(path) and findings(path)[0].line == 4


def test_fault_6_a_date_in_the_future(journal):
    path = written()
    path = path.rename(journal / "2026-11-23-a-queue-of-my-own.md")
    edit(path, "2026-11-20", "2026-11-23", count=9)
    assert only(path, "DATE").what == "the date lies in the future"


def test_fault_7_a_date_that_is_not_the_files():
    path = edit(written(), "2026-11-20", "2026-11-18", count=9)
    assert only(path, "DATE").what == "date and file name differ"


@pytest.mark.parametrize(
    "reference",
    [
        "course_lib/gtp.py:3",
        "course_lib/gpt.py:99999",
        "course_lib/gpt.py:0",
        "course_lib/gpt.py:9-3",
        "src/train.py:12",
    ],
)
def test_fault_8_a_reference_that_leads_nowhere(reference):
    assert only(edit(written(), "course_lib/gpt.py:3", reference), "REF").got == reference


@pytest.mark.parametrize("total", ["111 GB", "113 GB", "112 MB", "1,120 GB"])
def test_fault_9_a_sum_that_does_not_add_up(total):
    finding = only(edit(written(), "**112 GB**", f"**{total}**"), "SUM")
    assert (
        finding.expected.startswith(("112 GB", "112,000 MB")) and "14 + 14 + 84" in finding.expected
    )


def test_fault_10_a_tensor_without_dimensions():
    assert only(edit(written(), " of shape (D, 4 D)", ""), "DIMS").line > 40


@pytest.mark.parametrize(
    "link", ["[x](2026-11-18-none.md)", "[[swiglu]]", "[x](<no such.md>)", "[x](<rope.md>)"]
)
def test_fault_11_a_link_to_an_entry_that_does_not_exist(link):
    assert only(edit(written(), "[[rope]]", link), "LINK").got == link


def test_links_that_lead_somewhere(journal):
    (journal / "with blanks.md").touch()
    links = (
        "[x](<with blanks.md>) [y](with%20blanks.md#part) [z](https://example.org/a.md)"
        " [w](#here) [v](../journal/2026-11-19-rope.md) `[u](no.md)` [[2026-11-19-rope|it]]"
    )
    assert findings(edit(written(), "[[rope]]", links)) == []


def test_fault_12_no_tags_or_bad_ones():
    path = written()
    edit(path, "tags: [a-queue-of-my-own]", "tags: []")
    assert only(edit(path, "#a-queue-of-my-own", "none"), "TAGS").got == "none"
    edit(path, "tags: []", 'tags: ["zero stages"]')
    assert only(path, "TAGS").what == "this is no tag"
    edit(path, 'tags: ["zero stages"]', "tags: [memory]")
    assert (
        only(edit(path, "none", "#a-queue-of-my-own"), "TAGS").got
        == "only in one: a-queue-of-my-own, memory"
    )


# Faults of a file that was cut, merged, or edited by hand.


def test_conflict_markers_of_git_stop_the_rest():
    path = edit(
        written(), "- 12 of 16", "<<<<<<< HEAD\n- 12 of 16\n=======\n- 3/4\n>>>>>>> other\n- 12 of"
    )
    assert only(path, "CONFLICT").got == "<<<<<<< HEAD"


def test_an_entry_from_a_future_version_is_not_judged():
    path = edit(edit(written(), "v: 1", "v: 7"), "date: 2026-11-20", "date: {day: 5}")
    assert only(path, "VERSION").got == "v: 7"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("---\n\n#", "\n\n#", "it begins and does not end"),
        ("---\nv: 1", "v: 1", "there is none"),
        ("item: a-", "item: [a-", "it is not YAML"),
        ("v: 1", "- v", "it is not"),
    ],
)
def test_front_matter_that_cannot_be_read(old, new, said):
    found = findings(edit(written(), old, new))
    assert found[0].code == "FRONT" and found[0].got.startswith(said)


def test_a_code_block_that_never_ends():
    assert "FENCE" in codes(edit(written(), "See `course", "```python\nx = 1\nSee `course"))


def test_a_marker_without_its_partner_is_explained_and_the_text_is_the_learners():
    path = written()
    text = path.read_text(encoding="utf-8")
    marker = re.search(r"<!-- journal:end \w+ -->", text)[0]
    path.write_text(text.replace(marker, ""), encoding="utf-8")
    assert codes(path) == ["MARKER"]


def test_an_entry_cut_in_its_middle():
    path = written()
    text = path.read_text(encoding="utf-8")
    required = text.index("## [=] Mathematics") - len(ANSWERS["insights"]) - 2
    for at in (*range(0, required, 37), required):
        path.write_text(text[:at], encoding="utf-8")
        assert findings(path), f"cut at {at}, it lacks something"


def test_bytes_that_are_no_text():
    path = written()
    path.write_bytes(path.read_bytes().replace(b"two shadows", b"two \xff\xfe shadows"))
    assert codes(path) == ["ENCODING"]


# What is no fault.


def test_windows_line_ends_and_a_byte_order_mark_are_no_fault():
    path = written()
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert findings(path) == []


CHINESE = """---
date: 2026-11-20
title: 梯度累积
tags: [梯度累积, 显存]
---

# 梯度累积 2026-11-20

## 背景
<!-- section: context -->
读第九课时想到的。

## 我的问题
<!-- section: question -->
*为什么要除以步数？*

## 困难
<!-- section: problem -->
需要 64 个样本，显卡只放得下 8 个。

## 直觉
<!-- section: intuition -->
像分几次把货搬上车，最后一起开走。

## 要点
<!-- section: insights -->
1. 8 次小批量等于 1 次大批量。

## 数学
<!-- section: math -->
张量 x 的形状是（批，序列，768）。

## 开销
<!-- section: cost -->
| 部分 | 显存 | 时间 |
| --- | --- | --- |
| 权重 | 1,024 MB | 0.5 s |
| 梯度 | 1,024 MB | 500 ms |
| **合计** | 2 GiB（约） | 1.0 s |

## 我自己的一节
想到哪里写到哪里。
"""
PLAIN = """---
date: 2026-11-20
tags: attention
---

Flash attention
===============

1. Context
----------

Reading lesson 4 and [the paper](https://example.org/paper:12), with a server on localhost:8888.

2. The Key Question I Had
-------------------------

_Where do the scores go?_

### Problem

T = 8192 scores take 8192 x 8192 x 2 bytes = 134 MB a head.

### Intuition

Count votes as they come in; nobody keeps the ballots. Tensor cores do the rest.

### Key Insights

* 134 MB become 0.

#### Example

A detail of the insights, under a title that names a section.

### Toy Example

```text
| step | seen |
| total | 99 |
## no heading
```

| tile | weight |
|---|---|
| 1 | 0.33 |
| 2 | 0.33 |
| 3 | 0.33 |
| total | 1.00 |

| rung | speedup |
|---|---|
| compile | 1.3x |
| bf16 | 2.0x |
| total | 2.6x |
"""


@pytest.mark.parametrize("text", [CHINESE, PLAIN], ids=["chinese", "plain"])
def test_a_clean_entry_in_another_language_or_style_has_no_findings(journal, text):
    path = journal / "2026-11-20-own.md"
    path.write_text(text, encoding="utf-8")
    assert findings(path) == []


def test_a_shape_given_further_up_counts_and_one_further_down_does_not():
    path = edit(written(), "See `course", "The tensor of above. See `course")
    assert findings(path) == []
    edit(path, "A gradient is a tensor of shape (D, 4 D), as is its weight.", "Sizes (2 GB, more).")
    assert only(path, "DIMS").got.startswith("The tensor of above")
    assert findings(edit(path, "I read lesson 22", "With x of (B, T, 8)")) == []


def test_titles_of_the_learners_template_name_sections(journal):
    titles = {"context": "背景", "question": "我的问题", "problem": "困难", "intuition": "直觉",
              "insights": "要点"}  # fmt: skip
    lines = [f"  {key}: {{title: {title}}}" for key, title in titles.items()]
    (journal / "template.yaml").write_text("v: 1\nsections:\n" + "\n".join(lines), encoding="utf-8")
    path = journal / "2026-11-20-own.md"
    path.write_text(re.sub(r"<!-- section: .*\n", "", CHINESE), encoding="utf-8")
    assert findings(path) == []


def test_an_entry_is_held_to_the_template_of_its_day(journal):
    path = written()
    templates.add({"rule": "traces"}, today=date(2026, 11, 21))
    assert findings(path) == [], "asked for a day later"
    (journal / "template.yaml").unlink()
    templates.add({"rule": "traces"}, today=TODAY)
    assert codes(path) == ["EMPTY"]
    (journal / "template.yaml").unlink()
    templates.add({"rule": "math-last"}, today=TODAY)
    assert codes(path) == ["EMPTY"], "analogy is required; the old order is still an order"


def test_a_reference_into_code_elsewhere_needs_its_folder(journal, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "train.py").write_text("a = 1\nb = 2\n")
    path = edit(written(), "course_lib/gpt.py:3", "train.py:2")
    assert codes(path) == ["REF"]
    edit(path, "v: 1", f"v: 1\nroots: [{tmp_path / 'elsewhere'}]")
    assert findings(path) == []


@pytest.mark.parametrize(
    ("rows", "total", "right"),
    [
        (["14.2 GB", "14.2 GB", "28.3 GB"], "56.8 GB", True),  # within the last digits
        (["14.2 GB", "14.2 GB", "28.3 GB"], "57.0 GB", False),
        (["14.4", "14.4"], "29", True),  # a total without decimals is rounded
        (["14", "14"], "29", False),  # whole numbers are exact
        (["~14", "~14"], "29", True),
        (["33 %", "33 %", "33 %"], "100 %", True),
        (["1.024", "1.024"], "2.048", True),  # thousands or decimals, both add up
        (["1.024,5", "1.000,0"], "2.024,5", True),
        (["1 024 MB", "1 024 MB"], "2 GiB", True),
        (["1_000", "24"], "1,024", True),
        (["512 MB", "1.5 GB"], "2.0 GB", True),
        (["512 MB", "1.5 GB"], "2.4 GB", False),
        (["90 s", "30 s"], "2 min", True),
        (["90 s", "30 s"], "3 min", False),
        (["5", "-2"], "3", True),
        (["1e9999", "9" * 400], "3", True),
        (["5", ""], "6", True),  # one number is no sum
        (["4 bytes x 7e9", "2"], "9", True),  # a calculation, not an amount
        (["3 GB", "2 apples"], "9 GB", True),  # cannot be compared
        (["100 tok/s", "200 tok/s"], "150 tok/s", True),  # rates do not add
        (["0.1"] * 10, "1.0", True),
        (["0.1"] * 10, "2.0", False),
    ],
)
def test_sums_of_tables(rows, total, right):
    body = "\n".join(f"| row {i} | {value} |" for i, value in enumerate(rows))
    table = f"| part | x |\n| --- | --- |\n{body}\n| Total | {total} |"
    path = edit(written(), "| part | bytes", f"{table}\n\n| part | bytes")
    assert codes(path) == ([] if right else ["SUM"])


def test_subtotals_and_labels():
    table = (
        "| part | GB |\n|---|---|\n| a | 1 |\n| b | 2 |\n| Subtotal | 3 |\n| c | 4 |\n"
        "| d | 5 |\n| total (GB) | 12 |\n| total batch size | 99 |"
    )
    path = edit(written(), "| part | bytes", f"{table}\n\n| part | bytes")
    assert codes(path) == []
    assert codes(edit(path, "| 12 |", "| 15 |")) == ["SUM"], "a subtotal is not a term"


def test_amounts_are_read_as_written():
    assert amount("1,024 MB").value == 1024 and amount("1,024 MB").unit == "MB"
    assert amount("1.024,5", comma=True).value == 1024.5
    assert amount("2.5e3").value == 2500 and amount("-3").value == -3
    assert amount("twelve") is None and amount("3 of 4") is None and amount("") is None


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("(B, T, 768)", True),
        ("[2, 3]", True),
        ("(768,)", False),
        ("x_BTD", True),
        ("8 x 256", True),
        (r"\mathbb{R}^{D}", True),
        ("(batch, seq, 64)", True),
        ("(Zhang, 2019)", False),
        ("(words, and more)", False),
        ("f(first, second)", False),
        ("(2 GB, more)", False),
        ("(Norm, Rope)", False),
        ("(B, 4 D)", True),
        ("(n_heads, T/2)", True),
        ("(batch, H * K)", True),
        ("（批，序列，768）", True),
        ("B × T", True),
    ],
)
def test_what_counts_as_a_shape(text, shape):
    assert has_shape(text) is shape


PIECES = st.sampled_from(
    [
        "---\n",
        "date: 2026-11-20\n",
        "tags: [a",
        "# ",
        "## Context\n",
        "### Example\n",
        "```",
        "~~~\n",
        "> [ ] ",
        "<!-- ",
        "-->",
        "<!-- section: math -->\n",
        "<!-- journal:begin x -->\n",
        "<!-- journal:end x -->\n",
        "| a | b |\n",
        "| - | - |\n",
        "| total | 3 |\n",
        "| x | 1e9 |\n",
        "tensor",
        "(B, ",
        "gpt.py:3",
        "[x](",
        "[[",
        "]]",
        "\n",
        "\r",
        "\x00",
        "\u2028",
        "===\n",
        "{code-cell}\n",
        ":::",
        "#",
        "&a [*a]\n",
    ]
)


@settings(max_examples=200)
@given(st.lists(PIECES | st.text(max_size=5), max_size=40))
def test_no_text_is_too_strange_to_be_read(journal, pieces):
    """Linter, search and export say something about any file, and change nothing in it."""
    path = journal / "2026-11-20-own.md"
    path.write_bytes("".join(pieces).encode("utf-8", "replace"))
    before = path.read_bytes()
    found = findings(path)
    entry = read(path, templates.load())
    assert all(1 <= finding.line <= len(entry.lines) + 1 for finding in found)
    assert len(entry.kinds) == len(entry.lines)
    page(entry, [entry])
    search("tensor \u5f20\u91cf\u5f62", [entry])
    assert path.read_bytes() == before
