"""Checks of lesson 17: recompute_plan.

Oracle: all subsets of a few parts. The last check applies the answer's plan to a real model and
counts what it keeps. A list of positions is judged by what it costs, so any best plan passes.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.fast.recompute import half_blocks, loss_by_plan
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.memory import saved_bytes

PRESET = "activations:selective"


class Task:
    """What is kept, left and spent by part, and the budget; the answer's plan for it."""

    def __init__(
        self,
        subject: Subject,
        kept: Sequence[int],
        inputs: Sequence[int],
        flops: Sequence[int],
        budget: int,
    ):
        self.kept, self.inputs, self.flops, self.budget = kept, inputs, flops, budget
        self.parts = range(len(kept))
        kept_, inputs_, flops_ = map(_format_numbers, (kept, inputs, flops))
        self.tried = f"kept {kept_}, inputs {inputs_}, flops {flops_}, budget {budget:,}"
        try:
            out = subject.call(list(kept), list(inputs), list(flops), budget)
        except AnswerError as failure:
            fitting = self.fitting_plans()
            if not isinstance(failure.error, ValueError) or not fitting:
                raise
            some = list(min(fitting, key=self.cost))
            raise Wrong(
                "PLAN-REFUSED",
                "a budget into which a choice fits is refused",
                tried=self.tried,
                expected=f"{some}: {self.held_bytes(some):,} bytes, {self.cost(some):,} FLOPs",
                got=f"ValueError: {failure.error}"[:70],
                fits="a limit other than the least that any choice keeps.",
                look="what is compared with the budget: of each part, the smaller of two numbers.",
            ) from None
        self.plan = self._positions(out)

    def held_bytes(self, plan: Sequence[int]) -> int:
        """Bytes with the parts of `plan` recomputed."""
        return sum(self.inputs[i] if i in plan else self.kept[i] for i in self.parts)

    def cost(self, plan: Sequence[int]) -> int:
        """FLOPs of recomputing the parts of `plan`."""
        return sum(self.flops[i] for i in plan)

    def fitting_plans(self) -> list[tuple[int, ...]]:
        """Every plan within the budget."""
        return [
            some
            for r in range(len(self.parts) + 1)
            for some in itertools.combinations(self.parts, r)
            if self.held_bytes(some) <= self.budget
        ]

    def greedy_plan(self, *, by_cost: bool) -> list[int]:
        """Part after part until it fits: those that free most first, by themselves or per FLOP."""
        freed = [whole - left for whole, left in zip(self.kept, self.inputs, strict=True)]
        order = sorted(
            self.parts, key=lambda i: -freed[i] / (self.flops[i] or 1e-9 if by_cost else 1)
        )
        plan: list[int] = []
        for part in order:
            if self.held_bytes(plan) > self.budget:
                plan.append(part)
        return sorted(plan)

    def _positions(self, out: Any) -> list[int]:
        if out is None:
            raise Wrong(
                "NONE",
                "the answer returned None",
                tried=self.tried,
                got="None",
                expected="a list of positions",
                look="the last line: is there a `return`?",
            )
        is_list = isinstance(out, list) and all(
            isinstance(i, int) and not isinstance(i, bool) for i in out
        )
        if not is_list or sorted(set(out)) != out or not set(out) <= set(self.parts):
            raise Wrong(
                "PLAN-TYPE",
                "the plan is not a sorted list of positions",
                tried=self.tried,
                expected=f"a list of different ints from 0 to {len(self.kept) - 1}, sorted",
                got=f"{out!r}"[:70],
                look="positions, not bytes; each at most once.",
            )
        return out

    def describe_wrong(self, code: str, finding: str, expected: str, fits: str, look: str) -> Wrong:
        """The finding, with what this plan holds and costs."""
        got = f"{self.plan}: {self.held_bytes(self.plan):,} bytes, {self.cost(self.plan):,} FLOPs"
        return Wrong(
            code,
            finding,
            tried=self.tried,
            expected=expected,
            got=got,
            fits=fits,
            look=look,
            preset=PRESET,
        )

    def expect_best(self) -> None:
        """The plan fits, and none that fits is cheaper."""
        best = min(self.fitting_plans(), key=self.cost)
        cheap = self.cost(best)
        asked = f"{list(best)}: {self.held_bytes(best):,} bytes, {cheap:,} FLOPs"
        plan, rest = self.plan, [i for i in self.parts if i not in self.plan]
        if self.held_bytes(plan) <= self.budget and self.cost(plan) == cheap:
            return
        if self.held_bytes(plan) > self.budget and float(self.held_bytes(plan)) <= float(
            self.budget
        ):
            raise self.describe_wrong(
                "PLAN-FLOAT",
                "the plan is over the budget, by a few bytes of very many",
                asked,
                "bytes as floats, which leave out whole numbers above 2^53.",
                "what turns bytes into a float: `0.0`, `/`, a tensor.",
            )
        if plan and self.held_bytes(rest) <= self.budget and self.cost(rest) == cheap:
            raise self.describe_wrong(
                "PLAN-INVERTED",
                "the plan names what to keep",
                asked,
                "the other parts would be the best plan.",
                "the docstring: the parts to recompute.",
            )
        if self.held_bytes(plan) > self.budget:
            if self.held_bytes(plan) - sum(self.inputs[i] for i in plan) <= self.budget:
                raise self.describe_wrong(
                    "PLAN-INPUTS",
                    "the plan is over the budget",
                    asked,
                    "a recomputed part that keeps nothing at all.",
                    "where would its recomputation start from?",
                )
            raise self.describe_wrong(
                "PLAN-OVER",
                "the plan is over the budget",
                asked,
                "",
                "the sum over all parts: kept, or the input.",
            )
        if float(self.cost(plan)) == float(cheap):
            raise self.describe_wrong(
                "PLAN-FLOAT",
                "two different costs are taken for one",
                asked,
                "costs as floats, which leave out whole numbers above 2^53.",
                "what turns a cost into a float: `0.0`, `/`, `math.inf` as the first best.",
            )
        raise self._explain_cost(asked)

    def _explain_cost(self, asked: str) -> Wrong:
        plan = self.plan
        if plan == list(self.parts):
            return self.describe_wrong(
                "PLAN-ALL",
                "everything is recomputed",
                asked,
                "all parts.",
                "which parts could stay?",
            )
        if plan == self.greedy_plan(by_cost=False):
            return self.describe_wrong(
                "PLAN-LARGEST",
                "a cheaper plan fits",
                asked,
                "the part that frees most bytes first, whatever it costs.",
                "`flops`: what has to be least?",
            )
        if plan == self.greedy_plan(by_cost=True):
            return self.describe_wrong(
                "PLAN-RATIO",
                "a cheaper plan fits",
                asked,
                "the part that frees most bytes per FLOP first, until it fits.",
                "the last part taken: is it more than is needed?",
            )
        below = [p for p in self.fitting_plans() if self.held_bytes(p) < self.budget]
        if tuple(plan) in below and self.cost(plan) == min(map(self.cost, below)):
            return self.describe_wrong(
                "PLAN-EQUAL",
                "a cheaper plan fits, to the byte",
                asked,
                "the cheapest of the plans that are below the budget.",
                "the docstring: at most `budget`.",
            )
        if self.held_bytes(plan) == max(map(self.held_bytes, self.fitting_plans())):
            return self.describe_wrong(
                "PLAN-TIGHT",
                "a cheaper plan fits",
                asked,
                "the plan that fills the budget best.",
                "the docstring: which sum has to be least?",
            )
        return self.describe_wrong(
            "PLAN-DEAR", "a cheaper plan fits", asked, "", "compare FLOPs over all plans that fit."
        )


