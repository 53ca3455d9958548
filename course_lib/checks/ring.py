"""What the checks of both rings share: several ranks asked at once, and what they send and hold.

Probes stand in probes/ring.py; there a worker of the judge can import them too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw

PROBE = "course_lib.probes.ring:"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Those of two calls in turn: what is kept from the first may be a copy in 16 bits alone."""


@dataclass(frozen=True)
class Done:
    """What one call did on one rank; the fields are told in `ring.calls`."""

    value: Any
    same: bool
    own: bool
    kept: int
    peak: int
    seen: list
    receivers: list

    @property
    def sends(self) -> list[int]:
        """Bytes of each send."""
        return [num_bytes for name, num_bytes in self.seen if name == "send"]


def on_ranks(subject: Subject, inputs_by_rank: Sequence[Sequence[Tensor]]) -> list[list[Done]]:
    """Case by case, then by rank, what the answer does with each input."""
    given = [(list(inputs),) for inputs in inputs_by_rank]
    ranks = subject.run_ranks(given, probe=PROBE + "calls")
    cases = zip(*(rank.value for rank in ranks), strict=True)
    return [[Done(**found) for found in case] for case in cases]


def in_pairs(subject: Subject, inputs: Sequence[Tensor]) -> list[Done]:
    """By rank, what the answer does in a group: 0 and 2 are one, 1 and 3 another."""
    ranks = subject.run_ranks([(x,) for x in inputs], probe=PROBE + "in_pairs")
    return [Done(**rank.value[0]) for rank in ranks]


def close(found: Tensor, parts: Sequence[Tensor]) -> bool:
    """Whether `found` is the sum of the parts in some order. Each of the R - 1 additions rounds once,
    by at most half an eps of what has been summed so far: (R - 1) / 2 eps sum |part| in one order,
    twice that between two. Whole numbers are exact."""
    if not found.is_floating_point():
        return torch.equal(found, sum(parts))
    exact, size = sum(p.double() for p in parts), sum(p.double().abs() for p in parts)
    eps = torch.finfo(found.dtype).eps
    return bool(((found.double() - exact).abs() <= (len(parts) - 1) * eps * size).all())


def refuse_changed(done: Sequence[Done], tried: str) -> None:
    """`Wrong` when a rank's input is another one afterwards, or lives on in the result."""
    if not all(d.same for d in done):
        raise Wrong(
            "INPLACE",
            "the input was changed in place",
            tried=tried,
            expected="the input is the same after the call as before it",
            got="it holds other numbers on "
            + ", ".join(f"rank {r}" for r, d in enumerate(done) if not d.same),
            hides="gradients that were to stay this rank's own are lost.",
            fits="sums or shards written into views of the input.",
            look="`+=`, `add_`, `copy_`: into whose memory?",
        )
    if not all(d.own for d in done):
        raise Wrong(
            "RING-ALIAS",
            "the result is the input itself",
            tried=tried,
            expected="a new tensor, whose change changes no input",
            got="a result that shares its memory with the input",
            hides="on one rank alone: code that works there breaks on two.",
            look="what is returned when there is only one rank.",
        )


def any_layout(
    subject: Subject, draw: Draw, rows: int, right: Callable[[Sequence[Tensor]], Sequence[Tensor]]
) -> None:
    """Two ranks, matrices of `rows` rows that are not contiguous, twice, in float32 and in 16 bits:
    each result is right, the first also after the second call. `right`: the results by rank for the
    inputs by rank."""
    tried = f"2 ranks, a matrix of {rows} x 3, the transpose of one in memory"
    numbers = [[draw.randint(-9, 10, (rows, 3)) for _ in range(2)] for _ in range(2)]
    cases = [[x.to(dtype) for x in inputs] for dtype in DTYPES for inputs in numbers]
    facts = dict(
        tried=tried,
        expected="what the same numbers in one piece give",
        hides="a gradient lies in memory as its product was computed, often transposed.",
    )
    try:
        ranks = subject.run_ranks(
            [(list(given),) for given in zip(*cases, strict=True)], probe=PROBE + "laid_out_anew"
        )
    except AnswerError as failure:
        text = f"{failure.error}"
        if not any(word in text for word in ("contiguous", "stride")):
            raise
        raise Wrong(
            "STRIDED",
            "a tensor that is not contiguous raises",
            got=text[:76],
            look="`pass_on` and `reshape` copy where they have to; `view` and `isend` do not.",
            **facts,
        ) from None
    wanted = [right(inputs) for inputs in cases]  # small whole numbers: exact in 16 bits
    for i, dtype in enumerate(DTYPES):
        for rank, found in enumerate(ranks):
            first, second = found.value[2 * i : 2 * i + 2]
            rights = [wanted[2 * i + call][rank] for call in range(2)]
            if dtype != torch.float32:
                for value in (first, second):
                    expect.tensor(
                        value, shape=rights[0].shape, dtype=dtype, tried=f"{tried}, {dtype}"
                    )
            if _is(second, rights[1]) and _is(first, rights[0]):
                continue
            if _is(first, rights[1]):
                raise Wrong(
                    "RESULT-CHANGES",
                    "a result changes when the answer is called again",
                    tried="two calls with tensors of one shape",
                    expected="a new tensor from each call",
                    got="the first result holds the numbers of the second",
                    look="a tensor that is kept from call to call.",
                )
            if _is(first, rights[0]):
                raise Wrong(
                    "REMEMBERS",
                    "a second call with tensors of one shape is wrong",
                    tried=f"{tried}, then another one, {dtype}",
                    expected=f"rank {rank}: {vector(rights[1].flatten(), 3)}",
                    got=f"rank {rank}: {vector(second.flatten(), 3)}"
                    if isinstance(second, Tensor)
                    else type(second).__name__,
                    fits="something kept from the first call.",
                    look="what is stored outside the call, by `cache`, or in a default argument.",
                )
            raise Wrong(
                "STRIDED",
                "a tensor that is not contiguous gives other numbers",
                got="other numbers",
                fits="the memory read in its own order, not in that of the indices.",
                look="`as_strided`, `data_ptr`, and what is sent without `pass_on`.",
                **facts,
            )


