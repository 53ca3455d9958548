"""Checks of lesson 16: flash_forward.

Oracle: the formula with the whole matrix, in float64. What is computed shows in values: a weight of
0 times infinity is nan, so an answer that computes a tile above the diagonal shows an infinity in v
to queries that must not see it. Without a mask, the bytes that it holds tell a whole matrix from
tiles (flash_tiles.py).
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.flash_cases import (
    draw_16_bits,
    draw_low_scores,
    draw_options,
    draw_sizes,
    draw_tiny_weights,
)
from course_lib.checks.flash_oracle import (
    RESULTS,
    TILE,
    K,
    call_forward,
    draw_qkv,
    explicit_attention,
    full_mask,
)
from course_lib.checks.flash_tiles import (
    draw_exact_scores,
    draw_long,
    expect_float64,
    expect_no_product_above,
    expect_one_rounding,
    expect_one_tile,
    expect_tile_of_64,
)
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.second_call import SIXTEEN, expect_second_call
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

# a few float32 products, exp and a quotient, each rounded at 6e-8
CLOSE = dict(rtol=1e-4, atol=1e-5)
# in 16 bits the result is rounded by 2^-9 of itself
ROUGH = dict(rtol=0.05, atol=0.05)


def pair(subject: Subject, draw: Draw) -> None:
    """out as q, logsumexp one number a row; the same twice."""
    for dtype in (torch.float32, torch.float64):
        qkv = draw_qkv(draw, TILE, B=2, H=3, dtype=dtype)
        tried = f"q, k, v (2, 3, 4, 4), {str(dtype)[6:]}, one tile, causal=False"
        call_forward(subject, qkv, tried, tile=TILE, causal=False)


def one_tile(subject: Subject, draw: Draw) -> None:
    """All in one tile: softmax(q k^T / sqrt(K)) v."""
    q, k, v = qkv = draw_qkv(draw, TILE)
    tried = f"T = {TILE} in one tile, causal=False"
    out, _ = call_forward(subject, qkv, tried, tile=TILE, causal=False)
    may = full_mask(TILE)
    (right, lse), top = explicit_attention(q, k, v, may), (q @ k.mT / math.sqrt(K)).amax(-1)

    def with_scale(by: float) -> Tensor:
        return explicit_attention(q, k, v, may, scale=by)[0]

    expect.values(
        out,
        right.float(),
        [
            Pattern(
                code="FLASH-NO-SCALE",
                value=with_scale(1.0),
                finding="the scores are not scaled",
                fits="softmax(q k^T) v.",
                look="what happens to the scores before add_tile.",
            ),
            Pattern(
                code="FLASH-SCALE-TWICE",
                value=with_scale(1 / K),
                finding="the scores are scaled twice",
                fits=f"scores over {K} = sqrt({K}) ** 2.",
                look="tile_scores scales: who else does?",
            ),
            Pattern(
                code="FLASH-NOT-DIVIDED",
                value=right * (lse - top).exp().unsqueeze(-1),
                fits="mixed.",
                finding="the sums are not divided by their total",
                look="what happens after the last tile.",
            ),
        ],
        **CLOSE,
        tried=tried,
        finding="the output differs",
        look="start, scores, add_tile, quotient.",
    )


def many_tiles(subject: Subject, draw: Draw) -> None:
    """Each tile of queries goes through all tiles of keys, and begins anew."""
    T = TILE * draw.size(2, 3)
    q, k, v = qkv = draw_qkv(draw, T)
    tried = f"T = {T}, tile = {TILE}, causal=False"
    out, _ = call_forward(subject, qkv, tried, tile=TILE, causal=False)
    may, key = full_mask(T), torch.arange(T)
    parts = [explicit_attention(q, k, v, may & (key // TILE == n))[0] for n in range(T // TILE)]
    carried = []
    for n in range(T // TILE):
        queries = torch.cat([q[:, :, m * TILE : (m + 1) * TILE] @ k.mT for m in range(n + 1)], -1)
        carried.append((queries / math.sqrt(K)).softmax(-1) @ torch.cat([v] * (n + 1), -2))
    alone = dict(
        code="FLASH-PER-TILE",
        finding="each tile has a softmax of its own",
        look="when the sums are divided: once, after the last tile of keys.",
    )
    expect.values(
        out,
        explicit_attention(q, k, v, may)[0].float(),
        [
            Pattern(
                code="FLASH-LAST-TILE",
                value=parts[-1],
                finding="only the last tile of keys counts",
                fits="the softmax over the last tile.",
                look="where peak, total and mixed begin: inside which loop?",
            ),
            Pattern(
                code="FLASH-FIRST-TILE",
                value=parts[0],
                finding="only the first tile of keys counts",
                fits="the softmax over the first tile.",
                look="what add_tile returns, and who keeps it.",
            ),
            Pattern(value=sum(parts), fits="the sum of the tiles' outputs.", **alone),
            Pattern(value=sum(parts) / len(parts), fits="the mean of the tiles' outputs.", **alone),
            Pattern(
                code="FLASH-CARRIED",
                value=torch.cat(carried, -2),
                fits="sums that go on.",
                finding="a tile of queries begins with the sums of the one before",
                look="where peak, total and mixed begin: inside which loop?",
            ),
        ],
        **CLOSE,
        tried=tried,
        finding="the output differs",
        look="the outer and the inner loop.",
    )


def short_tiles(subject: Subject, draw: Draw) -> None:
    """Tiles need not divide T, and T may be less than one."""
    T, cut = draw.size(10, 9, 11), 8
    q, k, v = qkv = draw_qkv(draw, T)
    tried = f"T = {T}, tile = {TILE}, causal=False: the last tile has {T - cut} tokens"
    out, _ = call_forward(subject, qkv, tried, tile=TILE, causal=False)
    right = explicit_attention(q, k, v, full_mask(T))[0].float()
    dropped = explicit_attention(q, k, v, full_mask(T) & (torch.arange(T) < cut))[0].float()
    whole = torch.allclose(out[:, :, :cut], right[:, :, :cut], **CLOSE)
    fewer = torch.allclose(out[:, :, :cut], dropped[:, :, :cut], **CLOSE)
    if fewer or (whole and not torch.allclose(out, right, **CLOSE)):
        side = (
            f"keys {cut} to {T - 1} are not read"
            if fewer
            else f"queries {cut} to {T - 1} are not answered"
        )
        raise Wrong(
            "FLASH-SHORT-TILE",
            side,
            tried=tried,
            expected=f"out of token {T - 1}: {vector(right[0, 0, -1])}",
            got=f"out of token {T - 1}: {vector(out[0, 0, -1])}",
            fits=f"a loop over {cut // TILE} whole tiles.",
            look="where each loop ends: `T // tile` rounds down.",
        )
    expect.values(
        out,
        right,
        **CLOSE,
        tried=tried,
        finding="the output differs",
        look="the numbers of the last, short tile.",
    )
    qkv = draw_qkv(draw, 3)
    out, _ = call_forward(subject, qkv, "T = 3, tile = 64", tile=64, causal=False)
    expect.values(
        out,
        explicit_attention(*qkv, full_mask(3))[0].float(),
        **CLOSE,
        tried="T = 3, tile = 64",
        finding="a sequence shorter than a tile differs",
        look="where each loop ends.",
    )


def causal_mask(subject: Subject, draw: Draw) -> None:
    """causal: token t reads tokens 0 to t, in tiles that the diagonal crosses and in short ones."""
    T = draw.size(10, 9, 11)
    q, k, v = qkv = draw_qkv(draw, T)
    tried = f"T = {T}, tile = {TILE}, causal=True"
    out, _ = call_forward(subject, qkv, tried, tile=TILE)
    s, t = torch.arange(T), torch.arange(T).unsqueeze(-1)
    first, row, size = t // TILE * TILE, t % TILE, (T - t // TILE * TILE).clamp(max=TILE)
    look = "which numbers of queries and keys the mask compares."

    def mask_pattern(code: str, may: Tensor, finding: str, fits: str) -> Pattern:
        return Pattern(
            code=code,
            value=explicit_attention(q, k, v, may)[0],
            finding=finding,
            fits=fits,
            look=look,
        )

    right = explicit_attention(q, k, v, s <= t)[0].float()
    expect.values(
        out.nan_to_num(0.0),
        right,
        [
            mask_pattern(
                "FLASH-MASK-NONE", full_mask(T), "every token reads every token", "no mask at all."
            ),
            mask_pattern(
                "FLASH-MASK-TILE",
                s < first + TILE,
                "a token reads on to the end of its tile",
                "no mask in the tile that the diagonal crosses.",
            ),
            mask_pattern(
                "FLASH-MASK-SELF",
                s < t,
                "a token does not read itself",
                "keys before the query, without it.",
            ),
            mask_pattern(
                "FLASH-DIAGONAL-SKIPPED",
                s < first,
                "a token reads the tiles before its own, not its own",
                "a loop that ends before the tile of the diagonal.",
            ),
            mask_pattern(
                "FLASH-MASK-SIDE",
                (s < first) | ((s >= t) & (s < first + TILE)),
                "in its own tile a token reads the future",
                "the mask upside down.",
            ),
            mask_pattern(
                "FLASH-MASK-LOCAL",
                (s % TILE <= row) & (s < first + TILE),
                "part of the past is hidden",
                "numbers within the tile, in tiles left of the diagonal too.",
            ),
            mask_pattern(
                "FLASH-MASK-SHORT",
                s <= first // TILE * size + row,
                "the last, short tile is masked too far left",
                f"its first token taken for number {T // TILE * (T % TILE)}, not {T // TILE * TILE}.",
            ),
        ],
        **CLOSE,
        tried=tried,
        finding="the output differs with a mask",
        look=look,
    )
    expect.not_finite(out, tried=tried)


def tiles_above_diagonal(subject: Subject, draw: Draw) -> None:
    """Tiles above the diagonal are not computed: 0 times infinity would show it."""
    T = TILE * draw.size(2, 3)
    q, k, v = draw_qkv(draw, T)
    right = explicit_attention(q, k, v, full_mask(T).tril())[0].float()
    v[:, :, -2] = math.inf
    tried = f"T = {T}, tile = {TILE}, causal=True; v of token {T - 2} is infinite"
    out, _ = call_forward(subject, [q, k, v], tried, tile=TILE)
    early = out[:, :, : T - TILE]
    if not early.isfinite().all():
        raise Wrong(
            "FLASH-ABOVE",
            "the infinity reaches queries of tiles before its own",
            tried=tried,
            expected=f"finite outputs of tokens 0 to {T - TILE - 1}",
            got=f"{int((~early.isfinite()).any(-1)[0, 0].sum())} of these {T - TILE} are nan",
            fits="a tile above the diagonal, computed and then masked: 0 times infinity is nan.",
            hides="nearly half of all tiles are above it: work for nothing.",
            look="where the inner loop ends for the queries of one tile.",
        )
    expect.values(
        early,
        right[:, :, : T - TILE],
        **CLOSE,
        tried=tried,
        finding="the earlier outputs differ",
        look="the end of the inner loop.",
    )
    q, k, v = draw_qkv(draw, 65, H=1)
    v[:, :, 64] = math.inf
    tried = "T = 65, no options; v of token 64 is infinite"
    expect_tile_of_64(call_forward(subject, [q, k, v], tried)[0][:, :, :64], tried)


def logsumexp(subject: Subject, draw: Draw) -> None:
    """ln of the sum of exp(score), for each row."""
    T = draw.size(6, 7, 5)
    q, k, v = qkv = draw_qkv(draw, T)
    tried = f"T = {T}, tile = {TILE}, causal=False"
    _, lse = call_forward(subject, qkv, tried, tile=TILE, causal=False)
    right = explicit_attention(q, k, v, full_mask(T))[1]
    peak = (q.double() @ k.double().mT / math.sqrt(K)).amax(-1)
    log, look = right - peak, "the sum was taken of exp(score - peak)."
    patterns = [
        Pattern(code=code, value=value, finding=f"the logsumexp {finding}", fits=fits, look=look)
        for code, value, finding, fits, look in (
            ("FLASH-LSE-NO-PEAK", log, "lacks the peak", "ln(total).", look),
            ("FLASH-LSE-PARTS", peak, "is the peak", "peak.", look),
            ("FLASH-LSE-PARTS", log.exp(), "is the total", "total.", look),
            ("FLASH-LSE-PARTS", peak + log.exp(), "lacks the logarithm", "peak + total.", look),
            ("FLASH-LSE-PARTS", peak - log, "is too small", "peak - ln(total).", "the sign."),
            ("FLASH-LSE-PARTS", peak + log / math.log(2), "has another base of logarithm",
             "peak + log2(total).", "`log` and `log2`."),
        )
    ]  # fmt: skip
    expect.values(
        lse,
        right.float(),
        patterns,
        **CLOSE,
        tried=tried,
        finding="the logsumexp differs",
        look="peak and total after the last tile.",
    )


def large_scores(subject: Subject, draw: Draw) -> None:
    """Scores of several hundreds: no exp is taken of them as they are."""
    q, k, v = draw_qkv(draw, 6)
    q, k = 15 * q.clamp(-3, 3), 15 * k.clamp(-3, 3)
    right, rows = explicit_attention(q, k, v, full_mask(6).tril())
    tried = f"scores up to {number((q @ k.mT).abs().max() / 2)}, T = 6, tile = {TILE}"
    out, lse = call_forward(subject, [q, k, v], tried, tile=TILE)
    if not (out.isfinite().all() and lse.isfinite().all()):
        raise Wrong(
            "FLASH-OVERFLOW",
            "large scores end as nan or infinity",
            tried=tried,
            expected="finite outputs and logsumexps",
            got=f"out of token 5: {vector(out[0, 0, 5])},\nlogsumexp {vector(lse[0, 0])}",
            fits="exp of a score as it is.",
            look="every exp: is its argument at most 0?",
        )
    # float32 scores of 500 are rounded at 3e-5, and so are the weights
    expect.values(
        out,
        right.float(),
        rtol=1e-3,
        atol=2e-3,
        tried=tried,
        finding="the output differs",
        look="the running peak.",
    )
    expect.values(
        lse,
        rows.float(),
        rtol=1e-4,
        atol=1e-3,
        tried=tried,
        finding="the logsumexp differs",
        look="the running peak.",
    )


def padding(subject: Subject, draw: Draw) -> None:
    """num_keys hides padding; a row that reads nothing gives 0 and -inf."""
    T, some = draw.size(6, 7, 5), draw.size(3, 2)
    q, k, v = qkv = draw_qkv(draw, T, B=2)
    num_keys = torch.tensor([0, some])
    tried = f"T = {T}, tile = {TILE}, causal=False, num_keys = [0, {some}]"
    out, lse = call_forward(subject, qkv, tried, tile=TILE, causal=False, num_keys=num_keys)
    right = explicit_attention(q, k, v, (torch.arange(T) < num_keys.view(-1, 1, 1, 1)))
    facts = dict(
        tried=tried,
        expected="for sequence 0, which reads nothing: out 0, logsumexp -inf",
        got=f"out {vector(out[0, 0, 0])}, logsumexp {number(lse[0, 0, 0])}",
    )
    if torch.allclose(out[1:], explicit_attention(q, k, v, full_mask(T))[0][1:].float(), **CLOSE):
        raise Wrong(
            "FLASH-PADDING",
            "padding is read",
            **facts,
            fits="num_keys without an effect.",
            look="what tile_scores is told.",
        )
    if out.isnan().any() or lse.isnan().any():
        raise Wrong(
            "FLASH-EMPTY-NAN",
            "a row that reads nothing becomes nan",
            **facts,
            fits="0 / 0 after the last tile.",
            look="what total is for such a row.",
            hides="one sequence of padding makes the whole batch's loss nan.",
        )
    if (lse[0] != -math.inf).any():
        raise Wrong(
            "FLASH-EMPTY-LSE",
            "the logsumexp of an empty row is finite",
            **facts,
            look="ln(0) is -inf; what was put in the place of 0?",
        )
    expect.values(
        out,
        right[0].float(),
        **CLOSE,
        tried=tried,
        finding="the output differs",
        look="rows of padding.",
    )
    expect.values(
        lse[1:],
        right[1][1:].float(),
        **CLOSE,
        tried=tried,
        finding="the logsumexp differs",
        look="rows with padding.",
    )


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """16 bits go in and come out; in between, products and sums are float32."""
    for dtype in (torch.bfloat16, torch.float16):
        # long rows for the sums; short ones, in which roundings of weights do not average out
        for shape, tile in ((1, 1, draw.size(160, 144), K), 8), ((4, 4, 8, K), 4):
            q, k = draw_exact_scores(draw, *shape, dtype=dtype)
            v = (draw.randn(*shape).abs() + 0.5).to(dtype)
            tried = f"{str(dtype)[6:]}, T = {shape[2]} in tiles of {tile}, causal=False"
            out, lse = call_forward(subject, [q, k, v], tried, tile=tile, causal=False)
            right, rows = explicit_attention(q, k, v, full_mask(shape[2]))
            expect_one_rounding("out", out, right, tried)
            off = (lse.double() - rows).abs().max().item()
            if not off < 1e-3:
                raise Wrong(
                    "FLASH-SUMS-16",
                    "the sums have lost their small terms",
                    tried=tried,
                    expected="logsumexps that are off by 1e-5 or so",
                    got=f"off by {number(off)}",
                    fits="peak and total in 16 bits.",
                    look="the dtype in which the sums begin.",
                )


def double(subject: Subject, draw: Draw) -> None:
    """float64 goes in, and nothing in between is less, 1/sqrt(K) neither."""
    T = TILE * draw.size(2, 3)
    for width in (K, draw.size(3, 5, 6)):  # 1/sqrt(4) is exact in every dtype
        qkv = [draw.randn(1, 2, T, width, dtype=torch.float64) for _ in range(3)]
        tried = f"float64, T = {T}, heads of {width}, tile = {TILE}, causal=False"
        found = call_forward(subject, qkv, tried, tile=TILE, causal=False)
        for name, got, right in zip(
            RESULTS, found, explicit_attention(*qkv, full_mask(T)), strict=True
        ):
            expect_float64(name, got, right, tried)


def tiles_alone(subject: Subject, draw: Draw) -> None:
    """Tiles above the diagonal have no scores either; one tile of scores is held at a time."""
    expect_no_product_above(subject, draw_qkv(draw, 24), 8)
    for causal in (False, True):
        expect_one_tile(subject, draw_long(draw), 192 << 10, causal=causal)


def sizes_and_options(subject: Subject, draw: Draw) -> None:
    """Other sizes of everything, and the options together, one call after another, in 16 bits too."""
    narrow = [case for dtype in SIXTEEN for case in draw_options(draw, dtype)]
    for case in (*draw_sizes(draw), *draw_options(draw), draw_low_scores(draw), *narrow):
        found = call_forward(subject, case.qkv, case.tried, **case.options)
        right = explicit_attention(*case.qkv, case.may)
        for name, got, want in zip(RESULTS, found, right, strict=True):
            close = ROUGH if case.qkv[0].dtype in SIXTEEN else CLOSE
            case.expect(name, got, want, **close)


def tiny_weights(subject: Subject, draw: Draw) -> None:
    """A weight as small as there are counts, beside values that make up for it; padding has none."""
    for case, power in draw_tiny_weights(draw):
        q, k, v = case.qkv
        v *= power
        v[:, :, -1] = torch.finfo(v.dtype).max
        found = call_forward(subject, case.qkv, case.tried, **case.options)
        right = explicit_attention(*case.qkv, case.may)
        rtol = 0.05 if v.dtype in SIXTEEN else CLOSE["rtol"]
        for name, got, want in zip(RESULTS, found, right, strict=True):
            case.expect(name, got, want, rtol=rtol, atol=1e-6 * (name == "logsumexp"))


def scores_of_16_bits(subject: Subject, draw: Draw) -> None:
    """Scores of 16-bit q and k are float32 too, or the logsumexp is not."""
    for dtype in (torch.bfloat16, torch.float16):
        case = draw_16_bits(draw, dtype)
        found = call_forward(subject, case.qkv, case.tried, **case.options)
        case.expect(
            "logsumexp", found[1], explicit_attention(*case.qkv, case.may)[1], rtol=0, atol=2e-3
        )


def memory_and_calls(subject: Subject, draw: Draw) -> None:
    """q, k and v in memory in any order; nothing of one call is left to the next, in 16 bits too."""
    expect_any_layout(
        subject.call, *draw_qkv(draw, 5, B=2, H=3), tried="q, k, v (2, 3, 5, 4)", **CLOSE
    )
    for dtype, close in ((torch.float32, CLOSE), *((dtype, ROUGH) for dtype in SIXTEEN)):
        first, second = (draw_qkv(draw, 5, B=2, H=3, dtype=dtype) for _ in range(2))
        tried = "three calls with (2, 3, 5, 4): the first, another, the first again"
        right = explicit_attention(*second, full_mask(5).tril())
        expect_second_call(
            subject.probe, (*first,), (*second,), right, names=RESULTS,
            tried=f"{tried}, {str(dtype)[6:]}", **close,
        )  # fmt: skip


SUITES = (
    Suite(
        "flash-forward",
        (
            pair,
            one_tile,
            many_tiles,
            short_tiles,
            causal_mask,
            tiles_above_diagonal,
            logsumexp,
            large_scores,
            padding,
            sixteen_bits,
            tiles_alone,
            sizes_and_options,
            double,
            scores_of_16_bits,
            memory_and_calls,
            tiny_weights,
        ),
        tested="tiles give the whole matrix's attention, with a short last tile, mask or padding; "
        "few tiles of scores are held at a time, none above the diagonal is computed.",
        ranks=1,
        remember="of its past scores a row remembers two numbers, peak and total.",
        next_step="time tile = 16, 64 and 512 for T = 1024; then F.scaled_dot_product_attention.",
    ),
)
