"""Checks of lesson 09: muon_step.

Oracle: the contract in float64. What a step adds to a matrix is compared in units of its length,
0.2 * sqrt(max(A, B)) * lr, where the matrix that comes out of the rounds is of size 1.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from course_lib.checks import expect, muon_edges
from course_lib.checks.expect import Pattern
from course_lib.checks.muon_formula import (
    BETA,
    CLOSE,
    CUBIC,
    LR,
    SIZES,
    ask,
    compare,
    is_near,
    length_of,
    matrix,
    row,
    turn,
)
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


def pair(subject: Subject, draw: Draw) -> None:
    """Two tensors of the shape and dtype that came in, which stay as they are."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        for shape in ((draw.size(2, 3), 4), (5, 3), (3, 3), (1, 4), (4, 1), (1, 1)):
            given = (draw.randn(*shape, dtype=dtype) for _ in range(3))
            ask(subject, *given, tried=f"matrices of shape {shape}, {str(dtype)[6:]}")


def mean(subject: Subject, draw: Draw) -> None:
    """The new m is the running mean of the gradients, whatever shape they have."""
    for shape, beta in (((2, 3), BETA), ((4, 2), 0.8)):
        param, grad, m = (draw.randn(*shape) for _ in range(3))
        more = {} if beta == BETA else {"beta": beta}
        tried = f"beta {beta}, m {row(m)}, gradient {row(grad)}"
        new = beta * m + (1 - beta) * grad
        old_beta = BETA * m + (1 - BETA) * grad
        found, out = ask(subject, param, grad, m, **more, tried=tried)
        if torch.allclose(found, new, rtol=1e-4, atol=1e-5):
            raise Wrong(
                "MUON-ORDER",
                "the two results are exchanged",
                tried=tried,
                expected="(param, m)",
                got="(m, param)",
                look="the `return`.",
            )
        named = (
            ("MUON-SUM", beta * m + grad, "m is a sum, not a mean",
             "beta of the old m plus all of the gradient.",
             "the two parts of a mean add up to 1."),
            ("MUON-MIRRORED", (1 - beta) * m + beta * grad, "m forgets what it should keep",
             f"{number(1 - beta)} of the old m, {beta} of the gradient.",
             "beta is the part of the old mean that stays."),
            ("MUON-STATE-OLD", m, "the returned m is the old one", "m as it came in.",
             "what `return` hands back."),
            ("MUON-STATE-DIRECTION", beta * new + (1 - beta) * grad,
             "the returned m has seen the gradient twice", "the direction of the step.",
             "which of the two means `return` hands back."),
            ("MUON-STATE-TURNED", turn((beta * new + (1 - beta) * grad).double()).float(),
             "the returned m is the step", "the direction after the rounds.",
             "which name `return` hands back."),
            ("MUON-BETA", old_beta, "beta has no effect", f"a beta of {BETA}.",
             "the `beta` of the signature."),
        )  # fmt: skip
        patterns = [
            Pattern(code=code, value=value, finding=finding, fits=fits, look=look)
            for code, value, finding, fits, look in named
        ]
        expect.values(
            out,
            new,
            patterns,
            rtol=1e-4,
            atol=1e-5,
            tried=tried,
            finding="the new m differs",
            look="the line that makes m.",
        )


def equal_sizes(subject: Subject, draw: Draw) -> None:
    """From m = 0, every singular value of the step is near 1 in its length, whatever the gradient's."""
    sizes = torch.tensor([1.0, 0.3, 0.1, 0.02])
    for shape, scale in (((4, draw.size(6, 5, 7)), 1.0), ((7, 4), 1e-3), ((4, 4), 1e3)):
        grad = scale * matrix(draw, *shape, tuple(sizes.tolist())).float()
        param, zero = 0.1 * draw.randn(*shape), torch.zeros(shape)
        tried = f"m = 0, a gradient of shape {shape}\nwith singular values {vector(scale * sizes)}"
        new, _ = ask(subject, param, grad, zero, tried=tried)
        found = torch.linalg.svdvals((param - new) / length_of(shape))
        if ((found > 0.6) & (found < 1.3)).all():
            _downhill(param - new, grad, tried)
            continue
        facts = dict(
            tried=tried,
            expected="singular values between 0.68 and 1.21, in lengths of a step",
            got=vector(found),
        )
        around = found / found[0]
        if torch.allclose(around, sizes, rtol=0.05, atol=1e-3):
            raise Wrong(
                "MUON-NOT-TURNED",
                "the singular values are as unequal as before",
                **facts,
                fits="a multiple of the gradient: momentum alone.",
                look="what a round returns, and whether the next one starts from it.",
            )
        ratio = found.mean().item()
        if found[-1] / found[0] > 0.5:
            raise Wrong(
                "MUON-LENGTH",
                "the step has another length",
                **facts,
                fits=f"equal singular values, times {number(ratio)}.",
                look="what the matrix is multiplied by, for this shape and this lr.",
            )
        raise Wrong(
            "MUON-UNEQUAL",
            "the singular values are not equal",
            **facts,
            look="one round: a, b and c, and which products are of matrices.",
        )