def nothing_to_do(subject: Subject, draw: Draw) -> None:
    """A budget that holds everything, to the byte."""
    kept, inputs = [40, 30, 20], [4, 4, 4]
    more = sum(kept) + draw.size(10, 20)
    for budget, flops in (
        (more, [7, 5, 3]),
        (sum(kept), [7, 5, 3]),
    ):
        task = Task(subject, kept, inputs, flops, budget)
        if task.plan:
            code, fits = ("PLAN-EQUAL", "a plan that must be below the budget.")
            if budget > sum(kept):
                code, fits = "PLAN-NEEDLESS", "parts that are recomputed always."
            raise task.describe_wrong(
                code,
                "a part is recomputed though all of them fit",
                f"[]: {sum(kept)} bytes",
                fits,
                "the docstring: at most `budget`.",
            )


def cheap_before_large(subject: Subject, draw: Draw) -> None:
    """One dear part frees enough; two cheap ones do too."""
    step = draw.size(1, 3)
    flops = [90 * step, 10 * step, 11 * step, 40 * step]
    Task(subject, [70, 34, 34, 30], [4] * 4, flops, 114).expect_best()


def inputs_stay(subject: Subject, draw: Draw) -> None:
    """The input of a recomputed part still counts."""
    Task(subject, [30, 30, 30], [10, 10, 10], [5, 6, draw.size(8, 9)], 65).expect_best()


def just_enough(subject: Subject, draw: Draw) -> None:
    """Most bytes per FLOP is not the least FLOPs."""
    Task(subject, [43, 63, 33, 55], [3] * 4, [10, draw.size(20, 21), 9, 17], 144).expect_best()


