"""Checks of lesson 16: add_tile.

Oracle: the sums over all scores at once, in float64 (softmax_states.py).
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.second_call import expect_second_call
from course_lib.checks.softmax_states import (
    CLOSE,
    EMPTY,
    NAMES,
    call_answer,
    draw_calls,
    start,
    sums,
)
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite


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
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        scores = draw.randn(2, 3, I, J, dtype=dtype)
        values = draw.randn(2, 3, J, K, dtype=dtype)
        call_answer(
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
    out, right = call_answer(subject, start(2, K=2), scores, values, tried), sums(scores, values)
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
    out = call_answer(subject, state, new, w, tried)
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
    out = call_answer(subject, state, new, w, tried)
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
                state = call_answer(subject, state, s.contiguous(), v, tried)
            _compare(state, right, {}, tried)


def far_apart(subject: Subject, draw: Draw) -> None:
    """Scores of several hundreds neither overflow nor divide zero by zero."""
    for size in (300.0, -300.0):
        scores, values = size + 50 * draw.randn(2, 6).clamp(-3, 3), draw.randn(6, 2)
        state, tried = start(2, K=2), f"scores near {size:g}, in three tiles of 2"
        for s, v in zip(scores.split(2, -1), values.split(2), strict=True):
            state = call_answer(subject, state, s, v, tried)
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
    out = call_answer(subject, start(2, K=2), closed, values, tried)
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
        state = call_answer(subject, state, s.contiguous(), v, tried)
    _compare(state, sums(scores, values), {}, tried)


def rows_apart(subject: Subject, draw: Draw) -> None:
    """Each row by itself: some have seen nothing, some see nothing now, others go on."""
    closed, open_rows = torch.full((3,), EMPTY), draw.randn(4, 3)
    before = torch.stack([closed, open_rows[0], closed, open_rows[1]])
    scores = torch.stack([closed, closed, open_rows[2], open_rows[3]])
    values = draw.randn(6, 2)
    tried = "4 rows: 0 and 2 have seen nothing, and the tile has nothing for 0 and 1"
    state = call_answer(subject, sums(before, values[:3]), scores, values[3:], tried)
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


def any_shape(subject: Subject, draw: Draw) -> None:
    """Any leading dimensions, each with values of its own; dimensions of one; tiles of 70 keys."""
    for *rows, J, width in ((2, 3, 5, 70, 3), (3, 4, 4, 4), (2, 3, 2), (1, 1, 1, 1, 1), (1, 1, 1)):
        tried = f"scores {(*rows, J)}, values {(*rows[:-1], J, width)}"
        state, (s, v) = draw_calls(draw, rows, J, width)
        out = call_answer(subject, state[0], s, v, tried)
        for name, got, want in zip(NAMES, out, state[1], strict=True):
            if not torch.allclose(got, want, rtol=1e-4, atol=1e-5):
                raise Wrong(
                    "SOFTMAX-SHAPES",
                    f"the new {name} differs at other sizes",
                    tried=tried,
                    expected=vector(want.flatten()),
                    got=vector(got.flatten()),
                    look="sizes and dimensions written as numbers: count dimensions from the end.",
                )
    state, tile = draw_calls(draw, (2, 3, 5), 4, 3)
    expect_any_layout(subject.call, *state[0], *tile, tried="scores (2, 3, 5, 4)", **CLOSE)


def float64(subject: Subject, draw: Draw) -> None:
    """float64 goes in, and nothing in between is less."""
    scores, values = draw.randn(3, 6, dtype=torch.float64), draw.randn(6, 2, dtype=torch.float64)
    scores[:, 4:] -= 40.0
    state, tried = (
        start(3, K=2, dtype=torch.float64),
        "float64 scores in tiles of 2, the last two -40",
    )
    for s, v in zip(scores.split(2, -1), values.split(2), strict=True):
        state = call_answer(subject, state, s, v, tried)
    for name, got, want in zip(NAMES, state, sums(scores, values), strict=True):
        if not torch.allclose(got, want, rtol=1e-11, atol=1e-11):
            raise Wrong(
                "SOFTMAX-SUMS-32",
                f"the new {name} has lost digits of float64",
                tried=tried,
                expected="an error below 1e-11",
                got=f"an error of {number((got - want).abs().max())}",
                fits="float32 on the way, or exponents that end at some lowest number.",
                look="casts, and `clamp`: the results keep the dtype of what came in.",
            )


def low_scores(subject: Subject, draw: Draw) -> None:
    """However low a finite score is, it counts: -inf alone does not."""
    low = -2.0e9  # float32 numbers there are 128 apart
    scores = torch.tensor([[low - 1024, EMPTY, low, low - 4096, EMPTY, low - 2048]])
    values, state = draw.randn(6, 2), start(1, K=2)
    tried = "scores of -2e9 and lower, and some of -inf, in tiles of 2"
    for s, v in zip(scores.split(2, -1), values.split(2), strict=True):
        state = call_answer(subject, state, s, v, tried)
    for name, got, want in zip(NAMES, state, sums(scores, values), strict=True):
        if not torch.allclose(got, want, **CLOSE):
            raise Wrong(
                "SOFTMAX-LOW",
                "low scores are taken for none",
                tried=tried,
                expected=f"{name}: {vector(want.flatten())}",
                got=f"{name}: {vector(got.flatten())}",
                fits="a finite number where -inf belongs, or below which all is -inf.",
                look="the comparison that finds rows without a score: `== -inf`.",
            )


# (dtype, a low score beside a peak of 0, the power of e of its value, rtol); an exponent of -80 in
# bfloat16 is rounded by up to 0.25 on its way through exp2
DEPTHS = (
    (torch.float32, -85.0, 85.0, 1e-4),
    (torch.float64, -700.0, 700.0, 1e-9),
    (torch.bfloat16, -80.0, 80.0, 0.4),
    (torch.float16, -9.0, 9.0, 0.4),
)


def weights_of_any_size(subject: Subject, draw: Draw) -> None:
    """A weight as small as the dtype holds counts, beside a value that makes up for it; that of -inf
    is 0, beside the largest value there is."""
    for dtype, low, power, rtol in DEPTHS:
        # row 0 reads key 0 alone, row 1 a low score too; key 2 is read by nobody
        scores = torch.tensor([[0.0, EMPTY, EMPTY], [0.0, low, EMPTY]], dtype=dtype)
        values = (1 + draw.randn(3, 2, dtype=torch.float64).abs().clamp(max=1)) / 4
        values[0], values[1] = 0.0, values[1] * math.exp(power)
        values[2] = torch.finfo(dtype).max
        values = values.to(dtype)
        for order, tile in (([0, 1, 2], 1), ([2, 1, 0], 1), ([0, 1, 2], 3)):
            s, v, state = scores[:, order], values[order], start(2, K=2, dtype=dtype)
            tried = f"{str(dtype)[6:]}, scores {vector(s[1])} in tiles of {tile}, values {vector(v[:, 0])}"
            for part, w in zip(s.split(tile, -1), v.split(tile), strict=True):
                state = call_answer(subject, state, part, w, tried)
            facts = dict(tried=tried, look="`clamp`, thresholds, and tiles that are left out.")
            if (state[2][0] != 0).any():
                raise Wrong(
                    "SOFTMAX-CUT-OFF",
                    "a score of -inf has a weight",
                    expected="mixed of a row that reads only a value of 0: exactly 0",
                    got=vector(state[2][0]),
                    fits="an exponent that ends at some lowest number.",
                    **facts,
                )
            right = sums(s, v)[2][1]
            if not torch.allclose(state[2][1], right, rtol=rtol, atol=0.0):
                raise Wrong(
                    "SOFTMAX-CUT-OFF",
                    "a weight that is small is not exp(score - peak)",
                    expected=f"mixed: {vector(right)}",
                    got=vector(state[2][1]),
                    fits="none for small ones." if not state[2][1].any() else "",
                    **facts,
                )


def zeros_and_ties(subject: Subject, draw: Draw) -> None:
    """Scores, a peak and sums of 0 are numbers as others are; scores that are equal all count."""
    zeros = torch.zeros(3, 2)
    for code, old, v, new, fits in (
        ("SOFTMAX-ZERO", [0.0, -1.0, -1.5], zeros, [-1.0, -2.0, -0.5], "mixed is 0"),
        ("SOFTMAX-ZERO", [0.0, -1.0, -2.0], draw.randn(3, 2), [-1.0, 1.0, -2.0], "the peak is 0"),
        ("SOFTMAX-ZERO", [2.0, -1.0, 1.0], draw.randn(3, 2), [0.0, 1.0, 0.0], "two scores are 0"),
        (
            "SOFTMAX-TIES",
            [1.0, -2.0, 1.0],
            draw.randn(3, 2),
            [1.0, 1.0, 0.5],
            "the peak comes 4 times",
        ),
    ):
        before, tile, w = torch.tensor([old]), torch.tensor([new]), draw.randn(3, 2)
        tried = f"{fits}: scores {vector(before[0])}, then {vector(tile[0])}"
        state = call_answer(subject, sums(before, v), tile, w, tried)
        right = sums(torch.cat([before, tile], -1), torch.cat([v, w]))
        for name, got, want in zip(NAMES, state, right, strict=True):
            if not torch.allclose(got, want, **CLOSE):
                raise Wrong(
                    code,
                    "a score that comes several times is not counted as often"
                    if code == "SOFTMAX-TIES"
                    else "a 0 is taken for nothing",
                    tried=tried,
                    expected=f"{name}: {vector(want[0].flatten())}",
                    got=f"{name}: {vector(got[0].flatten())}",
                    look="`== 0`, `any`, `bool`, and comparisons of scores with the peak.",
                )


def closed_tile(subject: Subject, draw: Draw) -> None:
    """A tile of nothing but -inf leaves a state as it is."""
    state = sums(draw.randn(2, 3) - 2, draw.randn(3, 2))
    tried = f"peak {number(state[0][0])} so far; then a tile of nothing but -inf"
    out = call_answer(subject, state, torch.full((2, 4), EMPTY), draw.randn(4, 2), tried)
    for name, got, want in zip(NAMES, out, state, strict=True):
        if not torch.allclose(got, want, **CLOSE):
            raise Wrong(
                "SOFTMAX-CLOSED-TILE",
                "a tile without a score changes the state",
                tried=tried,
                expected=f"{name}: {vector(want.flatten())}, as before",
                got=f"{name}: {vector(got.flatten())}",
                look="what is returned, and what the old sums are scaled by, in that case.",
            )


def separate_calls(subject: Subject, draw: Draw) -> None:
    """Each call by itself, in 16 bits too: nothing of an earlier one is kept, and a result stays what
    it was."""
    # 16 bits: scores, weights and sums, each rounded by 2^-9 of itself, as often as there are keys
    rough = dict(rtol=0.2, atol=0.2)
    for dtype, close in (
        (torch.float32, CLOSE),
        (torch.bfloat16, rough),
        (torch.float16, rough),
    ):
        calls = [draw_calls(draw, (2, 3, 5), 4, 3, dtype) for _ in range(2)]
        first, second = ((*state[0], *tile) for state, tile in calls)
        tried = "three calls with states (2, 3, 5): the first, another, the first again"
        expect_second_call(
            subject.probe, first, second, calls[1][0][1], names=NAMES,
            tried=f"{tried}, {str(dtype)[6:]}", **close,
        )  # fmt: skip


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
            closed_tile,
            any_shape,
            low_scores,
            zeros_and_ties,
            float64,
            separate_calls,
            weights_of_any_size,
        ),
        ranks=1,
        tested="any cut of a row, in any order, gives the sums of the whole row, from scores "
        "of -450 to 450, with rows that read nothing.",
        remember="when the peak rises by d, everything summed so far is worth exp(-d) of itself.",
        next_step="the tiles in the other order: after the first, does any line multiply by less than 1?",
    ),
)
