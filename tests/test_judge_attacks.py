"""Hostile answers: each gets the verdict it deserves, learns nothing, and leaves nothing behind.

Rows 10 to 24 of the acceptance list; the others are about notebooks, not about code. Each attack is
a whole answer to one exercise which is wrong unless the attack works.
"""

import os
import re
import socket
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from course_lib import gpt
from grader.course import ROOT
from grader.judge import confine, worker
from tests.answers import answers
from tests.confined import grade, probe, processes, shared_client, variant
from tests.hostile.forgeries import WORKER

RIGHT = answers("bytes")[0].text
SMALL = 300 << 20
CANARY = "canary-7d1f"
HEAD = "def training_state_bytes(n, **sizes):\n"
NORM = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))
    def forward(self, x):
"""


def bytes_(body: str, top: str = "") -> str:
    """An answer to the exercise bytes: `body` is that of its function."""
    return top + "\n" + HEAD + textwrap.indent(textwrap.dedent(body).strip(), "    ") + "\n"


def norm(body: str, top: str = "") -> str:
    return top + NORM + textwrap.indent(textwrap.dedent(body).strip(), " " * 8) + "\n"


# Python 3.13.0 counts no recursion of functions with defaults: there time or memory ends it.
RECURSION = {"ERROR", "TIMEOUT", "LIMIT"} if sys.version_info[:2] == (3, 13) else {"ERROR"}

# name: (exercise, source, verdicts that are right)
FORGED = {
    "torch.allclose says yes": ("rmsnorm", norm(
        "return x", "import torch\ntorch.allclose = torch.equal = lambda *a, **k: True\n"),
        {"WRONG"}),
    "torch.testing, numpy and builtins say yes": ("rmsnorm", norm(
        "return x", "import builtins, numpy, torch.testing\n"
        "torch.testing.assert_close = numpy.allclose = lambda *a, **k: None\n"
        "builtins.abs = lambda x: 0\nbuiltins.all = builtins.any = lambda *a: True\n"), {"WRONG"}),
    "an object equal to all": ("bytes", bytes_(
        "return Any()", "class Any:\n    __eq__ = lambda a, b: True\n    __hash__ = None\n"
        "    __int__ = __index__ = lambda a: 1\n"), {"WRONG"}),
    "an int equal to all": ("bytes", bytes_(
        "return Any(3)", "class Any(int):\n    __eq__ = lambda a, b: True\n    __hash__ = None\n"),
        {"WRONG"}),
    "a tensor that agrees": ("rmsnorm", norm(
        "return x.as_subclass(Yes)", "class Yes(torch.Tensor):\n    @classmethod\n"
        "    def __torch_function__(cls, f, types, args=(), kwargs=None):\n"
        "        if f in (torch.allclose, torch.equal): return True\n"
        "        return super().__torch_function__(f, types, args, kwargs or {})\n"), {"WRONG"}),
    "transformers of the notebook": ("bytes", bytes_(
        "return 0", "class Drop:\n    def visit(self, tree): return tree\n") +
        "get_ipython().ast_transformers.append(Drop())\n", {"WRONG"}),
    "another run_cell": ("bytes", bytes_("return 0") + "\nfrom IPython import get_ipython\n"
        "get_ipython().run_cell = lambda *a, **k: None\n", {"WRONG"}),
    "%%magic": ("bytes", "%%capture\n" + bytes_("return 0"), {"WRONG"}),
    "a false course_lib.checks": ("bytes", bytes_(
        "return 0", "import sys, types\nfor name in ('course_lib.checks', 'pytest', 'unittest'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"), {"WRONG"}),
    "atexit, settrace, __del__": ("bytes", bytes_(
        "return 0", "import atexit, sys\natexit.register(print, 'PASS')\n"
        "sys.settrace(lambda *a: None)\nclass Del:\n    def __del__(self): print('PASS')\nDel()\n"),
        {"WRONG"}),
    "sys.exit at the top": ("bytes", "import sys\nsys.exit(0)\n" + RIGHT, {"PASS"}),
    "sys.exit inside": ("bytes", bytes_("import sys; sys.exit(0)"), {"ERROR"}),
    "SystemExit of 100": ("bytes", bytes_("raise SystemExit(100)"), {"ERROR"}),
    "PASS printed 300 million times": ("bytes", bytes_(
        "import os\nfor _ in range(300): os.write(1, b'PASS' * 262144)\nreturn 0"), {"WRONG"}),
    "a giant traceback": ("bytes", bytes_("raise ValueError('x' * 10**8)"), {"ERROR"}),
    "endless recursion": ("bytes", bytes_("return training_state_bytes(n)"), RECURSION),
    "a result of a gigabyte": ("rmsnorm", norm(
        "return torch.ones(1).expand(1 << 28)"), {"ERROR", "WRONG", "LIMIT"}),
    "a result in itself": ("bytes", bytes_("x = []; x.append(x); return x"), {"LIMIT"}),
    "exceptions that lie": ("bytes", bytes_(
        "raise Lie()", "class Lie(NotImplementedError):\n"
        "    def __str__(self): raise SystemExit\n"), {"ERROR"}),
}  # fmt: skip

SEARCH = {
    "imports the reference": norm("return Norm.forward(self, x)",
                                  "from course_lib.gpt import RMSNorm as Norm"),
    "inherits it": norm("return [c for c in nn.Module.__subclasses__() if c.__name__ == 'RMSNorm'"
                        " and 'gpt' in c.__module__][0].forward(self, x)"),
    "asks the garbage collector": norm("""
        import gc; gc.unfreeze()
        if not hasattr(gc, 'kept'):  # one search takes a tenth of a second, and a suite has many calls
            gc.kept = [f for f in gc.get_objects() if type(f).__name__ == 'function'
                       and f.__qualname__ == 'RMSNorm.forward' and f.__module__ == 'course_lib.gpt']
        if gc.kept:
            return gc.kept[0](self, x)
        return x"""),
    "walks the frames": norm("""
        import sys; frame = sys._getframe()
        while frame:
            for thing in [*frame.f_globals.values(), *frame.f_locals.values()]:
                if 'rms_norm' in getattr(thing, '__name__', '') or hasattr(thing, 'checks'):
                    return thing.suite('rmsnorm')
            frame = frame.f_back
        return x"""),
    "loads the library anew": norm("""
        import importlib, sys
        from course_lib import gpt
        return importlib.reload(gpt).RMSNorm.forward(self, x)"""),
    "runs the library's file": norm("""
        from course_lib import gpt
        scope = {'__name__': 'course_lib.gpt'}
        exec(open(gpt.__file__).read().split('def rope_tables')[0], scope)
        return scope['RMSNorm'].forward(self, x)"""),
    "reads its compiled file": norm("""
        import importlib.util, marshal
        from course_lib import gpt
        code = marshal.loads(open(importlib.util.cache_from_source(gpt.__file__), 'rb').read()[16:])
        exec(code, scope := {'__name__': 'course_lib.gpt'})
        return scope['RMSNorm'].forward(self, x)"""),
    "imports the checks": norm("""
        from course_lib.checks.rmsnorm import SUITES
        return SUITES[0].reference(x)"""),
}  # fmt: skip

DEATHS = {
    "os._exit": bytes_("import os; os._exit(0)"),
    "a signal to itself": bytes_("import os, signal; os.kill(os.getpid(), 9); os._exit(3)"),
    "a segmentation fault": bytes_("import ctypes; return ctypes.string_at(0)"),
    "abort": bytes_("import os; os.abort()"),
    "at the top": "import os\nos._exit(0)\n" + RIGHT,
}
ENDLESS = {
    "a loop": bytes_("while True: pass"),
    "a loop at the top": RIGHT + "\nwhile True: pass\n",
    "a loop that swallows everything": bytes_("""
        while True:
            try:
                while True: pass
            except BaseException: pass"""),
    "a loop in C": bytes_("return len(str(7 ** (10 ** 8)))"),
    "a large product": bytes_("import torch; x = torch.ones(4000, 4000)\nwhile True: x @ x"),
    "sleep": bytes_("import time; time.sleep(60)"),
    "no more reading": bytes_("import signal, os; os.kill(os.getpid(), signal.SIGSTOP)\nwhile 1: pass"),
}  # fmt: skip
SAY = """
import os, stat, json, struct
def say(raw):
    for fd in range(3, 99):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, raw)
        except OSError: pass
