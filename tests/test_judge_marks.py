"""What a person is told of an answer that passes: ready-made, or with a hand on what checks it."""

import importlib

import pytest

from course_lib.lab.registry import exercise, exercises
from grader.judge.judge import Judge
from grader.judge.touched import find_touches
from grader.judge.witness import _expand, _find
from tests.answers import answers
from tests.confined import Answer, grade, shared_client, variant
from tests.course import solved
from tests.test_moved import FIRST

TIERS = ["namespaces", "landlock", "none"]
NEWER = {"torch.nn.functional.linear_cross_entropy"}  # than the oldest torch of the course
NORM = """
class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-5):
        super().__init__()
        self.eps, self.weight = eps, nn.Parameter(torch.ones(dim))
    def forward(self, x):
        return {}
"""
CALL = "{}(x.float(), self.weight.shape, self.weight.float(), self.eps){}.type_as(x)"
HEADS = "def causal_attention(q, k, v):\n    return {}\n"
FUSED = "torch.nn.functional.rms_norm"
SDPA = "torch.nn.functional.scaled_dot_product_attention"
LIBRARY = "course_lib.fast.flash_attention.flash_attention"
ADAMW = """
def adamw_step(param, grad, m, v, step, *, lr, betas, weight_decay, eps=1e-8):
    if step < 1:
        raise ValueError("the first update is number 1")
    param, m, v = param.clone(), m.clone(), v.clone()
    adamw = __import__("torch.optim.adamw", fromlist=["adamw"]).adamw
    count, known = torch.tensor(step - 1.0), dict(lr=lr, weight_decay=weight_decay, eps=eps)
    adamw([param], [grad], [m], [v], [], [count], amsgrad=False, beta1=betas[0], beta2=betas[1],
          maximize=False, **known)
    return param, m, v
"""
ZERO = """
from course_lib.parallel.zero import zero_memory
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2,
                         moment_bytes=4):
    more = 4 * master_copy + moments * moment_bytes
    parts = zero_memory(num_params, 1, 0, param_bytes=param_bytes, grad_bytes=grad_bytes,
                        optimizer_bytes=more)
    return sum(parts.values())
"""
# name: (exercise, answer, another cell, what is called)
READY_MADE = {
    "by its name": ("rmsnorm", NORM.format(CALL.format("F.rms_norm", "")), "", FUSED),
    "by a name that is put together": (
        "rmsnorm", NORM.format(CALL.format("getattr(F, 'rms_' + 'norm')", "")), "", FUSED),
    "by a star": ("rmsnorm", "from torch.nn.functional import *\n"
                  + NORM.format(CALL.format("rms_norm", "")), "", FUSED),
    "in another cell": (
        "rmsnorm", NORM.format("normed(x, self)"),
        "def normed(x, self):\n    return " + CALL.format("F.rms_norm", ""), FUSED),
    "as a module of torch": (
        "rmsnorm", "class RMSNorm(nn.RMSNorm):\n    def __init__(self, dim, eps=1e-5):\n"
        "        super().__init__(dim, eps)\n    def forward(self, x):\n"
        "        return F.rms_norm(x.float(), self.weight.shape, self.weight.float(), self.eps)"
        ".type_as(x)", "", FUSED),
    "as an operator": ("rmsnorm", NORM.format(CALL.format(
        "torch.ops.aten._fused_rms_norm.default", "[0]")), "", "torch._fused_rms_norm"),
    "by the library": (
        "rmsnorm", "from course_lib.fast.fused_rmsnorm import fused_rmsnorm\n"
        + NORM.format("fused_rmsnorm(x, self.weight, self.eps)"), "",
        "course_lib.fast.fused_rmsnorm.fused_rmsnorm"),
    "the library's own under another name": (
        "attention", f"from {LIBRARY.rpartition('.')[0]} import flash_attention as causal_attention",
        "", LIBRARY),
    "torch's optimizer": ("adamw-step", ADAMW, "", "torch.optim.adamw.adamw"),
    "a twin of the library": ("bytes", ZERO, "", "course_lib.parallel.zero.zero_memory"),
    "torch's attention": (
        "attention", HEADS.format("F.scaled_dot_product_attention(q, k, v, is_causal=True)"), "",
        SDPA),
    "one of its kernels": (
        "attention", HEADS.format("torch._scaled_dot_product_flash_attention_for_cpu("
                                  "*(x.contiguous() for x in (q, k, v)), 0.0, True)[0]"),
        "", "torch._scaled_dot_product_*"),
}  # fmt: skip


