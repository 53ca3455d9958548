"""Checks of lesson 02: apply_rotary_pos_emb. Those of rotate_half are in rope_halves, of the tables in
rope_tables.

Oracle: multiplication of complex numbers. A pair (a, b) is a + bi; the rotary embedding multiplies it
by cos + i sin. A wrong answer is named by comparing it with the catalogue `TURNS`: what known mistakes
give for the very same input.
"""

import traceback

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_any_default
from course_lib.checks.calls_in_turn import CALLS, expect_calls_in_turn
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_any_layout, expect_expanded
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.rope_halves import (
    by_hand,
    each_vector_alone,
    every_bit,
    half_calls,
    half_dtypes,
    half_gradient,
    half_in_turn,
    half_layouts,
    half_of_nothing,
    half_runs,
    other_sizes,
)
from course_lib.checks.rope_mistakes import TURNS, half_split, split
from course_lib.checks.rope_tables_mistakes import exact_tables
from course_lib.checks.second_call import expect_second_16_bits, expect_second_call
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


def _oracle(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(a + bi) * (cos + i sin) for the pairs (a, b) = (x[i], x[i + K/2]), in float64."""
    half = x.shape[-1] // 2
    z = torch.complex(*split(x.double()))
    turned = z * torch.complex(cos[:, :half].double(), sin[:, :half].double())
    return torch.cat((turned.real, turned.imag), dim=-1)


def _apply(subject: Subject, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, tried: str):
    """The answer's (q, k) after the generic expectations."""
    out = subject.call(q, k, cos, sin)
    shapes = f"both of shape {tuple(q.shape)}"
    if q.shape != k.shape:
        shapes = f"of shapes {tuple(q.shape)} and {tuple(k.shape)}"
    facts = dict(tried=tried, expected=f"a tuple of two tensors, {shapes}")
    kind = "None" if out is None else type(out).__name__
    if isinstance(out, Tensor):
        raise Wrong(
            "ROPE-ONE-TENSOR",
            "one tensor came back",
            look="what follows `return`.",
            got=f"one tensor of shape {tuple(out.shape)}",
            **facts,
        )
    if not isinstance(out, tuple):
        raise Wrong(
            "NONE" if out is None else "TYPE",
            f"the answer returned {'' if out is None else 'a '}{kind}",
            got=kind,
            look="the last line: is there a `return`? Two values with a comma make a tuple.",
            **facts,
        )
    if len(out) != 2:
        raise Wrong(
            "ROPE-COUNT",
            f"{len(out)} values came back, not two",
            got=f"a {kind} of {len(out)}",
            look="what stands after `return`; v is neither taken nor returned.",
            **facts,
        )
    for name, given, turned in zip("qk", (q, k), out, strict=True):
        expect.tensor(
            turned, shape=given.shape, dtype=given.dtype, tried=f"{tried}; {name}'s result"
        )
    return tuple(out)


def _explain(out: tuple, args: tuple, finding: str, tried: str, expected: str, got: str, look: str):
    """Raise `Wrong`: the mistake in `TURNS` that gives these very numbers, else OTHER."""
    facts = dict(tried=tried, expected=expected, got=got)
    for mistake in TURNS:
        try:
            value = mistake.gives(*args)
        except RuntimeError:  # this mistake cannot be made with these shapes
            continue
        if all(
            a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-4)
            for a, b in zip(out, value, strict=True)
        ):
            raise Wrong(
                mistake.code,
                mistake.finding,
                fits=mistake.fits,
                look=mistake.look,
                preset=mistake.preset,
                **facts,
            )
    raise Wrong("OTHER", finding, look=look, **facts)


def _cube(draw: Draw, size: int = 3, head_dim: int = 8) -> tuple[Tensor, Tensor]:
    """q and k with B = H = T, so that tables laid along a wrong dimension run too."""
    return tuple(draw.randn(size, size, size, head_dim) for _ in range(2))


def a_pair(subject: Subject, draw: Draw) -> None:
    """q and k come back as a pair, each in its own shape and dtype."""
    args = (*_cube(draw), *exact_tables(3, 8))
    try:
        _apply(subject, *args, tried="q, k of shape (3, 3, 3, 8)")
    except AnswerError as failure:
        frames = traceback.extract_tb(failure.error.__traceback__)
        if isinstance(failure.error, NotImplementedError) and frames[-1].name == "rotate_half":
            raise Wrong(
                "STUB",
                "rotate_half, which it calls, is not written yet",
                expected="a rotate_half that passes its own check",
                look="the exercise before this one.",
            ) from None
        raise


