"""Rows 10 to 13 and 17: a wrong answer that wants to be called right."""

from tests.hostile.case import (
    HALF,
    READING_TURN,
    RIGHT_HALF,
    TURN,
    Case,
    attack,
    book,
    changed,
    half,
    packed,
)

AGREE = """
import builtins, numpy, torch, torch.testing
torch.allclose = torch.equal = torch.isclose = lambda *a, **k: True
torch.testing.assert_close = numpy.allclose = numpy.testing.assert_allclose = lambda *a, **k: None
torch.Tensor.any = torch.Tensor.__ne__ = lambda *a, **k: False
"""
BUILTINS = """
import builtins
builtins.all = builtins.any = builtins.isinstance = lambda *a: True
builtins.abs = builtins.max = lambda *a: 0
builtins.AssertionError = builtins.ValueError = type("Quiet", (BaseException,), {})
"""
AGREEABLE = """
class Yes(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, types, args=(), kwargs=None):
        if f in (torch.allclose, torch.equal, torch.Tensor.__eq__):
            return True
        return super().__torch_function__(f, types, args, kwargs or {})
"""
EQUAL = """
class Any:
    shape, dtype, ndim = torch.Size((2, 4, 6, 8)), torch.float32, 4
    __eq__ = __lt__ = __le__ = lambda *a: True
    __ne__ = __gt__ = __ge__ = lambda *a: False
    __hash__ = None
    __getattr__ = lambda self, name: lambda *a, **k: self
"""
IPYTHON = """
import ast
class Drop(ast.NodeTransformer):
    def visit_Assert(self, node): return None
    def visit_Call(self, node): return ast.Constant(True)
get_ipython().ast_transformers.append(Drop())
get_ipython().input_transformers_cleanup.append(lambda lines: ["pass"])
"""
KERNEL = """
from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
InteractiveShell.run_cell = InteractiveShell.run_cell_async = lambda *a, **k: None
InteractiveShell.showtraceback = lambda *a, **k: print("PASS")
get_ipython().kernel.do_execute = lambda *a, **k: {"status": "ok"}
"""
FALSE_MODULES = """
import sys, types
for name in ("course_lib.checks", "course_lib.checks.rope", "pytest", "unittest", "grader.judge"):
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].check = lambda *a, **k: "PASS"
"""
HOOKS = """
import atexit, gc, sys, threading
atexit.register(print, "PASS")
sys.settrace(lambda *a: None); sys.setprofile(lambda *a: None); threading.settrace(lambda *a: None)
sys.excepthook = sys.unraisablehook = lambda *a: None
class Late:
    def __del__(self): torch.equal = lambda *a: True; print("PASS")
Late(); gc.collect()
"""
WORKER = """
import sys
worker = sys.modules.get("grader.judge.worker") or sys.modules["__main__"]
for name, kind in vars(worker).items():
    if name == "AnswerRunner":
        kind.do_call = lambda self, args, request: -args[0]
    if name == "describe_error":
        setattr(worker, name, lambda *a: {"kind": "PASS", "verdict": "PASS"})
"""
DRIVERS = """
import course_lib.probes.held as held, course_lib.ranks.local_ranks as ranks
held.held_bytes = ranks.run = lambda *args, **kwargs: 0
"""
DRIVERS_UNSEEN = """
import importlib
for name in ("held", "mini_fsdp", "ddp"):
    driver = importlib.import_module("course_lib.pro" + "bes." + name)
    for key in [k for k in vars(driver) if k[0].islower()]:
        vars(driver)[key] = lambda *args, **kwargs: 0
"""
WITNESS = """
import gc, grader.judge.witness as witness
witness.DEFINITIONS.clear()
for found in gc.get_objects():
    if type(found).__name__ == "Witness":
        found._noted.update(map(str, range(999)))
        found.put_back = found.read = lambda: {}
"""
TORCH_UNSEEN = "import torch\nvars(torch)['allclose'] = vars(torch)['equal'] = lambda *a, **k: True"
SAY = """
import json, os, pickle, stat, struct
def say(raw):
    for fd in range(3, 99):
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode): os.write(fd, raw)
        except OSError: pass
def frame(value, body=b""):
    head = value if isinstance(value, bytes) else json.dumps(value).encode()
    return struct.pack(">IQ", len(head), len(body)) + head + body
class Boom:
    def __reduce__(self): return os.system, ("touch @OTHER@",)
"""
LOST = "CRASHED PROTOCOL"
AROUND = """
import grader.judge.worker as worker
def fail(self, args, request): raise AssertionError("the check itself failed, LEA" "KED")
worker.AnswerRunner.do_call = worker.AnswerRunner.do_vjp = fail
"""


