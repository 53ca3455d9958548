"""Checks of lesson 15, second part: rmsnorm_kernel.

Oracle: the formula in float64. The kernel runs in the course's interpreter (tiles.py), which counts
each load and store and refuses those outside of a tensor, so cost and masks are values too.
"""

import torch
from torch import Tensor

from course_lib.checks.expect import Pattern, values
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite

PROBE = "course_lib.probes.kernel:launch_cases"
EPS = 1e-5
# a sum of at most a thousand squares, a root and two products in float32, each rounded at 6e-8
CLOSE = dict(rtol=1e-5, atol=1e-6)
LARGE = 10.0  # beside rows as large as this, where eps stands makes no difference


def exact_rmsnorm(x: Tensor, weight: Tensor, eps: float = EPS) -> Tensor:
    """RMSNorm in float64."""
    x, weight = x.double(), weight.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _case(x: Tensor, weight: Tensor, *, gap: int = 0, eps: float = EPS, block: int = 0) -> dict:
    D = len(weight)
    return dict(x=x, weight=weight, gap=gap, eps=eps, block=block or 1 << (D - 1).bit_length())


def _launch_once(subject: Subject, case: dict, tried: str) -> dict:
    """What came of one launch that stayed inside of its tensors and wrote all of out."""
    found = subject.probe(PROBE, [case])[0]
    _expect_inside(found, tried)
    if len(found["stores"]) < 3:
        raise Wrong(
            "KERNEL-SIGNATURE",
            "the kernel does not name its arguments",
            tried=tried,
            expected="the three pointers first, by names of their own",
            got=f"names for {len(found['stores'])} tensors",
            look="the line that begins with `def`.",
        )
    missing = found["stores"][2] == 0
    if missing.all():
        raise Wrong(
            "KERNEL-NOT-STORED",
            "nothing is stored in out",
            tried=tried,
            expected=f"{missing.numel()} numbers stored",
            got="none",
            look="the last line: a kernel returns nothing, it stores.",
        )
    rows = missing.all(-1)
    if rows.any():
        raise Wrong(
            "KERNEL-ROWS",
            f"{int(rows.sum())} of {len(rows)} rows are not stored",
            tried=tried,
            expected=f"program p stores row p, p = 0 to {len(rows) - 1}",
            got=f"rows stored: {vector((~rows).nonzero().flatten())}",
            fits="every program at the same row.",
            look="what the offsets know of `tl.program_id(0)`.",
        )
    if missing.any():
        row, col = (int(i) for i in missing.nonzero()[0])
        raise Wrong(
            "KERNEL-PART",
            "some numbers of out are not stored",
            tried=tried,
            expected=f"all {missing.numel()}",
            got=f"row {row} lacks number {col}",
            look="the mask of the store.",
        )
    return found


def _expect_inside(found: dict, tried: str) -> None:
    """Wrong for an access outside of its tensor, with the program and the offset."""
    if found["error"] == "ValueError":
        raise Wrong(
            "KERNEL-ARANGE",
            "a block is no power of two",
            tried=tried,
            got=found["text"],
            expected="blocks of BLOCK lanes, whatever D is",
            look="the arguments of `tl.arange`.",
        )
    if not found["error"]:
        return
    facts = dict(
        tried=tried, got=found["text"], hides="a GPU would go on, with whatever lies there."
    )
    doing, tensor = found["doing"], found["tensor"]
    if tensor == "weight" and doing == "load" and "program 0" not in found["text"]:
        raise Wrong(
            "KERNEL-WEIGHT-ROW",
            "later programs read past the weight",
            **facts,
            expected="every program reads the same D weights",
            fits="a weight for each row.",
            look="the offsets into weight_ptr.",
        )
    if found["between"]:
        raise Wrong(
            "KERNEL-STRIDE",
            f"a {doing} lies between two rows of {tensor}",
            **facts,
            expected="row p begins at p times the stride of that tensor",
            look="which of the two strides, or D, is multiplied with the row.",
        )
    raise Wrong(
        f"KERNEL-MASK-{doing.upper()}",
        f"a {doing} goes past the end of {tensor}",
        **facts,
        expected="lanes from D on touch no memory",
        look=f"the mask of each {doing}; BLOCK may be larger than D.",
    )


