"""Checks of lesson 02: rotate_half and apply_rotary_pos_emb. Those of the tables are in rope_tables.

Oracle: multiplication of complex numbers. A pair (a, b) is a + bi; rotate_half multiplies it by i,
the rotary embedding by cos + i sin. A wrong answer is named by comparing it with the catalogues
`HALVES` and `TURNS`: what known mistakes give for the very same input.
"""

import traceback

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.rope_mistakes import HALVES, TURNS, Mistake, half_split, split
from course_lib.checks.rope_tables_mistakes import exact_tables
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite


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
    x = draw.randn(2, 4, 6, 8)  # every size even, so that a cut along the wrong one runs too
    changed = x.clone()
    changed[1, 2, 3] += 1
    moved = (subject.call(changed) != subject.call(x)).any(-1)
    moved[1, 2, 3] = False
    if not moved.any():
        return
    where = tuple(int(i) for i in moved.nonzero()[0])
    out, fits = subject.call(x), "halves taken along another dimension than the last."
    for dim in range(3):
        if torch.allclose(out, half_split(x, dim)):
            fits = f"halves taken along dimension {dim} of (B, H, T, K), not along K."
    raise Wrong(
        "ROPE-DIM",
        "vectors are mixed with each other",
        fits=fits,
        tried="x of shape (2, 4, 6, 8); then the vector at (1, 2, 3) alone was changed",
        expected="a change at (1, 2, 3) and nowhere else",
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
    for shape in ((draw.size(6, 10, 14),), (3, 2), (2, 1, 3, draw.size(8, 12, 16))):
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


def half_layouts(subject: Subject, draw: Draw) -> None:
    """Heads after a transpose, which are not contiguous, too."""
    x = draw.randn(2, 3, 5, 8)
    expect_any_layout(subject.call, x, tried="x of shape (2, 3, 5, 8)", rtol=1e-6, atol=1e-6)


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


def _oracle(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """(a + bi) * (cos + i sin) for the pairs (a, b) = (x[i], x[i + K/2]), in float64."""
    half = x.shape[-1] // 2
    z = torch.complex(*split(x.double()))
    turned = z * torch.complex(cos[:, :half].double(), sin[:, :half].double())
    return torch.cat((turned.real, turned.imag), dim=-1)


def _apply(subject: Subject, q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, tried: str):
    """The answer's (q, k) after the generic expectations."""
    out = subject.call(q, k, cos, sin)
    facts = dict(tried=tried, expected=f"a tuple of two tensors, both of shape {tuple(q.shape)}")
    kind = "None" if out is None else type(out).__name__
    if isinstance(out, Tensor):
        raise Wrong(
            "ROPE-ONE-TENSOR",
            "one tensor came back",
            look="what follows `return`.",
            got=f"one tensor of shape {tuple(out.shape)}",
            **facts,
        )
    if not isinstance(out, tuple | list):
        raise Wrong(
            "NONE" if out is None else "TYPE",
            f"the answer returned {kind}",
            got=kind,
            look="the last line: is there a `return`?",
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
    args = (q, k, cos[:T], sin[:T])
    tried = f"q and k of shape {(B, H, T, K)}"
    expect_any_layout(subject.call, *args, tried=tried, rtol=1e-5, atol=1e-5)


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
    """bfloat16 and float16 come back as they were, although the tables are float32."""
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


SUITES = (
    Suite(
        "rotate-half",
        (
            half_runs,
            each_vector_alone,
            by_hand,
            other_sizes,
            half_dtypes,
            half_layouts,
            half_gradient,
        ),
        proved="equal to multiplying each pair by i, for any even K and any leading shape,\n"
        "in every dtype, with its gradient.",
        remember="a pair is (i, i + K/2): the half-split layout. Twice rotate_half is -x.",
        next_step='rotate_half(rotate_half(x)), and "Layouts mixed" in the figure above.',
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
            sixteen_bits,
            turned_back,
        ),
        proved="lengths kept, q . k a function of the gap alone, every number equal to\n"
        "complex multiplication, in float32, float16 and bfloat16.",
        remember="q and k are turned, v never.",
        next_step='"Both 40 later" in the figure above: both positions move and q . k does not.',
    ),
)
