"""Checks of lesson 20: sync_gradients.

Oracle: the mean over all ranks' gradients, computed here; small whole numbers, so that a sum is the
same in every order. What each rank sends comes back beside what it returns.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

PROBE = "course_lib.probes.ddp:"
SHAPES = [(2, 3), (4,), (3,), (3,), ()]
Grads = list[Tensor | None]


def one_process(subject: Subject, draw: Draw) -> None:
    """One process, no group: copies, and zeros for a parameter that was not used."""
    params, (grads,) = _gradients(draw, 1)
    params[3] = params[3].bfloat16()
    grads[3] = None
    tried = "one process without a group, gradient 3, bfloat16, None"
    try:
        (found,) = _run(subject, params, [grads], "sync_alone")
    except AnswerError as failure:
        if "process group" not in str(failure.error):
            raise
        raise Wrong(
            "SYNC-NO-GROUP",
            "a collective where there is no group",
            tried=tried,
            expected="no collective: the mean over one rank is the gradient",
            got=str(failure.error)[:70],
            look="`dist.is_initialized()`.",
        ) from None
    _tensors(found["means"], params, tried)
    _values(found["means"], _means(params, [grads]), tried)
    _check_arguments(found, tried)


def two_ranks(subject: Subject, draw: Draw) -> None:
    """Values and arguments on two ranks; each has used every parameter."""
    _check_ranks(subject, draw, 2)


def unused_parameters(subject: Subject, draw: Draw) -> None:
    """Each of two ranks has not used a parameter, each another one; one is used by nobody."""
    params, by_rank = _gradients(draw, 2)
    for rank, grads in enumerate(by_rank):
        grads[2 + rank] = grads[1] = None
    tried = "2 ranks; rank 0 has no gradient for parameter 2, rank 1 none for 3, nobody for 1"
    facts = _run(subject, params, by_rank)
    expected = _means(params, by_rank)
    for rank, found in enumerate(facts):
        means = found["means"]
        if not isinstance(means, (list, tuple)) or not _are_equal(means, expected):
            _refuse_unused(means, expected, rank, tried)
        _check_arguments(found, tried)
        _check_traffic(found["seen"], params, tried)


def more_ranks(subject: Subject, draw: Draw) -> None:
    """Three ranks: R is not 2 everywhere. What they send."""
    for found in _check_ranks(subject, draw, 3):
        _check_traffic(found["seen"], [torch.empty(s) for s in SHAPES], "3 ranks")


def half_precision(subject: Subject, draw: Draw) -> None:
    """bfloat16 stays bfloat16, on the way too."""
    params, by_rank = _gradients(draw, 2)
    params[1] = params[1].bfloat16()
    for grads in by_rank:
        grads[1] = grads[1].bfloat16()
    tried = "2 ranks, the second parameter in bfloat16"
    for found in _run(subject, params, by_rank):
        _tensors(found["means"], params, tried)
        _values(found["means"], _means(params, by_rank), tried)
        _check_traffic(found["seen"], params, tried)


def unused_in_half_precision(subject: Subject, draw: Draw) -> None:
    """A rank without a gradient contributes zeros of the parameter's dtype."""
    params, by_rank = _gradients(draw, 2)
    for i in (1, 3):
        params[i] = params[i].bfloat16()
        by_rank[0][i], by_rank[1][i] = by_rank[0][i].bfloat16(), None
    tried = "2 ranks, parameters 1 and 3 in bfloat16; rank 1 has no gradient for them"
    try:
        for found in _run(subject, params, by_rank):
            _tensors(found["means"], params, tried)
            _values(found["means"], _means(params, by_rank), tried)
            _check_traffic(found["seen"], params, tried)
    except (AnswerError, Wrong) as failure:
        raise Wrong(
            "SYNC-ZEROS-DTYPE",
            "the zeros of a rank without a gradient have another dtype",
            tried=tried,
            expected="bfloat16 from both ranks",
            got=str(failure)[:70],
            hides="ranks that send other bytes for one gradient: gloo aborts, or adds nonsense.",
            look="how the zeros are made where `grad is None`.",
        ) from None


