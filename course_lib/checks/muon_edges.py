"""Checks of muon_step at its edges: eps, settings of 0, dtypes, layouts, and the size of products.

Oracle: the contract in float64.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.adamw_formula import expect_spread
from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.muon_formula import (
    BETA,
    CLOSE,
    CUBIC,
    EPS,
    LR,
    ask,
    is_near,
    length_of,
    matrix,
    row,
    turn,
)
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw

# a round that triples small sizes: what eps does to them is seen
GENTLE = dict(coefficients=CUBIC, rounds=1)


def eps_for_norm(subject: Subject, draw: Draw) -> None:
    """eps takes the norm's place where it is larger, and otherwise does nothing."""
    shape = (3, draw.size(5, 6, 4))
    wanted, zero = matrix(draw, *shape), torch.zeros(shape)
    param = 0.1 * draw.randn(*shape)
    direction = (1 - BETA**2) * wanted
    norm = direction.norm().item()
    for share in (0.5, 0.9, 2.0, 800.0):
        eps = share * norm
        tried = f"m = 0, a direction of norm {number(norm)}, eps {number(eps)}"
        new, _ = ask(subject, param, wanted.float(), zero, eps=eps, **GENTLE, tried=tried)
        found = (param - new).double() / length_of(shape)
        if is_near(found, turn(direction, CUBIC, 1, eps=eps)):
            continue
        facts = dict(
            tried=tried,
            expected=f"a division by {number(max(norm, eps))}",
            look="the docstring: its Frobenius norm, or `eps` where that is larger.",
        )
        ways = {
            "the norm plus eps": norm + eps,
            "the root of the squared norm plus eps": (norm**2 + eps) ** 0.5,
            "the root of both squares": (norm**2 + eps**2) ** 0.5,
            "the root of eps": max(norm, eps**0.5),
            "the norm alone": norm,
        }
        far = {
            name: (found - turn(direction, CUBIC, 1, norm=torch.tensor(by), eps=0.0)).abs().max()
            for name, by in ways.items()
        }
        best = min(far, key=far.__getitem__)
        if far[best] > CLOSE:
            raise Wrong("OTHER", "`eps` acts otherwise", **facts | dict(got=row(found)))
        code, finding = "MUON-EPS-ADDED", "eps is not what the norm is at least"
        if best == "the norm alone":
            code, finding = "MUON-EPS-FIXED", "`eps` has no effect"
        raise Wrong(code, finding, got=f"by {number(ways[best])}, {best}", **facts)


def default_eps(subject: Subject, draw: Draw) -> None:
    """Without eps= it is 1e-7: a direction of that norm shows it."""
    shape = (3, draw.size(5, 6, 4))
    wanted, zero = matrix(draw, *shape), torch.zeros(shape)
    wanted = wanted / wanted.norm() * 0.6 * EPS / (1 - BETA**2)
    tried = "m = 0, a direction of norm 6e-8, no eps given"
    new, _ = ask(subject, zero, wanted.float(), zero, **GENTLE, tried=tried)
    found = -new.double() / length_of(shape)
    right = turn((1 - BETA**2) * wanted, CUBIC, 1)
    if not is_near(found, right):
        raise Wrong(
            "MUON-EPS-DEFAULT",
            "eps has another default, or is used otherwise",
            tried=tried,
            expected=f"in lengths of a step: {row(right)}",
            got=row(found),
            look="the signature: it came with the exercise.",
        )


def zeros(subject: Subject, draw: Draw) -> None:
    """0 is a setting like any other, for eps, beta, the rate and the decay."""
    shape = (3, draw.size(5, 6, 4))
    wanted, m = matrix(draw, *shape), matrix(draw, *shape, (0.5, 0.5, 0.5))
    param = draw.randn(*shape)
    for name, options, grad, old, direction in (
        ("eps", dict(eps=0.0), 1e-8 * wanted, 0 * m, 1e-8 * wanted),
        ("beta", dict(beta=0.0), wanted, m, wanted),
        ("lr", dict(lr=0.0), wanted, 0 * m, wanted),
        ("weight_decay", dict(lr=0.5), wanted, 0 * m, wanted),
    ):
        lr = options.get("lr", LR)
        tried = f"{name} = 0"
        given = (param, grad.float(), old.float())
        new, new_m = ask(subject, *given, **options, tried=tried)
        beta = options.get("beta", BETA)
        length = length_of(shape) / LR * lr
        right = param.double() - length * turn(direction, eps=0.0)
        right_m = beta * old + (1 - beta) * grad
        near = CLOSE * length + 1e-6
        far = (new.double() - right).abs().max() > near
        if far or not torch.allclose(new_m.double(), right_m, rtol=1e-4, atol=1e-10):
            raise Wrong(
                "MUON-ZERO",
                f"{name} = 0 is not taken as 0",
                tried=tried,
                expected=row(right if far else right_m),
                got=row(new if far else new_m),
                fits="a default in place of 0.",
                look="`or`, and `if` on a number: 0 counts as false there.",
            )