def _downhill(moved: Tensor, grad: Tensor, tried: str) -> None:
    if (moved * grad).sum() < 0:
        raise Wrong(
            "MUON-UPHILL",
            "the matrix moves up the gradient",
            tried=tried,
            expected="a step against the gradient",
            got="one along it",
            fits="`+` for `-`.",
            look="the last sign.",
        )


def direction(subject: Subject, draw: Draw) -> None:
    """In the middle of a run: which mean is turned, divided by which norm, how many times."""
    shape = (3, draw.size(5, 4, 6))
    wanted, m = matrix(draw, *shape), draw.randn(*shape, dtype=torch.float64)
    # the gradient after which the direction is this matrix
    grad = (wanted - BETA**2 * m) / (1 - BETA**2)
    new_m = BETA * m + (1 - BETA) * grad
    param = 0.1 * draw.randn(*shape)
    tried = f"shape {shape}, m {row(m)}, gradient {row(grad)}"
    new, _ = ask(subject, param, grad.float(), m.float(), tried=tried)
    left, _, right = torch.linalg.svd(wanted, full_matrices=False)
    named = (
        ("MUON-NO-NESTEROV", turn(new_m)),
        ("MUON-NO-MOMENTUM", turn(grad)),
        ("MUON-NOT-A-MEAN", turn(grad + BETA * new_m)),
        ("MUON-OTHER-NORM", turn(wanted, norm=torch.linalg.matrix_norm(wanted, 2))),
        ("MUON-EXACT", left @ right),
        ("MUON-ROUNDS", turn(wanted, rounds=4)),
        ("MUON-ROUNDS", turn(wanted, rounds=6)),
    )
    compare((param - new).double() / length_of(shape), turn(wanted), named, tried)


def lengths(subject: Subject, draw: Draw) -> None:
    """A step is 0.2 * sqrt(max(A, B)) * lr times that matrix: wide, tall and square."""
    for shape, lr, tried, moved, wanted in _first_steps(subject, draw):
        A, B = shape
        right = 0.2 * math.sqrt(max(shape))
        for value, fits in (
            (1.0, "lr alone."),
            (0.2, "0.2 lr, without a root."),
            (math.sqrt(max(A, B)), "sqrt(max(A, B)) lr, without 0.2."),
            (0.2 * math.sqrt(min(A, B)), "0.2 * sqrt(min(A, B)) lr."),
            (math.sqrt(max(1, A / B)), "sqrt(max(1, A / B)) lr, as in the first Muon."),
            (0.2 * max(A, B), "0.2 * max(A, B) lr, without a root."),
            (right / lr, "a step without lr."),
            (right * LR / lr, "a fixed lr."),
        ):
            if abs(right / value - 1) > 0.05 and is_near(moved / lr / value, wanted):
                raise Wrong(
                    "MUON-LENGTH",
                    "the step has another length",
                    tried=tried,
                    expected=f"{number(right)} lr times the matrix that comes out of the rounds",
                    got=f"{number(value)} lr times",
                    fits=fits,
                    look="what the matrix is multiplied by.",
                )


def shapes(subject: Subject, draw: Draw) -> None:
    """Wide, tall, square, one row, one column: each step is what the contract says."""
    for shape, lr, tried, moved, wanted in _first_steps(subject, draw, (1, 6), (6, 1)):
        compare(moved / lr / (0.2 * math.sqrt(max(shape))), wanted, (), tried)


def _first_steps(subject: Subject, draw: Draw, *flat: tuple[int, int]) -> Iterator[tuple]:
    """(shape, lr, what was tried, what was taken off the matrix, the turned gradient) of each."""
    wide = draw.size(8, 7, 9)
    for shape in ((3, wide), (wide, 3), (3, 3), *flat):
        grad = matrix(draw, *shape, SIZES[: min(shape)])
        param, zero = 0.1 * draw.randn(*shape), torch.zeros(shape)
        for lr in (LR, 3 * LR):
            tried = f"m = 0, a gradient of shape {shape}, lr {lr:g}"
            new, _ = ask(subject, param, grad.float(), zero, lr=lr, tried=tried)
            yield shape, lr, tried, (param - new).double(), turn(grad)