def odd_gradients(subject: Subject, draw: Draw) -> None:
    """Gradients in a graph, one of them transposed in memory on one rank: index by index, no graph."""
    params, by_rank = _gradients(draw, 2)
    by_rank[1][3] = None
    params[3].view(-1)[0] = math.inf  # a weight that has diverged, whose gradient is finite
    tried = "2 ranks; gradient 0 of rank 0 is the transpose of a tensor in memory"
    facts = dict(
        tried=tried,
        hides="an all-reduce adds what lies at the same place in memory.",
        look="what travels is contiguous: `memory_format=`, `contiguous()`, a copy into zeros.",
    )
    try:
        ranks = _run(subject, params, by_rank, "sync_odd")
    except AnswerError as failure:
        text = f"{failure.error}"
        if not any(word in text for word in ("stride", "contiguous")):
            raise
        raise Wrong(
            "STRIDED",
            "a gradient that is not contiguous raises",
            expected="its mean",
            got=text[:76],
            **facts,
        ) from None
    expected = _means(params, by_rank)
    for rank, found in enumerate(ranks):
        _tensors(found["means"], params, tried)
        if not _is_near(found["means"][0], expected[0]):
            raise Wrong(
                "STRIDED",
                "a gradient that is not contiguous is added in another order",
                expected=f"rank {rank}: {vector(expected[0].reshape(-1))}",
                got=f"rank {rank}: {vector(found['means'][0].reshape(-1))}",
                **facts,
            )
        if not found["means"][3].isfinite().all():
            raise Wrong(
                "SYNC-ZEROS",
                "a rank without a gradient adds something else than zeros",
                tried="2 ranks; parameter 3 begins with inf, and rank 1 has no gradient for it",
                expected=f"rank {rank}: {vector(expected[3].reshape(-1))}",
                got=f"rank {rank}: {vector(found['means'][3].reshape(-1))}",
                fits="zeros that are computed from the parameter: 0 times inf is NaN.",
                look="how the zeros are made where `grad is None`.",
            )
        _values(found["means"], expected, tried)
        _check_arguments(found, "2 ranks; gradients that are part of a graph")
    (found,) = _run(subject, params, by_rank[1:], "sync_odd_alone")
    _check_arguments(found, "one process without a group; gradients that are part of a graph")


def separate_calls(subject: Subject, draw: Draw) -> None:
    """One call leaves nothing to the next, and no mean changes with it; in 16 bits too."""
    params, drawn = _gradients(draw, 4)
    dtypes = (torch.float32, torch.bfloat16, torch.float16)
    tried = "one rank; other gradients, then the first ones again"
    theirs, first, second = (
        [x.to(dtype) for dtype in dtypes for x in some] for some in (params, *drawn[:2])
    )
    between = expect_separate_calls(
        subject.probe, (theirs, first), (theirs, second), tried=tried, rtol=0, atol=0
    )
    _refuse_remembered(between, second, f"{tried}; float32, bfloat16 and float16")
    given = [
        ([[[x.to(dtype) for x in some] for some in (params, drawn[2 * call + rank])]
          for dtype in dtypes for call in range(2)],)
        for rank in range(2)
    ]  # fmt: skip
    ranks = subject.run_ranks(given, probe=PROBE + "sync_in_turn")
    for i, dtype in enumerate(dtypes):
        for call in range(2):
            tried = f"2 ranks, call {call + 1} of 2 with gradients of the same shapes, {dtype}"
            (theirs, first), (_, second) = (given[rank][0][2 * i + call] for rank in range(2))
            expected = _means(theirs, [first, second])
            for found in (rank.value[2 * i + call] for rank in ranks):
                _tensors(found["means"], theirs, tried)
                if call:
                    _refuse_remembered(found["means"], expected, tried)
                else:
                    _values(found["means"], expected, tried)


