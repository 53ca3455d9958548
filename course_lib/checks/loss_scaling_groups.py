"""Checks of lesson 14: LossScaler with an optimizer of several groups, and as it is made.

Oracle: SGD with a decay, by hand, of gradients that are divided, looked at and clipped together.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.expect import Pattern
from course_lib.checks.loss_scaling_mistakes import pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.probes.scaler import DECAY, RATES

PROBE = "course_lib.probes.scaler:"
CLOSE = dict(rtol=1e-4, atol=1e-6)
REFUSED: tuple[dict[str, float], ...] = (
    dict(scale=0.0),
    dict(scale=-2.0),
    dict(growth=1.0),
    dict(growth=0.5, backoff=0.25),
    dict(backoff=1.0),
    dict(backoff=0.0),
    dict(backoff=-0.5),
    dict(growth_interval=0),
)
Groups = list[list[Tensor]]


def _move_weights(grads: Groups) -> Tensor:
    """The weights after a step of SGD with these gradients, in one row."""
    return torch.cat(
        [
            (1 - lr * (g + DECAY)).flatten()
            for lr, group in zip(RATES, grads, strict=True)
            for g in group
        ]
    )


def _scale_groups(grads: Groups, *factors: float) -> Groups:
    """The gradients of each group times its factor."""
    return [[f * g for g in group] for f, group in zip(factors, grads, strict=True)]


def _flatten_groups(found: Groups) -> Tensor:
    return torch.cat([x.flatten() for group in found for x in group])


def _norm_of(*grads: Sequence[Tensor]) -> float:
    return _flatten_groups(list(grads)).norm().item()


def several_groups(subject: Subject, draw: Draw) -> None:
    """Two groups: divided in place and clipped together, looked at together, left out together."""
    scale = 2.0 ** draw.size(4, 3, 5)
    grads = [[1 + draw.randn(3).abs()], [1 + draw.randn(2, 2).abs(), 1 + draw.randn(2).abs()]]
    bad = [[g.clone() for g in group] for group in grads]
    bad[1][0][1, 0] = math.inf
    tried = f"two groups of SGD with a decay, a scale of {number(scale)}"
    made = [
        dict(groups=grads, scale=scale, max_norm=1.0),
        dict(groups=bad, scale=scale),
        dict(groups=_scale_groups(grads, 0.0, 0.0), scale=scale),
        dict(groups=_scale_groups(grads, 1e30, 1e30), scale=scale),
    ]
    clipped, left, zero, large = subject.probe(PROBE + "step_groups", made)
    _expect_clipped(clipped, grads, scale, f"{tried}, max_norm 1")
    _expect_left_out(left, bad, scale, f"{tried}, infinity in the second group")
    if not isinstance(zero["returned"], (int, float)) or zero["returned"] != 0:
        raise Wrong(
            "SCALER-ZERO",
            "an update with gradients of 0 is taken for one that was left out",
            tried=f"{tried}, gradients of 0",
            expected="a norm of 0.0: the update was made",
            got=str(zero["returned"])[:60],
            look="what is asked before `return`: 0.0 is false too.",
        )
    if not large["finite"] or large["returned"] is None:
        raise Wrong(
            "SCALER-LARGE",
            "large gradients that are finite are taken for infinite ones",
            tried=f"{tried}, gradients near 1e30",
            expected="finite, and a step: each of the numbers is finite",
            got=f"finite {large['finite']}, step returned {large['returned']}",
            fits="a sum of squares, which overflows from 1e19 on.",
            look="of what `isfinite` is asked: of each number.",
        )


def _expect_clipped(found: dict, grads: Groups, scale: float, tried: str) -> None:
    norm = _norm_of(*grads)
    first, second = (_norm_of(group) for group in grads)
    right = _move_weights(_scale_groups(grads, 1 / norm, 1 / norm))
    got = _flatten_groups(found["weights"])
    ways: list[Pattern] = [
        pattern(
            "SCALER-ONE-GROUP",
            _move_weights(_scale_groups(grads, 1 / first, scale)),
            "only the first group is divided and clipped",
            "the others are still scaled.",
            "`optimizer.param_groups`: all of them.",
        ),
        pattern(
            "SCALER-ONE-GROUP",
            _move_weights(_scale_groups(grads, 1 / norm, scale / norm)),
            "only the first group is divided",
            "the others are still scaled.",
            "`optimizer.param_groups`: all of them.",
        ),
        pattern(
            "SCALER-ONE-GROUP",
            _move_weights(_scale_groups(grads, 1 / first, 1.0)),
            "only the first group is clipped",
            "the others keep their length.",
            "`optimizer.param_groups`: all of them.",
        ),
        pattern(
            "SCALER-CLIP-GROUPS",
            _move_weights(_scale_groups(grads, 1 / first, 1 / second)),
            "each group is clipped by itself",
            "a norm of 1 for each group.",
            "one norm over all parameters keeps the direction.",
        ),
    ]
    facts = dict(tried=tried, expected=vector(right), got=vector(got))
    if not torch.allclose(got, right, **CLOSE):
        for way in ways:
            if torch.allclose(got, way.value, **CLOSE):
                raise Wrong(way.code, way.finding, fits=way.fits, look=way.look, **facts)
        raise Wrong("OTHER", "the weights moved by something else", look="each group.", **facts)
    if not math.isclose(found["returned"], norm, rel_tol=1e-4):
        raise Wrong(
            "SCALER-NORM",
            "step returned another number",
            tried=tried,
            expected=f"the norm of all groups before clipping: {number(norm)}",
            got=number(found["returned"]),
            look="of which gradients the norm is taken.",
        )
    if not found["same"]:
        raise Wrong(
            "SCALER-NEW-GRAD",
            "the gradients are others than those that were given",
            tried=tried,
            expected="each `p.grad` divided in place, where it lies",
            got="new tensors, or None",
            hides="what else looks at the old ones, such as DDP's buckets, sees scaled numbers.",
            look="`p.grad = ...`; `div_` and `mul_` write in place.",
        )


def _expect_left_out(found: dict, bad: Groups, scale: float, tried: str) -> None:
    got = _flatten_groups(found["weights"])
    if found["returned"] is not None or not torch.equal(got, torch.ones_like(got)):
        raise Wrong(
            "SCALER-BAD-STEP",
            "an update was made although one gradient is not finite",
            tried=tried,
            expected="None, and weights that stay at 1",
            got=f"{found['returned']}, weights {vector(got)}",
            hides="momentum and decay move the weights even where gradients are 0.",
            look="when `optimizer.step()` is called, and what was looked at before it.",
        )
    if found["finite"]:
        raise Wrong(
            "SCALER-FINITE",
            "self.finite does not say what step has found",
            tried=tried,
            expected="self.finite False",
            got="self.finite True",
            look="where `self.finite` is assigned.",
        )
    grads, right = _flatten_groups(found["grads"]), _flatten_groups(bad)
    seen = grads[right.isfinite()]
    if torch.allclose(seen, scale * right[right.isfinite()], **CLOSE):
        raise Wrong(
            "SCALER-LEFT-SCALED",
            "a left-out update leaves scaled gradients behind",
            tried=tried,
            expected=f"gradients of true size: {vector(right)}",
            got=vector(grads),
            look="the docstring: each is divided, then all are looked at.",
        )
    if not torch.allclose(seen, right[right.isfinite()], **CLOSE):
        raise Wrong(
            "SCALER-GRAD-AFTER",
            "a left-out update leaves other gradients behind",
            tried=tried,
            expected=f"gradients of true size: {vector(right)}",
            got=vector(grads),
            look="what is written into `p.grad`; to clear it is the caller's part.",
        )


def as_made(subject: Subject, draw: Draw) -> None:
    """The settings by default, those that are refused, and what is done to arguments."""
    found = subject.probe(PROBE + "settings", list(REFUSED))
    got = [found[name] for name in ("value", "growth", "backoff", "interval", "scaled")]
    right = [2.0**16, 2.0, 0.5, 2000, 24.0]
    if got != right:
        raise Wrong(
            "SCALER-SETTINGS",
            "the settings are others",
            tried="a scaler without settings; scale(3.0) with a scale of 8",
            expected=vector(right),
            got=vector(got),
            look="`__init__` and `scale`, as they were in the cell.",
        )
    for settings, error in zip(REFUSED, found["errors"], strict=True):
        if error != "ValueError":
            raise Wrong(
                "SCALER-REFUSAL",
                "factors that find no scale are taken",
                tried=", ".join(f"{name}={value}" for name, value in settings.items()),
                expected="ValueError",
                got=error,
                look="`__init__`, as it was in the cell.",
            )
    if not found["kept"]:
        raise Wrong(
            "INPLACE",
            "an argument was changed",
            tried="scale(loss), and rehearse(updates)",
            expected="arguments that stay as they are",
            got="others",
            look="`scale` and `rehearse`, as they were in the cell.",
        )
    first, second = (row.tolist() for row in found["rows"])
    if first != [-1.0, -1.0] or second != [-2.0, -2.0]:
        raise Wrong(
            "SCALER-REHEARSE",
            "rehearse tells other weights",
            tried="rehearse, two updates with a gradient of 1",
            expected="weights of -1 after the first, -2 after the second",
            got=f"{first}, {second}",
            look="`rehearse`, as it was in the cell: a copy of the weights for each update.",
        )