def equal_parts(subject: Subject, draw: Draw) -> None:
    """Blocks are alike: two of seven equal parts are two, and fill the budget to the byte."""
    kept, left = draw.size(30, 36), 10  # seven: three and the other four cost different sums
    Task(subject, [kept] * 7, [left] * 7, [7] * 7, 5 * kept + 2 * left).expect_best()


def to_the_byte(subject: Subject, draw: Draw) -> None:
    """Gigabytes, where the cheapest part frees two bytes too few, and one of two FLOPs decides."""
    first = 2**33 + draw.size(1, 5, 9)
    kept, inputs = [first, first + 2, first + 4], [1, 1, 1]
    flops = [1, 2**45 + 1, 2**45]
    Task(subject, kept, inputs, flops, sum(kept) - kept[1] + inputs[1]).expect_best()


def free_parts(subject: Subject, draw: Draw) -> None:
    """Parts whose recomputation costs 0 FLOPs, and parts that keep no input."""
    more = draw.size(3, 5)
    for kept, inputs, flops, budget in (
        ([30, 40, 50], [2, 2, 2], [0, 6, more], 60),
        ([30, 40, 50], [2, 2, 2], [9, 0, more], 82),
        ([30, 40, 50], [2, 2, 2], [0, 0, 0], 6),
        ([30, 40, 50], [0, 0, 0], [4, 5, 6], 0),
        ([30, 40], [30, 4], [0, more], 34),  # the first frees nothing
    ):
        Task(subject, kept, inputs, flops, budget).expect_best()
    for kept, inputs, flops in (
        ([5], [1], [0]),
        ([30, 40], [2, 2], [0, more]),
        ([30, 40], [2, 2], [more, 0]),
        ([30, 40, 50], [2, 0, 2], [0, 0, 0]),
        ([30, 40, 50, 60], [2, 2, 70, 2], [more, 0, 0, 0]),
        ([30, 0, 50, 60, 5], [2, 0, 2, 2, 5], [0, 0, more, 0, 0]),
        ([30] * 12, [0] * 12, [0] * 12),
    ):
        for budget in (sum(kept), sum(kept) + 3, 9 * sum(kept)):
            task = Task(subject, kept, inputs, flops, budget)
            if task.plan:
                raise task.describe_wrong(
                    "PLAN-NEEDLESS",
                    "a part is recomputed though all of them fit",
                    f"[]: {sum(kept)} bytes",
                    "a part that costs 0 FLOPs is recomputed all the same.",
                    "the docstring: [] when nothing needs to be recomputed.",
                )


def equal_costs(subject: Subject, draw: Draw) -> None:
    """Parts that cost the same free different bytes: only the middle one frees enough."""
    cost = draw.size(5, 8)
    Task(subject, [20, 40, 30], [2, 2, 2], [cost] * 3, 55).expect_best()
    Task(subject, [20, 40, 30, 25], [2, 2, 2, 2], [cost, 2 * cost, cost, cost], 77).expect_best()


def every_digit(subject: Subject, draw: Draw) -> None:
    """Numbers of up to 62 bits, of which a float64 holds 53: one FLOP or one byte decides."""
    one = 2**60 + 2 * draw.size(0, 3, 8)
    for kept, inputs, flops, budget in (
        ([20, 20, 5], [2, 2, 2], [one + 1, one, 2**61], 27),
        ([20, 20, 5], [2, 2, 2], [one, one + 1, 2**61], 27),
        ([20, 30, 5], [2, 2, 2], [one, one + 1, 2**61], 37),
        ([20, 30, 5], [2, 2, 2], [one + 1, one, 2**61], 37),
        # one part, or the other two together
        ([40, 20, 20], [1, 1, 1], [2**54, 2**53, 2**53 + 1], 43),
        ([40, 20, 20], [1, 1, 1], [2**54 + 2, 2**53, 2**53 + 1], 43),
        ([20, 40, 20], [1, 1, 1], [2**53 + 1, 2**54, 2**53], 43),
        ([20, 40, 20], [1, 1, 1], [2**53 + 1, 2**54 + 2, 2**53], 43),
        # the cheap one frees a byte too few
        ([one + 2, one + 1], [1, 1], [3, 2], one + 2),
        ([one + 1, one + 2], [1, 1], [2, 3], one + 2),
    ):
        Task(subject, kept, inputs, flops, budget).expect_best()


def few_and_many(subject: Subject, draw: Draw) -> None:
    """No part, one, and twelve, most of which must go."""
    for budget in (0, 10):
        Task(subject, [], [], [], budget).expect_best()
    Task(subject, [9], [2], [draw.size(4, 7)], 2).expect_best()
    kept, inputs = draw.randint(20, 40, (12,)).tolist(), draw.randint(1, 5, (12,)).tolist()
    budget = (sum(kept) + 3 * sum(inputs)) // 4
    Task(subject, kept, inputs, draw.randint(2, 60, (12,)).tolist(), budget).expect_best()


