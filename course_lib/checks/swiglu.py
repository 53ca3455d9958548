"""Checks of lesson 03: MLP.forward, down(silu(gate(x)) * up(x)).

Oracle: torch's matmul and `silu`. The answer's class is built as `MLP(d_model, d_hidden)`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_any_default, expect_separate_calls
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn, expect_weights_of_now
from course_lib.checks.fixed_input import expect_weight_gradients
from course_lib.checks.layouts import expect_any_layout, expect_expanded
from course_lib.checks.report import Wrong, vector
from course_lib.checks.second_call import expect_second_16_bits
from course_lib.checks.subject import Module, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.checks.swiglu_mistakes import hidden_mistakes

MARKED = "course_lib.probes.residual:writers_of"
NAMES = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")


def runs(subject: Subject, draw: Draw) -> None:
    """(2, 3, 8) in, a finite tensor of the same shape and dtype out, twice the same."""
    x = draw.randn(2, 3, 8)
    tried = "MLP(8, 12), D = 8 and F = 12; x of shape (2, 3, 8), float32"
    module = subject.module(8, 12)
    state = module.state()
    if set(state) != set(NAMES):
        raise Wrong(
            "SWIGLU-STATE",
            "the parameters are other ones",
            tried="MLP(8, 12)",
            expected=", ".join(NAMES),
            got=", ".join(state) or "none",
            look="`__init__`: it came with the exercise; leave it.",
        )
    out = module.forward(x)
    if isinstance(out, Tensor) and tuple(out.shape) == (2, 3, 12):
        raise Wrong(
            "SWIGLU-NO-DOWN",
            "the output still has the hidden width",
            tried=tried,
            expected="shape (2, 3, 8): back to width D",
            got="shape (2, 3, 12), width F",
            fits="two projections and no third one.",
            look="`self.down_proj`.",
        )
    out = expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)
    again = module.forward(x)
    if not (isinstance(again, Tensor) and torch.equal(out, again)):
        raise Wrong(
            "SWIGLU-RANDOM",
            "the same input gave two different outputs",
            tried=tried,
            expected="the same numbers both times",
            got="other numbers the second time",
            fits="dropout, or a state that forward changes.",
            look="anything random, or assigned to `self`, in forward.",
        )


def closed_gate(subject: Subject, draw: Draw) -> None:
    """A gate far below zero closes its unit, whatever the up projection says."""
    gate, up = torch.tensor([-20.0, 20.0]), torch.tensor([3.0, 5.0])
    tried, x, out = _by_hand(subject, gate, up)
    if out[0].abs() < 1e-3:  # silu(-20) * 3 is -1e-7; the next check looks at the open unit
        return
    _compare(out, x, gate, up, tried, "a closed gate lets something through")


def by_hand(subject: Subject, draw: Draw) -> None:
    """Two units, one with a negative gate and one with a positive."""
    gate, up = torch.tensor([-1.0, 2.0]), torch.tensor([3.0, 0.5])
    tried, x, out = _by_hand(subject, gate, up)
    _compare(out, x, gate, up, tried, "the hidden values differ")


def large_gates(subject: Subject, draw: Draw) -> None:
    """A gate of 100 passes its value on, one of -100 is closed: no infinity on the way."""
    gate, up = torch.tensor([100.0, -100.0]), torch.tensor([1000.0, 2000.0])
    module, x = subject.module(2, 2), torch.tensor([[[1.0, 0.0]]])
    weights = (torch.stack((gate, gate), 1), torch.stack((up, up), 1), torch.eye(2))
    module.load(dict(zip(NAMES, weights, strict=True)))
    tried = "gate(x) = [100, -100], up(x) = [1000, 2000]; down leaves all as it is"
    out = module.forward(x)
    facts = dict(tried=tried, expected="[1e+05, 0]: a sigmoid of 100 is 1, of -100 about 0")
    if isinstance(out, Tensor) and out.numel() == 2:
        if not torch.isfinite(out).all():
            raise Wrong(
                "SWIGLU-OVERFLOW",
                "a large gate gives NaN or infinity",
                got=vector(out.flatten()),
                fits="e^100 is beyond float32: inf / inf is NaN.",
                look="a sigmoid written out; `F.silu` and `torch.sigmoid` know both ends.",
                **facts,
            )
        if abs(out.flatten()[0] - 1e5) > 10 or out.flatten()[1].abs() > 1e-3:
            raise Wrong(
                "SWIGLU-LIMITED",
                "large values are cut off",
                got=vector(out.flatten()),
                look="`clamp`, `tanh`, or anything else that limits a value.",
                **facts,
            )
    expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)


def any_input(subject: Subject, draw: Draw) -> None:
    """A view that is not contiguous, an expanded one, and a model in bfloat16."""
    module, w = _random(subject, draw, 6, 9)
    x, close = draw.randn(2, 3, 6), dict(tried="x of shape (2, 3, 6)", rtol=1e-4, atol=1e-5)
    expect_any_layout(module.forward, x, **close)
    expect_expanded(module.probe, x, **close)
    for batch, length in ((1, 1), (1, 3), (3, 1)):
        x, tried = draw.randn(batch, length, 6), f"x of shape {(batch, length, 6)}"
        out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
        expect.values(out, _run(x, w), rtol=1e-4, atol=1e-5, tried=tried, look="`squeeze`.")
    tried, x = "parameters and x in float64", draw.randn(2, 3, 6, dtype=torch.float64)
    module.to(torch.float64)
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)
    expect.values(
        out, _run(x, [t.double() for t in w]), rtol=1e-9, atol=1e-9, tried=tried,
        finding="float64 comes back with the digits of float32", look="casts in forward.",
    )  # fmt: skip
    x = draw.randn(2, 3, 6)
    module.to(torch.bfloat16)
    tried = "parameters and x in bfloat16"
    out = expect.tensor(
        module.forward(x.bfloat16()), shape=x.shape, dtype=torch.bfloat16, tried=tried
    )
    right = _run(x, w)
    # a handful of roundings of 2^-9 of numbers below 4
    expect.values(out.float(), right, rtol=0.1, atol=0.1, tried=tried, look="casts in forward.")


def sixteen_bits_alone(subject: Subject, draw: Draw) -> None:
    """In 16 bits too, a result depends on its own x and on the weights of now."""
    first, second = (draw.randn(2, 3, 6),), (draw.randn(2, 3, 6),)
    for dtype in (torch.bfloat16, torch.float16):
        module, w = _random(subject, draw, 6, 9)
        module.to(dtype)
        for name in (None, *range(3)):  # then with other numbers in one matrix after the other
            if name is not None:
                w[name] = w[name].flip(0)
                module.load(dict(zip(NAMES, w, strict=True)))
            expect_second_16_bits(
                module.probe, first, second, lambda x, w=tuple(w): (_run(x.float(), w),),
                dtypes=(dtype,), names=("the result",), within=0.1,  # as in `any_input`
                tried="two inputs of shape (2, 3, 6), then the first one again"
                + ("" if name is None else f"; other numbers in {NAMES[name]} than before"),
            )  # fmt: skip


def oracle(subject: Subject, draw: Draw) -> None:
    """Random weights and sizes against the formula, token by token."""
    d_model, d_hidden = draw.size(6, 4, 10), draw.size(9, 7, 16)
    batch, length = draw.size(2, 1, 3), draw.size(4, 5, 2)
    module, w = _random(subject, draw, d_model, d_hidden)
    x = draw.randn(batch, length, d_model)
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype)
    gate, up, down = x @ w[0].T, x @ w[1].T, w[2].T
    expect.values(
        out,
        (F.silu(gate) * up) @ down,
        hidden_mistakes(x, gate, up, down),
        # sums of 16 products of fp32, in another order or fused: a few roundings of 6e-8
        rtol=1e-4,
        atol=1e-5,
        finding="the values differ",
        look="one factor at a time: gate, up, their product, down.",
        tried=f"random weights, D = {d_model}, F = {d_hidden}; x of shape {tuple(x.shape)}",
    )


def overflowing_product(subject: Subject, draw: Draw) -> None:
    """In float16 a gate of -300 closes a value of 300, although their product is beyond 65,504."""
    gate, up = torch.tensor([300.0, -300.0]), torch.tensor([200.0, 300.0])
    module, x = subject.module(2, 2), torch.tensor([[[1.0, 0.0]]], dtype=torch.float16)
    weights = (torch.stack((gate, gate), 1), torch.stack((up, up), 1), torch.eye(2))
    module.load(dict(zip(NAMES, weights, strict=True)))
    module.to(torch.float16)
    tried = "float16; gate(x) = [300, -300], up(x) = [200, 300]; down leaves all as it is"
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried, finite=False)
    right = torch.tensor([6e4, 0.0])
    if not torch.allclose(out.float().flatten(), right, rtol=1e-2, atol=1e-2):
        raise Wrong(
            "SWIGLU-OVERFLOW",
            "a closed gate gives NaN or infinity, or an open one is cut off",
            tried=tried,
            expected=f"{vector(right)}: SiLU of -300 is 0",
            got=vector(out.flatten()),
            fits="-300 * 300 = -90,000, beyond float16, before a sigmoid of 0."
            if out.isnan().any()
            else "",
            look="the order of the factors: SiLU first, then times up.",
        )


def closed_to_large_values(subject: Subject, draw: Draw) -> None:
    """What a gate of -100 closes stays closed, however large the value is."""
    gate, up = torch.tensor([-100.0, -1000.0]), torch.tensor([1e20, -1e30])
    tried, _, out = _by_hand(subject, gate, up)
    if out.abs().max() > 1e-6:  # SiLU of -100 is -4e-42, times 1e20 still nothing
        raise Wrong(
            "SWIGLU-LEAK",
            "a closed gate lets a large value through",
            tried=tried,
            expected="[0, 0]: SiLU of -100 is -4e-42",
            got=vector(out),
            fits="a gate that is kept from going far below 0.",
            look="`clamp`, `max` or anything else that limits the gate.",
        )


def gradient_of_closed_gates(subject: Subject, draw: Draw) -> None:
    """In float16 a gate of -300 closes a value of 300 in the backward pass too."""
    gate, up = torch.tensor([-300.0, -400.0]), torch.tensor([300.0, 200.0])
    module, x = subject.module(2, 2), torch.tensor([[[1.0, 0.0]]])
    weights = (torch.stack((gate, gate), 1), torch.stack((up, up), 1), torch.eye(2))
    module.load(dict(zip(NAMES, weights, strict=True)))
    module.to(torch.float16)
    (grad,), of_params = module.vjp(x.half(), upstream=torch.ones(1, 1, 2).half())
    tried = "float16; gate(x) = [-300, -400], up(x) = [300, 200]; an upstream gradient of 1"
    for name, found in {"x": grad, **of_params}.items():
        if found is not None and not (found.float().abs() < 1e-3).all():
            raise Wrong(
                "SWIGLU-NAN-GRAD" if found.isnan().any() else "SWIGLU-LEAK",
                f"a closed gate gives {name} a gradient",
                tried=tried,
                expected="0: both units are closed",
                got=vector(found.flatten()),
                fits="-300 * 300, beyond float16, times 0 in the backward pass."
                if found.isnan().any()
                else "",
                look="SiLU written out: `F.silu` has a backward pass of its own.",
            )


def gradient_of_large_gates(subject: Subject, draw: Draw) -> None:
    """Gates of 100 and -100 have finite gradients."""
    gate, up = torch.tensor([100.0, -100.0]), torch.tensor([3.0, 5.0])
    module, x = subject.module(2, 2), torch.tensor([[[1.0, 0.0]]])
    weights = (torch.stack((gate, gate), 1), torch.stack((up, up), 1), torch.eye(2))
    module.load(dict(zip(NAMES, weights, strict=True)))
    upstream = torch.ones(1, 1, 2)
    (grad,), _ = module.vjp(x, upstream=upstream)
    leaf = x.clone().requires_grad_()
    hidden = F.silu(leaf @ weights[0].T) * (leaf @ weights[1].T)
    (hidden * upstream).sum().backward()
    tried = "gate(x) = [100, -100], up(x) = [3, 5]; the gradient of x"
    if not torch.isfinite(grad).all():
        raise Wrong(
            "SWIGLU-NAN-GRAD",
            "the gradient of a large gate is NaN",
            tried=tried,
            expected=vector(leaf.grad.flatten()),
            got=vector(grad.flatten()),
            fits="e^100 is beyond float32, and the backward pass multiplies it by 0.",
            look="a sigmoid written out; `F.silu` and `torch.sigmoid` know both ends.",
        )
    expect.values(grad, leaf.grad, rtol=1e-4, atol=1e-3, tried=tried)


def residual_mark(subject: Subject, draw: Draw) -> None:
    """The down projection says that it writes into the residual stream, and nothing else does."""
    found = subject.module(8, 12).probe(MARKED)
    if list(found) != ["down_proj"]:
        raise Wrong(
            "SWIGLU-RESIDUAL-MARK",
            "the attribute `writes_residual` is not where it was",
            tried="MLP(8, 12)",
            expected="`writes_residual` on down_proj alone",
            got=", ".join(map(str, found))[:60] or "on none",
            hides="GPT draws the first weights of such a projection more narrowly (lesson 06).",
            look="`__init__`: it came with the exercise; leave it.",
        )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result depends on its own x and on the weights of now, and stays when another call follows."""
    module, w = _random(subject, draw, 6, 9)
    first, second = draw.randn(2, 3, 6), draw.randn(2, 3, 6)
    tried = "two inputs of shape (2, 3, 6), then the first one again"
    close = dict(rtol=1e-4, atol=1e-5)
    out = expect_separate_calls(module.probe, (first,), (second,), tried=tried, **close)
    expect.values(
        out, _run(second, w), **close, tried=tried,
        finding="the second of two calls is wrong", look="what outlives a call.",
    )  # fmt: skip
    expect_any_default(module.probe, (first,), tried="parameters and x in float32", **close)
    expect_weights_of_now(
        module, dict(zip(NAMES, w, strict=True)), (first,),
        lambda state: _run(first, [state[name] for name in NAMES]), **close,
    )  # fmt: skip