def _is(found: Any, right: Tensor) -> bool:
    return isinstance(found, Tensor) and found.dtype == right.dtype and torch.equal(found, right)


def messages(done: Sequence[Done], each: int, tried: str) -> None:
    """R - 1 sends of `each` bytes from every rank to the next, and no other collective."""
    R = len(done)
    other = [(n, b) for d in done for n, b in d.seen if n not in ("send", "recv")]
    right = f"every rank sends {R - 1} messages of {each} bytes to the next"
    facts = dict(tried=tried, expected=right)
    if other:
        name, num_bytes = other[0]
        raise Wrong(
            "RING-COLLECTIVE",
            "another collective does the work",
            **facts,
            got=f"{name}, of {num_bytes} bytes",
            hides="the result is right; the ring is what is asked for here.",
            look="every call of `dist`: `pass_on` is enough.",
        )
    sums = [sum(d.sends) for d in done]
    if len(set(sums)) > 1:
        raise Wrong(
            "RING-ROOT",
            "one rank carries more than the others",
            **facts,
            got=f"bytes sent by rank: {sums}",
            fits="a root, through which all passes.",
            hides="the time of all is that of the busiest link.",
            look="what stands under `if rank == ...`.",
        )
    if any(b != (r + 1) % R for r, d in enumerate(done) for b in d.receivers):
        raise Wrong(
            "RING-NEIGHBOUR",
            "messages go to other ranks than the next",
            **facts,
            got=f"rank 0 sends to {done[0].receivers}, of {R} ranks",
            fits="each pair of ranks talks directly, or the ring turns the other way.",
            look="to whom `pass_on` sends.",
        )
    _bytes(done, each, facts)


def _bytes(done: Sequence[Done], each: int, facts: dict) -> None:
    R, sends = len(done), done[0].sends
    if sends == [each] * (R - 1):
        return
    total, due = sum(sends), each * (R - 1)
    facts["got"] = f"rank 0 sends {sends}: {total} bytes, {number(total / due)} times as many"
    if len(sends) != R - 1 and set(sends) <= {each}:
        raise Wrong("RING-STEPS", "another number of steps", **facts, look="the range of the loop.")
    finding = "too much is sent" if total > due else "messages of another size"
    raise Wrong(
        "RING-BYTES",
        finding,
        **facts,
        fits="the whole tensor in a step, all that has been gathered so far, or a wider dtype."
        if total > due
        else "",
        hides="the result is right, and the ring has lost what it is for.",
        look="the argument of `pass_on`: one chunk.",
    )


def refuse_other_group(done: Done, right: Tensor, rank: int, tried: str) -> None:
    """`Wrong` when the result is not that of the group."""
    if isinstance(done.value, Tensor) and done.value.tolist() == right.tolist():
        return
    value = done.value
    got = vector(value.flatten()) if isinstance(value, Tensor) else type(value).__name__
    raise Wrong(
        "RING-GROUP",
        "the group is not the one that was given",
        tried=tried,
        expected=f"rank {rank}: {vector(right)}",
        got=f"rank {rank}: {got}",
        fits="calls without `group`: they mean all ranks.",
        look="`place`, `pass_on`: both take the group.",
    )


def keeps_the_result_alone(done: Sequence[Done], num_bytes: int, tried: str) -> None:
    """The memory behind the result is the result's."""
    if (most := max(d.kept for d in done)) > num_bytes:
        raise Wrong(
            "RING-KEEPS",
            "more than the result stays in memory",
            tried=tried,
            expected=f"a result of {num_bytes} bytes",
            got=f"{most} bytes kept alive",
            fits="a view: it keeps the whole tensor that it looks into.",
            look="whether the result is a tensor of its own.",
        )


def refuses(subject: Subject, inputs: Sequence[Tensor], wrong: Callable[[str], Wrong]) -> None:
    """The answer raises ValueError for these inputs, on every rank; else `wrong(what it did)`."""
    try:
        ranks = subject.run_ranks([(x,) for x in inputs], probe=PROBE + "refusal")
        found = [tuple(rank.value) for rank in ranks]
    except AnswerError as failure:
        if isinstance(failure.error, NotImplementedError):
            raise
        raise wrong(f"{type(failure.error).__name__}: {failure.error}"[:70]) from None
    except Wrong:  # some ranks wait for others
        raise wrong("ranks that wait for each other") from None
    for kind, text in found:
        if kind != "ValueError":
            raise wrong(f"{kind}: {text}" if kind else "no error")
