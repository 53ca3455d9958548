"""Checks of lesson 16: add_tile.

Oracle: the sums over all scores at once, in float64. A row begins at (-inf, 0, 0).
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

NAMES = ("peak", "total", "mixed")
EMPTY = -math.inf
# exp and sums of a few float32 numbers, each rounded at 6e-8
CLOSE = dict(rtol=1e-4, atol=1e-6)


def start(*rows: int, K: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, ...]:
    """A softmax that has seen nothing."""
    total = torch.zeros(rows, dtype=dtype)
    return torch.full_like(total, EMPTY), total, torch.zeros(*rows, K, dtype=dtype)


def sums(scores: Tensor, values: Tensor) -> tuple[Tensor, ...]:
    """(peak, total, mixed) over all scores at once."""
    peak = scores.double().amax(-1)
    weights = (scores.double() - peak.masked_fill(peak == EMPTY, 0.0).unsqueeze(-1)).exp()
    parts = peak, weights.sum(-1), weights @ values.double()
    return tuple(part.to(scores.dtype) for part in parts)


def _answer(subject: Subject, state: tuple, scores: Tensor, values: Tensor, tried: str) -> tuple:
    """What the answer makes of one more tile, if it is a state of the same shape without nan."""
    out = subject.call(*state, scores, values)
    if out is None:
        raise Wrong(
            "NONE",
            "the answer returned None",
            tried=tried,
            got="None",
            expected="(peak, total, mixed)",
            look="the last line: is there a `return`?",
        )
    if not isinstance(out, (tuple, list)) or len(out) != 3:
        got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
        raise Wrong(
            "SOFTMAX-TRIPLE",
            "the answer is not three tensors",
            tried=tried,
            expected="(peak, total, mixed)",
            got=got,
            look="what stands after `return`.",
            hides="the next tile needs all three.",
        )
    for name, value, old in zip(NAMES, out, state, strict=True):
        plain = (
            torch.zeros_like(value) if isinstance(value, Tensor) else value
        )  # -inf may stand here
        expect.tensor(plain, shape=old.shape, dtype=old.dtype, tried=f"{tried}; the new {name}")
    return tuple(out)


def _is_bad(out: tuple) -> bool:
    """Whether a sum is not a number, or a peak is nan or +inf."""
    peak, total, mixed = out
    return not (total.isfinite().all() and mixed.isfinite().all() and (peak < math.inf).all())


def _row(draw: Draw, J: int, low: float = -2.0, high: float = 2.0) -> Tensor:
    """Scores (2, J) between `low` and `high`."""
    return low + (high - low) * draw.randn(2, J).sigmoid()


def triple(subject: Subject, draw: Draw) -> None:
    """Three tensors, of the shape and dtype of the state that came in."""
    I, J, K = draw.size(3, 2), draw.size(4, 5), 2
    for dtype in (torch.float32, torch.float64):
        scores = draw.randn(2, 3, I, J, dtype=dtype)
        values = draw.randn(2, 3, J, K, dtype=dtype)
        _answer(
            subject,
            start(2, 3, I, K=K, dtype=dtype),
            scores,
            values,
            f"scores (2, 3, {I}, {J}), values (2, 3, {J}, {K}), {str(dtype)[6:]}",
        )


def first_tile(subject: Subject, draw: Draw) -> None:
    """On the empty state, one tile gives its own sums against its own largest score."""
    J = draw.size(3, 4)
    scores, values = _row(draw, J), draw.randn(J, 2)
    tried = f"the first tile; scores of row 0 {vector(scores[0])}"
    out, right = _answer(subject, start(2, K=2), scores, values, tried), sums(scores, values)
    bare = scores.exp()
    patterns = {
        "peak": [
            Pattern(
                code="SOFTMAX-PEAK-LOST",
                value=right[0].new_full((2,), EMPTY),
                finding="the largest score is not kept",
                fits="the peak that came in.",
                look="the maximum of the old peak and the tile's.",
            )
        ],
        "total": [
            Pattern(
                code="SOFTMAX-NO-PEAK",
                value=bare.sum(-1),
                finding="the scores enter exp as they are",
                fits="sums of exp(score).",
                hides="exp(89) is infinity in float32.",
                look="what is subtracted in exp.",
            )
        ],
        "mixed": [
            Pattern(
                code="SOFTMAX-NO-PEAK",
                value=bare @ values,
                fits="exp(score) @ values.",
                finding="the scores enter exp as they are",
                look="what is subtracted in exp.",
            ),
            Pattern(
                code="SOFTMAX-DIVIDED",
                value=right[2] / right[1].unsqueeze(-1),
                finding="mixed is divided already",
                fits="mixed / total.",
                hides="the next tile adds to a sum, not to a mean.",
                look="where the division belongs: once, after the last tile.",
            ),
        ],
    }
    _compare(out, right, patterns, tried)


def _compare(out: tuple, right: tuple, patterns: dict[str, list[Pattern]], tried: str) -> None:
    for name, got, want in zip(NAMES, out, right, strict=True):
        expect.values(
            got,
            want,
            patterns.get(name, ()),
            **CLOSE,
            tried=tried,
            finding=f"the new {name} differs",
            look=f"the line that makes {name}.",
        )


def rising_peak(subject: Subject, draw: Draw) -> None:
    """A tile with a larger score: what was summed against the old peak is scaled down to the new."""
    old, new = _row(draw, 3, -1, 0), _row(draw, 3, 1, 2)
    v, w = draw.randn(3, 2), draw.randn(3, 2)
    state = peak, total, mixed = sums(old, v)
    tried = (
        f"peak {number(peak[0])} and total {number(total[0])} so far; then scores {vector(new[0])}"
    )
    out = _answer(subject, state, new, w, tried)
    right = sums(torch.cat([old, new], -1), torch.cat([v, w]))
    base = right[0].unsqueeze(-1)
    weights, stale, up = (
        (new - base).exp(),
        (new - peak.unsqueeze(-1)).exp(),
        (base[:, 0] - peak).exp(),
    )
    kept = torch.allclose(out[2], right[2], **CLOSE), torch.allclose(out[1], right[1], **CLOSE)
    half = dict(
        code="SOFTMAX-HALF-RESCALED",
        finding="one of the two sums is scaled, the other not",
        look="both sums were taken against the old peak.",
    )
    none = dict(
        code="SOFTMAX-NO-RESCALE",
        finding="the old sums are not scaled to the new peak",
        fits="the old sum plus the tile's.",
        preset="flash:no-rescale",
        hides="it is right whenever the first tile holds the row's largest score.",
        look="what an old exp(score - peak) is worth after peak has moved.",
    )
    lag = dict(
        code="SOFTMAX-OLD-PEAK",
        finding="the tile is taken against the old peak",
        fits="exp(score - old peak).",
        look="which peak the weights use.",
    )
    wrong = dict(
        code="SOFTMAX-RESCALE-UP",
        finding="the old sums grow",
        fits="exp(new peak - old peak).",
        look="the sign in the factor of the old sums.",
    )
    both = mixed * (peak - right[0]).exp().unsqueeze(-1)
    patterns = {
        "total": [
            Pattern(
                value=total + weights.sum(-1),
                **(half | {"fits": "total not scaled."} if kept[0] else none),
            ),
            Pattern(value=total + stale.sum(-1), **lag),
            Pattern(value=right[1] - weights.sum(-1) + stale.sum(-1), **lag),
            Pattern(value=total * up + weights.sum(-1), **wrong),
        ],
        "mixed": [
            Pattern(
                value=mixed + weights @ w,
                **(half | {"fits": "mixed not scaled."} if kept[1] else none),
            ),
            Pattern(value=mixed * up.unsqueeze(-1) + weights @ w, **wrong),
            Pattern(value=both + stale @ w, **lag),
            Pattern(value=mixed + stale @ w, **lag),
            Pattern(
                code="SOFTMAX-DIVIDED",
                value=right[2] / right[1].unsqueeze(-1),
                fits="mixed / total.",
                finding="mixed is divided already",
                look="the division: once, after the last tile.",
            ),
        ],
    }
    _compare(out, right, patterns, tried)


def falling_scores(subject: Subject, draw: Draw) -> None:
    """A tile of smaller scores: the peak stays, and the tile is taken against it."""
    old, new = _row(draw, 3, 1, 2), _row(draw, 3, -1, 0)
    v, w = draw.randn(3, 2), draw.randn(3, 2)
    state = sums(old, v)
    tried = f"peak {number(state[0][0])} so far; then a tile of smaller scores {vector(new[0])}"
    out = _answer(subject, state, new, w, tried)
    right = sums(torch.cat([old, new], -1), torch.cat([v, w]))
    own = sums(new, w)
    lost = Pattern(
        code="SOFTMAX-PEAK-LOST",
        value=own[0],
        finding="the peak falls",
        fits="the largest score of this tile alone.",
        hides="a small tile after a large one then overflows.",
        look="the maximum of the old peak and the tile's.",
    )
    mean = dict(
        code="SOFTMAX-TILE-PEAK",
        finding="the tile is taken against its own largest score",
        look="which peak the weights use.",
        fits="exp(score - the tile's largest).",
    )
    _compare(
        out,
        right,
        {
            "peak": [lost],
            "total": [Pattern(value=state[1] + own[1], **mean)],
            "mixed": [Pattern(value=state[2] + own[2], **mean)],
        },
        tried,
    )


def any_cut(subject: Subject, draw: Draw) -> None:
    """However a row is cut, and in whatever order its tiles come, the softmax is the same."""
    J = draw.size(9, 8, 11)
    scores, values = 3 * draw.randn(4, J), draw.randn(J, 3)
    right = sums(scores, values)
    for cut in ([J], [4, J - 4], [1, 2, J - 3], [1] * J):
        parts = list(zip(scores.split(cut, -1), values.split(cut), strict=True))
        for order in (parts, parts[::-1]):
            state, tried = start(4, K=3), f"{J} scores in tiles of {cut}"[:70]
            for s, v in order:
                state = _answer(subject, state, s.contiguous(), v, tried)
            _compare(state, right, {}, tried)


def far_apart(subject: Subject, draw: Draw) -> None:
    """Scores of several hundreds neither overflow nor divide zero by zero."""
    for size in (300.0, -300.0):
        scores, values = size + 50 * draw.randn(2, 6).clamp(-3, 3), draw.randn(6, 2)
        state, tried = start(2, K=2), f"scores near {size:g}, in three tiles of 2"
        for s, v in zip(scores.split(2, -1), values.split(2), strict=True):
            state = _answer(subject, state, s.contiguous(), v, tried)
            if _is_bad(state):
                raise Wrong(
                    "SOFTMAX-OVERFLOW",
                    "large scores end as nan or infinity",
                    tried=tried,
                    expected="finite sums: the largest weight is exp(0) = 1",
                    got=f"total {vector(state[1])}",
                    look="every exp: is its argument at most 0?",
                    fits="exp of a score or of a peak by itself.",
                )
        # one float32 rounding of scores near 300 is 3e-5, and exp turns it into as much of a weight
        for name, got, want in zip(NAMES, state, sums(scores, values), strict=True):
            expect.values(
                got,
                want,
                rtol=1e-3,
                atol=1e-4,
                tried=tried,
                finding=f"the new {name} differs",
                look=f"the line that makes {name}.",
            )


def empty_rows(subject: Subject, draw: Draw) -> None:
    """Scores of -inf do not count; a row that has met nothing else stays at (-inf, 0, 0)."""
    closed, values = torch.full((2, 3), EMPTY), draw.randn(3, 2)
    tried = "a tile of nothing but -inf, on the empty state"
    out = _answer(subject, start(2, K=2), closed, values, tried)
    facts = dict(
        tried=tried,
        expected="peak -inf, total 0, mixed 0",
        got=f"peak {number(out[0][0])}, total {number(out[1][0])}, mixed {vector(out[2][0])}",
    )
    if out[0].isnan().any() or _is_bad(out):
        raise Wrong(
            "SOFTMAX-EMPTY-NAN",
            "a row without a score becomes nan",
            **facts,
            fits="-inf minus -inf, which is nan.",
            look="what is subtracted from such a row.",
            hides="padding and tiles next to the diagonal have such rows.",
        )
    if out[1].any() or out[2].any():
        raise Wrong(
            "SOFTMAX-EMPTY-COUNTS",
            "scores of -inf count",
            **facts,
            look="exp of -inf is 0; what else is done to such a row?",
        )
    if (out[0] != EMPTY).any():
        raise Wrong(
            "SOFTMAX-EMPTY-PEAK",
            "a row without a score has a finite peak",
            **facts,
            hides="scores of -200 that come later vanish beside it.",
            look="which of two numbers is returned: the peak, or what replaces it in exp.",
        )
    scores = torch.cat([closed[:, :2], _row(draw, 3), closed[:, :1]], -1)
    values, state = draw.randn(6, 2), start(2, K=2)
    tried = f"tiles of 2, scores of row 0 {vector(scores[0])}"
    for s, v in zip(scores.split(2, -1), values.split(2), strict=True):
        state = _answer(subject, state, s.contiguous(), v, tried)
    _compare(state, sums(scores, values), {}, tried)


def rows_apart(subject: Subject, draw: Draw) -> None:
    """Each row by itself: some have seen nothing, some see nothing now, others go on."""
    closed, open_rows = torch.full((3,), EMPTY), draw.randn(4, 3)
    before = torch.stack([closed, open_rows[0], closed, open_rows[1]])
    scores = torch.stack([closed, closed, open_rows[2], open_rows[3]])
    values = draw.randn(6, 2)
    tried = "4 rows: 0 and 2 have seen nothing, and the tile has nothing for 0 and 1"
    state = _answer(subject, sums(before, values[:3]), scores, values[3:], tried)
    right, alone = sums(torch.cat([before, scores], -1), values), sums(scores, values[3:])
    for name, got, wanted, other in zip(NAMES, state, right, alone, strict=True):
        facts = dict(tried=tried, expected=f"{name}: {vector(wanted.flatten(), 8)}")
        facts |= dict(got=f"{name}: {vector(got.flatten(), 8)}")
        if torch.isnan(got).any():
            raise Wrong(
                "SOFTMAX-EMPTY-NAN",
                "a row without a score becomes nan beside others that have some",
                look="what is subtracted, row by row, where the peak is -inf.",
                **facts,
            )
        if not torch.allclose(got, wanted, **CLOSE):
            raise Wrong(
                "SOFTMAX-ROWS",
                "a row depends on what other rows have seen",
                fits="the tile alone: what was summed before is lost."
                if torch.allclose(got, other, **CLOSE)
                else "",
                look="`any`, `all` or a maximum over rows: each row has a peak of its own.",
                **facts,
            )


SUITES = (
    Suite(
        "online-softmax",
        (
            triple,
            first_tile,
            rising_peak,
            falling_scores,
            any_cut,
            far_apart,
            empty_rows,
            rows_apart,
        ),
        proved="any cut of a row, in any order, gives the sums of the whole row, from scores\n"
        "of -450 to 450, with rows that read nothing.",
        remember="when the peak rises by d, everything summed so far is worth exp(-d) of itself.",
        next_step="the tiles in the other order: which of your lines ever multiplies by less than 1?",
    ),
)