def one_row(subject: Subject, draw: Draw) -> None:
    """One row that fills its block."""
    D = draw.size(4, 8)
    x, w = draw.randn(1, D) * LARGE, draw.randn(D) + 2
    tried = f"one row {vector(x[0])}, weight {vector(w)}, BLOCK = D = {D}"
    out = _launch_once(subject, _case(x, w), tried)["out"]
    exact, mean = exact_rmsnorm(x, w).float(), x.square().mean()
    centered = x - x.mean()
    look = "the formula in the docstring, part by part."

    def as_if(code: str, value: Tensor, finding: str, fits: str) -> Pattern:
        return Pattern(code=code, value=value, finding=finding, fits=fits, look=look)

    values(
        out,
        exact,
        [
            as_if("KERNEL-NO-WEIGHT", exact / w, "the weight is not applied", "x / rms."),
            as_if(
                "KERNEL-SUM",
                x / (mean * D + EPS).sqrt() * w,
                "the squares are summed, not averaged",
                "x / sqrt(sum of squares).",
            ),
            as_if(
                "KERNEL-NO-ROOT",
                x / (mean + EPS) * w,
                "the root is missing",
                "x / mean of squares.",
            ),
            as_if(
                "KERNEL-TIMES-RMS",
                x * (mean + EPS).sqrt() * w,
                "the row is multiplied by its RMS",
                "x * sqrt(mean of squares).",
            ),
            as_if(
                "KERNEL-CENTRED",
                centered / (centered.square().mean() + EPS).sqrt() * w,
                "the mean is taken away first",
                "LayerNorm without bias.",
            ),
            as_if(
                "KERNEL-NO-SQUARE",
                x / (x.mean().abs() + EPS).sqrt() * w,
                "the mean of x, not of its square",
                "x / sqrt(mean of x).",
            ),
        ],
        **CLOSE,
        tried=tried,
        look=look,
    )


def wider_block(subject: Subject, draw: Draw) -> None:
    """D is no power of two: lanes from D on belong to nobody."""
    D = draw.size(5, 6, 11)
    x, w = draw.randn(1, D) * LARGE, draw.randn(D) + 2
    case = _case(x, w)
    B = case["block"]
    tried = f"one row of D = {D} numbers, BLOCK = {B}"
    out = _launch_once(subject, case, tried)["out"]
    total = x.square().sum()
    if out.isnan().all():
        raise Wrong(
            "KERNEL-NO-OTHER",
            "lanes that were not loaded are used",
            tried=tried,
            expected=vector(exact_rmsnorm(x, w)[0]),
            got="NaN everywhere",
            fits="a sum over lanes that hold no number: without `other` they may hold anything.",
            look="what masked lanes hold when the squares are summed.",
        )
    values(
        out,
        exact_rmsnorm(x, w).float(),
        [
            Pattern(
                code="KERNEL-BLOCK-MEAN",
                value=x / (total / B + EPS).sqrt() * w,
                finding="the mean is taken over BLOCK lanes",
                fits=f"sum of squares / {B}.",
                look="the number that the sum is divided by.",
            ),
            Pattern(
                code="KERNEL-OTHER",
                value=x / ((total + B - D) / D + EPS).sqrt() * w,
                finding="masked lanes add to the sum",
                fits="a 1 in each of them.",
                look="`other=` of the load of x.",
            ),
        ],
        **CLOSE,
        tried=tried,
        look="the lanes from D on.",
    )


def rows_apart(subject: Subject, draw: Draw) -> None:
    """A program for each row; rows of x and of out lie apart, at strides of their own."""
    N, D = draw.size(3, 4), draw.size(6, 5, 7)
    x, w = draw.randn(N, D) * LARGE, draw.randn(D) + 2
    tried = f"x ({N}, {D}), a program a row"
    out = _launch_once(subject, _case(x, w), tried)["out"]
    values(
        out,
        exact_rmsnorm(x, w).float(),
        **CLOSE,
        tried=tried,
        finding="the rows differ",
        look="the offsets of row p in x and in out.",
    )
    wide = draw.randn(N, D + 3) * LARGE
    tried = f"x ({N}, {D}) out of ({N}, {D + 3}): stride {D + 3}; out with stride {D + 5}"
    out = _launch_once(subject, _case(wide, w, gap=5), tried)["out"]
    values(
        out,
        exact_rmsnorm(wide[:, :D], w).float(),
        **CLOSE,
        tried=tried,
        finding="the rows differ",
        look="x_stride and out_stride.",
    )