def frame(value, body=b''):
    head = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack('>IQ', len(head), len(body)) + head + body
GOOD = ["d", {"id": 2, "out": 16000, "args": ["l", [None]]}]
"""
PROTOCOL = {
    "junk": "say(b'PASS' * 100)",
    "an early reply": "say(frame(GOOD))",
    "a reply ahead": "say(frame(['d', {'id': 99, 'out': 1}]))",
    "a verdict": "say(frame(['d', {'id': 2, 'verdict': 'PASS', 'passed': True}]))",
    "a pickle": "import pickle; say(frame(pickle.dumps({'id': 2})))",
    "huge": "say(struct.pack('>IQ', 1 << 30, 1 << 62))",
    "negative": "say(frame(['d', {'id': 2, 'out': ['T', 'float32', [-1]]}]))",
    "not a dict": "say(frame(7))",
    "no inputs back": "say(frame(['d', {'id': 2, 'out': 16000}]))",
    "half a frame": "say(b'\\0' * 5); os._exit(0)",
}
BOMBS = {
    "memory, a list": (bytes_("x = []\nwhile True: x.append(bytearray(1 << 24))"), "LIMIT-MEMORY"),
    "memory, torch": (bytes_("import torch; return torch.ones(1 << 33).sum()"), "LIMIT-MEMORY"),
    "memory, shared": (bytes_("import mmap\nx = [mmap.mmap(-1, 1 << 28) for _ in range(99)]"),
                       "LIMIT-MEMORY"),
    "processes": (bytes_("import os\nwhile True: os.fork()"), "LIMIT-PROCESSES"),
    "processes, by subprocess": (bytes_("import subprocess, sys; subprocess.run(['/bin/true'])"),
                                 "LIMIT-PROCESSES"),
    "one file": (bytes_("import tempfile\nwith tempfile.TemporaryFile() as f:\n"
                        "    while True: f.write(bytes(1 << 20))"), "LIMIT-DISK"),
    "many files": (bytes_("import tempfile\nfor n in range(10**5): "
                          "open(f'{tempfile.gettempdir()}/{n}', 'w').close()"), "LIMIT-DISK"),
    "open files": (bytes_("import os\nx = [os.open('/dev/null', 0) for _ in range(9999)]"),
                   "LIMIT-OPEN-FILES"),
}  # fmt: skip
REFUSED = {
    "TCP": "import socket; socket.create_connection(('127.0.0.1', {port}), 1)",
    "UDP": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "an abstract socket": "import socket; socket.socket(socket.AF_UNIX).connect('\\0' + {abstract!r})",
    "another file": "open({file!r}).read()",
    "write another file": "open({file!r}, 'a').write('x')",
    "a new file beside it": "open({file!r} + '.mine', 'w')",
    "remove it": "import os; os.remove({file!r})",
    "the solutions": "open({root!r} + '/solutions/01_rmsnorm.ipynb')",
    "the tests": "open({root!r} + '/tests/answers/bytes.py')",
    "the users": "open('/etc/passwd')",
    "memory of the judge": "open('/proc/{pid}/mem', 'rb')",
    "its own memory map": "open('/proc/self/maps')",
    "a program": "import os; os.execv('/bin/true', ['true'])",
    "another's process": "import os; os.kill({pid}, 0); raise PermissionError",
    "a debugger": "import ctypes, os; l = ctypes.CDLL(None, use_errno=True)\n"
    "if l.ptrace(16, {pid}, 0, 0) < 0: raise OSError(ctypes.get_errno(), 'ptrace')",
    "new namespaces": "import ctypes; l = ctypes.CDLL(None, use_errno=True)\n"
    "if l.unshare(0x10000000) < 0: raise OSError(ctypes.get_errno(), 'unshare')",
    "limits of the judge": "import resource; resource.prlimit({pid}, resource.RLIMIT_CPU, (0, 0))",
    "signals by way of a file": "import fcntl\nfor fd in range(99): fcntl.fcntl(fd, 8, {pid})",
    "memory outside of the limit": "import os; os.memfd_create('x')",
}
DENIED_OTHERWISE = {"another's process": {"DENIED", "ERROR"}}  # there is no such process in there


@pytest.fixture(scope="module")
def outside():
    """What an answer must not reach: a listening port, an abstract socket, a file of everybody's."""
    folder = tempfile.TemporaryDirectory(dir="/var/tmp")  # workers have a /tmp of their own
    os.chmod(folder.name, 0o777)
    file = Path(folder.name) / "gradebook.db"
    file.write_text(CANARY)
    file.chmod(0o666)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        server.settimeout(0.2)
        abstract.bind(f"\0course-{os.getpid()}")
        abstract.listen()
        yield dict(
            port=server.getsockname()[1],
            abstract=f"course-{os.getpid()}",
            file=str(file),
            root=str(ROOT),
            pid=os.getpid(),
            server=server,
        )
    folder.cleanup()