def _refuse_remembered(means: Sequence[Tensor], expected: Sequence[Tensor], tried: str) -> None:
    """`Wrong` when the means of a second call are not those of its own gradients."""
    for mean, right in zip(means, expected, strict=False):
        if not _is_near(mean, right):
            raise Wrong(
                "REMEMBERS",
                "a second call with gradients of the same shapes is wrong",
                tried=tried,
                expected=vector(right.reshape(-1)),
                got=vector(mean.reshape(-1)),
                fits="something kept from an earlier call.",
                look="what is stored outside the call, by `cache`, or in a default argument.",
            )


def groups(subject: Subject, draw: Draw) -> None:
    """Four ranks in two groups: the mean over a group."""
    params, by_rank = _gradients(draw, 4)
    tried = "4 ranks in two groups, 0 with 2 and 1 with 3"
    everywhere = _means(params, by_rank)
    for rank, found in enumerate(_run(subject, params, by_rank, "sync_in_pairs")):
        _tensors(found["means"], params, tried)
        right = _means(params, by_rank[rank % 2 :: 2])
        fits = "calls without `group`: they mean all ranks.", "`group`: the sum and R both need it."
        _values(
            found["means"],
            right,
            f"{tried}, on rank {rank}",
            [
                ("SYNC-GROUP", "the group is not the one that was given", value, *fits)
                for value in (
                    everywhere,
                    [2 * m for m in everywhere],
                    [m / 2 for m in right],
                )
            ],
        )
        _check_traffic(found["seen"], params, tried)


def _check_ranks(subject: Subject, draw: Draw, world_size: int) -> list[dict]:
    params, by_rank = _gradients(draw, world_size)
    tried = f"{world_size} ranks, {len(params)} parameters"
    expected = _means(params, by_rank)
    facts = _run(subject, params, by_rank)
    for rank, found in enumerate(facts):
        _tensors(found["means"], params, tried)
        own = by_rank[rank]
        total = [m * world_size for m in expected]
        _values(
            found["means"],
            expected,
            f"{tried}, on rank {rank}",
            [
                (
                    "SYNC-SUM",
                    f"the gradients are {world_size} times too long",
                    total,
                    "the sum over ranks, not divided.",
                    "what `all_reduce` computes, and what a mean is.",
                ),
                (
                    "SYNC-TWO",
                    "the mean is right for two ranks only",
                    [t / 2 for t in total],
                    "the sum divided by 2.",
                    "the number that divides the sum.",
                ),
                (
                    "SYNC-RANK-0",
                    "every rank has the gradient of rank 0",
                    by_rank[0],
                    "a broadcast.",
                    "the collective: one of them adds.",
                ),
                *_means_of_nobody(found["seen"], own, world_size),
            ],
        )
        _check_arguments(found, tried)
    return facts


def _check_arguments(found: dict, tried: str) -> None:
    """The arguments are as they were, and the means are tensors of their own."""
    if not found["kept"]:
        raise Wrong(
            "INPLACE",
            "the arguments are changed",
            tried=tried,
            expected="new tensors; `params` and `grads` as they were",
            got="other numbers or tensors in them after the call",
            look="which tensor `all_reduce` writes into.",
        )
    if not found["own"]:
        raise Wrong(
            "SYNC-ALIAS",
            "a mean is the tensor that was given",
            tried=tried,
            expected="new tensors, whose change changes no argument",
            got="a mean that shares its memory with an argument",
            hides="it happens where nothing is sent: code that works on two ranks breaks on one.",
            look="what is returned where there is no group.",
        )
    if not found["free"]:
        raise Wrong(
            "SYNC-GRAPH",
            "a mean is part of a graph",
            tried=tried,
            expected="plain tensors, with requires_grad False",
            got="a mean with requires_grad True",
            hides="what is computed from a parameter, or from a gradient in a graph, keeps the graph.",
            look="how the zeros are made where `grad is None`; `detach` for the others.",
        )


