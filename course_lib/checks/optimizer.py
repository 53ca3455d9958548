"""Checks of lesson 09: adamw_step.

Oracles: the textbook formulas in float64 for single updates, torch.optim.AdamW for a run of them.
Steps are compared in units of lr: a weight moves by 1 of them in its first update.
"""

import itertools
import math

import torch
from torch import Tensor

from course_lib.checks import adamw_edges, expect
from course_lib.checks.adamw_formula import CLOSE, NAMES, ask, state, update
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite


def triple(subject: Subject, draw: Draw) -> None:
    """Three tensors of the shape and dtype that came in, which stay as they are."""
    for dtype in (torch.float32, torch.float64):
        shape = (draw.size(2, 3), 4)
        ask(
            subject,
            *state(draw, *shape, dtype=dtype),
            3,
            tried=f"tensors of shape {shape}, {str(dtype)[6:]}, update 3",
        )


def moments(subject: Subject, draw: Draw) -> None:
    """The new m and v are running means of gradient and squared gradient."""
    step, (b1, b2) = draw.size(4, 3, 6), (0.9, 0.95)
    param, grad, m, v = state(draw, 4)
    tried = f"update {step}, betas ({b1}, {b2}), gradient {vector(grad)}"
    out = ask(subject, param, grad, m, v, step, betas=(b1, b2), tried=tried)
    new_m, new_v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
    _refuse_other_order(out, update(param, grad, m, v, step, betas=(b1, b2)), tried)
    for name, got, new, old, seen, (beta, other) in (
        ("m", out[1], new_m, m, grad, (b1, b2)),
        ("v", out[2], new_v, v, grad**2, (b2, b1)),
    ):
        also = [
            Pattern(
                code="ADAMW-NOT-SQUARED",
                value=b2 * v + (1 - b2) * part,
                finding="v is no mean of squares",
                fits="a mean of gradients.",
                look="what is averaged into v.",
            )
            for part in (grad, grad.abs())
            if name == "v"
        ] + [
            Pattern(
                code="ADAMW-SQUARE-OF-MEAN",
                value=b2 * v + (1 - b2) * new_m**2,
                finding="v averages m squared",
                fits="the square of the mean: gradients that\nchange sign would cancel first.",
                look="which tensor is squared.",
            )
        ] * (name == "v")
        expect.values(
            got,
            new,
            [*_mean_patterns(name, new, old, seen, beta, other, step), *also],
            **CLOSE,
            tried=tried,
            finding=f"the new {name} differs",
            look=f"the line that makes {name}.",
        )


def _mean_patterns(
    name: str, new: Tensor, old: Tensor, seen: Tensor, beta: float, other: float, step: int
) -> list[Pattern]:
    """Wrong running means of `seen`."""
    return [
        Pattern(
            code="ADAMW-STATE-OLD",
            value=old,
            finding=f"the returned {name} is the old one",
            fits=f"{name} as it came in.",
            look="what `return` hands back.",
        ),
        Pattern(
            code="ADAMW-STATE-CORRECTED",
            value=new / (1 - beta**step),
            finding=f"the returned {name} is the corrected one",
            fits=f"{name} / (1 - beta ** step).",
            look="what `return` hands back.",
            hides="the next update would correct it once more.",
        ),
        Pattern(
            code="ADAMW-MIRRORED",
            value=(1 - beta) * old + beta * seen,
            finding=f"{name} forgets what it should keep",
            fits=f"{1 - beta:.2g} of the old {name}, {beta} of the new value.",
            look="beta is the part of the old mean that stays.",
        ),
        Pattern(
            code="ADAMW-SUM",
            value=beta * old + seen,
            finding=f"{name} is a sum, not a mean",
            fits=f"{beta} of the old {name} plus all of the new value.",
            look="the two parts of a mean add up to 1.",
        ),
        Pattern(
            code="ADAMW-BETAS",
            value=other * old + (1 - other) * seen,
            finding=f"{name} uses the other beta",
            fits=f"beta {other}.",
            look="betas[0] belongs to m, betas[1] to v.",
        ),
    ]