def first_stays(subject: Subject, draw: Draw) -> None:
    """The token at position 0 is turned by 0, so it stays as it was."""
    args = (*_cube(draw), *exact_tables(3, 8))
    out = _apply(subject, *args, tried="q, k of shape (3, 3, 3, 8)")
    for name, given, turned in zip("qk", args, out, strict=False):
        moved = (turned - given)[..., 0, :].abs().amax(-1)  # (B, H)
        if moved.max() > 1e-5:
            b, h = (int(i) for i in (moved > 1e-5).nonzero()[0])
            _explain(
                out,
                args,
                "the token at position 0 is changed",
                f"{name} at position 0, where cos = 1 and sin = 0",
                vector(given[b, h, 0], 4) + f"  (batch {b}, head {h})",
                vector(turned[b, h, 0], 4),
                "which table multiplies what.",
            )


def keeps_length(subject: Subject, draw: Draw) -> None:
    """A rotation moves no vector's length."""
    args = (*_cube(draw), *exact_tables(3, 8))
    out = _apply(subject, *args, tried="q, k of shape (3, 3, 3, 8)")
    for name, given, turned in zip("qk", args, out, strict=False):
        before, after = given.norm(dim=-1), turned.norm(dim=-1)
        bad = ~torch.isclose(before, after, rtol=1e-4)  # 8 squares, each good to 1e-7
        if bad.any():
            index = tuple(int(i) for i in bad.nonzero()[0])
            _explain(
                out,
                args,
                "the length of a vector changes",
                f"{name} at position {index[-1]}, head {index[1]}",
                f"length {number(before[index].item())}, as before the turn",
                f"length {number(after[index].item())}",
                "the two terms, and rotate_half on [1, 2, 3, 4].",
            )


def gap_only(subject: Subject, draw: Draw) -> None:
    """Moving q and k together by the same number of positions leaves their product alone."""
    shift = draw.size(5, 7, 11)
    cos, sin = exact_tables(3 + shift, 8)
    q, k = _cube(draw)
    scores, tried = [], "q at position 2, k at position 0"
    for start in (0, shift):
        args = (q, k, cos[start : start + 3], sin[start : start + 3])
        out = _apply(subject, *args, tried=tried)
        scores.append((out[0] @ out[1].transpose(-2, -1))[0, 0])
    here, there = scores
    # 8 products of numbers below 10, each good to 1e-6
    if not torch.allclose(here, there, rtol=1e-4, atol=1e-4):
        i, j = (int(n) for n in (~torch.isclose(here, there, rtol=1e-4, atol=1e-4)).nonzero()[0])
        _explain(
            out,
            args,
            "q . k depends on more than the gap",
            f"q at position {i}, k at {j}; then both {shift} positions later",
            f"q . k = {number(here[i, j].item())} both times",
            f"{number(here[i, j].item())}, then {number(there[i, j].item())}",
            "whether q and k are treated alike.",
        )


def quarter_turn(subject: Subject, draw: Draw) -> None:
    """By 90 degrees (a, b) becomes (-b, a), by 180 degrees (-a, -b)."""
    q, k = (torch.tensor(pair).expand(1, 1, 2, 2).clone() for pair in ([3.0, 1.0], [2.0, 5.0]))
    cos, sin = torch.tensor([[0.0, 0.0], [-1.0, -1.0]]), torch.tensor([[1.0, 1.0], [0.0, 0.0]])
    args = (q, k, cos, sin)
    tried = "q = [3, 1], k = [2, 5], K = 2, an angle of 90 degrees: cos = 0, sin = 1"
    out = _apply(subject, *args, tried=tried)
    for given, turned in zip((q, k), out, strict=True):
        wanted = torch.stack((half_split(given[..., 0, :]), -given[..., 1, :]), dim=-2)
        if not torch.allclose(turned, wanted, atol=1e-6):
            _explain(
                out,
                args,
                "a quarter turn ends elsewhere",
                tried,
                "q = [-1, 3], k = [-5, 2]",
                f"q = {vector(out[0][0, 0, 0])}, k = {vector(out[1][0, 0, 0])}",
                "the sign of the second term.",
            )