def _means_of_nobody(seen: list, own: Grads, world_size: int) -> list[tuple]:
    """What a rank that hears nothing returns."""
    if any(name == "allreduce" for name, _ in seen):
        code, fits = "SYNC-NO-WAIT", "a result that is read before it has arrived."
        finding, look = (
            "the sum is not waited for",
            "`async_op=True` gives back a work: what ends it?",
        )
    else:
        code, fits = "SYNC-LOCAL", "no collective at all."
        finding, look = "the ranks do not talk", "`dist.all_reduce`."
    return [(code, finding, [g / n for g in own], fits, look) for n in (world_size, 1)]


def _gradients(draw: Draw, world_size: int) -> tuple[list[Tensor], list[Grads]]:
    """Parameters, and by rank their gradients: whole numbers from -9 to 9, none of them 0."""

    def whole_numbers(shape) -> Tensor:
        return (draw.randint(1, 10, shape) * (2 * draw.randint(0, 2, shape) - 1)).float()

    return [whole_numbers(s) for s in SHAPES], [
        [whole_numbers(s) for s in SHAPES] for _ in range(world_size)
    ]


def _run(
    subject: Subject, params: list[Tensor], by_rank: list[Grads], probe: str = "sync"
) -> list[dict]:
    ranks = subject.run_ranks([(params, grads) for grads in by_rank], probe=PROBE + probe)
    return [rank.value for rank in ranks]


def _means(params: list[Tensor], by_rank: list[Grads]) -> list[Tensor]:
    return [
        sum((g for g in grads if g is not None), torch.zeros_like(p)) / len(by_rank)
        for p, *grads in zip(params, *by_rank, strict=True)
    ]


def _tensors(means, params: list[Tensor], tried: str) -> None:
    wanted = f"a list of {len(params)} tensors"
    expect.not_none(means, wanted, tried=tried)
    if not isinstance(means, (list, tuple)):
        raise Wrong(
            "TYPE",
            f"the answer returned a {type(means).__name__}",
            tried=tried,
            expected=wanted,
            got=str(means)[:60],
            look="what stands after `return`.",
        )
    if not _is_complete(means, len(params)):
        raise _left_out(tried, f"{sum(m is not None for m in means)} tensors")
    for i, (mean, p) in enumerate(zip(means, params, strict=False)):
        if not isinstance(mean, Tensor):
            raise Wrong(
                "TYPE",
                f"element {i} is a {type(mean).__name__}",
                tried=tried,
                expected=wanted,
                got=str(mean)[:60],
                look="what is appended.",
            )
        if mean.shape != p.shape:
            raise Wrong(
                "SHAPE",
                f"gradient {i} has another shape",
                tried=tried,
                expected=f"{tuple(p.shape)}",
                got=f"{tuple(mean.shape)}",
                look="the shape in which it travels, and the way back.",
            )
        if mean.dtype != p.dtype:
            raise Wrong(
                "DTYPE",
                f"gradient {i} is {mean.dtype}",
                tried=tried,
                expected=f"{p.dtype}",
                got=f"{mean.dtype}",
                hides="twice the bytes on the wire.",
                look="where tensors of two dtypes meet.",
            )


def _values(means: list[Tensor], expected: list[Tensor], tried: str, patterns=()) -> None:
    """`means` are `expected`; else `Wrong` with the first of `patterns` that fits."""
    if _are_equal(means, expected):
        return
    i = next(i for i, (m, e) in enumerate(zip(means, expected, strict=True)) if not _is_near(m, e))
    facts = dict(
        tried=tried,
        expected=f"gradient {i}: {vector(expected[i].reshape(-1))}",
        got=f"gradient {i}: {vector(means[i].reshape(-1))}",
    )
    for code, finding, value, fits, look in patterns:
        if _are_equal(means, value):
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong("OTHER", "the mean differs", look="one parameter at a time.", **facts)