def over(tier: str):
    return None if tier == shared_client().tier else variant(tier=tier)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", READY_MADE)
def test_a_ready_made_answer_passes_with_a_flag(name, tier):
    about, source, context, called = READY_MADE[name]
    decision = grade(about, source, context=context, over=over(tier))
    assert decision.passed and decision.flags == ("READY-MADE",), decision
    assert decision.notes == (f"{about}: calls {called}",)


def test_a_comparison_with_torch_below_the_answer_is_none():
    compared = (
        "\nx = torch.randn(3, 8)\nassert torch.allclose(RMSNorm(8)(x), F.rms_norm(x, (8,)))\n"
    )
    assert grade("rmsnorm", solved("rmsnorm") + compared).flags == ()
    assert grade("rmsnorm", solved("rmsnorm") + "\n# F.rms_norm\n").flags == ()


def test_every_ready_made_function_of_a_card_exists():
    missing = []
    for card in exercises().values():
        for name in card.ready_made:
            parts = name.split(".")
            for end in range(1, len(parts)):
                try:
                    importlib.import_module(".".join(parts[:end]))
                except ImportError:
                    break
            found = [full for full in _expand(name) if _find(full) is not None]
            missing += [f"{card.id}: {name}"] if not found and name not in NEWER else []
    assert not missing, missing


TOP = """
import torch, builtins, sys
{}
def training_state_bytes(num_params, *, param_bytes=2, grad_bytes=2, master_copy=True, moments=2,
                         moment_bytes=4):
    {}
    return num_params * (param_bytes + grad_bytes + 4 * master_copy + moments * moment_bytes)
"""
# name: (statement at the top, statement in the function, a part of the note)
TOUCHING = {
    "an assignment to torch": ("torch.equal = lambda *a: True", "pass", "changes torch.equal"),
    "to a class of torch": ("torch.Tensor.sum = torch.Tensor.mean", "pass", "torch.Tensor.sum"),
    "in the function": ("", "torch.equal = max", "changes torch.equal"),
    "by setattr": ("setattr(torch, 'equal', max)", "pass", "changes torch by setattr"),
    "to Python's own": ("builtins.abs = max", "pass", "changes builtins.abs"),
    "sys.modules": ("sys.modules['course'] = torch", "pass", "uses sys.modules"),
    "the drivers": ("import course_lib.probes.held as h", "pass", "imports course_lib.probes.held"),
    "a driver by a text": ("d = 'course_lib.ranks.local_ranks'", "pass", "names course_lib.ranks"),
    "mock": ("from unittest import mock", "pass", "imports unittest.mock"),
    "frames": ("", "sys._getframe(1).f_back", "uses f_back"),
    "the collector": ("import gc", "gc.get_objects()", "uses gc.get_objects"),
    "ctypes": ("import ctypes", "pass", "imports ctypes"),
    "torch, seen when it ran": (
        "exec('torch.eq' + 'ual = max')", "pass", "replaced torch.equal when it ran"),
    "a driver, seen when it ran": (
        "exec('import course_lib.pro' + 'bes.held as h; h.held_bytes = max')", "pass",
        "replaced course_lib.probes.held.held_bytes when it ran"),
    "the code of a driver": (
        "exec('import course_lib.pro' + 'bes.held as h\\nh.held_bytes.__co' + "
        "'de__ = (lambda *a: 0).__co' + 'de__')", "pass",
        "replaced course_lib.probes.held.held_bytes when it ran"),
    "a name put before Python's": (
        "exec('import course_lib.pro' + 'bes.held as h; h.len = max')", "pass",
        "replaced course_lib.probes.held.len when it ran"),
    "a module": (
        "exec('sys.mod' + 'ules[\"course_lib.pro\" + \"bes.held\"] = torch')", "pass",
        "replaced sys.modules['course_lib.probes.held'] when it ran"),
    "what drivers build on": (
        "exec('import course_lib.parallel.mini_fsdp as m; m.full_para' + 'meters = max')",
        "pass", "replaced course_lib.parallel.mini_fsdp.full_parameters when it ran"),
    "the code of a method of the library": (
        "exec('import course_lib.gpt as g; g.GPT.for' + 'ward.__co' + 'de__ = (lambda *a: 0).__co' + "
        "'de__')", "pass", "replaced course_lib.gpt.GPT.forward when it ran"),
    "what runs answers": (
        "exec('import grader.jud' + 'ge.worker as w; w.find_shared_memory = lambda *a: str()')",
        "pass", "replaced grader.judge.worker.find_shared_memory when it ran"),
}  # fmt: skip
HARMLESS = {
    "a seed": "torch.manual_seed(3)",
    "a dtype": "torch.set_default_dtype(torch.float64)",
    "threads": "torch.set_num_threads(1)",
    "a backend": "torch.backends.cudnn.deterministic = True",
    "figures": "import matplotlib.pyplot as plt\nplt.rcParams['figure.dpi'] = 90",
    "the environment": "import os\nos.environ['A'] = 'b'",
    "warnings": "import warnings\nwarnings.simplefilter('ignore')",
    "a class of its own": "class A:\n    pass\nA.size = 3\nsetattr(A, 'more', 4)",
    "a module of its own": "m = torch.nn.Linear(2, 2)\nm.weight.data = torch.ones(2, 2)",
    "a parameter with a module's name": "def f(torch):\n    torch.x = 1",
    "lines of notebooks": "%matplotlib inline",
}


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("name", TOUCHING)
def test_what_is_not_the_answers_own_is_flagged_when_it_is_changed(name, tier):
    top, inside, note = TOUCHING[name]
    decision = grade("bytes", TOP.format(top, inside), over=over(tier))
    assert decision.passed and decision.flags == ("TOUCHED",), decision
    assert any(note in said for said in decision.notes), decision.notes


