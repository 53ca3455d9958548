"""Checks of lesson 16 that both passes share: what they hold, which tiles they compute, and in which
dtype from end to end."""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

T, TILE, K = 768, 64, 2
SHAPE = (1, 1, T, K)


def expect_one_tile(
    subject: Subject, tensors: Sequence[Tensor], most: int, *, causal: bool = False
) -> None:
    """With these tensors of `SHAPE` the answer holds at most so many bytes at once.

    They are far less than T * T scores, or a row of tiles; the results and some tiles fit, and copies
    of all tensors in float64.
    """
    options = dict(tile=TILE, causal=causal)
    held = subject.probe("course_lib.probes.held:held_bytes", tuple(tensors), options)
    if held <= most:
        return
    whole = held >= 4 * T * T
    raise Wrong(
        "FLASH-WHOLE-SCORES" if whole else "FLASH-SCORES-KEPT",
        "all scores are held at once" if whole else "more than a tile of scores is held at once",
        tried=f"one sequence, T = {T}, head size {K}, tile = {TILE}, causal={causal}",
        expected=f"at most {most:,} bytes at any time: results, and a few tiles of {4 * TILE**2:,}",
        got=f"{held:,} bytes; a matrix of all scores has {4 * T * T:,}",
        hides="the values are right, and a long sequence does not fit into memory.",
        look="the sizes of what is computed between the two loops, and lists that grow.",
    )


def expect_float64(name: str, got: Tensor, right: Tensor, tried: str) -> None:
    """`got` is as near to `right` as float64 is; float32 on the way would leave 1e-7."""
    off = ((got - right).abs() / (1 + right.abs())).max().item()
    if off < 1e-10:
        return
    raise Wrong(
        "FLASH-SUMS-32" if off < 1e-4 else "OTHER",
        f"{name} of float64 has lost digits" if off < 1e-4 else f"{name} of float64 differs",
        tried=tried,
        expected=f"{str(right.dtype)[6:]}: errors of 1e-15 or so",
        got=f"an error of {number(off)}",
        fits="float32 on the way, and float64 at the end alone." if off < 1e-4 else "",
        hides="torch.autograd.gradcheck compares in float64, and fails.",
        look="the dtype of everything between the inputs and the results: `sums_dtype`.",
    )


def draw_long(draw: Draw) -> list[Tensor]:
    """q, k, v of SHAPE."""
    return [draw.randn(*SHAPE) for _ in range(3)]


def expect_tile_of_64(early: Tensor, tried: str) -> None:
    """What 64 queries gave, without a tile asked for, when v of token 64 is infinite."""
    if early.isfinite().all():
        return
    raise Wrong(
        "FLASH-DEFAULT",
        "tiles by default are not of 64",
        tried=tried,
        expected="finite numbers for tokens 0 to 63: the infinity is in the second tile",
        got=f"{int((~early.isfinite()).any(-1).sum())} of them are not finite",
        look="the default of `tile` and of `causal`, as they were in the cell.",
    )


def expect_no_product_above(subject: Subject, tensors: Sequence[Tensor], tile: int) -> None:
    """With the diagonal, three tiles of queries take 1 + 2 + 3 of 9 tiles' products."""
    T = tensors[1].shape[2]
    options = [dict(tile=tile, causal=causal) for causal in (True, False)]
    found, every = subject.probe(
        "course_lib.probes.products:count_products", tuple(tensors), options
    )
    # what is multiplied beside the tiles is little; the scores of two tiles are 1 in 23 and more
    if found <= 0.69 * every:
        return
    raise Wrong(
        "FLASH-ABOVE",
        "tiles above the diagonal are computed",
        tried=f"T = {T}, tile = {tile}: 9 tiles, 3 of them above the diagonal",
        expected=f"{every * 2 // 3:,} multiplications: 6 of 9 tiles, of {every:,} without a mask",
        got=f"{found:,}, {number(9 * found / every)} of 9 tiles",
        fits="scores that are made first and then found to be of no use.",
        hides="the values are right; nearly half of all tiles are above the diagonal.",
        look="where the inner loop ends, before `tile_scores` is called.",
    )


def expect_one_rounding(name: str, got: Tensor, right: Tensor, tried: str) -> None:
    """`got` in 16 bits is `right`, all of one sign, rounded once."""
    other = (got != right.to(got.dtype)).double().mean().item()
    if other <= 0.05:  # float32 before the rounding moves some in a thousand; 16 bits move a fifth
        return
    off = ((got.double() - right).abs() / right.abs()).max().item()
    sums = not off < 1.25 * torch.finfo(got.dtype).eps
    said = str(got.dtype)[6:]
    raise Wrong(
        "FLASH-SUMS-16" if sums else "FLASH-PRODUCTS-16",
        "the sums have lost their small terms" if sums else f"{name} is rounded more than once",
        tried=tried,
        expected=f"the exact result, rounded to {said} once, but for a few of the numbers",
        got=f"{number(100 * other)} percent are others, by {number(100 * off)} percent at the most",
        fits=f"sums in {said}." if sums else f"weights, or a product of them, in {said}.",
        look="the dtype in which the sums begin."
        if sums
        else "the dtypes of both sides of each `@`: `sums_dtype`.",
    )


def draw_exact_scores(draw: Draw, *shape: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """q and k of few whole numbers: with heads of 4 the scores are exact in 16 bits."""
    q, k = (draw.randint(-2, 3, shape).to(dtype) for _ in range(2))
    return q, k
