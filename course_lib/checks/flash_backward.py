"""Checks of lesson 16: flash_backward.

Oracle: the formulas with the whole matrices, in float64; `out` and `lse` come from the formula of
the forward pass, so the answer is asked alone.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.flash_cases import (
    Case,
    draw_16_bits,
    draw_low_scores,
    draw_options,
    draw_sizes,
    draw_tiny_weights,
    largest_share,
)
from course_lib.checks.flash_oracle import (
    NAMES,
    TILE,
    K,
    call_backward,
    draw_tensors,
    explicit_attention,
    full_mask,
    gradients,
)
from course_lib.checks.flash_tiles import (
    SHAPE,
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

# a few float32 products of numbers near 1, each rounded at 6e-8
CLOSE = dict(rtol=1e-4, atol=2e-5)
# in 16 bits the result is rounded by 2^-9 of itself, and out by as much of itself
ROUGH = dict(rtol=0.05, atol=0.05)


def _values(name: str, got: Tensor, right: Tensor, patterns: list[Pattern], tried: str) -> None:
    expect.values(
        got,
        right.to(got.dtype),
        patterns,
        **CLOSE,
        tried=tried,
        finding=f"{name} differs",
        look=f"the line that adds to {name}.",
    )


def triple(subject: Subject, draw: Draw) -> None:
    """Three gradients, each as the tensor it belongs to."""
    for dtype in (torch.float32, torch.float64):
        tensors = draw_tensors(draw, TILE, full_mask(TILE), B=2, H=3, dtype=dtype)
        tried = f"q, k, v (2, 3, 4, 4), {str(dtype)[6:]}, one tile, causal=False"
        found = call_backward(subject, tensors, tried, tile=TILE, causal=False)
    right = gradients(tensors, full_mask(TILE))
    for order in ((1, 0, 2), (2, 0, 1), (2, 1, 0), (0, 2, 1), (1, 2, 0)):
        if all(torch.allclose(found[i], right[n], **CLOSE) for i, n in enumerate(order)):
            raise Wrong(
                "FLASH-ORDER",
                "the gradients are in another order",
                tried=tried,
                expected="(dq, dk, dv)",
                got=f"({', '.join(NAMES[n] for n in order)})",
                look="the `return`.",
            )


def values_first(subject: Subject, draw: Draw) -> None:
    """dv: each value gets the gradients of its readers, times the weights they gave it."""
    may = full_mask(TILE)
    tensors = draw_tensors(draw, TILE, may)
    grad, q, k, _, _, lse = tensors
    tried = f"T = {TILE} in one tile, causal=False; dv"
    found = call_backward(subject, tensors, tried, tile=TILE, causal=False)[2]
    scores = q.double() @ k.double().mT / 2
    undivided = dict(
        code="FLASH-NOT-DIVIDED",
        finding="the weights of a row do not sum to 1",
        look="what is subtracted from the scores in exp.",
    )

    def dv(weight: Tensor) -> Tensor:
        return gradients(tensors, may, weight=weight)[2]

    patterns = [
        Pattern(value=dv(scores.exp()), fits="exp(score).", **undivided),
        Pattern(value=dv((scores - scores.amax(-1, keepdim=True)).exp()), fits="exp(score - peak).", **undivided),
        Pattern(code="FLASH-NO-SCALE", value=dv((2 * scores - lse.unsqueeze(-1)).exp()),
                finding="the scores come back without their scale", fits="exp(q . k - lse).",
                look="how the scores are computed again."),
        Pattern(code="FLASH-SOFTMAX-TWICE", value=dv((scores - lse.unsqueeze(-1)).exp().softmax(-1)),
                finding="a softmax of weights", fits="softmax(exp(score - lse)).", look="the weights."),
        Pattern(code="FLASH-NO-TRANSPOSE", value=gradients(tensors, may, transposed=False)[2], fits="p @ grad.",
                finding="dv adds up over keys, not over queries", look="which of two dimensions the sum runs over."),
    ]  # fmt: skip
    _values("dv", found, gradients(tensors, may)[2], patterns, tried)


def queries_and_keys(subject: Subject, draw: Draw) -> None:
    """dq and dk: weight * (dp - row sum) * scale, times the keys, or the queries."""
    may = full_mask(TILE)
    tensors = draw_tensors(draw, TILE, may)
    _, q, k, *_ = tensors
    found = call_backward(subject, tensors, "T = 4 in one tile", tile=TILE, causal=False)
    right = gradients(tensors, may)
    wrong = {
        "FLASH-NO-ROW-SUM": (gradients(tensors, may, row_sums=False), "a weight pulls on itself alone",
                             "p * dp.", "all weights of a row sum to 1: one grows, the others shrink."),
        "FLASH-NO-SCALE": (gradients(tensors, may, scale=2.0), "twice as long: the scale is missing",
                           "ds without 1/sqrt(4).", "the scores are q . k times a scale: so is their gradient."),
        "FLASH-SCALE-TWICE": (gradients(tensors, may, scale=0.5), "half as long: the scale acts twice",
                              "ds times 1/sqrt(4) ** 2.", "where the scale acts."),
        "FLASH-NO-WEIGHT": (gradients(tensors, may, weight=torch.ones(()).double().expand(1, 2, 4, 4)),
                            "the weight itself is missing", "dp - row sum.", "what is multiplied by p."),
        "FLASH-SIGN": (gradients(tensors, may, scale=-1.0), "the sign is turned", "row sum - dp.",
                       "the difference."),
    }  # fmt: skip
    crossed = (right[0], gradients(tensors, may, transposed=False)[1])
    for n, name in ((0, "dq"), (1, "dk")):
        patterns = [
            Pattern(code=code, value=value[n], finding=f"{name}: {finding}", fits=fits, look=look)
            for code, (value, finding, fits, look) in wrong.items()
        ]
        if n:
            patterns += [
                Pattern(
                    code="FLASH-NO-TRANSPOSE",
                    value=crossed[1],
                    fits="ds @ q.",
                    finding="dk adds up over keys, not over queries",
                    look="which of two dimensions the sum runs over.",
                )
            ]
        _values(name, found[n], right[n], patterns, f"T = {TILE} in one tile, causal=False; {name}")


def many_tiles(subject: Subject, draw: Draw) -> None:
    """Each tile adds to what the others gave: dq over keys, dk and dv over queries."""
    T = TILE * draw.size(2, 3)
    may, token = full_mask(T), torch.arange(T) // TILE
    tensors = draw_tensors(draw, T, may)
    tried = f"T = {T}, tile = {TILE}, causal=False"
    found = call_backward(subject, tensors, tried, tile=TILE, causal=False)
    right = gradients(tensors, may)
    for n, name in ((2, "dv"), (1, "dk"), (0, "dq")):
        side = "queries" if n else "keys"
        cut = [
            may & (token == tile) if n == 0 else may & (token == tile).unsqueeze(-1)
            for tile in (token.max(), 0)
        ]
        patterns = [
            Pattern(
                code="FLASH-LAST-TILE",
                value=gradients(tensors, part)[n],
                look="`=` and `+=`.",
                finding=f"{name} holds one tile of {side} only",
                fits=f"the {which} tile of {side}.",
            )
            for part, which in zip(cut, ("last", "first"), strict=True)
        ]
        _values(name, found[n], right[n], patterns, f"{tried}; {name}")


def causal_mask(subject: Subject, draw: Draw) -> None:
    """causal, with tiles that do not divide T."""
    T, cut = draw.size(10, 9, 11), 8
    may, token = full_mask(T).tril(), torch.arange(T)
    tensors = draw_tensors(draw, T, may)
    tried = f"T = {T}, tile = {TILE}, causal=True: the last tile has {T - cut} tokens"
    found, right = call_backward(subject, tensors, tried, tile=TILE), gradients(tensors, may)
    q, k, lse = tensors[1], tensors[2], tensors[5]
    open_weight = ((q @ k.mT / 2).double() - lse.double().unsqueeze(-1)).exp()
    to_end = token < (token.unsqueeze(-1) // TILE + 1) * TILE
    left = token < token.unsqueeze(-1) // TILE * TILE
    for n, name in ((2, "dv"), (1, "dk"), (0, "dq")):
        kept = may & (token < cut) & (token < cut).unsqueeze(-1)
        finding = f"{name} has contributions from above the diagonal"
        patterns = [
            Pattern(code="FLASH-MASK-NONE", value=gradients(tensors, may, weight=open_weight)[n], finding=finding,
                    fits="no mask.", look="the scores of the tiles that the diagonal crosses."),
            Pattern(code="FLASH-MASK-NONE", value=gradients(tensors, may, weight=open_weight * to_end)[n],
                    finding=finding, fits="no mask in the tile that the diagonal crosses.",
                    look="the scores of the tiles that the diagonal crosses."),
            Pattern(code="FLASH-SHORT-TILE", value=gradients(tensors, kept)[n], fits=f"{cut // TILE} whole tiles.",
                    finding=f"{name} leaves out tokens {cut} to {T - 1}", look="where each loop ends."),
            Pattern(code="FLASH-DIAGONAL-SKIPPED", value=gradients(tensors, left)[n],
                    finding=f"{name} leaves out the tiles on the diagonal", fits="tiles left of it.",
                    look="how the inner loop ends."),
        ]  # fmt: skip
        _values(name, found[n], right[n], patterns, f"{tried}; {name}")


def tiles_above_diagonal(subject: Subject, draw: Draw) -> None:
    """Tiles above the diagonal are not computed: 0 times infinity would show it."""
    T = TILE * draw.size(2, 3)
    may = full_mask(T).tril()
    tensors = draw_tensors(draw, T, may)
    right = gradients(tensors, may)[0]
    tensors[3][:, :, -2] = math.inf
    tried = f"T = {T}, tile = {TILE}, causal=True; v of token {T - 2} is infinite; dq"
    early = call_backward(subject, tensors, tried, tile=TILE)[0][:, :, : T - TILE]
    if not early.isfinite().all():
        raise Wrong(
            "FLASH-ABOVE",
            "the infinity reaches queries of tiles before its own",
            tried=tried,
            expected=f"finite gradients of queries 0 to {T - TILE - 1}",
            got=f"{int((~early.isfinite()).any(-1)[0, 0].sum())} of these {T - TILE} are nan",
            fits="a tile above the diagonal, computed with weights of 0.",
            hides="nearly half of all tiles are above it: work for nothing.",
            look="where the inner loop ends for the queries of one tile.",
        )
    _values("dq", early, right[:, :, : T - TILE], [], tried)
    tensors = draw_tensors(draw, 65, full_mask(65).tril(), H=1)
    tensors[3][:, :, 64] = math.inf
    tried = "T = 65, no options; v of token 64 is infinite; dq"
    expect_tile_of_64(call_backward(subject, tensors, tried)[0][:, :, :64], tried)


def large_scores(subject: Subject, draw: Draw) -> None:
    """Scores of several hundreds: exp(score) and exp(lse) alone are infinite."""
    grad, q, k, v, _, _ = draw_tensors(draw, 6, full_mask(6))
    q, k = 15 * q.clamp(-3, 3), 15 * k.clamp(-3, 3)
    out, lse = explicit_attention(q, k, v, full_mask(6).tril())
    tensors = [grad, q, k, v, out.float(), lse.float()]
    tried = f"scores up to {number((q @ k.mT).abs().max() / 2)}, T = 6, tile = {TILE}"
    found = call_backward(subject, tensors, tried, tile=TILE)
    if not all(x.isfinite().all() for x in found):
        raise Wrong(
            "FLASH-OVERFLOW",
            "large scores end as nan or infinity",
            tried=tried,
            expected="finite gradients",
            got=f"dv of token 0: {vector(found[2][0, 0, 0])}",
            fits="a quotient of two exponentials.",
            look="every exp: is its argument at most 0?",
        )
    # float32 scores of 500 are rounded at 3e-5, and so are the weights, beside q and k of 15
    for name, got, right in zip(NAMES, found, gradients(tensors, full_mask(6).tril()), strict=True):
        expect.values(
            got,
            right.float(),
            rtol=5e-3,
            atol=2e-2,
            tried=tried,
            finding=f"{name} differs",
            look="the weights of large scores.",
        )


def padding(subject: Subject, draw: Draw) -> None:
    """A sequence of nothing but padding passes no gradient on, and no nan."""
    T, some = draw.size(6, 7, 5), draw.size(3, 2)
    num_keys = torch.tensor([0, some])
    may = torch.arange(T) < num_keys.view(-1, 1, 1, 1)
    tensors = draw_tensors(draw, T, may.expand(2, 1, T, T), B=2)
    tried = f"T = {T}, tile = {TILE}, causal=False, num_keys = [0, {some}]; sequence 0 has lse -inf"
    found = call_backward(subject, tensors, tried, tile=TILE, causal=False, num_keys=num_keys)
    facts = dict(
        tried=tried,
        expected="gradients 0 for sequence 0 and for padding",
        got=f"dq {vector(found[0][0, 0, 0])}, dv {vector(found[2][0, 0, 0])}",
    )
    if any(x.isnan().any() for x in found):
        raise Wrong(
            "FLASH-EMPTY-NAN",
            "a row that reads nothing makes gradients nan",
            **facts,
            fits="exp(-inf minus -inf).",
            look="lse of -inf, before it is subtracted.",
            hides="one sequence of padding makes every weight nan.",
        )
    if not found[2][1, :, some:].eq(0).all():
        raise Wrong(
            "FLASH-PADDING",
            "padding gets a gradient",
            **facts,
            look="what tile_scores is told.",
            fits="num_keys without an effect.",
        )
    for name, got, right in zip(NAMES, found, gradients(tensors, may), strict=True):
        _values(name, got, right, [], tried)


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """16 bits go in and come out; in between, products and sums are float32."""
    for dtype in (torch.bfloat16, torch.float16):
        # long rows for the sums; short ones, in which roundings of weights do not average out
        for shape, tile in ((1, 1, draw.size(160, 144), K), 8), ((4, 4, 8, K), 4):
            may = full_mask(shape[2])
            q, k = draw_exact_scores(draw, *shape, dtype=dtype)
            v, grad = draw.randn(*shape, dtype=dtype), draw.randn(*shape).abs() + 0.5
            out, lse = explicit_attention(q, k, v, may)
            tensors = [grad.to(dtype), q, k, v, out.to(dtype), lse.float()]
            tried = f"{str(dtype)[6:]}, T = {shape[2]} in tiles of {tile}, causal=False; dv"
            found = call_backward(subject, tensors, tried, tile=tile, causal=False)[2]
            expect_one_rounding("dv", found, gradients(tensors, may)[2], tried)


def row_sums(subject: Subject, draw: Draw) -> None:
    """Row sums of 16-bit grad * out are float32 too: what is left of them is small."""
    T, may = 4 * TILE, full_mask(4 * TILE)
    grad, q, k, v, _, _ = draw_tensors(draw, T, may)
    grad, q, k, v = grad.abs().bfloat16(), q.bfloat16(), k.bfloat16(), (v + 16).bfloat16()
    out, lse = explicit_attention(q, k, v, may)
    tensors = [grad, q, k, v, out.bfloat16(), lse.float()]
    tried = f"bfloat16, values near 16, T = {T}, tile = {TILE}, causal=False; dq"
    found = call_backward(subject, tensors, tried, tile=TILE, causal=False)[0]
    right = gradients(tensors, may)[0]
    off = ((found.double() - right).abs().max() / right.abs().max()).item()
    if not off < 0.02:  # roundings of the result and of the weights: 0.4 percent each
        raise Wrong(
            "FLASH-ROW-SUMS-16",
            "dq of 16-bit inputs is too far off",
            tried=tried,
            expected="the error of one rounding of the result, 0.4 percent",
            got=f"an error of {number(100 * off)} percent",
            fits="sums of grad * out, or of grad * v, in 16 bits: their difference is small.",
            look="the dtype of each product that is summed.",
        )


def double(subject: Subject, draw: Draw) -> None:
    """float64 goes in, and nothing in between is less, 1/sqrt(K) neither."""
    T = TILE * draw.size(2, 3)
    may = full_mask(T)
    for width in (K, draw.size(3, 5, 6)):  # 1/sqrt(4) is exact in every dtype
        grad, q, k, v = (draw.randn(1, 2, T, width, dtype=torch.float64) for _ in range(4))
        tensors = [grad, q, k, v, *explicit_attention(q, k, v, may)]
        tried = f"float64, T = {T}, heads of {width}, tile = {TILE}, causal=False"
        found = call_backward(subject, tensors, tried, tile=TILE, causal=False)
        for name, got, right in zip(NAMES, found, gradients(tensors, may), strict=True):
            expect_float64(name, got, right, tried)


def products_alone(subject: Subject, draw: Draw) -> None:
    """Of tiles above the diagonal not even the scores are computed."""
    expect_no_product_above(subject, draw_tensors(draw, 24, full_mask(24).tril()), 8)


def tiles_alone(subject: Subject, draw: Draw) -> None:
    """One tile of scores is held at a time, with the gradient of its weights."""
    q, k, v = draw_long(draw)
    for causal in (False, True):
        may = full_mask(SHAPE[2])
        out, lse = explicit_attention(q, k, v, may.tril() if causal else may)
        tensors = [draw.randn(*SHAPE), q, k, v, out.float(), lse.float()]
        expect_one_tile(subject, tensors, 384 << 10, causal=causal)


def _hand_over(draw: Draw, case: Case) -> list[Tensor]:
    """grad, q, k, v, out, lse of a case."""
    q, k, v = case.qkv
    out, lse = explicit_attention(q, k, v, case.may)
    accurate = torch.promote_types(q.dtype, torch.float32)
    return [draw.randn(*q.shape).to(q.dtype), q, k, v, out.to(q.dtype), lse.to(accurate)]


def sizes_and_options(subject: Subject, draw: Draw) -> None:
    """Other sizes of everything, and the options together, one call after another, in 16 bits too."""
    narrow = [case for dtype in SIXTEEN for case in draw_options(draw, dtype)]
    for case in (*draw_sizes(draw), *draw_options(draw), draw_low_scores(draw), *narrow):
        tensors = _hand_over(draw, case)
        found = call_backward(subject, tensors, case.tried, **case.options)
        for name, got, want in zip(NAMES, found, gradients(tensors, case.may), strict=True):
            if name == "dq" and case.code == "FLASH-LOW":
                continue  # keys of -2e9 there: roundings of 0 times them
            close = ROUGH if case.qkv[0].dtype in SIXTEEN else CLOSE
            case.expect(name, got, want, **close)


def tiny_weights(subject: Subject, draw: Draw) -> None:
    """A weight as small as there are counts, beside gradients that make up for it; padding has none."""
    for case, power in draw_tiny_weights(draw):
        tensors = _hand_over(draw, case)
        tensors[0] = ((1 + tensors[0].double().abs().clamp(max=1)) * power / 16).to(
            tensors[0].dtype
        )
        found = call_backward(subject, tensors, case.tried, **case.options)
        rtol = 0.05 if tensors[0].dtype in SIXTEEN else 1e-3
        for name, got, want in zip(NAMES, found, gradients(tensors, case.may), strict=True):
            case.expect(name, got, want, rtol=rtol, atol=0.0)


def scores_of_16_bits(subject: Subject, draw: Draw) -> None:
    """Scores of 16-bit q and k, and what comes of gradients in the ten thousands, are float32 too."""
    for dtype in (torch.bfloat16, torch.float16):
        case = draw_16_bits(draw, dtype)
        tensors = _hand_over(draw, case)
        found = call_backward(subject, tensors, case.tried, **case.options)
        off = largest_share(found[2], gradients(tensors, case.may)[2])
        if not off < 0.02:  # a rounding of the weights and one of the result: 0.4 percent each
            raise Wrong(
                "FLASH-SCORES-16",
                "dv is that of rounded scores",
                tried=f"{case.tried}; dv",
                expected="the error of one rounding of the result, 0.4 percent",
                got=f"an error of {number(100 * off)} percent",
                look=case.look,
            )
    grad, q, k, v, _, _ = draw_tensors(draw, 6, full_mask(6), H=1)
    q, k, v = (x.half() for x in (q / 64, k / 64, 4 * v))
    out, lse = explicit_attention(q, k, v, full_mask(6).tril())
    tensors = [20_000 * grad.clamp(-2, 2), q, k, v, out.half(), lse.float()]
    # the gradients themselves fit into float16, all but twice
    largest = max(x.abs().max().item() for x in gradients(tensors, full_mask(6).tril()))
    tensors[0] = (tensors[0] * min(1.0, 40_000 / largest)).half()
    tried = f"float16, grad in the ten thousands, T = 6, tile = {TILE}"
    found = call_backward(subject, tensors, tried, tile=TILE)
    for name, got, right in zip(NAMES, found, gradients(tensors, full_mask(6).tril()), strict=True):
        if not (off := largest_share(got, right)) < 0.02:
            raise Wrong(
                "FLASH-RANGE-16",
                f"{name} has left the range of float16 on the way",
                tried=tried,
                expected=f"finite numbers, the largest of them {number(right.abs().max())}",
                got="infinity or nan"
                if off == math.inf
                else f"an error of {100 * off:.0f} percent",
                hides="the loss is scaled by 2^16 or so in float16, and gradients with it.",
                look="products in the dtype of the inputs, larger than 65,504 before the sums.",
            )


def memory_and_calls(subject: Subject, draw: Draw) -> None:
    """Tensors in memory in any order; nothing of one call is left to the next, in 16 bits too."""
    may = full_mask(5).tril()
    first = draw_tensors(draw, 5, may, B=2, H=3)
    expect_any_layout(subject.call, *first, tried="q, k, v (2, 3, 5, 4)", **CLOSE)
    for dtype, close in ((torch.float32, CLOSE), *((dtype, ROUGH) for dtype in SIXTEEN)):
        first, second = (draw_tensors(draw, 5, may, B=2, H=3, dtype=dtype) for _ in range(2))
        tried = "three calls with (2, 3, 5, 4): the first, another, the first again"
        expect_second_call(
            subject.probe, (*first,), (*second,), gradients(second, may), names=NAMES,
            tried=f"{tried}, {str(dtype)[6:]}", **close,
        )  # fmt: skip


SUITES = (
    Suite(
        "flash-backward",
        (
            triple,
            values_first,
            queries_and_keys,
            many_tiles,
            causal_mask,
            tiles_above_diagonal,
            large_scores,
            padding,
            sixteen_bits,
            row_sums,
            products_alone,
            tiles_alone,
            sizes_and_options,
            double,
            scores_of_16_bits,
            memory_and_calls,
            tiny_weights,
        ),
        ranks=1,
        tested="the gradients are those of the whole matrix, and no weight was kept for them.",
        remember="one number a row, the logsumexp, brings all of its weights back.",
        next_step="torch.autograd.gradcheck on your two passes, in float64.",
    ),
)
