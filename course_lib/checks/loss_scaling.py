"""Checks of lesson 14: LossScaler.step and LossScaler.update.

Oracle: `model`, the same updates in float64, whose options bend one thing each, as wrong answers do.
These checks go through `rehearse`: given gradients, one list per update, SGD with a rate of 1; those
of several groups are in loss_scaling_groups.py.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.expect import Pattern
from course_lib.checks.loss_scaling_edges import unusual_steps, unusual_updates
from course_lib.checks.loss_scaling_groups import as_made, several_groups
from course_lib.checks.loss_scaling_mistakes import KINDS, mistakes, model, pattern
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.training.loss_scaling import LARGEST

CLOSE = dict(rtol=1e-4, atol=1e-6)  # float32 and a norm: 1e-6; no pattern comes nearer than 1e-2
Gradients = Sequence[Tensor | None]


def _rehearse(
    subject: Subject,
    updates: Sequence[Gradients],
    tried: str,
    *,
    max_norm: float = math.inf,
    state: dict | None = None,
    **settings,
) -> list[dict]:
    """What the answer makes of these updates; `state` is loaded first, as after a resume."""
    scaler = subject.module(**settings)
    if state is not None:
        scaler.method("load_state_dict", state)
    return _rows(scaler.method("rehearse", [list(u) for u in updates], max_norm), updates, tried)


def _rows(found, updates: Sequence[Gradients], tried: str) -> list[dict]:
    """What `rehearse` returned, in the form that its docstring says."""
    right = (
        isinstance(found, list)
        and len(found) == len(updates)
        and all(isinstance(row, dict) and {"norm", "weights", "scale"} <= set(row) for row in found)
        and all(_are_tensors(row["weights"], len(u)) for row, u in zip(found, updates, strict=True))
    )
    if not right:
        raise Wrong(
            "SCALER-REHEARSE",
            "rehearse returns something else",
            tried=tried,
            expected='a list: for each update a dict with "norm", "weights" and "scale"',
            got=f"{type(found).__name__}: {found!r}"[:76],
            look="`rehearse`, as it was in the cell.",
        )
    for row in found:
        _a_float(row["scale"], "self.value", tried)
    return found


def _are_tensors(weights, count: int) -> bool:
    return (
        isinstance(weights, (list, tuple))
        and len(weights) == count
        and all(isinstance(w, Tensor) for w in weights)
    )


def _a_float(value, name: str, tried: str) -> None:
    if type(value) is not float:
        raise Wrong(
            "SCALER-TYPE",
            f"{name} is no Python float",
            tried=tried,
            expected="a float",
            got=f"{type(value).__name__}: {value}"[:60],
            hides="the scale goes into a checkpoint, and halves may follow whole numbers.",
            look=f"what is assigned to {name}.",
        )


def _weights(row: dict) -> Tensor:
    return torch.cat([w.flatten() for w in row["weights"]])


def _norm(found, expected: float, scale: float, tried: str) -> None:
    """`found` is the norm that a good update had before clipping, as a float."""
    facts = dict(tried=tried, expected=f"the norm before clipping: {number(expected)}")
    if found is None:
        raise Wrong(
            "NONE",
            "step returned None for a good update",
            got="None",
            **facts,
            look="the last line: is there a `return`?",
        )
    if isinstance(found, bool) or not isinstance(found, (int, float)):
        raise Wrong(
            "TYPE",
            f"step returned a {type(found).__name__}",
            got=str(found)[:60],
            **facts,
            look="what stands after `return`; `.item()` makes a tensor a float.",
        )
    if math.isclose(found, expected * scale, rel_tol=1e-4):
        raise Wrong(
            "SCALER-CLIP-FIRST",
            "the norm is that of scaled gradients",
            got=number(found),
            **facts,
            fits="the norm times the scale.",
            look="which gradients are there when they are clipped.",
            hides="`max_norm` is compared with this number.",
        )
    if not math.isclose(found, expected, rel_tol=1e-4):
        raise Wrong(
            "SCALER-NORM",
            "step returned another number",
            got=number(found),
            **facts,
            look="what `clip_grad_norm_` returns, and of which gradients.",
        )


def _expect_scales(
    out: Tensor, right: Tensor, patterns: Sequence[Pattern], finding: str, **facts
) -> None:
    """All numbers as expected; else the first pattern that has them all, or OTHER."""
    facts |= dict(expected=vector(right), got=vector(out))
    if torch.allclose(out.double(), right.double(), **CLOSE):
        return
    for p in patterns:
        if torch.allclose(out.double(), p.value.double(), **CLOSE):
            raise Wrong(
                p.code, p.finding, fits=p.fits, look=p.look, hides=p.hides, preset=p.preset, **facts
            )
    raise Wrong("OTHER", finding, look="one update, line by line.", **facts)


def true_size(subject: Subject, draw: Draw) -> None:
    """A good update moves the weights by the true gradients, whatever the scale."""
    scale = 2.0 ** draw.size(3, 2, 4)
    grads = [0.5 + draw.randn(2).abs(), None, 0.5 + draw.randn(2, 1).abs()]
    flat = torch.cat([grads[0], grads[2].flatten()])
    tried = f"gradients {vector(flat)}, None for one weight, a scale of {number(scale)}"
    (row,) = _rehearse(subject, [grads], tried, scale=scale)
    hides = "the rate of the run would be another one, and change with every change of the scale."
    before, unused, after = row["weights"]
    if unused.any():
        raise Wrong(
            "OTHER",
            "a weight without a gradient moved",
            tried=tried,
            expected="0",
            got=vector(unused),
            look="what is passed over.",
        )
    _expect_scales(
        torch.cat([before, after.flatten()]),
        -flat,
        [
            pattern(
                "SCALER-NOT-DIVIDED",
                -flat * scale,
                "the gradients are still scaled",
                "weights that moved by scale * gradient.",
                "what `self.value` does in step.",
                hides=hides,
            ),
            pattern(
                "SCALER-TWICE",
                -flat / scale,
                "the gradients are divided twice",
                "weights that moved by gradient / scale.",
                "each place that divides by the scale.",
            ),
            pattern(
                "SCALER-TIMES",
                -flat * scale**2,
                "the gradients are multiplied once more",
                "weights that moved by gradient * scale * scale.",
                "`*` and `/` in step.",
            ),
            pattern(
                "SCALER-NO-STEP",
                0 * flat,
                "a good update moved no weight",
                "no step at all.",
                "when `optimizer.step()` is called.",
            ),
            pattern(
                "SCALER-ONE-DIVIDED",
                torch.cat([-flat[:2], -scale * flat[2:]]),
                "only the first gradient is divided",
                "the others are still scaled.",
                "every group, every parameter.",
            ),
        ],
        "the weights moved by something else",
        tried=tried,
    )
    _norm(row["norm"], flat.norm().item(), scale, tried)


def clipped_after(subject: Subject, draw: Draw) -> None:
    """`max_norm` is a limit on the norm of the true gradients, all together."""
    scale, most = 2.0 ** draw.size(4, 3, 5), 1.0
    grads = [1.5 + draw.randn(2).abs(), 1.5 + draw.randn(2).abs()]
    flat = torch.cat(grads)
    norm = flat.norm().item()
    tried = f"gradients {vector(flat)}, norm {number(norm)}; max_norm 1, a scale of {number(scale)}"
    (row,) = _rehearse(subject, [grads], tried, max_norm=most, scale=scale)
    _expect_scales(
        _weights(row),
        -flat / norm,
        [
            pattern(
                "SCALER-CLIP-FIRST",
                -flat / norm / scale,
                "clipped before the scale was taken out",
                "weights that moved by max_norm / scale together.",
                "what the gradients are multiplied with when they are clipped.",
                hides="nearly every update is clipped, to a size that falls as the scale grows.",
            ),
            pattern(
                "SCALER-NO-CLIP",
                -flat,
                "the gradients are not clipped",
                "the whole gradients.",
                "`max_norm`.",
            ),
            pattern(
                "SCALER-CLIP-EACH",
                -torch.cat([g / g.norm() for g in grads]),
                "each tensor is clipped by itself",
                "a norm of 1 for each tensor.",
                "one norm over all parameters keeps the direction.",
            ),
        ],
        "the weights moved by something else",
        tried=tried,
    )
    _norm(row["norm"], norm, scale, tried)
    small = [0.1 * g / norm for g in grads]
    tried = f"gradients of norm 0.1, max_norm 1, a scale of {number(scale)}"
    (row,) = _rehearse(subject, [small], tried, max_norm=most, scale=scale)
    _expect_scales(
        _weights(row),
        -torch.cat(small),
        [
            pattern(
                "SCALER-CLIP-FIRST",
                -torch.cat(small) * 10 / scale,
                "clipped before the scale was taken out",
                "a small gradient that is clipped.",
                "which gradients are there when they are clipped.",
            )
        ],
        "a gradient below max_norm was changed",
        tried=tried,
    )


BAD = {"infinity": math.inf, "minus infinity": -math.inf, "NaN": math.nan}


def left_out(subject: Subject, draw: Draw) -> None:
    """One number that is not finite, anywhere: no weight moves, and step says None."""
    unseen: list[tuple[str, int]] = []
    for name, bad in BAD.items():
        for place in range(3):
            grads = [draw.randn(2, 2) for _ in range(3)]
            grads[place][1, 0] = bad
            tried = f"three gradients of 2 x 2; {name} in the {('first', 'second', 'third')[place]}"
            (row,) = _rehearse(subject, [grads], tried, scale=4.0)
            after = _weights(row)
            if after.isfinite().all() and after.any():
                raise Wrong(
                    "SCALER-PART",
                    "an update was made with what was left",
                    tried=tried,
                    expected="no weight moves",
                    got=f"weights {vector(after)}",
                    hides="an overflow spreads on its way back: what is left cannot be trusted.",
                    look="what happens when one gradient of three is not finite.",
                )
            if not after.isfinite().all():
                unseen.append((name, place))
            elif row["norm"] is not None:
                raise Wrong(
                    "SCALER-NOT-NONE",
                    "step left out an update and did not say so",
                    tried=tried,
                    expected="None",
                    got=str(row["norm"]),
                    look="what step returns when it makes no step.",
                )
    if unseen:
        _say_unseen(unseen)


def _say_unseen(unseen: list[tuple[str, int]]) -> None:
    names, places = {n for n, _ in unseen}, {p for _, p in unseen}
    facts = dict(expected="no weight moves", hides="one such number, and every weight is NaN.")
    if len(unseen) == len(BAD) * 3:
        raise Wrong(
            "SCALER-INF-STEP",
            "it steps with what is not finite",
            **facts,
            tried="gradients with infinity, minus infinity, or NaN",
            got="weights that are not finite",
            preset="number-line:overflow",
            look="what stands between the division and `optimizer.step()`.",
        )
    if len(names) == len(BAD):
        seen = ({0, 1, 2} - places).pop()
        where = "first" if seen == 0 else "last"
        raise Wrong(
            "SCALER-FIRST-ONLY",
            f"only the {where} gradient is looked at",
            **facts,
            tried="three gradients, one of them not finite",
            got=f"a step when the {where} one was finite",
            look="how the answers for all gradients become one.",
        )
    code = "SCALER-NAN-UNSEEN" if "NaN" in names else "SCALER-INF-UNSEEN"
    raise Wrong(
        code,
        f"{' and '.join(sorted(names))} is not seen",
        **facts,
        tried=f"gradients with {' or '.join(BAD)}",
        got=f"a step with {' and with '.join(sorted(names))}",
        fits="a comparison that NaN passes: each of them is false." if "NaN" in names else "",
        look="what is asked of each gradient.",
    )


def scales(subject: Subject, draw: Draw) -> None:
    """Over good and bad updates in a row, the scale goes where it should."""
    interval = draw.size(3, 2, 4)
    settings = dict(scale=64.0, growth=4.0, backoff=0.25, growth_interval=interval)
    updates = [[torch.tensor([math.inf if k == "b" else 1.0])] for k in KINDS]
    tried = (
        f"scale 64, growth 4, backoff 0.25, interval {interval}; good and bad updates:\n" + KINDS
    )
    found = _rehearse(subject, updates, tried, **settings)
    out = torch.tensor([row["scale"] for row in found], dtype=torch.float64)
    right = model(KINDS, *settings.values())
    if torch.equal(out, right):
        return
    at = int((out != right).nonzero()[0])  # show the numbers around the first that differs
    facts = dict(
        tried=tried,
        expected=f"after update {at}: {number(right[at].item())}; all: {vector(right, 8)}",
        got=f"after update {at}: {number(out[at].item())}; all: {vector(out, 8)}",
    )
    for p in mistakes(*settings.values()):
        if torch.equal(out, p.value):
            raise Wrong(
                p.code, p.finding, fits=p.fits, look=p.look, hides=p.hides, preset=p.preset, **facts
            )
    raise Wrong("OTHER", "the scale goes another way", look="update, case by case.", **facts)


def range_ends(subject: Subject, draw: Draw) -> None:
    """The scale grows to LARGEST and no further; below 1 it goes on falling."""
    good, bad = [torch.ones(1)], [torch.full((1,), math.nan)]
    tried = "a scale of LARGEST / 2, interval 1, three good updates"
    found = _rehearse(subject, [good] * 3, tried, scale=LARGEST / 2, growth_interval=1)
    _expect_scales(
        torch.tensor([row["scale"] for row in found]),
        torch.full((3,), LARGEST),
        [
            pattern(
                "SCALER-NO-CAP",
                LARGEST * torch.tensor([1.0, 2, 4]),
                "the scale grows beyond LARGEST",
                "a doubling without an end.",
                "`LARGEST`, and what the docstring says of it.",
                hides="a run whose gradients allow it would scale its loss to infinity.",
            ),
        ],
        "the scale at its upper end",
        tried=tried,
    )
    tried = "a scale of 1, three bad updates"
    found = _rehearse(subject, [bad] * 3, tried, scale=1.0)
    _expect_scales(
        torch.tensor([row["scale"] for row in found]),
        torch.tensor([0.5, 0.25, 0.125]),
        [
            pattern(
                "SCALER-WHOLE",
                torch.zeros(3),
                "the scale is rounded to whole numbers",
                "`//` or `int` in update.",
                "the line for a bad update.",
            ),
            pattern(
                "SCALER-FLOOR",
                torch.ones(3),
                "the scale stops at 1",
                "a lower end of 1.",
                "the docstring: only the upper end is there.",
            ),
        ],
        "the scale below 1",
        tried=tried,
    )


def resumed_scaler(subject: Subject, draw: Draw) -> None:
    """A scaler that takes over a state grows when the run before it would have."""
    done = draw.size(3, 2, 4)
    tried = f"interval 5, resumed after {done} good updates; then good ones"
    state = {"value": 8.0, "good_steps": done}
    updates = [[torch.ones(1)]] * 4
    scaler = subject.module(growth_interval=5)
    scaler.method("load_state_dict", state)
    found = _rows(scaler.method("rehearse", updates), updates, tried)
    right = model("gggg", 8.0, 2.0, 0.5, 5, count=done)
    _expect_scales(
        torch.tensor([row["scale"] for row in found]),
        right,
        [
            pattern(
                "SCALER-OWN-COUNT",
                model("gggg", 8.0, 2.0, 0.5, 5),
                "a resumed run counts from 0 again",
                "a count under another name.",
                "`state_dict`: what of the count does it keep?",
            ),
        ],
        "the scale after a resume",
        tried=tried,
    )
    kept = scaler.method("state_dict")
    right = {"value": 16.0, "good_steps": done + 4 - 5}
    if kept != right:
        raise Wrong(
            "SCALER-COUNT",
            "the state to be kept is another one",
            tried=tried,
            expected=f"{right}, {right['good_steps']} good updates since the growth",
            got=f"{kept}"[:76],
            fits="a count that goes on after the scale has grown."
            if isinstance(kept, dict) and kept.get("good_steps") == done + 4
            else "",
            look="`self.good_steps` when the scale grows; `state_dict`, as it was in the cell.",
        )


SUITES = (
    Suite(
        exercise="grad-scaler",
        checks=(
            true_size,
            clipped_after,
            left_out,
            scales,
            range_ends,
            resumed_scaler,
            several_groups,
            unusual_steps,
            unusual_updates,
            as_made,
        ),
        tested="your scaler divides before it clips, leaves out what is not finite, finds its scale.",
        remember="divide, look, clip, step, adapt: in this order. 65,504 is where float16 ends.",
        ranks=1,
        next_step='"Scale too large" in the figure above: read what falls off on the right.',
        loads=(DYNAMO,),
    ),
)