def other_shapes(subject: Subject, draw: Draw) -> None:
    """Other sizes and tables, of another theta and later positions: as complex multiplication."""
    B, H, T, K = draw.size(2, 1, 3), draw.size(3, 2, 4), draw.size(5, 6, 9), draw.size(6, 4, 10)
    q, k = draw.randn(B, H, T, K), draw.randn(B, H, T, K)
    cos, sin = exact_tables(T + 3, K, theta=500.0)
    _compare_turned(subject, q, k, cos[:T], sin[:T], f"q, k of shape {(B, H, T, K)}, theta = 500")
    tried = "the same q and k, other tables of the same shape"
    try:
        _compare_turned(subject, q, k, cos[3:], sin[3:], tried)
    except Wrong as wrong:
        old = _oracle(q, cos[:T], sin[:T]).float()
        if torch.allclose(subject.call(q, k, cos[3:], sin[3:])[0], old, rtol=1e-5, atol=1e-5):
            raise Wrong(
                "ROPE-STALE-TABLES",
                "the tables of an earlier call are used",
                tried=tried,
                expected="the angles of the tables given",
                got="those of the call before",
                fits="tables that are kept by their shape.",
                look="what outlives a call: a cache, a global name, an attribute.",
            ) from None
        raise wrong
    for shape in ((1, 1, 1, 2), (1, 2, 3, 4)):
        q, k = draw.randn(*shape), draw.randn(*shape)
        late_cos, late_sin = (t[2:] for t in exact_tables(shape[2] + 2, shape[3]))
        _compare_turned(subject, q, k, late_cos, late_sin, f"q, k of shape {shape}")
    q, k = draw.randn(2, 3, T, K), draw.randn(2, 3, T, K)
    args = (q, k, cos[:T], sin[:T])
    tried = f"q and k of shape {(2, 3, T, K)}"
    expect_any_layout(subject.call, *args, tried=tried, rtol=1e-5, atol=1e-5)
    expect_expanded(subject.probe, *args, tried=tried, rtol=1e-5, atol=1e-5)


def _compare_turned(
    subject: Subject, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, tried: str
) -> None:
    """Every number of the turned q and k."""
    out = _apply(subject, q, k, cos, sin, tried=tried)
    for name, given, turned in zip("qk", (q, k), out, strict=True):
        wanted = _oracle(given, cos, sin).float()
        # three fp32 roundings, 6e-8 each, of numbers below 10
        bad = ~torch.isclose(turned, wanted, rtol=1e-5, atol=1e-5)
        if bad.any():
            row = tuple(int(i) for i in bad.nonzero()[0])[:-1]
            _explain(
                out,
                (q, k, cos, sin),
                f"the numbers of {name} differ",
                tried,
                f"{name}{list(row)} = {vector(wanted[row], 4)}",
                vector(turned[row], 4),
                "rotate_half on [1, 2, 3, 4], then the two terms.",
            )


def fewer_key_heads(subject: Subject, draw: Draw) -> None:
    """k may have fewer heads than q, as keys have that several heads of q read."""
    cos, sin = exact_tables(3, 8)
    for heads in (2, 1):
        q, k = draw.randn(2, 4, 3, 8), draw.randn(2, heads, 3, 8)
        tried = f"q of shape {tuple(q.shape)}, k of shape {tuple(k.shape)}"
        facts = dict(
            tried=tried,
            expected="the turned q and k, each in its own shape",
            look="where q and k are put together, and where they are parted.",
        )
        try:
            out = subject.call(q, k, cos, sin)
        except AnswerError as failure:
            raise Wrong(
                "ROPE-KEY-HEADS",
                "a k with fewer heads than q raises",
                got=f"{type(failure.error).__name__}: {failure.error}".splitlines()[0][:76],
                **facts,
            ) from None
        if isinstance(out, tuple) and all(isinstance(x, Tensor) for x in out):
            shapes = [tuple(x.shape) for x in out]
            if shapes != [tuple(q.shape), tuple(k.shape)]:
                raise Wrong(
                    "ROPE-KEY-HEADS",
                    "where k has fewer heads than q, other shapes come back",
                    got="shapes " + " and ".join(map(str, shapes)),
                    fits="q and k in one tensor, which is parted in the middle.",
                    **facts,
                )
        _compare_turned(subject, q, k, cos, sin, tried)