def _refuse_other_order(out: tuple[Tensor, ...], right: tuple[Tensor, ...], tried: str) -> None:
    for order in itertools.permutations(range(3)):
        same = all(torch.allclose(out[i], right[k], rtol=1e-3) for i, k in enumerate(order))
        if same and order != (0, 1, 2):
            raise Wrong(
                "ADAMW-ORDER",
                "the three results are in another order",
                tried=tried,
                expected="(param, m, v)",
                got=f"({', '.join(NAMES[k] for k in order)})",
                look="the `return`.",
            )


def first_step(subject: Subject, draw: Draw) -> None:
    """From zero state, each weight moves by lr against the sign of its gradient, whatever its size."""
    lr, (b1, b2) = 0.01, (0.9, 0.999)
    grad = torch.tensor([0.05, -0.5, 20, -1000]) * (1 + draw.randn(4).abs().clamp(max=2))
    param, zero = 0.1 * draw.randn(4), torch.zeros(4)
    tried = f"update 1 with m = v = 0 and betas ({b1}, {b2}); gradients {vector(grad)}"
    new = ask(subject, param, grad, zero, zero, 1, tried=tried)[0]
    moved, sign = (param - new) / lr, grad.sign()
    facts = dict(
        tried=tried,
        expected=f"{vector(sign)} times lr, down the gradient",
        got=f"{vector(moved)} times lr",
    )
    if torch.allclose(moved, sign, rtol=1e-3, atol=1e-3):
        return
    one = "one of the two is corrected"
    wrong = "the corrections do not fit their means"
    for code, value, finding, fits, look in (
        (
            "ADAMW-NO-CORRECTION",
            (1 - b1) / math.sqrt(1 - b2) * sign,
            "the first step is 3.16 times too long",
            "m / sqrt(v), both still near 0: 0.1 / sqrt(0.001).",
            "1 - beta ** step, for m and for v.",
        ),
        ("ADAMW-ONE-CORRECTION", sign / math.sqrt(1 - b2), one, "m corrected, v not.", "v."),
        ("ADAMW-ONE-CORRECTION", (1 - b1) * sign, one, "v corrected, m not.", "m."),
        (
            "ADAMW-WRONG-CORRECTION",
            math.sqrt(1 - b2) * sign,
            wrong,
            "the root of v corrected, not v.",
            "the order of root and correction.",
        ),
        (
            "ADAMW-WRONG-CORRECTION",
            10 * sign,
            wrong,
            "v corrected with betas[0], or both multiplied by 1 - beta ** step.",
            "1 - beta ** step.",
        ),
        (
            "ADAMW-STEP-OFF",
            (1 - b1) / (1 - b1**2) / math.sqrt((1 - b2) / (1 - b2**2)) * sign,
            "the correction counts one update too many",
            "beta ** (step + 1).",
            "`step` is 1 here.",
        ),
        (
            "ADAMW-UPHILL",
            -sign,
            "the weights move up the gradient",
            "`+` for `-`.",
            "the last sign.",
        ),
        (
            "ADAMW-SGD",
            grad,
            "the step grows with the gradient",
            "lr times gradient, as in SGD.",
            "what m is divided by.",
        ),
        (
            "ADAMW-SGD",
            (1 - b1) * grad,
            "the step grows with the gradient",
            "lr times m.",
            "what m is divided by.",
        ),
        (
            "ADAMW-NO-ROOT",
            1 / grad,
            "large gradients make small steps",
            "m / v, without a root.",
            "what m is divided by.",
        ),
        ("ADAMW-NO-LR", sign / lr, "the learning rate has no effect", "a step of 1.", "`lr`."),
        (
            "ADAMW-OLD-STATE",
            0 * sign,
            "the weights do not move",
            "a step from the m that came in.",
            "which m and v the step uses: old or new.",
        ),
    ):
        if torch.allclose(moved, value, rtol=1e-2, atol=1e-3):
            preset = {"ADAMW-NO-CORRECTION": "adamw:no-correction", "ADAMW-SGD": "adamw:loud"}
            raise Wrong(code, finding, fits=fits, look=look, preset=preset.get(code, ""), **facts)
    raise Wrong(
        "OTHER", "the first step differs", look="m, v, corrections, step, in turn.", **facts
    )


