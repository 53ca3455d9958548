"""What an answer to count-ops noted, beside what it must: for the checks of lesson 15, first part.

What is here: programs run under the answer, comparisons that name a known mistake. What it leaves
out: which bytes are right, which each check says.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.probes.operations import PROGRAMS

PROBE = "course_lib.probes.operations:"
Seen = list[tuple[str, int, int]]
Ways = Sequence[tuple[Seen, str, str, str]]
VIEWS = set("detach unsqueeze expand split view t t_ unsqueeze_ _unsafe_view".split())
SAID = {
    "chain": "x * w + y", "again": "x * w * w * w", "in place": "x.add_(w)",
    "views": "detach, unsqueeze, expand, split, view, t; then x.t() * y.t()",
    "new names": "x.t().reshape(-1)", "turned": "x.t_().unsqueeze_(0); then x + 1",
    "reserved": "empty, new_empty; then empty_like(x).copy_(x)",
    "foreach": "torch._foreach_add_([x, w], 1.0)", "list": "torch.cat([x, y])",
    "two results": "torch.max(x, dim=1)", "keyword": "torch.add(x, y, alpha=3)",
    "out": "z = x.clone(); torch.add(x, y, out=z)", "16 bits": "x.bfloat16() + y.bfloat16()",
    "square": "x * x", "wide": "w.expand(x.shape) * 2", "turned twin": "x @ x.t()",
    "more views": "select, slice, permute, diagonal, unbind, unfold, squeeze; x - y",
    "copies": "torch.view_copy(x, (-1,)); torch.unsqueeze_copy(x, 0)",
    "parts": "x[:, :2] * 2; x[0].add_(1); x[:, 1].neg_()",
    "new list": "torch._foreach_add([x, w], 1.0)", "made": "torch.ones(x.shape) + x",
    "out of two": "torch.max(x, 1, out=(values, places))",
    "both": "rrelu_with_noise(x, y), which also writes into y",
    "goes on": "x.add_(w).add_(w); x.view(-1).mul_(2)",
    "dtypes": "(x > y).sum(); x.double()", "pair": "x * x.view(x.shape)",
    "twice": "cat([x, x]); add(x, x, out=x); _foreach_mul_([x, x], 3)",
    "parameter": "x * nn.Parameter(w)",
    "backward": "(x * y).sum().backward()",
    "fails": "x * 2, then a product whose shapes do not fit",
    "fails in place": "(x * 2).add_(y.t())", "fails into out": "mm(x * 2, y, out=w)",
    "fails in a list": "_foreach_add_([x * 2, w], [y, y])",
}  # fmt: skip


def draw_tensors(draw: Draw) -> tuple[list[Tensor], int, int]:
    """x, y (R, C) and w (C,); and R, C."""
    R, C = draw.size(3, 5, 2), draw.size(4, 6, 7)  # never equal: x @ y must not fit
    return [draw.randn(R, C), draw.randn(R, C), draw.randn(C)], R, C


def run_programs(subject: Subject, given: list[Tensor], *names: str) -> list[dict]:
    """What was observed of each program; results that differ are said here."""
    found = subject.probe(PROBE + "observe_programs", list(names), given)
    for name in names:
        if found[name]["before"]:
            raise Wrong(
                "OPS-SHARED",
                "a new counter is not empty",
                tried="a counter for each program",
                expected="0 noted at the start",
                got=f"{found[name]['before']} noted",
                fits="one list that all counters share.",
                look="where the list is made.",
            )
        _same_results(name, found[name], given, describe_program(name, given))
    return [found[name] for name in names]


def describe_program(name: str, given: list[Tensor]) -> str:
    """The program as a learner would write it, with the sizes of its tensors."""
    R, C = given[0].shape
    return f"{SAID[name]}   with x, y ({R}, {C}) and w ({C},) in float32"


def _same_results(name: str, found: dict, given: list[Tensor], tried: str) -> None:
    if name.startswith("fails"):
        return
    facts = dict(
        tried=tried,
        expected="the results that come without it",
        look="what is called, with which arguments, how often, and what is returned.",
        hides="a program that is watched must do what it does alone.",
    )
    if found["error"]:
        raise Wrong(
            "OPS-RESULT",
            "the program fails when it is watched",
            **facts,
            got=f"{found['error']}, raised inside the program",
        )
    out = PROGRAMS[name](*(x.clone() for x in given))
    right = list(out) if isinstance(out, tuple) else [out]
    fine = len(right) == len(found["out"]) and all(
        a.shape == b.shape and torch.equal(a, b) for a, b in zip(right, found["out"], strict=True)
    )
    if fine:
        return
    if name == "in place":
        raise Wrong(
            "OPS-RUN-TWICE",
            "the operation ran more than once",
            **facts,
            got="x with more than one w added",
            fits="two calls of func.",
        )
    if name in ("keyword", "out"):
        raise Wrong(
            "OPS-KWARGS",
            "the keywords of an operation are lost",
            **facts,
            got="x + y" if name == "keyword" else "z as it was",
            fits="func called with its positional arguments alone.",
        )
    raise Wrong(
        "OPS-RESULT",
        "the results are others when the program is watched",
        **facts,
        got=f"{len(found['out'])} tensors, not the same ones",
    )


def describe_notes(seen: Seen) -> str:
    """As "mul 64 -> 48"; the bytes read and written."""
    if not seen:
        return "nothing"
    parts = [f"{name} {read} -> {written}" for name, read, written in seen[:4]]
    return "; ".join(parts) + (f"; {len(seen) - 4} more" if len(seen) > 4 else "")


def compare_notes(found: dict, right: Seen, tried: str, ways: Ways = (), look: str = "") -> None:
    """What was noted is `right`; else the first of `ways` (what, code, finding, fits), or OTHER."""
    seen = [tuple(entry) for entry in found["seen"]]
    if seen == right:
        return
    facts = dict(
        tried=tried,
        expected=describe_notes(right),
        got=describe_notes(seen),
        look=look or "which operations are noted, and with which bytes.",
    )
    for what, code, finding, fits in ways:
        if seen == what:
            raise Wrong(code, finding, fits=fits, **facts)
    raise Wrong("OTHER", "what was noted differs (bytes read -> written)", **facts)