def zeros_stay(subject: Subject, draw: Draw) -> None:
    """A vector of zeros has no direction; turned, it is a vector of zeros, with a gradient."""
    q, k, upstream = (draw.randn(2, 2, 3, 6) for _ in range(3))
    q[0, 1, 1], k[1, 0, 2] = 0.0, 0.0
    cos, sin = exact_tables(3, 6)
    tried = "a vector of zeros in q, and one in k"
    _compare_turned(subject, q, k, cos, sin, tried)
    for item, name in enumerate("qk"):
        grad = subject.vjp(q, k, cos, sin, upstream=upstream, item=item)[item]
        if grad is not None and not torch.isfinite(grad).all():
            raise Wrong(
                "NAN",
                f"the gradient of {name} holds NaN or infinity",
                tried=tried,
                expected="the upstream gradient, turned the other way",
                got=f"{int((~torch.isfinite(grad)).sum())} of {grad.numel()} are not finite",
                look="divisions by a length, and square roots of 0.",
            )


def _two_calls(draw: Draw) -> tuple[tuple, tuple]:
    """Two calls of the same shapes: other numbers, and other rows of the tables."""
    cos, sin = exact_tables(8, 6)
    return tuple(
        (draw.randn(1, 2, 4, 6), draw.randn(1, 2, 4, 6), cos[at : at + 4], sin[at : at + 4])
        for at in (0, 4)
    )


TWO_CALLS = dict(
    names=("the turned q", "the turned k"),
    tried="q and k of shape (1, 2, 4, 6), then others, with other rows of the tables",
)