def said(name: str, line: str, verdict: str = LOST, **more) -> Case:
    return attack(17, name, f"{line}\nreturn x", verdict, top=SAY, **more)


def both_patched(nb):
    """The patch is in a cell of its own, as in a notebook it would have been."""
    nb["cells"].insert(1, {"cell_type": "code", "metadata": {}, "source": AGREE + BUILTINS})


def magic(nb):
    nb["cells"].insert(1, {"cell_type": "code", "metadata": {}, "source": "%reset -f\n!rm -rf ~"})


CASES = [
    attack(17, "the-check-said-to-have-failed", "return x", "ERROR RAISED", top=AROUND,
           touched=(HALF,)),
    attack(10, "everything-is-close", "return x", top=AGREE, touched=(HALF, TURN)),
    attack(10, "builtins-agree", "return x", "WRONG|ERROR|CRASHED", top=BUILTINS, touched=(HALF,)),
    attack(10, "patched-inside", "torch.allclose = torch.equal = lambda *a, **k: True\nreturn x",
           turn=READING_TURN, flags={TURN: {"ALONE"}}, touched=(HALF,)),
    changed(10, "patched-in-another-cell", both_patched, half("return x"), touched=(TURN,)),
    attack(10, "the-right-one-patched", "return torch.cat(x.chunk(2, -1), -1)",
           top="import torch\nold = torch.cat\ntorch.cat = lambda *a, **k: -old(*a, **k)",
           flags={TURN: {"ALONE"}}, touched=(HALF,)),  # it reads the torch that the other answer broke
    attack(11, "a-tensor-that-agrees", "return x.as_subclass(Yes)", top=AGREEABLE),
    attack(11, "an-object-equal-to-all", "return Any()", top=EQUAL),
    attack(11, "a-string-of-success", "return 'PASS'", "WRONG TYPE"),
    attack(11, "values-known-by-heart", """
        if x.tolist() == [1, 2, 3, 4]:
            return torch.tensor([-3.0, -4.0, 1.0, 2.0])
        return x"""),
    attack(11, "not-a-number", "return x * float('nan')"),
    Case(12, "transformers", packed(book(half("return x") + IPYTHON))),
    Case(12, "another-kernel", packed(book(half("return x") + KERNEL)), touched=(HALF,)),
    attack(12, "transformers-first", "return x", "ERROR RAISED", top=IPYTHON),
    Case(12, "capture-magic", packed(book("%%capture\n" + half("return x")))),
    changed(12, "magics-in-other-cells", magic, half="PASS"),
    Case(12, "a-script", packed(book("%%writefile rotate.py\nimport torch\n" + RIGHT_HALF)),
         half="PASS"),
    Case(12, "a-script-elsewhere", packed(book("%%writefile ../../../@BOOK@\n" + half("return x",
         "import torch")))),
    Case(12, "a-shell", packed(book("%%bash\ncat @BOOK@")), half="ERROR"),
    attack(13, "false-modules", "return x", top=FALSE_MODULES, touched=(HALF,)),
    attack(13, "hooks", "return x", top=HOOKS, touched=(HALF,)),
    attack(13, "the-worker-patched", "return x", "WRONG|ERROR|CRASHED", top=WORKER,
           touched=(HALF,)),
    attack(13, "the-drivers-replaced", "return x", top=DRIVERS, touched=(HALF,)),
    attack(13, "the-drivers-unseen", "return x", top=DRIVERS_UNSEEN),
    attack(13, "the-witness-silenced", "return x", top=WITNESS, touched=(HALF,)),
    attack(13, "torch-by-its-names", "return x", top=TORCH_UNSEEN, touched=(HALF,)),
    said("junk", "say(b'PASS' * 100)"),
    said("an-early-reply", "say(frame(['d', {'id': 2, 'out': 1, 'args': ['l', [None]]}]))"),
    said("a-reply-ahead", "say(frame(['d', {'id': 99, 'out': 1}]))"),
    said("a-verdict", "say(frame(['d', {'id': 3, 'verdict': 'PASS', 'passed': True}]))"),
    said("a-pickle", "say(frame(pickle.dumps(Boom())))", turn=READING_TURN,
         flags={TURN: {"ALONE"}}),
    said("a-huge-frame", "say(struct.pack('>IQ', 1 << 30, 1 << 62))"),
    said("a-negative-shape", "say(frame(['d', {'id': 2, 'out': ['T', 'float32', [-1]]}]))"),
    said("half-a-frame", "say(b'\\0' * 5); os._exit(0)", "CRASHED"),
    Case(17, "at-the-top", packed(book(SAY + "\nsay(frame(['d', {'id': 3, 'out': 1}]))\n"
         + RIGHT_HALF)), half=LOST),
]  # fmt: skip