def later_step(subject: Subject, draw: Draw) -> None:
    """In the middle of a run the step uses both means, corrected for this number of updates."""
    step, lr, betas = draw.size(5, 4, 7), 0.01, (0.9, 0.95)
    param, grad, m, v = given = state(draw, 4)
    tried = f"update {step}, betas {betas}, m {vector(m)}, gradient {vector(grad)}"
    new, new_m, new_v = ask(subject, *given, step, betas=betas, tried=tried)

    def move(**changes) -> Tensor:
        return (param - update(*given, step, betas=betas, **changes)[0]) / lr

    b1, b2 = betas
    expect.values(
        (param - new) / lr,
        move(),
        [
            Pattern(
                code="ADAMW-FIXED-STEP",
                value=move(at=1),
                finding="the correction does not follow `step`",
                fits="1 - beta, whatever the step.",
                look="the power of beta.",
            ),
            Pattern(
                code="ADAMW-STEP-OFF",
                value=move(at=step + 1),
                fits="beta ** (step + 1).",
                finding="the correction counts one update too many",
                look="`step` counts from 1.",
            ),
            Pattern(
                code="ADAMW-STEP-OFF",
                value=move(at=step - 1),
                fits="beta ** (step - 1).",
                finding="the correction counts one update too few",
                look="`step` counts from 1.",
            ),
            Pattern(
                code="ADAMW-NO-CORRECTION",
                value=new_m / (new_v.sqrt() + 1e-8),
                finding="the means are not corrected",
                fits="m / sqrt(v).",
                preset="adamw:no-correction",
                look="1 - beta ** step, for m and for v.",
            ),
            Pattern(
                code="ADAMW-OLD-STATE",
                value=move(first=m, second=v),
                fits="the m and v that came in.",
                finding="the step is one gradient late",
                look="which m and v the step uses.",
            ),
            Pattern(
                code="ADAMW-NO-MOMENTUM",
                value=grad / ((new_v / (1 - b2**step)).sqrt() + 1e-8),
                finding="the step ignores m",
                fits="the bare gradient over the root of v.",
                look="what stands above the root.",
            ),
            Pattern(
                code="ADAMW-NO-MEMORY",
                value=new_m / (1 - b1**step) / grad.abs(),
                finding="the step ignores v",
                fits="m over the size of this one gradient.",
                look="what stands under the root.",
            ),
        ],
        rtol=1e-3,
        atol=1e-3,
        tried=tried,
        finding="the step differs, in units of lr",
        look="m_hat, v_hat, and their quotient.",
    )


def small_gradients(subject: Subject, draw: Draw) -> None:
    """eps is added to the corrected root: gradients far below it hardly move a weight."""
    lr, zero = 0.01, torch.zeros(4)
    param = 0.1 * draw.randn(4)
    ask(subject, param, zero, zero, zero, 1, tried="update 1, gradient 0")
    eps = 0.01 * draw.size(1, 2, 3)
    grad = eps * torch.tensor([1.0, -1.0, 3.0, -9.0])
    tried = f"update 1, eps {number(eps)}, gradients {vector(grad)}"
    new = ask(subject, param, grad, zero, zero, 1, eps=eps, tried=tried)[0]
    early = math.sqrt(1 - 0.999)
    expect.values(
        (param - new) / lr,
        grad / (grad.abs() + eps),
        [
            Pattern(
                code="ADAMW-EPS-INSIDE",
                value=grad / (grad**2 + eps).sqrt(),
                fits="sqrt(v_hat + eps).",
                finding="eps stands inside the root",
                look="the brackets of the root.",
                hides="inside, 1e-8 acts like 1e-4 outside.",
            ),
            Pattern(
                code="ADAMW-EPS-EARLY",
                value=grad / (grad.abs() + eps / early),
                fits="sqrt(v) + eps, corrected later.",
                finding="eps is added before the correction",
                look="the order of correction and eps.",
                hides="in the first updates eps is then up to 32 times as large.",
            ),
            Pattern(
                code="ADAMW-EPS-FIXED",
                value=grad.sign(),
                fits="an eps near 0.",
                finding="the argument eps has no effect",
                look="the `eps` of the signature.",
            ),
        ],
        rtol=1e-3,
        atol=1e-3,
        tried=tried,
        finding="the step differs, in units of lr",
        look="`eps`.",
    )


