"""Checks of LossScaler where there is little or much: no gradients, limits of 0, other dtypes and
layouts, attributes that others set.

Oracle: the contract, case by case. What it leaves out: usual updates, which loss_scaling.py has.
"""

import math

from torch import Tensor

from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.training.loss_scaling import LARGEST

PROBE = "course_lib.probes.scaler:"


def unusual_steps(subject: Subject, draw: Draw) -> None:
    """No gradients, a limit of 0, float16, large sums, odd shapes, and a group that comes later."""
    found = subject.probe(PROBE + "step_edges")
    if found["none"] != [0.0, True]:
        raise Wrong(
            "SCALER-NO-GRADIENT",
            "an update without any gradient is not a good one",
            tried="a bad update, then one in which every p.grad is None",
            expected="norm 0.0, self.finite True: no number is there that is not finite",
            got=f"norm {found['none'][0]}, self.finite {found['none'][1]}",
            look="what self.finite becomes without gradients.",
        )
    if abs(found["limit"] - 1) > 1e-4:
        raise Wrong(
            "SCALER-ZERO-LIMIT",
            "a limit of 0 is taken for none",
            tried="a weight of 1, a gradient of 1, max_norm 0, a rate of 1",
            expected="1: gradients of norm 0 move nothing",
            got=number(found["limit"]),
            look="`or`, and `if` on a number: 0 counts as false there.",
        )
    if found["half"]:
        raise Wrong(
            "SCALER-DTYPE",
            "infinity in float16 is not seen",
            tried="one gradient in float32, and one in float16 with infinity",
            expected="self.finite False",
            got="self.finite True",
            look="which gradients are looked at.",
        )
    if found["early"] is not None:
        raise Wrong(
            "SCALER-LOOKS-EARLY",
            "scaled gradients are looked at, not those of true size",
            tried="a float16 gradient of 60,000, a scale of 0.5: divided, it is infinite",
            expected="None, and no step",
            got=str(found["early"])[:60],
            look="the order of the division and the look.",
        )
    if found["sum"] != [True, True]:
        dtype = "float16" if found["sum"][0] else "float32"
        raise Wrong(
            "SCALER-LARGE",
            "large gradients that are finite are taken for infinite ones",
            tried=f"three gradients near the end of {dtype}, which their sum leaves",
            expected="self.finite True: each of the numbers is finite",
            got="self.finite False",
            fits="a sum or a mean, which overflows.",
            look="of what `isfinite` is asked: of each number.",
        )
    if found["state"]:
        raise Wrong(
            "SCALER-BAD-STEP",
            "the optimizer steps in an update that is left out",
            tried="AdamW, a gradient with infinity",
            expected="no state: the optimizer was never called",
            got=f"state for {found['state']} parameter",
            hides="its means hold NaN from then on.",
            look="when `optimizer.step()` is called.",
        )
    _odd_shapes(found["odd"])
    if abs(found["later"]) > 1e-4:
        raise Wrong(
            "SCALER-KEPT-PARAMS",
            "a parameter that comes later is left out",
            tried="a weight of 1 in a group added after the first step, a gradient of 1",
            expected="0: the true gradient is taken off",
            got=number(found["later"]),
            fits="parameters kept from the first step.",
            look="what is stored on `self`.",
        )
    if not abs(found["clipped"] - 1) < 1e-4:
        raise Wrong(
            "SCALER-GRAD-AFTER",
            "the gradients are others after a good update",
            tried="a gradient of 2, max_norm 1",
            expected="p.grad 1 after it: divided and clipped, no more",
            got=number(found["clipped"]),
            hides="who logs gradients after the step, or steps with them, sees other numbers.",
            look="what is written into `p.grad`; to clear it is the caller's part.",
        )


def _odd_shapes(found: list[Tensor] | str) -> None:
    facts = dict(
        tried="gradients of 1: a transposed one, an empty one and a single number",
        expected="weights of 0",
    )
    if isinstance(found, str):
        viewed = "view" in found and "stride" in found
        raise Wrong(
            "STRIDED" if viewed else "SCALER-SHAPES",
            "a gradient that is not contiguous raises" if viewed else "a gradient raises",
            got=found.splitlines()[0][:76],
            look="`reshape` copies where it has to." if viewed else "what an empty tensor has not.",
            **facts,
        )
    if any(weight.abs().max() > 1e-4 for weight in found if weight.numel()):
        got = "; ".join(vector(weight.flatten()) for weight in found)
        raise Wrong("SCALER-SHAPES", "gradients are lost", got=got, look="each gradient.", **facts)


def unusual_updates(subject: Subject, draw: Draw) -> None:
    """update uses self.finite and the settings as they are now, and the upper end as a lid."""
    found = subject.probe(PROBE + "update_edges")
    for code, name, right, finding, tried, look in (
        ("SCALER-OWN-FLAG", "flag", [4.0, 8.0], "update does not use self.finite",
         "self.finite set to False, update; to True, update; interval 1, from 8",
         "which attribute update asks: another rank may have found what this one has not."),
        ("SCALER-KEPT-SETTINGS", "changed", [64.0, 8.0], "update uses settings of an earlier time",
         "growth 8, backoff 0.125, interval 1, set after the first update; good, bad, from 8",
         "`self.growth`, `self.backoff` and `self.growth_interval`, each time."),
        ("SCALER-CAP", "cap", [LARGEST, LARGEST, 1], "the scale near its upper end is another",
         "growth 4, interval 2, from LARGEST / 2; scale after 2 and after 5 good updates, count",
         "the docstring: to at most LARGEST, and the count begins again."),
        ("SCALER-CAP", "above", [4 * LARGEST, LARGEST], "a scale above LARGEST is not as promised",
         "interval 2, from 4 times LARGEST; the scale after each of two good updates",
         "the docstring: such a value comes down when the count reaches the interval."),
    ):  # fmt: skip
        got = found[name]
        if not all(math.isclose(a, b) for a, b in zip(got, right, strict=True)):
            raise Wrong(
                code, finding, tried=tried, expected=vector(right), got=vector(got), look=look
            )