def decay(subject: Subject, draw: Draw) -> None:
    """The old matrix decays by lr * weight_decay of itself, beside the step."""
    lr, wd = 0.1, 0.1 * draw.size(5, 4, 6)
    shape = (3, 5)
    length = 0.2 * math.sqrt(max(shape)) * lr
    param, zero, grad = draw.randn(*shape), torch.zeros(shape), matrix(draw, *shape).float()
    for g in (zero, grad):
        tried = (
            f"m = 0, gradient {'0' if g is zero else row(g)}; lr {lr}, weight_decay {number(wd)}"
        )
        new, _ = ask(subject, param, g, zero, lr=lr, weight_decay=wd, tried=tried)
        step = length * turn(g.double()).float()
        mixed = length * turn((g + wd * param).double()).float()
        named = (
            ("MUON-NO-DECAY", param - step, "nothing decays", "a step without decay.",
             "`weight_decay`."),
            ("MUON-L2", param - mixed, "the decay goes through the rounds",
             "weight_decay * param added to the gradient.",
             "the place of the decay: beside the step, not in the gradient."),
            ("MUON-DECAY-NO-LR", (1 - wd) * param - step,
             "the decay does not follow the learning rate", "1 - weight_decay.",
             "the factor of param."),
            ("MUON-DECAY-LENGTH", (1 - length * wd) * param - step,
             "the decay follows the length of the step",
             "1 - 0.2 * sqrt(max(A, B)) * lr * weight_decay.", "the factor of param."),
            ("MUON-DECAY-UP", (1 + lr * wd) * param - step, "the weights grow",
             "1 + lr * weight_decay.", "the sign of the decay."),
            ("MUON-DECAY-LATE", (1 - lr * wd) * (param - step), "the decay is not of the old matrix",
             "decay after the step.", "which param is multiplied."),
        )  # fmt: skip
        # half of the smallest difference between right and late: 0.5 * lr * wd * step
        near = 0.004 if g is grad else 1e-5
        if (new - ((1 - lr * wd) * param - step)).abs().max() < near:
            continue
        distances = [(new - value).abs().max().item() for _, value, *_ in named]
        facts = dict(
            tried=tried,
            expected=row((1 - lr * wd) * param - step),
            got=row(new),
        )
        best = distances.index(min(distances))
        if distances[best] < near:
            code, _, finding, fits, look = named[best]
            raise Wrong(code, finding, fits=fits, look=look, **facts)
        raise Wrong("OTHER", "the new matrix differs", look="the line that makes param.", **facts)


def decay_beside_step(subject: Subject, draw: Draw) -> None:
    """The step does not depend on `weight_decay`, nor the decay on the step."""
    lr, wd, shape = 0.5, 1.0, (3, 5)
    param, zero, grad = 0.01 * draw.randn(*shape), torch.zeros(shape), matrix(draw, *shape).float()
    tried = f"m = 0, lr {lr}, weight_decay 0 and {wd:g}"
    steps = []
    for decay_ in (0.0, wd):
        new, _ = ask(subject, param, grad, zero, lr=lr, weight_decay=decay_, tried=tried)
        steps.append(((1 - lr * decay_) * param - new).norm().item())
    if abs(steps[1] / steps[0] - 1) > 0.05:
        raise Wrong(
            "MUON-DECAY-LATE",
            "the decay is not of the old matrix",
            tried=tried,
            expected=f"beside the decay, the same step: of norm {number(steps[0])}",
            got=f"with weight_decay {wd:g} it has norm {number(steps[1])}",
            fits="decay after the step." if steps[1] < steps[0] else "",
            look="which param is multiplied.",
        )


def silence(subject: Subject, draw: Draw) -> None:
    """A gradient of zeros: the matrix goes on by what m holds, or stays."""
    shape = (3, 4)
    param, zero, m = 0.1 * draw.randn(*shape), torch.zeros(shape), matrix(draw, *shape)
    tried = "a gradient of zeros, m = 0, no decay"
    new, _ = ask(subject, param, zero, zero, tried=tried)
    if not torch.equal(new, param):
        raise Wrong(
            "OTHER",
            "a matrix without a gradient moves",
            tried=tried,
            expected="the old matrix",
            got=f"moved by {row(param - new)}",
            look="what is added besides the step.",
        )
    tried = f"a gradient of zeros, m {row(m)}"
    new, new_m = ask(subject, param, zero, m.float(), tried=tried)
    if torch.equal(new, param) or torch.equal(new_m, m.float()):
        raise Wrong(
            "MUON-SKIPPED",
            "without a gradient nothing is done",
            tried=tried,
            expected="m fades, and the matrix moves by what it holds",
            got="everything as it was",
            fits="an update that is left out where the gradient is 0.",
            look="conditions on `grad`: the formula needs none.",
        )
    compare((param - new).double() / length_of(shape), turn(m), (), tried)