def decay(subject: Subject, draw: Draw) -> None:
    """The old weight decays by lr * weight_decay of itself, beside the step of the gradient."""
    lr, wd = 0.1, 0.1 * draw.size(5, 4, 6)
    param, zero = draw.randn(4), torch.zeros(4)
    given = f"lr {lr}, weight_decay {number(wd)}, weights {vector(param)}"
    for grad in (zero, 0.5 * draw.randn(4)):
        tried = f"update 1, gradient {'0' if grad is zero else vector(grad)};\n{given}"
        new = ask(subject, param, grad, zero, zero, 1, lr=lr, weight_decay=wd, tried=tried)[0]
        step = lr * grad.sign()
        expect.values(
            new,
            (1 - lr * wd) * param - step,
            [
                Pattern(
                    code="ADAMW-NO-DECAY",
                    value=param - step,
                    finding="no weight decays",
                    fits="a step without decay.",
                    look="`weight_decay`.",
                ),
                Pattern(
                    code="ADAMW-L2",
                    value=param - lr * (grad + wd * param).sign(),
                    finding="the decay goes through the means",
                    fits="weight_decay * param added to grad.",
                    hides="v divides it away: a weight with large gradients hardly decays.",
                    look="the place of the decay: beside the step, not in the gradient.",
                ),
                Pattern(
                    code="ADAMW-DECAY-NO-LR",
                    value=(1 - wd) * param - step,
                    fits="1 - weight_decay.",
                    finding="the decay does not follow the learning rate",
                    look="the factor of param.",
                ),
                Pattern(
                    code="ADAMW-DECAY-UP",
                    value=(1 + lr * wd) * param - step,
                    finding="the weights grow",
                    fits="1 + lr * weight_decay.",
                    look="the sign of the decay.",
                ),
                Pattern(
                    code="ADAMW-DECAY-LATE",
                    value=(1 - lr * wd) * (param - step),
                    fits="decay after the step.",
                    finding="the decay is not of the old weight",
                    look="which param is multiplied.",
                ),
            ],
            **CLOSE,
            tried=tried,
            finding="the new weights differ",
            look="the line that makes param.",
        )


def no_gradient(subject: Subject, draw: Draw) -> None:
    """A gradient of zero fades the means and moves the weight by what they hold."""
    param, _, m, v = state(draw, 4)
    b1, b2, lr = 0.9, 0.95, 0.01
    tried = "update 3, a gradient of zeros, means that are not 0"
    out = ask(
        subject, param, 0 * param, m, v, 3, lr=lr, betas=(b1, b2), weight_decay=0.1, tried=tried
    )
    step = (b1 * m / (1 - b1**3)) / ((b2 * v / (1 - b2**3)).sqrt() + 1e-8)
    right = (1 - lr * 0.1) * param - lr * step, b1 * m, b2 * v
    for name, got, wanted in zip(NAMES, out, right, strict=True):
        expect.values(
            got,
            wanted,
            [
                Pattern(
                    code="ADAMW-SKIPPED",
                    value=old,
                    finding=f"without a gradient {name} stays as it was",
                    fits="an update that is left out where the gradient is 0.",
                    look="conditions on `grad`: the formula needs none.",
                )
                for old in ({"param": param, "m": m, "v": v}[name],)
            ],
            rtol=1e-4,
            atol=1e-6,
            tried=f"{tried}; the new {name}",
            finding="zero gradients act otherwise",
            look="conditions on `grad`.",
        )


def other_dtypes(subject: Subject, draw: Draw) -> None:
    """float64, bfloat16 and float16 tensors: all three results have that dtype."""
    for dtype in (torch.float64, torch.bfloat16, torch.float16):
        args = state(draw, 5, dtype=dtype)
        tried = f"tensors of {str(dtype)[6:]}, update 2"
        out = ask(subject, *args, 2, weight_decay=0.1, eps=1e-4, tried=tried)
        wide = (a.double() for a in args)
        param, grad, m, v = wide
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad**2
        step = (m / (1 - 0.9**2)) / ((v / (1 - 0.999**2)).sqrt() + 1e-4)
        right = ((1 - 0.01 * 0.1) * param - 0.01 * step, m, v)
        for name, got, wanted in zip(NAMES, out, right, strict=True):
            expect.values(
                got.double(),
                wanted,
                rtol=1e-5 if dtype == torch.float64 else 0.03,
                atol=1e-6 if dtype == torch.float64 else 0.03,
                tried=f"{tried}; the new {name}",
                look="casts on the way.",
            )


