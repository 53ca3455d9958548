"""Checks of lesson 02: rotate_half, the quarter turn of every pair. Its suite is in `rope`.

Oracle: multiplication of complex numbers. A pair (a, b) is a + bi, and rotate_half multiplies it by i.
A wrong answer is named by comparing it with the catalogue `HALVES`.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_any_layout, expect_expanded
from course_lib.checks.report import Wrong
from course_lib.checks.rope_mistakes import HALVES, Mistake, half_split, split
from course_lib.checks.second_call import expect_second_16_bits, expect_second_call
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw


def _quarter_turn(x: Tensor) -> Tensor:
    """Oracle: (a + bi) * i for the pairs (a, b) = (x[i], x[i + K/2])."""
    turned = torch.complex(*split(x.double())) * 1j
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def _patterns(x: Tensor) -> list[Pattern]:
    return [Pattern(value=m.gives(x), **_words(m)) for m in HALVES]


def _words(mistake: Mistake) -> dict:
    return {k: v for k, v in mistake._asdict().items() if k != "gives"}


def half_runs(subject: Subject, draw: Draw) -> None:
    """(2, 4, 6, 8) in, a finite tensor of the same shape and dtype out."""
    x = draw.randn(2, 4, 6, 8)
    out = subject.call(x)
    expect.tensor(out, shape=x.shape, dtype=x.dtype, tried="x of shape (2, 4, 6, 8), float32")


def each_vector_alone(subject: Subject, draw: Draw) -> None:
    """Changing one vector changes the output of that vector only."""
    # every size even, so that a cut along the wrong one runs too
    for shape in ((2, 4, 6, 8), (6, 8), (4, 6, 8), (2, 2, 4, 6, 8), (2, 2, 2, 4, 6, 8)):
        x, leading = draw.randn(*shape), shape[:-1]
        place = tuple(n // 2 for n in leading)
        changed = x.clone()
        changed[place] += 1
        out = expect.tensor(
            subject.call(x), shape=shape, dtype=x.dtype, tried=f"x of shape {shape}"
        )
        moved = (subject.call(changed) != out).any(-1)
        moved[place] = False
        if not moved.any():
            continue
        where = tuple(int(i) for i in moved.nonzero()[0])
        fits = "halves taken along another dimension than the last."
        for dim in range(len(leading)):
            if torch.allclose(out, half_split(x, dim)):
                fits = (
                    f"halves taken along dimension {dim} of {len(shape)}, not along the last one."
                )
        raise Wrong(
            "ROPE-DIM",
            "vectors are mixed with each other",
            fits=fits,
            tried=f"x of shape {shape}; then the vector at {place} alone was changed",
            expected=f"a change at {place} and nowhere else",
            got=f"a change at {where} too",
            look="`dim=` of `chunk` and `cat`, or where `...` stands in the slices.",
        )


def by_hand(subject: Subject, draw: Draw) -> None:
    """[1, 2, 3, 4] becomes [-3, -4, 1, 2]."""
    x = torch.tensor([1.0, 2.0, 3.0, 4.0])
    out = expect.tensor(subject.call(x), shape=x.shape, dtype=x.dtype, tried="x = [1, 2, 3, 4]")
    _same_numbers(out, x, "x = [1, 2, 3, 4], K = 4: the pairs are (1, 3) and (2, 4)")


def other_sizes(subject: Subject, draw: Draw) -> None:
    """Any even K, any number of leading dimensions."""
    for shape in (
        (draw.size(6, 10, 14),),
        (3, 2),
        (2, 1, 3, draw.size(8, 12, 16)),
        (2, 3, 1, 2, 2, 4),
    ):
        x = draw.randn(*shape)
        tried = f"x of shape {shape}"
        out = expect.tensor(subject.call(x), shape=shape, dtype=x.dtype, tried=tried)
        _same_numbers(out, x, tried)


def _same_numbers(out: Tensor, x: Tensor, tried: str) -> None:
    # numbers move and change sign, nothing is computed; the slack is for a product with 0, 1 or -1
    expect.values(
        out,
        _quarter_turn(x),
        _patterns(x),
        rtol=1e-6,
        atol=1e-6,
        tried=tried,
        look="where the cut is made, the order of the halves, and the sign.",
    )


def half_dtypes(subject: Subject, draw: Draw) -> None:
    """bfloat16, float16 and float64 come back as they were."""
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        x = draw.randn(2, 6, dtype=dtype)
        tried = f"x of dtype {str(dtype)[6:]}"
        out = expect.tensor(subject.call(x), shape=x.shape, dtype=dtype, tried=tried)
        _same_numbers(out, x, tried)


def every_bit(subject: Subject, draw: Draw) -> None:
    """Numbers move and change sign, so each keeps all its digits, the largest ones too; call by call."""
    last = None
    for dtype, most in ((torch.float64, 1e15), (torch.float32, 1e15), (torch.float16, 65_504.0)):
        for size in (1.0, most):
            x = (draw.randn(2, 3, 8).double().clamp(-1, 1) * torch.pi / 4 * size).to(dtype)
            x[..., 5] = size
            tried = f"x of shape (2, 3, 8) in {str(dtype)[6:]}, numbers up to {size:g}"
            out = expect.tensor(subject.call(x), shape=x.shape, dtype=dtype, tried=tried)
            wanted = half_split(x)
            if torch.equal(out, wanted):
                last = out
                continue
            index = tuple(int(i) for i in (out != wanted).nonzero()[0])
            was, came = wanted[index].item(), out[index].item()
            facts = dict(tried=tried, expected=f"{was!r} at {index}", got=f"{came!r}")
            if last is not None and last.dtype == dtype and torch.equal(out, last):
                raise Wrong(
                    "REMEMBERS",
                    "the result is that of the call before",
                    look="what outlives a call: a cache, a global name, a default argument.",
                    **facts,
                )
            if abs(came) < 0.98 * abs(was):
                raise Wrong("ROPE-LIMITED", "large values are cut off", look="`clamp`.", **facts)
            raise Wrong("OTHER", "numbers lose digits", look="casts on the way.", **facts)


def half_layouts(subject: Subject, draw: Draw) -> None:
    """Heads after a transpose, which are not contiguous, too; an expanded tensor."""
    x, close = draw.randn(2, 3, 5, 8), dict(tried="x of shape (2, 3, 5, 8)", rtol=1e-6, atol=1e-6)
    expect_any_layout(subject.call, x, **close)
    expect_expanded(subject.probe, x, **close)


def half_calls(subject: Subject, draw: Draw) -> None:
    """A result stays when another call of its shape follows, and is that of its own x, in 16 bits
    too."""
    first, second = (draw.randn(2, 3, 8),), (draw.randn(2, 3, 8),)
    tried, names = "two inputs of shape (2, 3, 8)", ("the result",)
    right = (_quarter_turn(*second),)
    expect_second_call(
        subject.probe, first, second, right, names=names, tried=tried, rtol=1e-6, atol=1e-6
    )
    expect_second_16_bits(
        subject.probe, first, second, lambda x: (_quarter_turn(x),),
        names=names, tried=tried, within=1e-6,
    )  # fmt: skip


def half_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one token and of several, keep their own numbers side by side."""
    shapes = ((4,), (1, 4), (1, 1, 6), (1, 1, 1, 4), (2, 3, 1, 8), (2, 1, 3, 4), (1, 2, 5, 6))
    sizes = [(shape, torch.float32) for shape in shapes]
    sizes += [((1, 2, 1, 8), dtype) for dtype in (torch.bfloat16, torch.float16)]
    groups = [[(draw.randn(*shape, dtype=d),) for _ in range(CALLS)] for shape, d in sizes]
    expect_calls_in_turn(
        subject.probe, groups, lambda x: (_quarter_turn(x),), names=("the result",),
        tried="x of several shapes", rtol=1e-6, atol=1e-6, within_16=1e-6,
    )  # fmt: skip