def any_number(subject: Subject, draw: Draw) -> None:
    """Up to twelve parts, where the best two choices are not those of a rule of thumb."""
    for n in range(3, 13):
        at = int(draw.randint(0, n, ()))
        for first, second, rest, freed in (  # what a part keeps, and its FLOPs; inputs are 1
            # most bytes per FLOP first takes the first, and then needs the second all the same
            ((5, 1), (11, 5), (2, 10), 10),
            # the largest first takes the first, which is dearer than the second and another
            ((13, 50), (7, 3), (8, 5), 12),
        ):
            rows = [first, second, *[rest] * (n - 2)]
            kept, flops = map(list, zip(*rows[at:], *rows[:at], strict=True))
            Task(subject, kept, [1] * n, flops, sum(kept) - freed).expect_best()


def any_sizes(subject: Subject, draw: Draw) -> None:
    """Small tasks with drawn numbers; the input of one part is larger than what it keeps."""
    for _ in range(6):
        inputs = draw.randint(1, 5, (6,)).tolist()
        kept = [
            i + extra for i, extra in zip(inputs, draw.randint(3, 40, (6,)).tolist(), strict=True)
        ]
        inputs[0] += kept[0]  # more than it keeps: recomputing it frees nothing
        budget = (sum(inputs[1:]) + kept[0] + sum(kept)) // 2
        Task(subject, kept, inputs, draw.randint(2, 60, (6,)).tolist(), budget).expect_best()
    for budget in (84, 38):  # with every part recomputed they are 98 bytes; 38 is the least
        Task(subject, [30, 40, 50], [90, 4, 4], [5, 6, 7], budget).expect_best()


def too_little(subject: Subject, draw: Draw) -> None:
    """Less than the inputs alone: ValueError; exactly them: everything."""
    kept, inputs, flops = [40, 30, 20], [4, 5, 6], [7, 5, 3]
    Task(subject, kept, inputs, flops, 15).expect_best()
    facts = dict(
        tried=f"inputs {inputs}, budget 14",
        expected="a ValueError: nothing fits",
        look="the end of the docstring.",
    )
    try:
        out = subject.call(kept, inputs, flops, 14)
    except AnswerError as failure:
        if isinstance(failure.error, ValueError):
            return
        got = f"{type(failure.error).__name__}: {failure.error}"[:70]
        raise Wrong(
            "PLAN-NEVER", "a budget below the inputs fails with another error", got=got, **facts
        ) from None
    raise Wrong("PLAN-NEVER", "a budget below the inputs is accepted", got=f"{out!r}"[:60], **facts)


def on_a_real_model(subject: Subject, draw: Draw) -> None:
    """The half blocks of a small GPT: what the plan leaves, counted by autograd."""
    config = GPTConfig(
        vocab_size=32,
        max_seq_len=16,
        num_layers=3,
        num_heads=2,
        d_model=16,
        d_hidden=44,
        fast_attention=False,
    )
    kept, inputs, flops = half_blocks(config, 2, 16)
    budget = (sum(kept) * 2 + sum(inputs)) // 3
    task = Task(subject, kept, inputs, flops, budget)
    task.expect_best()
    model, tokens = GPT(config), torch.zeros(2, 16, dtype=torch.long)
    before, after = (
        saved_bytes(lambda p=p: loss_by_plan(model, tokens, tokens.clone(), p))
        for p in ((), task.plan)
    )
    if sum(kept) - (before - after) > budget:
        raise task.describe_wrong(
            "PLAN-OVER",
            "the model keeps more than the budget",
            f"at most {budget:,} bytes",
            "",
            "the sum over all parts.",
        )


def _format_numbers(numbers: Sequence[int]) -> str:
    return (
        "[" + ", ".join(map(str, numbers)) + "]"
        if max(numbers, default=0) < 1000 or len(numbers) < 4
        else f"{len(numbers)} numbers"
    )


SUITES = (
    Suite(
        "checkpoint-policy",
        (
            nothing_to_do,
            cheap_before_large,
            inputs_stay,
            just_enough,
            equal_parts,
            to_the_byte,
            free_parts,
            equal_costs,
            every_digit,
            any_sizes,
            any_number,
            few_and_many,
            too_little,
            on_a_real_model,
        ),
        tested="within the budget at the least FLOPs, against all subsets and on a real model.",
        remember="recomputing all blocks costs one more forward pass of them: 4/3 of their FLOPs.",
        next_step="which half of a block does your plan prefer, with explicit and fused attention?",
        loads=(DYNAMO,),
    ),
)