def small_rows(subject: Subject, draw: Draw) -> None:
    """Where x is near eps, its place shows; a row of zeros stays zero."""
    D, eps = draw.size(6, 5), 1e-2
    x, w = 0.1 * draw.randn(1, D), draw.randn(D) + 2
    tried = f"one row {vector(x[0], 3)}, eps = {eps:g}"
    out = _launch_once(subject, _case(x, w, eps=eps), tried)["out"]
    mean = x.square().mean()

    def as_if(value: Tensor, fits: str) -> Pattern:
        return Pattern(
            code="KERNEL-EPS",
            value=value,
            finding="eps is used in another place",
            fits=fits,
            look="where eps is added: before or after the root?",
        )

    values(
        out,
        exact_rmsnorm(x, w, eps).float(),
        [
            as_if(x / mean.sqrt() * w, "no eps at all."),
            as_if(x / (mean.sqrt() + eps) * w, "root + eps."),
            as_if(x * (mean.rsqrt() + eps) * w, "1 / root + eps."),
            as_if(x / (mean + EPS).sqrt() * w, "1e-5, whatever eps says."),
            as_if(x / (mean + eps / D).sqrt() * w, "eps inside of the mean."),
        ],
        **CLOSE,
        tried=tried,
        look="eps.",
    )
    tried = "a row of zeros"
    out = _launch_once(subject, _case(torch.zeros(1, D), w), tried)["out"]
    values(out, torch.zeros(1, D), **CLOSE, tried=tried, look="eps under the root.")


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """16 bits in and out, float32 between, and one rounding at the end."""
    D = draw.size(300, 280, 310)
    x = (300 + 100 * draw.randn(1, D).abs()).half()
    tried = f"float16, D = {D}, numbers above 255.9, whose squares float16 does not hold"
    out = _launch_once(subject, _case(x, torch.ones(D)), tried)["out"]
    if not out.isfinite().all() or not out.any():
        raise Wrong(
            "KERNEL-OVERFLOW",
            "large numbers in float16 end as 0 or NaN",
            tried=tried,
            expected=vector(exact_rmsnorm(x, torch.ones(D))[0], 3),
            got=vector(out[0], 3),
            fits="squares in float16: the largest there is 65,504.",
            look="the dtype of what `tl.load` gives.",
        )
    x, w = draw.randn(4, D).bfloat16(), (draw.randn(D) + 2).bfloat16()
    tried = f"bfloat16, x (4, {D}) and weight in bfloat16"
    out = _launch_once(subject, _case(x, w), tried)["out"]
    exact = exact_rmsnorm(x, w)
    off = 100 * (out != exact.bfloat16()).double().mean().item()
    # float32 lies on the wrong side of a rounding now and then, in fewer than one of 100
    if off < 2:
        return
    inverse = (x.double().square().mean(-1, keepdim=True) + EPS).rsqrt()
    early = (x.double() * inverse).bfloat16() * w
    facts = dict(
        tried=tried,
        expected="the exact result, rounded once: at most 2 percent differ",
        got=f"{number(off)} percent of the numbers differ",
    )
    if (out != early).double().mean() < 0.02:
        raise Wrong(
            "KERNEL-ROUNDED-EARLY",
            "the result is rounded before the weight",
            **facts,
            fits="(x / rms) in bfloat16, then times weight in bfloat16.",
            look="where the dtype of out comes in.",
        )
    raise Wrong(
        "KERNEL-SUMS-16",
        "the arithmetic is done in 16 bits",
        **facts,
        fits="squares, sums or products in bfloat16.",
        look="the dtype of what `tl.load` gives.",
    )


