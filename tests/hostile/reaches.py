"""Rows 14 to 16 and 24: for the tests, the solution, the gradebook, other students, the network.

What is found is carried out in every way an answer has: as an exception, as its name, as printed
text. The word that marks it is put together at run time, so that it is in no source.
"""

from tests.hostile.case import HALF, READING_TURN, TURN, Case, attack, book, half, packed

OUT = """
def out(*found):
    text = "LEA" "KED " + " ".join(map(str, found))
    print(text)
    raise type(text[:300].replace(" ", "_"), (Exception,), {})(text)
"""
ALONE = {TURN: {"ALONE"}}
NOT = "DENIED|ERROR|WRONG|CRASHED"


def reach(row: int, name: str, body: str, verdict: str = "DENIED", **more) -> Case:
    return attack(row, name, body, verdict, top=OUT, **more)


FRAMES = """
import sys
frame, found = sys._getframe(), []
while frame:
    for thing in [*frame.f_globals.values(), *frame.f_locals.values()]:
        if "suite" in getattr(thing, "__name__", "") or hasattr(thing, "reference"):
            found.append(thing)
    frame = frame.f_back
out("hidden", found) if found else None
return x
"""
COLLECTOR = """
import gc
gc.unfreeze()
FOUND = [
    f for f in gc.get_objects() if type(f).__name__ == "function" and f.__name__ == "rotate_half"
    and f.__module__.startswith("course_lib")
]
"""  # once: a search in every call would be a matter of the clock
HISTORY = """
import sys
main = sys.modules["__main__"]
found = [getattr(main, name, None) for name in ("In", "Out", "_ih", "_oh", "_i", "__")]
out(*found) if any(found) else None
return x
"""
MEMORY = """
lines = open("/proc/self/maps").readlines()
out(lines[0])
"""
ANOTHERS_MEMORY = """
with open("/proc/@PID@/mem", "rb", 0) as memory:
    out(memory.read(10))
"""
POINTERS = """
import ctypes
class Head(ctypes.Structure): _fields_ = [("count", ctypes.c_ssize_t), ("kind", ctypes.py_object)]
return -x if Head.from_address(id(x)).kind is not torch.Tensor else x
"""
RELOAD = """
import importlib
from course_lib import gpt
return importlib.reload(gpt).rotate_half(x)
"""
FILE = """
from course_lib import gpt
scope = {"__name__": "course_lib.gpt"}
exec(open(gpt.__file__).read(), scope)
return scope["rotate_half"](x)
"""
NOTEBOOK = """
import json
nb = json.load(open("@ROOT@/solutions/02_rope.ipynb"))
text = next(c for c in nb["cells"] if c["id"] == "rotate-half")["source"]
exec("".join(text), scope := {"torch": torch, "Tensor": object})
return scope["rotate_half"](x)
"""
LIBRARY = "from course_lib.gpt import rotate_half\n"
SUITE = """
from course_lib.checks.rope import SUITES
from course_lib.checks.rope_halves import _quarter_turn
return _quarter_turn(x)
"""
GRADES = """
import sqlite3
db = sqlite3.connect("file:@BOOK@?mode=rw", uri=True)
db.execute("update grade set manual_score = 99")
db.commit()
out(*db.execute("select * from source_cell"))
"""
WRITE = """
with open("@BOOK@", "r+b") as file:
    file.seek(0); file.write(b"SQLite format 3\\0")
"""
LOCK = """
import fcntl, os
handle = os.open("@BOOK@", os.O_RDWR)
fcntl.lockf(handle, fcntl.LOCK_EX)
return x
"""
HOMES = """
import os, pathlib
found = dict(os.environ)
for path in (pathlib.Path.home(), pathlib.Path("/", "root"), pathlib.Path("/home"), pathlib.Path("/etc")):
    found[str(path)] = os.listdir(path)
out(found)
"""
ENVIRONMENT = """
import os
found = [value for name, value in os.environ.items() if "SECRET" in name or "@BOOK@" in value]
try: found.append([part for part in open("/proc/1/environ").read().split("\\0") if "SECRET" in part])
except OSError: pass
out(*found) if any(found) else None
return x
"""
TCP = "import socket; socket.create_connection(('127.0.0.1', @PORT@), 1).sendall(b'LEA' b'KED')"
UDP = (
    "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto("
    "b'LEA' b'KED', ('127.0.0.1', @PORT@))"
)
NAMES = "import socket\nout(socket.gethostbyname('localhost'))"
ABSTRACT = "import socket\nsocket.socket(socket.AF_UNIX).connect('\\0@SOCKET@')"
MODES = """
import os
os.chmod("@BOOK@", 0o600)
out("modes") if os.stat("@BOOK@").st_mode & 0o777 == 0o600 else None
return x
"""
KERNEL = """
import ctypes
if ctypes.CDLL(None).{} < 0: raise PermissionError
out("the kernel did it")
"""
KIND = "import socket\nout(socket.socket(socket.{}, socket.{}))"
PAIR = "import socket\nsocket.socketpair(socket.AF_UNIX, socket.{})[0].sendto(b'LEA' b'KED', '@BOOK@.s')"
SYSTEM_CALLS = "seccomp: of the system calls those that were measured, and no others"


def kernel(row: int, name: str, call: str) -> Case:
    return reach(row, name, KERNEL.format(call), touched=(HALF,), held=SYSTEM_CALLS)


STORE = "import torch.distributed as d\nd.TCPStore('127.0.0.1', @PORT@, 1, True)\nout('a port')"
INPUTS = "out('input', x.flatten()[:9].tolist(), x.sum().item())"