def default_epsilon(subject: Subject, draw: Draw) -> None:
    """Without eps= it is 1e-8."""
    grad, zero = torch.tensor([1e-8, -1e-8]), torch.zeros(2)
    out = subject.call(zero, grad, zero, zero, 1, lr=1.0, betas=(0.9, 0.999), weight_decay=0.0)
    new = out[0] if isinstance(out, (tuple, list)) and out else out
    right = torch.tensor([-0.5, 0.5])
    if not isinstance(new, Tensor) or not torch.allclose(new.float(), right, rtol=1e-2):
        raise Wrong(
            "ADAMW-EPS-DEFAULT",
            "eps has another default",
            tried="update 1, no eps given, lr 1, gradients of 1e-8 and -1e-8",
            expected=f"{vector(right)}: 1e-8 / (1e-8 + 1e-8)",
            got=vector(new) if isinstance(new, Tensor) else type(new).__name__,
            look="the signature: it came with the exercise.",
        )


def as_torch(subject: Subject, draw: Draw) -> None:
    """A run from zero state gives the weights of torch.optim.AdamW."""
    options = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1, eps=1e-8)
    param, updates = draw.randn(3, 4), draw.size(8, 7, 9)
    theirs = torch.nn.Parameter(param.clone())
    optimizer = torch.optim.AdamW([theirs], foreach=False, **options)
    m = v = torch.zeros(3, 4)
    for step in range(1, updates + 1):
        grad = draw.randn(3, 4)
        tried = f"{updates} updates, weight_decay 0.1; update {step}"
        param, m, v = ask(subject, param, grad, m, v, step, **options, tried=tried)
        theirs.grad = grad
        optimizer.step()
        # float32: each update rounds weights near 1 to 6e-8, a step in the other order to less
        expect.values(
            param,
            theirs.detach(),
            rtol=1e-5,
            atol=1e-6,
            tried=tried,
            finding="the weights leave those of torch.optim.AdamW",
            look="what changes from one update to the next.",
        )


def from_one(subject: Subject, draw: Draw) -> None:
    """Step 0 and those below are refused: nothing can be corrected there."""
    for step in (0, -1, -6):
        _refuse_step(subject, draw, step)


def _refuse_step(subject: Subject, draw: Draw, step: int) -> None:
    zero = torch.zeros(4)
    facts = dict(
        tried=f"step = {step}", expected="a ValueError", look="the docstring: `step` counts from 1."
    )
    try:
        out = subject.call(
            draw.randn(4),
            draw.randn(4),
            zero,
            zero,
            step,
            lr=0.01,
            betas=(0.9, 0.95),
            weight_decay=0.0,
        )
    except AnswerError as failure:
        if isinstance(failure.error, ValueError):
            return
        got = f"{type(failure.error).__name__}: {failure.error}"[:76]
    else:
        got = vector(out[0].flatten()) if isinstance(out, tuple) else "a result"
    raise Wrong(
        "ADAMW-STEP-ZERO",
        f"update {step} is accepted",
        got=got,
        **facts,
        hides="1 - beta ** 0 is 0, and every weight NaN, silently."
        if step == 0
        else "1 - beta ** step is negative there, and the root NaN, silently.",
    )


SUITES = (
    Suite(
        "adamw-step",
        (
            triple,
            moments,
            first_step,
            later_step,
            small_gradients,
            default_epsilon,
            decay,
            no_gradient,
            other_dtypes,
            adamw_edges.separate_calls,
            adamw_edges.late_and_loud,
            as_torch,
            adamw_edges.exact,
            adamw_edges.near_one,
            adamw_edges.zeros,
            adamw_edges.any_shape,
            adamw_edges.not_finite,
            from_one,
        ),
        tested="a run of your updates ends at the weights of torch.optim.AdamW.",
        remember="without decay, a first step is as long as lr, for any gradient far above eps.",
        next_step='"No correction" in the figure above: update 12 is worse than update 1.',
        ranks=1,
        loads=(DYNAMO,),
    ),
)