def float32_out(subject: Subject, draw: Draw) -> None:
    """16 bits in, float32 out: the rounding is that of out, and float32 has none to speak of."""
    D = draw.size(20, 24, 28)
    x, w = draw.randn(2, D).bfloat16(), (draw.randn(D) + 2).bfloat16()
    tried = f"x (2, {D}) and weight in bfloat16, out in float32"
    out = _launch_once(subject, _case(x, w) | {"out_dtype": torch.float32}, tried)["out"]
    exact = exact_rmsnorm(x, w).float()
    if torch.allclose(out, exact, **CLOSE):
        return
    rounded = torch.equal(out, out.bfloat16().float())
    raise Wrong(
        "KERNEL-X-DTYPE" if rounded else "KERNEL-SUMS-16",
        "the result is rounded to the dtype of x" if rounded else "the result has lost digits",
        tried=tried,
        expected=vector(exact[0], 3),
        got=f"{vector(out[0], 3)}{': all of them are bfloat16 numbers' * rounded}",
        hides="where x and out are of one dtype nothing is seen of it.",
        look="which pointer the dtype of the result comes from.",
    )


def two_dtypes(subject: Subject, draw: Draw) -> None:
    """x, weight and out each of a dtype of its own: out's alone rounds the result."""
    D = draw.size(300, 280, 310)
    x, w = draw.randn(2, D), draw.randn(D) + 2
    low, wide, long = torch.bfloat16, torch.float32, torch.float64
    for of_x, of_w, of_out in (
        (low, wide, wide),
        (wide, low, wide),
        (low, wide, low),
        (wide, low, low),
        (long, long, long),
        (long, low, wide),
        (low, long, long),
    ):
        names = [str(dtype)[6:] for dtype in (of_x, of_w, of_out)]
        tried = f"x (2, {D}) in {names[0]}, weight in {names[1]}, out in {names[2]}"
        given = x.to(of_x), w.to(of_w)
        out = _launch_once(subject, _case(*given) | {"out_dtype": of_out}, tried)["out"]
        exact = exact_rmsnorm(*given)
        # in bfloat16 float32 lies on the wrong side of a rounding now and then
        near = out == exact.to(low) if of_out is low else out.isclose(exact.to(of_out), **CLOSE)
        off = 100 * (1 - near.double().mean().item())
        if off > (2 if of_out is low else 0):
            raise Wrong(
                "KERNEL-WEIGHT-DTYPE",
                "a second dtype costs digits",
                tried=tried,
                expected=f"{vector(exact[0], 3)}, rounded to {names[2]} once",
                got=f"{vector(out[0].float(), 3)}; {number(off)} percent of the numbers differ",
                fits="x, the weight or a product rounded to the dtype of x or of the weight.",
                look="each `.to`: float32 after the loads, the dtype of out at the store.",
            )


def no_wider_than_float32(subject: Subject, draw: Draw) -> None:
    """float64 in and out: what float32 does not hold of x and weight, and of the result, is not there."""
    D, wide = draw.size(20, 24, 28), torch.float64
    x, w = draw.randn(2, D, dtype=wide), draw.randn(D, dtype=wide) + 2
    for of_x, of_w in ((wide, wide), (torch.float32, wide), (wide, torch.float32)):
        names = [str(dtype)[6:] for dtype in (of_x, of_w)]
        tried = f"x (2, {D}) in {names[0]}, weight in {names[1]}, out in float64"
        given = x.to(of_x), w.to(of_w)
        out, rounded = (
            _launch_once(subject, _case(*pair) | {"out_dtype": wide}, tried)["out"]
            for pair in (given, [t.float().to(t.dtype) for t in given])
        )
        if torch.equal(out, out.float().double()) and torch.equal(out, rounded):
            continue
        at = tuple(int(i) for i in ((out != out.float().double()) | (out != rounded)).nonzero()[0])
        raise Wrong(
            "KERNEL-WIDE",
            "the arithmetic is wider than float32",
            tried=tried,
            expected=f"a float32 number, {out[at].float().item()!r}, or one near it",
            got=f"{out[at].item()!r}",
            fits="x, the weight or a product of them in float64.",
            hides="GPUs have few units for float64: such a kernel is no longer limited by memory.",
            look="`.to(tl.float32)` after each load: 16 bits meet float32 in float32, float64 does not.",
        )


