"""Rows 1 to 4: right in an unusual way, not begun, half right. Nobody here means any harm."""

from tests.hostile.case import (
    HALF,
    READING_TURN,
    RIGHT_HALF,
    RIGHT_TURN,
    TURN,
    Case,
    attack,
    book,
    changed,
    half,
    packed,
    right,
    untouched,
)

NOISE = """
import logging, os, sys, warnings
warnings.warn("NNPACK is not available")
logging.error("careful")
print("to stderr", file=sys.stderr)
os.write(2, b"[W] a library says something\\n")
"""
LOUD = """
import sys, warnings
warnings.warn("slow"); print(x, file=sys.stderr); print(x)
h = x.shape[-1] // 2
return torch.cat([-x[..., h:], x[..., :h]], dim=-1)
"""
PASS = {"half_": "PASS"}


def helpers(nb):
    """The answer calls a helper of another cell, which needs an import of a third."""
    where = next(i for i, one in enumerate(nb["cells"]) if one.get("id") == HALF)
    nb["cells"][where]["source"] = half("return flipped(x, SIGN)")
    for text in (
        "import numpy as np\nSIGN = int(np.sign(-3))",
        "def flipped(x, s):\n    a, b = x.tensor_split(2, -1)\n"
        "    return torch.cat((s * b, a), -1)",
    ):
        nb["cells"].insert(2, {"cell_type": "code", "metadata": {}, "source": text})


def blank_cells(nb):
    for one in nb["cells"]:
        if one.get("id") in (HALF, TURN):
            one["source"] = ""


def only_text(*, half_: str = RIGHT_HALF, turn: str = RIGHT_TURN) -> bytes:
    return packed(book(half_, turn))


def turn(body: str) -> str:
    return f"def apply_rotary_pos_emb(q, k, cos, sin):\n    {body}\n"


CASES = [
    attack(1, "warnings-at-the-top", "a, b = x.chunk(2, -1); return torch.cat((-b, a), -1)",
           top=NOISE, **PASS),
    attack(1, "warnings-inside", LOUD, turn=READING_TURN, **PASS),
    Case(1, "a-cell-that-fails-last", only_text(half_=RIGHT_HALF + "\n1 / 0\n"), half="PASS|ERROR"),
    Case(2, "complex-in-float64", only_text(half_=right(HALF, "complex")), half="PASS"),
    Case(2, "roll", only_text(half_=right(HALF, "roll"), turn=READING_TURN), half="PASS"),
    Case(2, "filled-in-place", only_text(half_=right(HALF, "a buffer")), half="PASS"),
    Case(2, "views", only_text(half_=right(HALF, "unflatten")), half="PASS"),
    Case(2, "a-lambda", only_text(half_="rotate_half = lambda x: torch.cat("
         "[-x.chunk(2, -1)[1], x.chunk(2, -1)[0]], -1)\n"), half="PASS"),
    Case(2, "decorated", only_text(half_="import functools\n\n\ndef plain(f):\n"
         "    return functools.wraps(f)(lambda x: f(x))\n\n\n@plain\n"
         + RIGHT_HALF), half="PASS"),
    changed(2, "helpers-in-other-cells", helpers, half="PASS"),
    Case(2, "names-in-greek", only_text(half_=half("ä, β = x.chunk(2, -1)  # 😀 ∂\n"
         "return torch.cat((-β, ä), -1)")), half="PASS"),
    Case(2, "a-thread", only_text(half_=half("""
         import threading
         a, b = x.chunk(2, -1)
         out = []
         one = threading.Thread(target=lambda: out.append(torch.cat((-b, a), -1)))
         one.start(); one.join()
         return out[0]""")), half="PASS"),
    Case(2, "windows-lines", only_text(half_=RIGHT_HALF.replace("\n", "\r\n")), half="PASS"),
    attack(2, "display-inside", "display(x.shape)\na, b = x.chunk(2, -1)\n"
           "return torch.cat((-b, a), -1)", **PASS),
    Case(2, "the-shell-first", only_text(half_="get_ipython().run_line_magic('matplotlib', 'inline')\n"
         + RIGHT_HALF), half="PASS"),
    Case(2, "magics-with-values", only_text(half_="files = !ls\nhow = %timeit -o 1\nlen?\n"
         + RIGHT_HALF), half="PASS"),
    Case(2, "an-await-below", only_text(half_=RIGHT_HALF + "import asyncio\nawait asyncio.sleep(0)\n"),
         half="PASS"),
    Case(2, "a-line-that-fails-first", only_text(half_="1 / 0\n" + RIGHT_HALF), half="PASS"),
    Case(2, "a-program-first", only_text(half_="import subprocess\nsubprocess.run(['ls'])\n"
         + RIGHT_HALF), half="PASS"),
    Case(2, "compiled", only_text(half_="import torch\n\n\n@torch.compile\n" + RIGHT_HALF),
         half="PASS"),
    Case(2, "the-input-overwritten", only_text(half_=half("""
         a, b = x.chunk(2, -1)
         out = torch.cat((-b, a), -1)
         x.copy_(out)
         return out""")), half="WRONG INPLACE"),
    Case(2, "numpy-loses-the-gradient", only_text(half_=half("""
         import numpy as np
         a, b = np.split(x.detach().float().numpy(), 2, -1)
         return torch.tensor(np.concatenate((-b, a), -1)).to(x.dtype)""")),
         half="WRONG ROPE-NO-GRAD"),
    Case(3, "untouched", packed(untouched()), half="ERROR STUB", turn="ERROR STUB"),
    changed(3, "emptied", blank_cells, half="ERROR|UNGRADABLE", turn="ERROR|UNGRADABLE"),
    attack(3, "only-pass", "pass", "WRONG NONE"),
    attack(3, "not-python", "return (", "ERROR"),
    attack(3, "begun-and-left", 'raise NotImplementedError("later")', "ERROR STUB",
           turn=READING_TURN, flags={TURN: {"ALONE"}}),
    Case(4, "second-wrong", only_text(turn=turn("return q * cos, k * cos")), half="PASS",
         turn="WRONG"),
    Case(4, "first-wrong", only_text(half_=half("a, b = x.chunk(2, -1)\n"
         "return torch.cat((b, -a), -1)"), turn=READING_TURN), half="WRONG",
         flags={TURN: {"ALONE"}}),
    Case(4, "second-raises", only_text(turn=turn("return q @ cos, missing")), half="PASS",
         turn="ERROR RAISED"),
]  # fmt: skip