def half_gradient(subject: Subject, draw: Draw) -> None:
    """The gradient is turned back: rotate_half is a rotation, so its transpose is its inverse."""
    x, upstream = draw.randn(2, 6), draw.randn(2, 6)
    (grad,) = subject.vjp(x, upstream=upstream)
    if grad is None:
        raise Wrong(
            "ROPE-NO-GRAD",
            "no gradient reaches x",
            expected="a gradient for x",
            got="none",
            look="`torch.tensor(...)`, `.detach()`, `no_grad`.",
        )
    expect.values(
        grad,
        -_quarter_turn(upstream),
        [
            Pattern(
                code="ROPE-NO-GRAD",
                value=torch.cat((upstream[:, 3:], torch.zeros(2, 3)), -1),
                finding="no gradient flows through one half",
                fits="one half was detached.",
                look="`.detach()`, `.data` or `torch.tensor(...)`.",
            ),
            Pattern(
                code="ROPE-NO-GRAD",
                value=torch.cat((torch.zeros(2, 3), -upstream[:, :3]), -1),
                finding="no gradient flows through one half",
                fits="one half was detached.",
                look="`.detach()`, `.data` or `torch.tensor(...)`.",
            ),
        ],
        rtol=1e-6,
        atol=1e-6,
        tried="a random upstream gradient",
        finding="the gradient differs",
        look="steps that leave the graph.",
    )


def half_of_nothing(subject: Subject, draw: Draw) -> None:
    """A tensor without vectors, as an empty part of a batch, comes back as it is."""
    for shape in ((0, 4), (2, 0, 4), (0, 3, 2, 6), (1, 2, 0, draw.size(8, 10))):
        x, tried = draw.randn(*shape), f"x of shape {shape}: no vectors"
        expect.tensor(subject.call(x), shape=shape, dtype=x.dtype, tried=tried)