def exact(subject: Subject, draw: Draw) -> None:
    """float64 keeps its digits in m and in the decay; a beta near 1 acts as it is given in bfloat16."""
    param, grad, m = (draw.randn(3, 4, dtype=torch.float64) / 3 for _ in range(3))
    tried = "float64 matrices"
    _, new_m = ask(subject, param, grad, m, tried=f"{tried}, random gradient")
    new, _ = ask(subject, param, 0 * grad, 0 * m, weight_decay=0.1, tried=tried)
    for name, got, right in (
        ("m", new_m, BETA * m + (1 - BETA) * grad),
        ("param, no gradient", new, (1 - LR * 0.1) * param),
    ):
        error = (got - right).abs().max().item()
        if error > 1e-12:
            raise Wrong(
                "MUON-FLOAT32",
                "float64 matrices keep fewer digits",
                tried=f"{tried}; the new {name}",
                expected="errors up to 1e-12",
                got=f"one of {number(error)}",
                fits="a step in float32 on the way, other than the rounds.",
                look="`.float()`, and `torch.tensor(...)` around settings: it makes float32.",
            )
    grad = (1 + draw.randn(3, 4).abs().clamp(max=1)).bfloat16()
    zero, beta = torch.zeros_like(grad), 0.998
    tried = f"m = 0, bfloat16, beta {beta}, gradient {row(grad)}"
    _, new_m = ask(subject, zero, grad, zero, beta=beta, tried=tried)
    if not torch.allclose(new_m.double(), (1 - beta) * grad.double(), rtol=0.05):
        raise Wrong(
            "MUON-ROUNDED",
            "beta is rounded to the dtype of the matrices",
            tried=f"{tried}; the new m",
            expected=row((1 - beta) * grad.double()),
            got=row(new_m),
            fits="a beta in bfloat16, which has steps of 0.004 near 1.",
            look="`torch.tensor(beta, dtype=...)`; numbers of Python keep their digits.",
        )


def wide_decay(subject: Subject, draw: Draw) -> None:
    """In bfloat16 a matrix decays by the factor that the settings give, not by a rounded one."""
    lr, wd = 0.5, 0.9964  # 1 - lr * wd is 0.5018, in bfloat16 0.5
    # these, their decay and what is left are near numbers of bfloat16: a right order rounds alike
    param = (torch.arange(237.0, 249.0).view(3, 4) / 128).bfloat16()
    zero = torch.zeros_like(param)
    tried = f"m = 0, gradient 0, bfloat16; lr {lr}, weight_decay {wd}; param {row(param)}"
    new, _ = ask(subject, param, zero, zero, lr=lr, weight_decay=wd, tried=tried)
    right = ((1 - lr * wd) * param.double()).bfloat16()
    if not torch.equal(new, right):
        raise Wrong(
            "MUON-ROUNDED",
            "the decay is not that of lr and weight_decay",
            tried=tried,
            expected=f"{1 - lr * wd:.4f} of param: {row(right)}",
            got=row(new),
            fits="1 - lr * weight_decay in bfloat16, where a small decay is none."
            if torch.equal(new, 0.5 * param)
            else "",
            look="`new_tensor`, `torch.tensor(..., dtype=...)`; numbers of Python keep their digits.",
        )


def memory_layouts(subject: Subject, draw: Draw) -> None:
    """Transposed and strided matrices are updated as their copies are, each of the three."""
    for shape in ((3, 5), (5, 3)):
        base = matrix(draw, *shape).float()
        given = [0.1 * draw.randn(*shape), base, 0.1 * draw.randn(*shape)]
        whole = ask(subject, *given, tried="contiguous matrices")
        every = [t.T.contiguous().T for t in given]
        cases = [("all three", every)]
        cases += [
            (name, [*given[:i], every[i], *given[i + 1 :]])
            for i, name in enumerate(("param", "grad", "m"))
        ]
        cases.append(("grad", [given[0], torch.stack([base, base], dim=-1)[..., 0], given[2]]))
        for name, tensors in cases:
            tried = f"{name} of shape {shape} in another order in memory"
            _expect_same(subject, tensors, whole, tried)


def _expect_same(
    subject: Subject, tensors: list[Tensor], whole: tuple[Tensor, Tensor], tried: str
) -> None:
    try:
        out = ask(subject, *tensors, tried=tried)
    except AnswerError as failure:
        text = f"{type(failure.error).__name__}: {failure.error}"
        raise Wrong(
            "STRIDED",
            "a matrix that is not contiguous raises",
            tried=tried,
            expected="what the same numbers in one piece give",
            got=text[:76],
            fits="`view`, which never copies." if "view" in text and "stride" in text else "",
            look="`reshape` copies where it has to.",
        ) from None
    near = CLOSE * length_of(whole[0].shape), 1e-6
    for name, got, wanted, most in zip(("param", "m"), out, whole, near, strict=True):
        if (got - wanted).abs().max() > most:
            raise Wrong(
                "STRIDED",
                "a matrix that is not contiguous gives other numbers",
                tried=f"{tried}; the new {name}",
                expected=row(wanted),
                got=row(got),
                fits="the memory read in its own order, not in that of the indices.",
                look="`as_strided` and what counts numbers in memory.",
            )