@pytest.fixture(autouse=True)
def nothing_stays():
    """After each attack: no process but the spare worker."""
    shared_client()
    yield
    assert len(processes()) <= 1


@pytest.mark.parametrize("attack", FORGED)
def test_a_forged_verdict(attack):
    name, source, verdicts = FORGED[attack]
    decision = grade(name, source)
    assert decision.verdict in verdicts, decision


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize("attack", SEARCH)
def test_the_reference_is_nowhere(attack, tier):
    decision = grade("rmsnorm", SEARCH[attack], over=variant(tier=tier))
    assert decision.verdict in {"DENIED", "ERROR", "WRONG"}, decision


@pytest.mark.parametrize("attack", DEATHS)
def test_a_worker_that_dies(attack):
    decision = grade("bytes", DEATHS[attack])
    assert (decision.verdict, decision.code) == ("CRASHED", "CRASHED"), decision
    assert grade("bytes", RIGHT).passed  # the next answer is graded all the same


@pytest.mark.parametrize("attack", ENDLESS)
def test_an_answer_without_end(attack):
    decision = grade("bytes", ENDLESS[attack], over=variant(), budget_s=0.5)
    assert decision.verdict == "TIMEOUT", decision


@pytest.mark.parametrize("attack", PROTOCOL)
def test_a_forged_protocol(attack):
    source = bytes_(f"{PROTOCOL[attack]}\nreturn 0", SAY)
    decision = grade("bytes", source)
    assert decision.verdict in {"CRASHED", "WRONG"} and not decision.passed, decision
    assert decision.verdict == "CRASHED" or attack == "a verdict", decision
    assert grade("bytes", RIGHT).passed  # the next answer is graded all the same


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize("bomb", BOMBS)
def test_an_allowance_that_is_used_up(bomb, tier):
    source, code = BOMBS[bomb]
    decision = grade("bytes", source, over=variant(tier=tier, memory_bytes=SMALL))
    if tier == "landlock" and code == "LIMIT-DISK":  # there, nothing can be written at all
        assert decision.verdict in {"DENIED", "ERROR"}, decision
    else:
        assert (decision.verdict, decision.code) == ("LIMIT", code), decision
    assert grade("bytes", RIGHT).passed


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
@pytest.mark.parametrize("what", REFUSED)
def test_the_outside_is_out_of_reach(what, tier, outside):
    body = REFUSED[what].format(**outside) + "\nraise ValueError('it worked')"
    decision = grade("bytes", bytes_(body), over=variant(tier=tier))
    assert decision.verdict in DENIED_OTHERWISE.get(what, {"DENIED"}), decision
    file = Path(outside["file"])
    assert file.read_text() == CANARY and len(list(file.parent.iterdir())) == 1


