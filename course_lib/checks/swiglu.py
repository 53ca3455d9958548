"""Checks of lesson 03: MLP.forward, down(silu(gate(x)) * up(x)).

Oracle: torch's matmul and `silu`. The answer's class is built as `MLP(d_model, d_hidden)`.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Module, Subject
from course_lib.checks.suite import Draw, Suite

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
    """A view that is not contiguous, and a model in bfloat16."""
    module, w = _random(subject, draw, 6, 9)
    x = draw.randn(2, 3, 6)
    expect_any_layout(module.forward, x, tried="x of shape (2, 3, 6)", rtol=1e-4, atol=1e-5)
    module.to(torch.bfloat16)
    tried = "parameters and x in bfloat16"
    out = expect.tensor(
        module.forward(x.bfloat16()), shape=x.shape, dtype=torch.bfloat16, tried=tried
    )
    right = (F.silu(x @ w[0].T) * (x @ w[1].T)) @ w[2].T
    # a handful of roundings of 2^-9 of numbers below 4
    expect.values(out.float(), right, rtol=0.1, atol=0.1, tried=tried, look="casts in forward.")


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
        _patterns(x, gate, up, down),
        # sums of 16 products of fp32, in another order or fused: a few roundings of 6e-8
        rtol=1e-4,
        atol=1e-5,
        finding="the values differ",
        look="one factor at a time: gate, up, their product, down.",
        tried=f"random weights, D = {d_model}, F = {d_hidden}; x of shape {tuple(x.shape)}",
    )


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
        _patterns(x, row[1], row[2], torch.eye(2)),
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


def _patterns(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> list[Pattern]:
    """Wrong hidden values that learners write, each taken through the down projection."""
    silu, right = F.silu, F.silu(gate) * up

    def pattern(
        code: str, finding: str, fits: str, look: str, hidden: Tensor, preset: str = ""
    ) -> Pattern:
        return Pattern(
            code=f"SWIGLU-{code}",
            value=hidden @ down,
            finding=finding,
            fits=fits,
            look=look,
            preset=preset and f"swiglu:{preset}",
        )

    which = "which projection goes through `F.silu`."
    return [
        pattern(
            "SWAPPED",
            "gate and up have changed places",
            "silu(up(x)) * gate(x).",
            which,
            silu(up) * gate,
        ),
        pattern(
            "NO-SILU",
            "the gate has no activation",
            "gate(x) * up(x), both linear.",
            which,
            gate * up,
            "bilinear",
        ),
        pattern(
            "BOTH",
            "both factors went through SiLU",
            "silu(gate(x)) * silu(up(x)).",
            which,
            silu(gate) * silu(up),
        ),
        pattern(
            "LATE",
            "SiLU acts on the product",
            "silu(gate(x) * up(x)).",
            "the parentheses around `F.silu`.",
            silu(gate * up),
        ),
        Pattern(
            code="SWIGLU-LATE",
            value=silu((gate * up) @ down),
            finding="SiLU acts after down",
            fits="silu(down(gate(x) * up(x))).",
            look="the parentheses around `F.silu`.",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "silu(gate(x)) + up(x).",
            "the operator between the two.",
            silu(gate) + up,
            "closed",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "silu(gate(x) + up(x)).",
            "the operator between the two.",
            silu(gate + up),
            "closed",
        ),
        pattern(
            "SUM",
            "the two branches are added",
            "gate(x) + up(x), without SiLU.",
            "the operator between the two.",
            gate + up,
            "closed",
        ),
        pattern(
            "ONE-BRANCH",
            "the up projection has no effect",
            "silu(gate(x)) alone.",
            "`self.up_proj`.",
            silu(gate),
        ),
        pattern("ONE-BRANCH", "the gate has no effect", "up(x) alone.", "`self.gate_proj`.", up),
        pattern(
            "ONE-BRANCH",
            "the gate has no effect",
            "silu(up(x)) alone.",
            "`self.gate_proj`.",
            silu(up),
        ),
        pattern(
            "ONE-BRANCH",
            "one projection serves as both",
            "silu(gate(x)) * gate(x).",
            "`self.up_proj`.",
            silu(gate) * gate,
        ),
        pattern(
            "ONE-BRANCH",
            "one projection serves as both",
            "silu(up(x)) * up(x).",
            "`self.gate_proj`.",
            silu(up) * up,
        ),
        pattern(
            "SIGMOID",
            "the gate is a sigmoid, not SiLU",
            "sigmoid(gate(x)) * up(x): GLU.",
            "SiLU is z * sigmoid(z): one factor more.",
            torch.sigmoid(gate) * up,
            "sigmoid",
        ),
        pattern(
            "GLU",
            "a sigmoid of up multiplies the gate",
            "gate(x) * sigmoid(up(x)).",
            "what `F.glu` does with the two halves.",
            gate * torch.sigmoid(up),
        ),
        pattern(
            "SOFTMAX",
            "the gates compete with each other",
            "softmax(gate(x)) * up(x).",
            "a gate opens by itself; nothing sums to 1.",
            torch.softmax(gate, -1) * up,
        ),
        pattern(
            "GELU",
            "the gate is GELU, not SiLU",
            "gelu(gate(x)) * up(x), called GEGLU.",
            "the name of the activation.",
            F.gelu(gate) * up,
            "gelu",
        ),
        pattern(
            "GELU",
            "the gate is GELU, not SiLU",
            "gelu(gate(x), tanh form) * up(x).",
            "the name of the activation.",
            F.gelu(gate, approximate="tanh") * up,
            "gelu",
        ),
        pattern(
            "GELU",
            "the gate is a form of GELU",
            "z * sigmoid(1.702 z), z = gate(x).",
            "the factor inside the sigmoid.",
            gate * torch.sigmoid(1.702 * gate) * up,
            "gelu",
        ),
        pattern(
            "RELU",
            "the gate is ReLU, not SiLU",
            "relu(gate(x)) * up(x), called ReGLU.",
            "the name of the activation.",
            F.relu(gate) * up,
            "relu",
        ),
        pattern(
            "TANH",
            "the gate is tanh, not SiLU",
            "tanh(gate(x)) * up(x).",
            "the name of the activation.",
            torch.tanh(gate) * up,
        ),
        Pattern(
            code="SWIGLU-RESIDUAL",
            value=x + right @ down,
            finding="x itself was added",
            fits="x + down(...): a residual inside the MLP.",
            hides="the block adds x already (lesson 06); here it would count twice.",
            look="the last line: only down(...) leaves.",
        ),
    ]


SUITES = (
    Suite(
        "swiglu",
        (
            runs,
            closed_gate,
            by_hand,
            oracle,
            large_gates,
            any_input,
            tokens_apart,
            gradient,
        ),
        proved="down(silu(gate(x)) * up(x)) for random weights, each token by itself,\n"
        "with the gradients of x and of all three matrices.",
        remember="three matrices of D x F; F = 8/3 D has the parameters of a two-matrix 4 D MLP.",
        next_step='"Closed gate" in the figure above, then swap the signs of gate and up.',
    ),
)
