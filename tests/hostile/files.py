"""Row 25, and what is handed in beside a notebook: files that are none, links, active text."""

import json

from tests.hostile.case import (
    HALF,
    RIGHT_HALF,
    WRONG_HALF,
    Case,
    book,
    cell,
    changed,
    packed,
)

GOOD = packed(book())
SCRIPT = "<script>alert('LEA' + 'KED')</script>"


def lone(reason: str, name: str, data: bytes) -> Case:
    return Case(25, name, data, reason=reason)


def active(nb):
    """Whatever a browser might run, wherever a notebook has text."""
    nb["metadata"] = {"kernelspec": {"name": SCRIPT, "display_name": SCRIPT}, "title": SCRIPT}
    cell(nb, HALF)["source"] = f"{WRONG_HALF}# </pre></textarea>{SCRIPT}\n"
    outs = [
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {
                "text/html": SCRIPT,
                "image/svg+xml": "<svg onload=alert(1)>",
                "application/javascript": "alert(1)",
            },
        }
    ]
    cell(nb, HALF)["outputs"] = cell(nb, f"{HALF}-check")["outputs"] = outs
    text = f"{SCRIPT} <img src=x onerror=alert(1)> [l](javascript:alert(2)) ![i](https://evil.example/x)"
    for kind in ("markdown", "raw"):
        nb["cells"].insert(1, {"cell_type": kind, "metadata": {}, "source": text})


def active_error(nb):
    cell(nb, HALF)["source"] = f"def rotate_half(x):\n    raise ValueError({SCRIPT!r})\n"


def surrogates(nb):
    cell(nb, HALF)["source"] = RIGHT_HALF + "# \ud83d \udfff\n"


def nul(nb):
    cell(nb, HALF)["source"] = RIGHT_HALF + "\0"


def cells_of_all_kinds(nb):
    nb["cells"][1:1] = [None, 7, [], "cell", {}, {"cell_type": 9}, {"source": [1, "a"]},
                        {"cell_type": "code", "source": {"a": 1}, "metadata": []}]  # fmt: skip


def as_lists(nb):
    for one in nb["cells"]:
        one["source"] = "".join(one["source"]).splitlines(keepends=True)


def of_format(number) -> bytes:
    return json.dumps(book() | {"nbformat": number}).encode()


def padded(text: str) -> bytes:
    """The right notebook with this in a cell of its own."""
    nb = book()
    nb["cells"].insert(1, {"cell_type": "code", "metadata": {}, "source": text})
    return packed(nb)


BESIDE = {"torch.py": "raise SystemExit('LEA' 'KED')", "sitecustomize.py": "import os; os._exit(9)",
          "course_lib/__init__.py": "", "grader/__init__.py": "", "conftest.py": "1 / 0",
          "nbgrader_config.py": "c.Autograde.autograde_preprocessors = []", "02_rope.py": "x",
          "timestamp.txt": "not a date"}  # fmt: skip

CASES = [
    lone("not JSON", "not-json", b"import torch\n"),
    lone("not JSON", "cut-short", GOOD[: len(GOOD) // 2]),
    lone("not JSON", "empty", b""),
    lone("not JSON", "too-deep", b"[" * 200_000),
    lone("not UTF-8", "latin-1", GOOD.replace(b"RoPE", "Röpé".encode("latin-1"))),
    lone("not UTF-8", "utf-16", GOOD.decode().encode("utf-16")),
    lone("not UTF-8", "a-zip", b"PK\x03\x04\xff\xfe../../../gradebook.db"),
    lone("no format number", "a-list", b"[1, 2]"),
    lone("no format number", "format-in-words", of_format("four")),
    lone("format is 3", "format-3", of_format(3)),
    lone("unknown", "format-of-the-future", of_format(10**30)),
    lone("no list of cells", "no-cells", b'{"nbformat": 4, "metadata": {}}'),
    lone("more than", "three-thousand-cells", packed(book() | {"cells": book()["cells"] * 60})),
    lone("larger than", "nine-megabytes", GOOD[:-1] + b" " * (9 << 20) + b"}"),
    lone("more than 1,000,000", "five-megabytes-of-newlines", padded("\n" * (5 << 19))),
    lone(
        "more than 1,000,000", "five-megabytes-in-a-line", padded("x = " + "1+" * (5 << 19) + "1")
    ),
    Case(25, "a-cell-of-newlines", padded("\n" * 95_000 + "x = ("), half="PASS"),
    Case(25, "a-cell-of-blanks", padded("x = (" + " " * 90_000 + "?"), half="PASS"),
    Case(25, "a-link", b"", reason="link", link="@ROOT@/solutions/02_rope.ipynb"),
    Case(25, "a-link-to-the-gradebook", b"", reason="link", link="@BOOK@"),
    Case(25, "with-a-bom", b"\xef\xbb\xbf" + GOOD, half="PASS"),
    Case(
        25,
        "a-key-twice",
        GOOD[:-1] + b', "cells": ' + json.dumps(book(WRONG_HALF)["cells"]).encode() + b"}",
        half="WRONG",
    ),
    changed(25, "no-kernelspec", lambda nb: nb.update(metadata={}), half="PASS"),
    changed(25, "cells-of-all-kinds", cells_of_all_kinds, half="PASS"),
    changed(25, "text-as-lists", as_lists, half="PASS"),
    changed(25, "half-characters", surrogates, half="PASS"),
    changed(25, "a-nul", nul, half="UNGRADABLE"),
    changed(25, "active-text", active, half="WRONG"),
    changed(25, "an-active-error", active_error, half="ERROR RAISED"),
    Case(25, "files-beside-it", packed(book(WRONG_HALF)), half="WRONG", beside=BESIDE),
    Case(25, "a-cell-too-long", packed(book(turn="#" * 200_000)), half="PASS", turn="UNGRADABLE"),
]