def separate_calls(subject: Subject, draw: Draw) -> None:
    """Each call depends on its own arguments alone, in 16 bits too, and its results stay as they are."""
    shape, lr = (3, 4), 1.0
    first, second = (_sized_step(draw, *shape) for _ in range(2))
    # float32; then 16 bits, where param, m and the rounds are each a few roundings of 2^-9 wrong
    for dtype, share, atol in (
        (torch.float32, CLOSE, 1e-5),
        (torch.bfloat16, 0.15, 4e-3),
        (torch.float16, 0.15, 4e-3),
    ):
        calls = [tuple(x.to(dtype) for x in args) for args in (first, second)]
        tried = f"two matrices of one shape in turn, {str(dtype).removeprefix('torch.')}"
        new, m = expect_separate_calls(
            subject.probe, *calls, tried=tried,
            options=dict(lr=lr, weight_decay=0.0), rtol=1e-4, atol=1e-6,
        )  # fmt: skip
        param, grad, old = (x.double() for x in calls[1])
        right_m = BETA * old + (1 - BETA) * grad
        length = length_of(shape) / LR * lr
        right = param - length * turn(BETA * right_m + (1 - BETA) * grad)
        far = ((new.double() - right) / length).abs().max()
        if far > share or not torch.allclose(m.double(), right_m, rtol=atol, atol=atol):
            raise Wrong(
                "REMEMBERS",
                "a second call differs from a first one",
                tried=tried,
                expected=row(right),
                got=row(new),
                fits="something kept from an earlier call.",
                look="what is stored in a global, in a default argument or by `cache`.",
            )


def _sized_step(draw: Draw, rows: int, columns: int) -> tuple[Tensor, Tensor, Tensor]:
    """param, grad and m of an update whose direction has the sizes of `matrix`."""
    param, m = 0.3 * draw.randn(rows, columns), 0.1 * draw.randn(rows, columns)
    return param, ((matrix(draw, rows, columns) - BETA**2 * m) / (1 - BETA**2)).float(), m


def not_finite(subject: Subject, draw: Draw) -> None:
    """Infinity and NaN go through the formula: m has them in their places, the matrix all over."""
    for shape, put in (((3, 5), torch.inf), ((4, 3), torch.nan), ((3, 3), -torch.inf)):
        param, grad, m = (draw.randn(*shape) for _ in range(3))
        bad = torch.zeros(shape, dtype=torch.bool)
        bad[1, 2] = True
        grad[bad] = put
        tried = f"shape {shape}, a gradient of {put} at (1, 2)"
        new, new_m = subject.call(param, grad, m, lr=LR, weight_decay=0.1)
        for name, got in (("param", new), ("m", new_m)):
            expect.tensor(got, shape=shape, dtype=torch.float32, tried=tried, finite=False)
            if name == "m":
                right = BETA * m + (1 - BETA) * grad
                at = f"{tried}; the new m"
                expect_spread(got, right, bad, code="MUON-NOT-FINITE", tried=at)
            elif torch.isfinite(got).all():
                raise Wrong(
                    "MUON-NOT-FINITE",
                    "gradients that are not finite are taken as others, or left out",
                    tried=f"{tried}; the new param",
                    expected="NaN: its norm, and with it every number of X",
                    got=row(got),
                    hides="the formula has no condition: whoever looks at gradients stands outside.",
                    look="`isfinite`, `isnan`, `nan_to_num`, `clamp`, and what they decide.",
                )


def short_side(subject: Subject, draw: Draw) -> None:
    """No product is larger than the matrix: the rounds work on its shorter side."""
    long = draw.size(96, 90, 101)
    for shape in ((long, 3), (3, long)):
        given = tuple(draw.randn(*shape) for _ in range(3))
        options = dict(lr=LR, weight_decay=0.0)
        largest = subject.probe("course_lib.probes.held:largest_made", given, options)
        if largest <= 2 * 3 * long:
            continue
        tall = shape[0] > 3
        raise Wrong(
            "MUON-LONG-SIDE",
            "a product is larger than the matrix",
            tried=f"matrices of shape {shape}, {3 * long} numbers",
            expected=f"no tensor of more than {3 * long} numbers",
            got=f"one of {largest:,}",
            fits=f"X X^T of a tall matrix, {long} x {long}."
            if tall
            else f"X^T X of a wide matrix, {long} x {long}.",
            hides="for a matrix of an MLP, with sides of 1 to 4, four times the work.",
            look="on which side the matrix lies when the rounds begin.",
        )