def _refuse_unused(means, expected: list[Tensor], rank: int, tried: str) -> None:
    """Says what became of a parameter that a rank has not used."""
    if not isinstance(means, (list, tuple)) or not _is_complete(means, len(expected)):
        raise _left_out(tried, f"{len(means or ())} gradients on rank {rank}, some missing")
    i = next(i for i, (m, e) in enumerate(zip(means, expected, strict=True)) if not _is_near(m, e))
    facts = dict(
        tried=tried,
        expected=f"gradient {i}: {vector(expected[i].reshape(-1))}",
        got=f"gradient {i}: {vector(means[i].reshape(-1))}",
    )
    if _is_near(means[i], 2 * expected[i]):
        raise Wrong(
            "SYNC-USERS",
            "divided by the ranks that used the parameter",
            fits="a mean over the gradients that are not None.",
            hides="one process with the whole batch would divide by all rows.",
            look="the number that divides the sum.",
            **facts,
        )
    raise Wrong(
        "SYNC-UNUSED",
        "a rank without a gradient stays out of the sum",
        fits="no collective for a None: the next one meets another parameter's.",
        hides="here two parameters are added; with other shapes ranks hang, or abort.",
        look="what a rank without a gradient contributes.",
        **facts,
    )


def _left_out(tried: str, got: str) -> Wrong:
    return Wrong(
        "SYNC-UNUSED",
        "a parameter without a gradient is left out",
        tried=tried,
        expected="a mean for every parameter: None counts as zeros",
        got=got,
        hides="another rank may have used it, and waits for this one's part.",
        look="what happens where `grad is None`.",
    )


def _check_traffic(seen: list[tuple[str, int]], params: list[Tensor], tried: str) -> None:
    """All-reduces of the gradients' own bytes, and nothing else."""
    seen = [(name, b) for name, b in seen if name != "waits"]
    total, due = sum(b for _, b in seen), sum(p.nbytes for p in params)
    facts = dict(
        tried=tried,
        expected=f"all-reduces of {due} bytes together",
        got=", ".join(f"{name} {b}" for name, b in seen)[:70] or "no collective",
    )
    others = [name for name, _ in seen if name != "allreduce"]
    if others and total - sum(b for name, b in seen if name != "allreduce") < due:
        raise Wrong(
            "SYNC-GATHERS",
            "the right mean by another way",
            fits=f"{others[0]}.",
            hides="every rank receives and holds the gradients of all the others."
            if "gather" in others[0]
            else "",
            look="the collective that adds on the way.",
            **facts,
        )
    if others:
        raise Wrong(
            "SYNC-EXTRA",
            "another collective beside the all-reduces",
            fits=f"{others[0]}.",
            look="what is sent that is no gradient.",
            **facts,
        )
    if total != due:
        raise Wrong(
            "SYNC-BYTES",
            f"{number(total / due)} times the bytes are sent",
            fits="a second round, or a wider dtype."
            if total > due
            else "a parameter that takes no part, though another rank may have used it.",
            look="how often, and as what, each gradient travels.",
            **facts,
        )


def _is_complete(means: Sequence, num_params: int) -> bool:
    return len(means) >= num_params and all(mean is not None for mean in means)


def _are_equal(means: list[Tensor], expected: list[Tensor]) -> bool:
    return len(means) == len(expected) and all(map(_is_near, means, expected))


def _is_near(a: Tensor, b: Tensor) -> bool:
    # sums of whole numbers are exact; who divides first rounds each of four numbers up to 9 / 2
    step = torch.finfo(b.dtype).eps
    return a.shape == b.shape and torch.allclose(a.to(b.dtype), b, rtol=2 * step, atol=9 * step)


SUITES = (
    Suite(
        "ddp-sync",
        (
            one_process,
            two_ranks,
            unused_parameters,
            more_ranks,
            half_precision,
            groups,
            unused_in_half_precision,
            odd_gradients,
            separate_calls,
        ),
        tested="1 to 4 ranks, and groups of them, end with one gradient, whatever "
        "each of them used, and reduce each byte of it once.",
        remember="a collective that one rank leaves out meets that rank's next one.",
        next_step="divide before the all-reduce: which dtype would care?",
        ranks=4,
        limit_s=12.0,
    ),
)
