"""Rows 21 to 23: an answer that takes more than an answer gets."""

from tests.hostile.case import HALF, READING_TURN, RIGHT_HALF, TURN, Case, attack, book, packed

ALONE = {TURN: {"ALONE"}}
DAEMON = """
import os, time
for _ in range(9):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0: time.sleep(600)
        os._exit(0)
return x
"""
THREADS = """
import threading, time
for _ in range(10000): threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
return x
"""
DISK = """
import tempfile
with tempfile.TemporaryFile() as file:
    while True: file.write(bytes(1 << 20))
"""
FILES = """
import os, tempfile
for n in range(10**5): open(f"{tempfile.gettempdir()}/{n}", "w").close()
"""
SHM = """
with open("/dev/shm/bomb", "wb") as file:
    for _ in range(10**4): file.write(bytes(1 << 20))
"""
OUTPUT = "import os\nfor _ in range(300): os.write(1, b'PASS' * 262144)\nreturn x"
LONG_NAME = "raise type('N' * 10**6, (Exception,), {})"
DEEP = "def rotate_half(x):\n    return " + "(" * 5000 + "x" + ")" * 5000
WIDE = "def rotate_half(x):\n    return x" + " + x" * 20000
MEMORY, PROCESSES = "LIMIT LIMIT-MEMORY", "LIMIT LIMIT-PROCESSES"


def heavy_output(nb: dict) -> dict:
    out = {"output_type": "stream", "name": "stdout", "text": "PASS " * 10**6}
    next(c for c in nb["cells"] if c.get("id") == f"{HALF}-check")["outputs"] = [out]
    return nb


CASES = [
    attack(21, "a-fork-bomb", "import os\nwhile True: os.fork()", PROCESSES),
    attack(21, "a-daemon", DAEMON, PROCESSES, turn=READING_TURN, flags=ALONE),
    attack(21, "threads", THREADS, "LIMIT"),
    attack(21, "a-program", "import subprocess; subprocess.run(['/bin/sleep', '600'])",
           "LIMIT|DENIED"),
    attack(21, "multiprocessing", "import multiprocessing as m\n"
           "with m.get_context('fork').Pool(2) as pool: pool.map(abs, range(9))\nreturn x",
           "LIMIT|DENIED"),
    attack(22, "a-list", "y = []\nwhile True: y.append(bytes(1 << 26))", MEMORY),
    attack(22, "a-tensor", "return torch.ones(1 << 40)", MEMORY),
    attack(22, "maps", "import mmap\ny = [mmap.mmap(-1, 1 << 28) for _ in range(99)]\nreturn x",
           MEMORY, turn=READING_TURN, flags=ALONE),
    attack(22, "shared-memory", SHM, "LIMIT|DENIED|CRASHED"),
    attack(22, "a-huge-answer", "return torch.ones(1).expand(1 << 40)", "LIMIT LIMIT-OUTPUT"),
    attack(22, "a-large-answer", "return torch.ones(6_000_000)", "LIMIT LIMIT-OUTPUT"),
    attack(22, "many-parts", "return [0] * 30_000", "LIMIT LIMIT-OUTPUT"),
    attack(22, "a-string-times", "return 'PASS' * 10**12", MEMORY),
    attack(23, "one-file", DISK, "LIMIT LIMIT-DISK"),
    attack(23, "many-files", FILES, "LIMIT LIMIT-DISK"),
    attack(23, "output", OUTPUT, "WRONG"),
    attack(23, "a-giant-message", "raise ValueError('x' * 10**8)", "ERROR RAISED"),
    attack(23, "a-giant-name", LONG_NAME, "ERROR RAISED"),
    attack(23, "endless-recursion", "return rotate_half(x)", "ERROR RAISED"),
    Case(23, "deeply-nested", packed(book(DEEP)), half="ERROR|UNGRADABLE"),
    Case(23, "a-wide-sum", packed(book(WIDE)), half="WRONG|ERROR"),
    Case(23, "a-long-answer", packed(book(RIGHT_HALF + "#" * 200_000)), half="UNGRADABLE"),
    Case(23, "old-output", packed(heavy_output(book())), half="PASS"),
]  # fmt: skip