def calls_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one token and of several, keep their own numbers side by side."""
    for dtype in (torch.float32, torch.bfloat16):
        module, w = _random(subject, draw, 6, 9)
        module.to(dtype)
        sizes = ((1, 1), (2, 1), (1, 3), (2, 3))
        groups = [[(draw.randn(*size, 6, dtype=dtype),) for _ in range(CALLS)] for size in sizes]
        expect_calls_in_turn(
            module.probe, groups, lambda x, w=w: (_run(x.float(), w),), names=("the result",),
            tried="x of several shapes", rtol=1e-4, atol=1e-5, within_16=0.1,  # as in `any_input`
        )  # fmt: skip


def tokens_apart(subject: Subject, draw: Draw) -> None:
    """One token changes; the outputs of all others stay as they were."""
    module, _ = _random(subject, draw, 6, 9)
    x = draw.randn(2, 4, 6)
    changed = x.clone()
    changed[0, 2] = draw.randn(6)
    out = expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype)
    moved = expect.tensor(module.forward(changed), shape=x.shape, dtype=x.dtype)
    others = (moved - out).abs().amax(-1)
    others[0, 2] = 0
    if others.max() > 1e-6:
        where = tuple(int(i) for i in (others > 1e-6).nonzero()[0])
        raise Wrong(
            "SWIGLU-MIXED",
            "tokens see each other",
            tried="token (0, 2) alone was changed",
            expected="all other outputs stay the same",
            got=f"output {where} changed too",
            fits="a mean, softmax or norm over more than the last dimension.",
            look="any reduction in forward: none is needed.",
        )


def gradient(subject: Subject, draw: Draw) -> None:
    """The gradient reaches x and all three matrices, through both factors of the product."""
    module, w = _random(subject, draw, 5, 7)
    x, upstream = draw.randn(2, 3, 5), draw.randn(2, 3, 5)
    (grad,), of_params = module.vjp(x, upstream=upstream)
    leaves = [t.clone().requires_grad_() for t in (x, *w)]
    out = (F.silu(leaves[0] @ leaves[1].T) * (leaves[0] @ leaves[2].T)) @ leaves[3].T
    (out * upstream).sum().backward()
    missing = [n for n in NAMES if n not in of_params] + ["x"] * (grad is None)
    if missing:
        raise Wrong(
            "SWIGLU-DETACHED",
            "the gradient does not reach everything",
            expected="gradients for x and three weights",
            got=f"none for {', '.join(missing)}",
            look="`.detach()`, `.data` or `no_grad` in forward.",
        )
    for name, got, leaf in zip(
        ("x", *NAMES), (grad, *(of_params[n] for n in NAMES)), leaves, strict=True
    ):
        expect.values(
            got,
            leaf.grad,
            rtol=1e-3,
            atol=1e-5,
            tried="a random upstream gradient",
            finding=f"the gradient of {name} differs",
            look="steps that leave the graph.",
        )
    expect_weight_gradients(module, (x,), upstream, tried="a random upstream gradient")


def _by_hand(subject: Subject, gate: Tensor, up: Tensor) -> tuple[str, Tensor, Tensor]:
    """Weights under which x = [1, 0] has these gate and up values and down changes nothing."""
    x, zero = torch.tensor([[[1.0, 0.0]]]), torch.zeros(2)
    weights = (torch.stack((gate, zero), 1), torch.stack((up, zero), 1), torch.eye(2))
    module = subject.module(2, 2)
    module.load(dict(zip(NAMES, weights, strict=True)))
    tried = f"x = [1, 0]; gate(x) = {vector(gate)}, up(x) = {vector(up)}, down leaves all as it is"
    return (
        tried,
        x[0],
        expect.tensor(module.forward(x), shape=x.shape, dtype=x.dtype, tried=tried)[0, 0],
    )


def _compare(out: Tensor, x: Tensor, gate: Tensor, up: Tensor, tried: str, finding: str) -> None:
    row = [t.reshape(1, 2) for t in (out, gate, up)]
    expect.values(
        row[0],
        F.silu(row[1]) * row[2],
        hidden_mistakes(x, row[1], row[2], torch.eye(2)),
        rtol=1e-4,
        atol=1e-5,  # numbers of 3 digits, one product: roundings are 1e-6
        tried=tried,
        finding=finding,
        look="what is multiplied with what, and where SiLU stands.",
    )


def _random(
    subject: Subject, draw: Draw, d_model: int, d_hidden: int
) -> tuple[Module, list[Tensor]]:
    """A module with random weights, and these weights: gate, up, down as nn.Linear holds them."""
    shapes = ((d_hidden, d_model), (d_hidden, d_model), (d_model, d_hidden))
    weights = [draw.randn(*shape) / shape[1] ** 0.5 for shape in shapes]
    module = subject.module(d_model, d_hidden)
    module.load(dict(zip(NAMES, weights, strict=True)))
    return module, weights


def _run(x: Tensor, weights: list[Tensor]) -> Tensor:
    gate, up, down = (w.T for w in weights)
    return (F.silu(x @ gate) * (x @ up)) @ down


SUITES = (
    Suite(
        "swiglu",
        (
            runs,
            closed_gate,
            by_hand,
            oracle,
            large_gates,
            closed_to_large_values,
            overflowing_product,
            each_call_alone,
            calls_in_turn,
            any_input,
            sixteen_bits_alone,
            tokens_apart,
            gradient,
            gradient_of_large_gates,
            gradient_of_closed_gates,
            residual_mark,
        ),
        tested="down(silu(gate(x)) * up(x)) for the random weights tried, each token by itself, "
        "with the gradients of x and of all three matrices.",
        remember="three matrices of D x F; F = 8/3 D has the parameters of a two-matrix 4 D MLP.",
        next_step='"Closed gate" in the figure above. For which x does the product stay near 0?',
    ),
)
