"""A learner's text on a page that a grader opens: it may say anything and do nothing.

nbgrader shows Markdown with its HTML as it is, to graders with all rights on their own server. So
tags lose their bracket, save a few that hold text and nothing else.
"""

import re

ALLOWED = "details|summary|b|i|em|strong|code|pre|sub|sup|br|p|ul|ol|li|table|thead|tbody|tr|td|th"
TAG = re.compile(rf"<(?!/?(?:{ALLOWED})\s*/?>)(?=[a-zA-Z/!?])", re.I)
ACTIVE = re.compile(r"(javascript|vbscript|livescript|data(?=:\w))\s*:", re.I)
OUTSIDE = re.compile(r"!\[")  # an image is fetched when the page opens, and tells who opened it
COMMAND = re.compile(r"\\(href|url|require|class|cssId|style|def|newcommand|let|unicode)\b")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


LONGEST = 20_000  # characters; nbconvert takes the square of a text's length for some


def make_harmless(markdown: str) -> str:
    """The same Markdown without HTML that acts, scripts in links, images, or active mathematics; cut
    where it is longer than anybody writes."""
    if len(markdown) > LONGEST:
        cut = f"{len(markdown) - LONGEST:,} more characters are in the submitted file"
        markdown = f"{markdown[:LONGEST]}\n\n({cut})"
    text = CONTROL.sub("", markdown)
    text = re.sub(r"&(?=#|colon|Tab|NewLine|lt)", "&amp;", text)  # entities that spell a scheme
    text = TAG.sub("&lt;", text)
    text = ACTIVE.sub(r"\1 :", text)
    text = OUTSIDE.sub("!&#91;", text)
    return COMMAND.sub(r"\\text{\1}", text)


def quote_as_code(text: str) -> str:
    """`text` as a block of code in Markdown, cut as `make_harmless` cuts."""
    return "\n".join("    " + line for line in CONTROL.sub("", text[:LONGEST]).splitlines())


def make_one_line(text: str) -> str:
    """`text` for a terminal or a traceback: no colors, no cursor, no line breaks."""
    return CONTROL.sub("", text).replace("\n", " ")