def _turn_both(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> list[Tensor]:
    return [_oracle(x, cos, sin) for x in (q, k)]


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """Results stay when another call of their shapes follows, whatever torch's default dtype is."""
    first, second = _two_calls(draw)
    close = dict(rtol=1e-5, atol=1e-5)
    expect_second_call(subject.probe, first, second, _turn_both(*second), **TWO_CALLS, **close)
    expect_any_default(subject.probe, first, tried="q, k, cos and sin in float32", **close)


def calls_in_turn(subject: Subject, draw: Draw) -> None:
    """Results of many calls, of one token and of several, keep their own numbers; tables may be the
    same tensors with other numbers."""
    groups = []
    for (B, H, G, T, K), dtype in (
        ((1, 1, 1, 1, 2), torch.float32),
        ((1, 2, 2, 1, 4), torch.float32),
        ((2, 4, 2, 1, 6), torch.float32),
        ((1, 2, 1, 3, 4), torch.float32),
        ((1, 2, 2, 5, 6), torch.float32),
        ((1, 2, 2, 1, 8), torch.bfloat16),
    ):
        cos, sin = exact_tables(T + 3 * CALLS, K, theta=50.0)
        groups.append([
            (draw.randn(B, H, T, K).clamp(-3, 3).to(dtype), draw.randn(B, G, T, K).clamp(-3, 3).to(dtype),
             cos[at : at + T], sin[at : at + T])
            for at in range(0, 3 * CALLS, 3)
        ])  # fmt: skip
    expect_calls_in_turn(
        subject.probe, groups, _turn_both, names=TWO_CALLS["names"],
        tried="q, k and rows of the tables, of several shapes", rtol=1e-5, atol=1e-5, within_16=0.06,
    )  # fmt: skip


def turned_back(subject: Subject, draw: Draw) -> None:
    """The gradients of q and k are the upstream ones, turned the other way."""
    q, k, upstream = (draw.randn(2, 2, 5, 6) for _ in range(3))
    cos, sin = exact_tables(5, 6)
    wanted = _oracle(upstream, cos, -sin).float()
    half = upstream * cos
    for item, name in enumerate("qk"):
        grads = subject.vjp(q, k, cos, sin, upstream=upstream, item=item)
        tried = f"a random upstream gradient of the turned {name}"
        if grads[item] is None:
            raise Wrong(
                "ROPE-NO-GRAD",
                f"no gradient reaches {name}",
                tried=tried,
                expected=f"a gradient for {name}",
                got="none",
                look="`.detach()`, `.data`, `torch.tensor(...)`, `no_grad`.",
            )
        expect.values(
            grads[item],
            wanted,
            [
                Pattern(
                    code="ROPE-NO-GRAD",
                    value=half,
                    finding="no gradient flows through rotate_half",
                    fits="the second term is made without a graph.",
                    look="`.detach()`, `.data`, `no_grad`.",
                )
            ],
            rtol=1e-4,
            atol=1e-5,
            tried=tried,
            finding=f"the gradient of {name} differs",
            look="steps that leave the graph.",
        )


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """bfloat16 and float16 come back as they were, although the tables are float32; call by call."""
    cos, sin = exact_tables(5, 8)
    for dtype in (torch.bfloat16, torch.float16):
        q, k = (draw.randn(2, 3, 5, 8).clamp(-3, 3).to(dtype) for _ in range(2))
        tried = f"q, k in {str(dtype)[6:]}, cos and sin in float32"
        out = _apply(subject, q, k, cos, sin, tried=tried)
        for given, turned in zip((q, k), out, strict=True):
            # tables cast to bf16 are fine too: at most five roundings of 2^-9 of numbers below 4.3
            expect.values(
                turned.double(),
                _oracle(given, cos, sin),
                rtol=0,
                atol=0.06,
                tried=tried,
                look="the dtypes of the steps.",
            )
    q, k = draw.randn(1, 2, 5, 8), draw.randn(1, 2, 5, 8)
    for first, second in ((torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
        tried = f"q in {str(first)[6:]}, k in {str(second)[6:]}"
        _apply(subject, q.to(first), k.to(second), cos, sin, tried=tried)
    # as above: a few roundings of 2^-9 of numbers below 4
    expect_second_16_bits(
        subject.probe, *_two_calls(draw), _turn_both, **TWO_CALLS, within=0.06, cast=2
    )


def large_numbers(subject: Subject, draw: Draw) -> None:
    """float32 numbers of millions are not cut off."""
    cos, sin = exact_tables(5, 8)
    q, k = (1e6 * draw.randn(1, 2, 5, 8) for _ in range(2))
    tried = "q, k in float32, numbers of about 1,000,000"
    out = _apply(subject, q, k, cos, sin, tried=tried)
    for given, turned in zip((q, k), out, strict=True):
        wanted = _oracle(given, cos, sin).float()
        bad = ~torch.isclose(turned, wanted, rtol=1e-4, atol=100)
        if bad.any():
            row = tuple(int(i) for i in bad.nonzero()[0])[:-1]
            raise Wrong(
                "ROPE-LIMITED",
                "large values are cut off",
                tried=tried,
                expected=vector(wanted[row], 4),
                got=vector(turned[row], 4),
                look="`clamp`, or a cast to 16 bits on the way.",
            )


SUITES = (
    Suite(
        "rotate-half",
        (
            half_runs,
            each_vector_alone,
            by_hand,
            other_sizes,
            half_dtypes,
            every_bit,
            half_layouts,
            half_calls,
            half_in_turn,
            half_gradient,
            half_of_nothing,
        ),
        tested="equal to a quarter turn of each pair, for any even K and any leading shape, "
        "in every dtype, with its gradient.",
        remember="a pair is (i, i + K/2): the half-split layout. Twice rotate_half is -x.",
        next_step='rotate_half(rotate_half(x)). "Layouts mixed" in the figure above: does q . k stay?',
        ranks=1,
    ),
    Suite(
        "apply-rope",
        (
            a_pair,
            first_stays,
            keeps_length,
            gap_only,
            quarter_turn,
            other_shapes,
            fewer_key_heads,
            zeros_stay,
            each_call_alone,
            sixteen_bits,
            calls_in_turn,
            large_numbers,
            turned_back,
        ),
        tested="lengths kept, position in q . k only through the gap, every number equal to "
        "complex multiplication, in float32 and, up to rounding, in 16 bits.",
        remember="q and k are turned, v never.",
        next_step='"Both 40 later" in the figure above: both positions move and q . k does not.',
        ranks=1,
    ),
)