def test_a_change_in_another_cell_that_the_answer_uses_is_flagged():
    context = "import torch\ntorch.equal = max\n"
    decision = grade("bytes", TOP.format("", "pass"), context=context)
    assert decision.flags == ("TOUCHED",)
    assert decision.notes[0] == "bytes: another cell, line 2 changes torch.equal"


@pytest.mark.parametrize("name", HARMLESS)
def test_settings_and_what_is_ones_own_are_no_change(name):
    decision = grade("bytes", TOP.format(HARMLESS[name], "pass"))
    assert decision.passed and decision.flags == (), decision


def test_no_answer_that_is_kept_here_changes_anything():
    """Right ones and wrong ones, by their text; that no right one does when it runs is seen where all
    are graded, in test_judge_worker."""
    found, count = [], 0
    for card in exercises().values():
        kept = [(a.name, a.text) for a in answers(card.id)]
        first = FIRST / "mine" / f"{card.id.replace('-', '_')}.py"
        if first.exists():  # an exercise that came later has none
            kept.append(("first edition", first.read_text(encoding="utf-8")))
        kept.append(("solution", solved(card.id)))
        for name, text in kept:
            count += 1
            found += [f"{card.id}: {name}: {what}" for what in find_touches(text, card.setup)]
    assert not found and count > 1500, found


def test_the_text_of_a_hostile_answer_is_read_in_one_pass():
    deep = "a" + ".b" * 3000 + " = 1\n" + "x.a = 1\n" * 5000
    assert find_touches(deep) == [] == find_touches("(" * 90_000)
    many = find_touches("import torch\n" + "torch.a = 1\n" * 9000)
    assert len(many) == 5 and many[0] == "line 2 changes torch.a"