@pytest.mark.parametrize("tier", ["namespaces", "landlock"])
def test_the_kernel_keeps_little_for_a_worker(tier):
    """What lies in a socket is in no process, and no limit on memory counts it: it once was 1 GB."""
    source = bytes_("""
        import socket
        kept = []
        try:
            while True:
                kept += socket.socketpair()
                for one in kept[-2:]:
                    one.setblocking(False)
                    try: one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 26)
                    except OSError: pass
        except OSError: pass
        count = 0
        for one in kept:
            try:
                while True: count += one.send(bytes(1 << 16))
            except OSError: pass
        return count""")
    assert 1 << 20 < probe(source, over=variant(tier=tier)) < 64 << 20


def test_what_a_forgery_replaces_in_the_worker_is_there():
    """Or the attack would replace nothing, and prove nothing."""
    names = re.findall(r'name == "(\w+)"', WORKER)
    assert len(names) == 2 and all(hasattr(worker, name) for name in names), names


def test_nothing_of_the_judges_environment_is_there(monkeypatch):
    monkeypatch.setenv("COURSE_SECRET", CANARY)
    source = bytes_("import os; return sorted(os.environ)")
    assert probe(source) == ["HOME", "LANG", "MPLBACKEND", "OMP_NUM_THREADS", "PATH", "TMPDIR"]