def settings(subject: Subject, draw: Draw) -> None:
    """`coefficients` and `rounds` are those that the caller gives."""
    shape = (3, draw.size(5, 6, 4))
    wanted, zero = matrix(draw, *shape), torch.zeros(shape)
    param = 0.1 * draw.randn(*shape)
    first = turn(wanted)
    for options, value, code, other in (
        ({"rounds": 0}, turn(wanted, rounds=0), "MUON-FIXED-ROUNDS", first),
        ({"rounds": 1}, turn(wanted, rounds=1), "MUON-FIXED-ROUNDS", first),
        ({"coefficients": CUBIC}, turn(wanted, CUBIC), "MUON-COEFFICIENTS", first),
        (
            {"coefficients": (2.0, -1.5, 0.5), "rounds": 2},
            turn(wanted, (2.0, -1.5, 0.5), 2),
            "MUON-COEFFICIENTS",
            turn(wanted, rounds=2),
        ),
    ):
        said = ", ".join(f"{name}={given}" for name, given in options.items())
        tried = f"m = 0, shape {shape}, {said}"
        new, _ = ask(subject, param, wanted.float(), zero, **options, tried=tried)
        compare((param - new).double() / length_of(shape), value, ((code, other),), tried)


def matrices_only(subject: Subject, draw: Draw) -> None:
    """A gain, a stack of matrices and a single number are refused."""
    for shape in ((4,), (2, 3, 4), ()):
        tensor = draw.randn(*shape) if shape else draw.randn(1)[0]
        facts = dict(
            tried=f"tensors of shape {shape}",
            expected="a ValueError",
            look="the docstring: number of dimensions.",
        )
        try:
            out = subject.call(tensor, tensor, tensor, lr=LR, weight_decay=0.0)
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            raise Wrong(
                "MUON-NO-MATRIX",
                "what is no matrix is not refused with a ValueError",
                got=type(failure.error).__name__,
                **facts,
            ) from None
        raise Wrong(
            "MUON-NO-MATRIX",
            "what is no matrix is stepped all the same",
            got=f"a {type(out).__name__}",
            **facts,
            hides="a gain has one direction only: it would move by the same length for ever.",
        )


def as_torch(subject: Subject, draw: Draw) -> None:
    """A run from m = 0 stays beside torch.optim.Muon, which rounds to bfloat16."""
    shape = (3, draw.size(5, 4, 6))
    param, updates = 0.1 * draw.randn(*shape), 4
    theirs = torch.nn.Parameter(param.clone())
    optimizer = torch.optim.Muon(
        [theirs], lr=LR, weight_decay=0.1, momentum=BETA, adjust_lr_fn="match_rms_adamw"
    )
    m, base = torch.zeros(shape), matrix(draw, *shape).float()
    for step in range(1, updates + 1):
        grad = base * step  # one direction, louder each time: the rounds see the same matrix
        tried = f"update {step} of {updates}, shape {shape}, weight_decay 0.1"
        param, m = ask(subject, param, grad, m, weight_decay=0.1, tried=tried)
        theirs.grad = grad
        optimizer.step()
        far = (param - theirs.detach()).abs().max().item() / length_of(shape)
        if far > step * CLOSE:
            raise Wrong(
                "OTHER",
                "the matrix leaves that of torch.optim.Muon",
                tried=tried,
                expected=f"{row(theirs.detach())}, up to {number(step * CLOSE)} lengths of a step",
                got=row(param),
                look="what changes from one update to the next.",
            )


SUITES = (
    Suite(
        "muon-step",
        (
            pair,
            mean,
            equal_sizes,
            lengths,
            direction,
            shapes,
            silence,
            decay,
            decay_beside_step,
            settings,
            muon_edges.eps_for_norm,
            matrices_only,
            muon_edges.default_eps,
            muon_edges.zeros,
            muon_edges.exact,
            muon_edges.wide_decay,
            muon_edges.memory_layouts,
            muon_edges.separate_calls,
            muon_edges.short_side,
            muon_edges.not_finite,
            as_torch,
        ),
        tested="all but tiny singular values come out of the rounds between 0.68 and 1.21; "
        "the run stays beside torch.optim.Muon.",
        remember="five rounds, one m for each weight, and 0.2 * sqrt(longer side) * lr.",
        next_step="python -m course_lib.training.ddp_trainer --model_size tiny --optimizer muon --mine",
        ranks=1,
        loads=("torch._dynamo",),
    ),
)