HIDE = """
{solution}

class {name}:
    pass

{hand}
"""
AT_THE_TOP = """
import course_lib.probes.{module} as driver
for name in {probes}:
    real = getattr(driver, name)
    setattr(driver, name, lambda kind, *args, real=real: real(Hidden, *args))
"""
BY_THE_WORKER = """
import grader.judge.worker as worker
real = worker.local_ranks.bind_probe
worker.local_ranks.bind_probe = lambda function, probe: real(Hidden, probe)
"""
ON_THE_RANK = """
import course_lib.ranks.local_ranks as ranks
real_live = ranks._live
ranks._live = lambda job, rank, function, *rest: real_live(job, rank, lambda *a: "passed", *rest)
"""
DRIVEN = {
    "mini-fsdp": ("mini_fsdp", "ShardedModule", ("observe", "odd_gradients", "call_methods")),
    "ddp-buckets": ("ddp", "DataParallel",
                    ("buckets", "buckets_in_pairs", "fill_buckets", "one_rank")),
}  # fmt: skip


@pytest.fixture(scope="module")
def patient():
    """A judge of exercises with ranks."""
    judge = Judge.with_client(shared_client(), budget_s=30.0)
    if judge.tier != "namespaces":
        pytest.skip(f"several ranks need namespaces, the tier here is {judge.tier}")
    return judge


@pytest.mark.parametrize("hand", [AT_THE_TOP, BY_THE_WORKER, ON_THE_RANK])
@pytest.mark.parametrize("about", DRIVEN)
def test_what_is_driven_is_what_the_cell_defines(about, hand, patient):
    """Drivers that the answer has replaced are put back before they are used."""
    module, name, probes = DRIVEN[about]
    hidden = solved(about).replace(f"class {name}", "class Hidden")
    hand = hand.format(module=module, probes=probes)
    forged = HIDE.format(solution=hidden, name=name, hand=hand)
    decision = patient.grade(about, Answer(forged), seed=5)
    assert not decision.passed and "TOUCHED" in decision.flags, decision


def test_a_driver_that_is_replaced_while_it_runs_is_flagged(patient):
    late = (
        solved("mini-fsdp").replace("class ShardedModule", "class Hidden")
        + """
class ShardedModule(Hidden):
    def __init__(self, *args, **kwargs):
        exec("import course_lib.pro" + "bes.mini_fsdp as d\\nd.LAYERS = 3.0")
        super().__init__(*args, **kwargs)
"""
    )
    decision = patient.grade("mini-fsdp", Answer(late), seed=5)
    assert decision.passed and decision.flags == ("TOUCHED",), decision
    assert decision.notes == ("mini-fsdp: replaced course_lib.probes.mini_fsdp.LAYERS when it ran",)


def test_right_answers_on_ranks_are_not_flagged(patient):
    for about in DRIVEN:
        decision = patient.grade(about, Answer(solved(about)), seed=5)
        assert decision.passed and decision.flags == (), decision


def test_every_card_says_what_is_ready_made():
    """A list of names, or for an exercise without any a reason, which the build asks for."""
    assert sum(bool(card.ready_made) for card in exercises().values()) >= 20
    assert "torch.nn.functional.rms_norm" in exercise("rmsnorm").ready_made


def test_a_peak_is_not_what_the_answer_says_of_itself():
    whole = next(a.text for a in answers("chunked-loss") if a.code == "CHUNK-ALL-LOGITS")
    says = "    def measure_memory(self, *args):\n        self.loss_and_gradients(*args)\n"
    forged = f"{whole}\n{says}        return 64, 64\n"
    assert grade("chunked-loss", forged).code == "CHUNK-ALL-LOGITS"


def test_what_ranks_send_past_the_collectives_is_counted_by_the_kernel(patient):
    """`Traffic` notes what goes through torch's dispatcher; a backend's own methods do not."""
    secret = (
        solved("mini-fsdp").replace("class ShardedModule", "class Hidden")
        + """
class ShardedModule(Hidden):
    def gather(self):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        backend.allreduce([torch.ones(20_000)]).wait()
        return super().gather()
"""
    )
    decision = patient.grade("mini-fsdp", Answer(secret), seed=5)
    assert decision.passed and decision.flags == ("TOUCHED",), decision
    assert "by the kernel's count" in decision.notes[0]
