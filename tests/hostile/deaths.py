"""Rows 18 to 20: an answer that ends its process, leaves, or does not end."""

from tests.hostile.case import (
    HALF,
    READING_TURN,
    RIGHT_HALF,
    TURN,
    Case,
    attack,
    book,
    packed,
)

ALONE = {TURN: {"ALONE"}}
SWALLOW = """
while True:
    try:
        while True: pass
    except BaseException: pass
"""
MUTE = """
import os, signal
for number in range(1, 65):
    try: signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError): pass
os.kill(os.getpid(), signal.SIGSTOP)
while True: pass
"""
TURN_ENDLESS = "def apply_rotary_pos_emb(q, k, cos, sin):\n    while True: pass\n"
GONE = "CRASHED CRASHED"


def top(text: str) -> bytes:
    return packed(book(text + RIGHT_HALF))


CASES = [
    attack(18, "exit-now", "import os; os._exit(0)", GONE),
    attack(18, "exit-now-and-read", "import os; os._exit(0)", GONE, turn=READING_TURN,
           flags=ALONE),
    attack(18, "a-signal", "import os; os.kill(os.getpid(), 9); os._exit(3)", GONE),
    attack(18, "a-segmentation-fault", "import ctypes; return ctypes.string_at(0)", GONE,
           touched=(HALF,)),
    attack(18, "abort", "import os; os.abort()", GONE),
    Case(18, "at-the-top", top("import os\nos._exit(0)\n"), half=GONE),
    attack(19, "sys-exit", "import sys; sys.exit(0)", "ERROR RAISED"),
    attack(19, "system-exit", "raise SystemExit", "ERROR RAISED", turn=READING_TURN, flags=ALONE),
    attack(19, "keyboard", "raise KeyboardInterrupt", "ERROR RAISED"),
    attack(19, "generator-exit", "raise GeneratorExit", "ERROR RAISED"),
    Case(19, "at-the-top", top("import sys\nsys.exit(0)\n"), half="PASS"),
    attack(20, "a-loop", "while True: pass", "TIMEOUT"),
    attack(20, "it-swallows-all", SWALLOW, "TIMEOUT", turn=READING_TURN,
           flags={TURN: {"ALONE", "CLOCK"}}),
    attack(20, "a-product", "x = torch.ones(4000, 4000)\nwhile True: x @ x", "TIMEOUT"),
    attack(20, "in-c", "return len(str(7 ** (10 ** 8)))", "TIMEOUT"),
    attack(20, "sleep", "import time; time.sleep(600)", "TIMEOUT"),
    attack(20, "deaf", MUTE, "TIMEOUT"),
    Case(20, "at-the-top", packed(book(RIGHT_HALF + "\nwhile True: pass\n")), half="TIMEOUT"),
    Case(20, "the-second", packed(book(turn=TURN_ENDLESS)), half="PASS", turn="TIMEOUT"),
]  # fmt: skip
