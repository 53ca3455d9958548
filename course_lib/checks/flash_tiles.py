"""Checks of lesson 16 that both passes share: what they hold, and float64 from end to end."""

from collections.abc import Sequence

from torch import Tensor

from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject

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


def draw_long(draw) -> list[Tensor]:
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