def test_a_daemon_does_not_outlive_its_worker():
    """Where several processes are allowed, one that hides in a session of its own dies too."""
    over = variant(tier="namespaces", processes=4)
    source = bytes_("""
        import os, time
        for _ in range(2):
            if os.fork() == 0:
                os.setsid()
                if os.fork() == 0: time.sleep(60)
                os._exit(0)
        os.wait()
        return 1""")
    assert probe(source, over=over) == 1
    assert len(processes()) <= 1


def test_ranks_may_talk_to_each_other_and_to_nobody_else(outside):
    """With several processes, sockets are allowed: over the worker's own loopback alone."""
    over = variant(tier="namespaces", processes=4)
    source = bytes_("""
        import os, socket
        server = socket.create_server(("127.0.0.1", 0))
        if os.fork() == 0:
            socket.create_connection(server.getsockname()).sendall(b"rank 1")
            os._exit(0)
        said = server.accept()[0].recv(6).decode()
        os.wait()
        return said""")
    assert probe(source, over=over) == "rank 1"
    for what in ("TCP", "an abstract socket"):
        body = REFUSED[what].format(**outside) + "\nreturn True"
        assert not works(bytes_(body), over)


# --- each defence has an attack that works without it ------------------------------------------


def works(source: str, over) -> bool:
    """Whether the attack, which returns True when it worked, did."""
    try:
        return probe(source, over=over) is True
    except Exception:
        return False


def defence(name: str, tier: str, outside: dict) -> tuple[str, dict]:
    """An attack that the defence stops alone, and the allowances it needs."""
    return {
        "namespaces": (
            "import socket\nsocket.create_connection(('127.0.0.1', {port}), 1)\nreturn True",
            {"processes": 4},
        ),
        "landlock": ("return open({file!r}).read() == 'canary-7d1f'", {}),
        "seccomp": ("import os\npid = os.fork()\nif pid == 0: os._exit(0)\nreturn pid > 0", {}),
        "limits": (
            "import torch\nreturn torch.empty(1 << 29).numel() > 0",
            {"memory_bytes": SMALL},
        ),
        "uid": (
            "import _thread, time\n_thread.stack_size(65536)\nmade = 0\ntry:\n"
            "    while made < 200: made += bool(_thread.start_new_thread(time.sleep, (3,)))\n"
            "except RuntimeError: pass\nreturn made == 200",
            {"processes": 4},
        ),
        "erasure": (
            "from course_lib.measure.memory import training_state_bytes as reference\n"
            "return reference(1000) == 16000",
            {},
        ),
        "files": (  # its own are three: the judge's socket, and a pipe for what its children saw
            "import os\nopen_fds = 0\nfor fd in range(3, 99):\n    try: os.fstat(fd)\n"
            "    except OSError: continue\n    open_fds += 1\nreturn open_fds > 3",
            {},
        ),
    }[name]


@pytest.mark.parametrize("name", sorted(confine.DEFENCES))
def test_each_defence_stops_an_attack_alone(name, outside):
    body, limits = defence(name, "namespaces", outside)
    source = bytes_(body.format(**outside) if "{" in body else body)
    assert not works(source, variant(tier="namespaces", **limits))
    if name == "uid" and os.getuid() != 0:
        pytest.skip("only root has a limit on processes that root does not obey")
    assert works(source, variant(tier="namespaces", without=name, **limits)), name


@pytest.mark.parametrize(
    "attack,name",
    [
        ("imports the reference", "erasure"),
        ("inherits it", "erasure"),
        ("asks the garbage collector", "erasure"),
        ("runs the library's file", "landlock"),
        ("reads its compiled file", "landlock"),
        ("loads the library anew", "landlock"),
    ],
)
def test_a_search_finds_the_reference_when_a_defence_is_down(attack, name):
    assert grade("rmsnorm", SEARCH[attack], over=variant(tier="namespaces", without=name)).passed


def test_the_library_in_use_is_this_checkout():
    """The files that the attacks above try to read are the ones the worker was loaded from."""
    assert Path(gpt.__file__).is_relative_to(ROOT)