def row_lengths(subject: Subject, draw: Draw) -> None:
    """Rows of one number, rows far shorter than their block, rows of hundreds."""
    for D, block in ((1, 1), (1, 16), (draw.size(5, 6), 64), (draw.size(700, 800), 1024)):
        x, w = draw.randn(2, D) * 2, draw.randn(D) + 2
        tried = f"x (2, {D}), BLOCK = {block}"
        out = _launch_once(subject, _case(x, w, block=block), tried)["out"]
        exact = exact_rmsnorm(x, w).float()
        if not torch.allclose(out, exact, **CLOSE):
            raise Wrong(
                "KERNEL-LENGTH",
                "rows of another length differ",
                tried=tried,
                expected=vector(exact[0], 3),
                got=vector(out[0], 3),
                look="sizes written as numbers, and what is known of BLOCK: D or more, no more.",
            )


def any_size(subject: Subject, draw: Draw) -> None:
    """Whatever eps is, 0 too, it is what stands under the root; large numbers are no others."""
    D = draw.size(6, 5)
    x, w = draw.randn(1, D), draw.randn(D) + 2
    for size, eps, code in (
        (1e-4, 0.0, "KERNEL-EPS"),
        (1e-4, 1e-8, "KERNEL-EPS"),
        (1e12, EPS, "KERNEL-LARGE"),
    ):
        row = size * x
        tried = f"one row {vector(row[0], 3)}, eps = {eps:g}"
        out = _launch_once(subject, _case(row, w, eps=eps), tried)["out"]
        exact = exact_rmsnorm(row, w, eps).float()
        if not torch.allclose(out, exact, **CLOSE):
            raise Wrong(
                code,
                "another number than eps is added" if eps < EPS else "large numbers differ",
                tried=tried,
                expected=vector(exact[0], 3),
                got=vector(out[0], 3),
                look="eps, and what is done to it." if eps < EPS else "limits put to any number.",
            )


def single_access(subject: Subject, draw: Draw) -> None:
    """The cost: each number of x and of the weight loaded once a program, each of out stored once."""
    N, D = draw.size(3, 2), draw.size(13, 9)
    tried = f"x ({N}, {D}), a program a row: times that each number is loaded and stored"
    found = _launch_once(subject, _case(draw.randn(N, D), draw.randn(D)), tried)
    x, weight, out = (int(counts.max()) for counts in found["loads"])
    stored = int(found["stores"][2].max())
    facts = dict(
        tried=tried,
        expected=f"x 1, weight {N} (1 a program), out 0 loads and 1 store",
        got=f"x {x}, weight {weight}, out {out} loads and {stored} "
        f"store{'s' if stored > 1 else ''}",
    )
    if x > 1:
        raise Wrong(
            "KERNEL-TWO-PASSES",
            f"each number of x is loaded {x} times",
            **facts,
            fits="one pass for the sum, another for the result.",
            hides="a kernel limited by memory needs half as much time again.",
            preset="fusion:twice",
            look="how many `tl.load` of x there are.",
        )
    if weight > N:
        raise Wrong(
            "KERNEL-WEIGHT-TWICE",
            "the weight is loaded more than once a program",
            **facts,
            look="how many `tl.load` of the weight there are.",
        )
    if out:
        raise Wrong(
            "KERNEL-OUT-READ",
            "what was stored is loaded again",
            **facts,
            fits="out as a place for intermediate results.",
            look="every `tl.load`: of which tensor?",
        )
    if stored > 1:
        raise Wrong(
            "KERNEL-STORED-TWICE",
            "numbers of out are stored more than once",
            **facts,
            look="how many `tl.store` there are, and which rows a program writes.",
        )
    if int(found["stores"][0].max()) or int(found["stores"][1].max()):
        raise Wrong(
            "KERNEL-INPUT-STORED",
            "an input is written to",
            tried=tried,
            expected="stores into out alone",
            got="stores into x or weight",
            look="the pointer of each `tl.store`.",
        )


SUITES = (
    Suite(
        "fused-rmsnorm",
        (
            one_row,
            wider_block,
            rows_apart,
            small_rows,
            sixteen_bits,
            float32_out,
            single_access,
            two_dtypes,
            row_lengths,
            any_size,
            no_wider_than_float32,
        ),
        tested="many D and strides, 16 bits and 32; a program loads and stores each number once.",
        remember="a fused kernel over rows moves 2 numbers an element: one in, one out.",
        ranks=1,
        next_step="count a softmax kernel of your own: how many loads an element?",
    ),
)
