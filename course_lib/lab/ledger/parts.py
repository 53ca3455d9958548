"""Marked parts of a Markdown page: the machine writes between the marks, the rest is the learner's.

    <!-- ledger:begin NAME -->
    ...
    <!-- ledger:hash 0123456789ab -->
    <!-- ledger:end NAME -->

A part whose marks are missing is appended. The hash tells the machine's text from an edited one:
what a learner wrote between the marks is moved below them, whole. Ticks of check boxes stay where
they are. Line ends, alphabet and everything outside the marks are kept byte for byte.
"""

import hashlib
import re
from datetime import datetime

MARK = r"<!--\s*ledger:(?:begin|end)\b"
HASH = re.compile(r"<!--\s*ledger:hash (\w+)\s*-->\r?\n?")
TICKED = re.compile(r"^([ \t]*[-*] )\[[xX]\]( .*?)\r?$", re.M)
FORMATTING = (
    (re.compile(r"^(\s*)[*+] ", re.M), r"\1- "),  # bullets
    (re.compile(r":?-{3,}:?"), "---"),  # rules of tables
    (re.compile(r"[ \t]*\|[ \t]*"), "|"),
)
SIDES = {"<<<<<<<": "ours", "|||||||": "base", "=======": "theirs", ">>>>>>>": ""}


def put(text: str, name: str, body: str, *, heading: str, now: datetime) -> str:
    """The page with part `name` holding `body`; where it is missing, it comes last, under `heading`.

    A mark inside `body` is made harmless.
    """
    found = list(_marks_pattern(name).finditer(text))
    newline = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    if not found:
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return text + (gap + f"{heading}\n\n{_block(name, body)}\n").replace("\n", newline)
    for pair in reversed(found):  # twice after a merge by hand: both are kept current
        fresh = _block(name, _with_ticks(body, pair["body"])).replace("\n", newline)
        text = (
            text[: pair.start()]
            + fresh
            + _keep_written(pair["body"], newline, now)
            + text[pair.end() :]
        )
    return text


def inert(text: str) -> str:
    """A learner's text for use inside a part: comments in it cannot end the part."""
    return text.replace("<!--", "<\\!--").replace("-->", "--\\>")


def digest(body: str) -> str:
    """The hash of a part's text; ticks and what an editor's formatting changes do not count."""
    plain = TICKED.sub(r"\1[ ]\2", HASH.sub("", body))
    for pattern, instead in FORMATTING:
        plain = pattern.sub(instead, plain)
    plain = " ".join(plain.split())
    return hashlib.sha256(plain.encode("utf-8", "surrogateescape")).hexdigest()[:12]


def _marks_pattern(name: str) -> re.Pattern:
    """Both marks of a part, with no other mark between: a lost one must not swallow a page."""
    begin, end = (rf"<!--\s*ledger:{which}\s+{re.escape(name)}\s*-->" for which in ("begin", "end"))
    return re.compile(rf"{begin}(?P<body>(?:(?!{MARK}).)*){end}", re.DOTALL)


def _block(name: str, body: str) -> str:
    body = re.sub(r"<!--(?=\s*ledger:)", r"<\\!--", body)
    return (
        f"<!-- ledger:begin {name} -->\n{body}\n"
        f"<!-- ledger:hash {digest(body)} -->\n<!-- ledger:end {name} -->"
    )


def _keep_written(body: str, newline: str, now: datetime) -> str:
    """What is to stand below the part: nothing for the machine's own text, else the old text."""
    plain = body.replace("\r\n", "\n")
    if not plain.strip() or all(map(_is_ours, _sides(plain))):
        return ""
    gap = newline * 2
    said = f"Kept on {now:%Y-%m-%d}, as it stood between the marks above:"
    return gap + said + gap + HASH.sub("", body).strip("\r\n")


def _is_ours(body: str) -> bool:
    marks = HASH.findall(body)
    return len(marks) == 1 and marks[0] == digest(body)


def _sides(body: str) -> list[str]:
    """The part as each side of a merge had it; one when git left no conflict marks in it."""
    ours, theirs, side = [], [], ""
    for line in body.split("\n"):
        if line[:7] in SIDES and (side or line.startswith("<<<<<<<")):
            side = SIDES[line[:7]]
            continue
        if side in ("", "ours"):
            ours.append(line)
        if side in ("", "theirs"):
            theirs.append(line)
    return ["\n".join(ours)] + (["\n".join(theirs)] if ours != theirs else [])


def _with_ticks(body: str, old: str) -> str:
    """The new text with the ticks that the learner set on lines that are still there."""
    ticked = {match[1] + "[ ]" + match[2] for match in TICKED.finditer(old)}
    lines = body.split("\n")
    return "\n".join(x.replace("[ ]", "[x]", 1) if x in ticked else x for x in lines)