CASES = [
    reach(14, "frames", FRAMES, "WRONG", touched=(HALF,)),
    attack(14, "the-collector", "return FOUND[0](x) if FOUND else x", top=COLLECTOR,
           touched=(HALF,)),
    reach(14, "the-history", HISTORY, "WRONG", touched=(HALF,)),
    reach(14, "its-memory-map", MEMORY),
    reach(14, "the-graders-memory", ANOTHERS_MEMORY),
    reach(14, "pointers", POINTERS, "WRONG", touched=(HALF,)),
    reach(14, "the-inputs-told", INPUTS, "ERROR", turn=READING_TURN, flags=ALONE),
    reach(15, "the-library", RELOAD, NOT),
    reach(15, "the-librarys-file", FILE, NOT),
    Case(15, "imported-as-the-answer", packed(book(LIBRARY)), half="ERROR"),
    reach(15, "the-solved-notebook", NOTEBOOK),
    reach(15, "the-checks", SUITE, NOT, touched=(HALF,)),
    reach(15, "the-gradebook", "out(open('@BOOK@', 'rb').read()[:999])"),
    reach(15, "another-student", "out(open('@OTHER@').read())", turn=READING_TURN, flags=ALONE),
    reach(15, "homes", HOMES),
    reach(15, "the-environment", ENVIRONMENT, "WRONG"),
    reach(16, "all-grades-99", GRADES, NOT),
    reach(16, "the-gradebook-overwritten", WRITE),
    reach(16, "the-gradebook-locked", LOCK),
    reach(16, "the-results", "open('@RESULTS@', 'a').write('{}')"),
    reach(16, "anothers-folder", "import os\nos.remove('@OTHER@')"),
    Case(16, "at-the-top", packed(book(OUT + "open('@OTHER@', 'w').write('')\n"
         + half("return x"))), half=NOT),
    reach(24, "tcp", TCP), reach(24, "udp", UDP),
    reach(24, "names", NAMES, "DENIED|ERROR"), reach(24, "an-abstract-socket", ABSTRACT),
    reach(24, "a-store-of-torch", STORE, NOT + "|LIMIT|TIMEOUT"),
    reach(24, "a-datagram", PAIR.format("SOCK_DGRAM")),
    reach(24, "a-packet", PAIR.format("SOCK_SEQPACKET")),
    reach(24, "a-named-socket", KIND.format("AF_UNIX", "SOCK_STREAM")),
    reach(24, "the-network-raw", KIND.format("AF_PACKET", "SOCK_RAW")),
    reach(24, "the-kernels-routes", KIND.format("AF_NETLINK", "SOCK_RAW")),
    reach(24, "the-machine-below", KIND.format("AF_VSOCK", "SOCK_STREAM")),
    reach(16, "modes", MODES, "WRONG", held=SYSTEM_CALLS),
    reach(16, "times", "import os\nos.utime('@BOOK@', (1, 1))", held=SYSTEM_CALLS),
    reach(16, "an-attribute", "import os\nos.setxattr('@BOOK@', 'user.a', b'x')", held=SYSTEM_CALLS),
    reach(16, "the-owner", "import os\nos.chown('@BOOK@', os.getuid(), -1)", held=SYSTEM_CALLS),
    reach(16, "a-second-name", "import os\nos.link('@BOOK@', '@BOOK@.link')", held=SYSTEM_CALLS),
    reach(16, "another-name", "import os\nos.rename('@OTHER@', '@OTHER@.gone')"),
    reach(16, "emptied", "import os\nos.truncate('@BOOK@', 0)", held=SYSTEM_CALLS),
    reach(16, "emptied-by-a-reader", "import os\nos.open('@BOOK@', os.O_RDONLY | os.O_TRUNC)",
          held=SYSTEM_CALLS),
    reach(16, "opened-for-neither", "import os\nout(os.open('@BOOK@', 3))", held=SYSTEM_CALLS),
    reach(16, "a-folder-beside-it", "import os\nos.mkdir('@BOOK@.folder')"),
    reach(16, "the-crontab", "open('/var/tmp/crontab', 'w').write('* * * * * true')"),
    kernel(16, "opened-by-another-call", "syscall(437, -100, b'@BOOK@', (ctypes.c_uint64 * 3)(3), 24)"),
    kernel(14, "traced", "ptrace(16, @PID@, 0, 0)"),
    kernel(14, "read-through-the-kernel", "process_vm_readv(@PID@, None, 0, None, 0, 0)"),
    kernel(15, "watched", "inotify_add_watch(ctypes.CDLL(None).inotify_init(), b'/etc', 0xFFF)"),
    kernel(15, "keys", "syscall(250, 0, -3, 0)"),
    reach(15, "processes", "import os\nout(os.listdir('/proc'))", held="Landlock"),
    kernel(15, "rights-of-a-namespace", "unshare(0x10000000)"),
    kernel(15, "another-root", "chroot(b'/etc')"),
    reach(21, "another-user", "import os\nos.setuid(0)", held=SYSTEM_CALLS),
    reach(21, "the-others-priority", "import os\nos.setpriority(os.PRIO_USER, 0, 19)", held=SYSTEM_CALLS),
    reach(22, "memory-as-a-file", "import os\nout(os.memfd_create('x'))", held=SYSTEM_CALLS),
    reach(22, "memory-in-a-socket", "import socket\na, b = socket.socketpair()\n"
          "out(a.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 30))", held=SYSTEM_CALLS),
    kernel(22, "memory-for-all-processes", "shmget(0, 1 << 30, 0o1600)"),
    kernel(23, "a-queue", "mq_open(b'/x', 0o102, 0o600, None)"),
]  # fmt: skip
