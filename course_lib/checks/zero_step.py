"""Checks of lesson 22: zero1_step, on 1 to 4 ranks.

Oracle: one process with all weights (zero_mistakes.py). Beside the values they look at what each rank
holds and sends: an update that shards nothing has the right values.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks import zero_mistakes as mistakes
from course_lib.checks.adamw_formula import expect_spread
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.checks.zero_mistakes import DEFAULT_EPS, SETTINGS, STATE, UpdateCase, case
from course_lib.ranks.traffic import sent_bytes

RESULTS = ("weights", *STATE)
HARMLESS = {"reduce_scatter", "allgather", "send", "recv", "barrier"}
# a dozen float32 operations of 6e-8 each; moves of lr = 0.01 beside weights near 1
CLOSE = dict(rtol=1e-5, atol=1e-6)


def _run(subject: Subject, cases: Sequence[UpdateCase], probe: str = "updates") -> list[list[dict]]:
    """What each case gave, by case and then by rank."""
    ranks = cases[0].ranks
    given = [([(c.inputs(rank), SETTINGS) for c in cases],) for rank in range(ranks)]
    found = subject.run_ranks(given, probe=f"course_lib.probes.zero:{probe}")
    return [[rank.value[i] for rank in found] for i in range(len(cases))]


def _form(c: UpdateCase, found: list[dict], tried: str, finite: bool = True) -> None:
    """Four tensors from every rank: all weights in the gradient's dtype, three float32 shards."""
    for rank, one in enumerate(found):
        out, at = one["out"], f"{tried}; rank {rank}"
        _expect_four(out, at)
        for name, value in zip(STATE, out[1:], strict=True):
            _one_shard(c, name, value, at)
        if one["held"] > 12 * c.shard:
            raise Wrong(
                "ZERO1-WHOLE-STATE",
                "the shards keep something larger alive",
                tried=at,
                expected=f"{12 * c.shard} bytes behind master, m and v",
                got=f"{one['held']} bytes",
                fits="shards that are views of a whole vector.",
                look="where a slice is returned.",
            )
        _all_weights(c, out[0], at, finite)
        if one["changed"]:
            raise Wrong(
                "INPLACE",
                f"{one['changed'][0]} was changed in place",
                tried=at,
                expected="arguments that stay as they are",
                got=f"other numbers in {', '.join(one['changed'])}",
                look="methods that end in an underscore, `+=`, collectives that write into\n"
                "their argument.",
            )


def _expect_four(out, tried: str) -> None:
    wanted = "(weights, master, m, v)"
    expect.not_none(out, wanted, tried=tried)
    if not isinstance(out, (tuple, list)) or len(out) != 4:
        got = (
            f"{len(out)} values" if isinstance(out, (tuple, list)) else f"type {type(out).__name__}"
        )
        raise Wrong(
            "ZERO1-FOUR",
            "the answer is not four tensors",
            tried=tried,
            expected=wanted,
            got=got,
            look="what stands after `return`.",
        )
    for name, value in zip(RESULTS, out, strict=True):
        if not isinstance(value, Tensor):
            raise Wrong(
                "TYPE",
                f"{name} is no tensor",
                tried=tried,
                expected=wanted,
                got=f"{name}: type {type(value).__name__}",
                look="what stands after `return`.",
            )


def _one_shard(c: UpdateCase, name: str, value: Tensor, tried: str) -> None:
    facts = dict(
        tried=tried,
        expected=f"{name}: {c.shard} numbers, {4 * c.shard} bytes",
        got=f"{name}: shape {tuple(value.shape)}, {value.nbytes} bytes",
    )
    if c.ranks > 1 and value.numel() >= c.size:
        raise Wrong(
            "ZERO1-WHOLE-STATE",
            f"every rank holds all of {name}",
            **facts,
            fits="optimizer state that is not sharded.",
            preset="zero:one",
            hides="the right weights, and no byte saved.",
            look="what comes back besides the weights.",
        )
    if tuple(value.shape) != (c.shard,):
        raise Wrong(
            "SHAPE",
            f"the shape of {name} is another one",
            **facts,
            look="which numbers this rank updates.",
        )
    if value.dtype != torch.float32:
        raise Wrong(
            "ZERO1-STATE-16",
            f"{name} is not kept in float32",
            **facts,
            hides="updates smaller than the rounding of 16 bits would be lost.",
            look="which tensor is cast, and which one is returned.",
        )


def _all_weights(c: UpdateCase, weights: Tensor, tried: str, finite: bool) -> None:
    dtype = c.grads[0].dtype
    facts = dict(
        tried=tried,
        expected=f"all {c.size} new weights",
        got=f"weights of shape {tuple(weights.shape)}",
    )
    if tuple(weights.shape) != (c.size,):
        if weights.numel() == c.ranks * c.shard:
            raise Wrong(
                "ZERO1-PADDING",
                "the padding is still among the weights",
                **facts,
                fits=f"{c.ranks} shards of {c.shard}, end to end.",
                look="how many of the gathered numbers are weights.",
            )
        if weights.numel() == c.shard:
            raise Wrong(
                "ZERO1-NOT-GATHERED",
                "a rank gets its own weights alone",
                **facts,
                look="the last step: what do the other ranks know that this one needs?",
            )
    at = f"{tried}; the weights"
    expect.tensor(weights, shape=(c.size,), dtype=dtype, tried=at, finite=finite)


def _values(c: UpdateCase, found: list[dict], tried: str) -> None:
    """The moments first: they show a gradient that is too long, which AdamW's step hides."""
    for rank, one in enumerate(found):
        weights, *shards = one["out"]
        at = f"{tried}; rank {rank}"
        for name, value in zip(STATE, shards, strict=True):
            expect.not_finite(value, tried=f"{at}; {name}")
        m, v, master = shards[1], shards[2], shards[0]
        expect.values(
            m,
            c.cut(c.after["m"], rank),
            mistakes.gradients(c, rank),
            **CLOSE,
            tried=f"{at}; m",
            finding="m differs",
            look="the gradient that reaches AdamW.",
        )
        expect.values(
            v,
            c.cut(c.after["v"], rank),
            mistakes.old_state(c, rank, "v"),
            **CLOSE,
            tried=f"{at}; v",
            finding="v differs",
            look="what AdamW gets for v.",
        )
        expect.values(
            master,
            c.cut(c.after["master"], rank),
            mistakes.masters(c, rank),
            **CLOSE,
            tried=f"{at}; master",
            finding="the new master differs",
            look="what AdamW gets: step number, rate, decay, eps.",
        )
        near = CLOSE if weights.itemsize >= 4 else dict(rtol=2**-8, atol=1e-6)  # 8 bits
        expect.values(
            weights.float(),
            c.after["master"],
            mistakes.gathered_weights(c, rank),
            **near,
            tried=f"{at}; weights",
            finding="the new weights differ",
            look="what is gathered, and in which order.",
        )


def _traffic(c: UpdateCase, found: list[dict], tried: str) -> None:
    """One reduce-scatter and one all-gather's worth of bytes, in the gradient's dtype."""
    size, R = c.grads[0].element_size(), c.ranks
    padded = R * c.shard * size
    right = sent_bytes([("reduce_scatter", padded), ("allgather", padded)], R)
    for rank, one in enumerate(found):
        seen = one["seen"]
        sent, names = sent_bytes(seen, R), {name for name, _ in seen}
        if names <= HARMLESS and abs(sent - right) < 0.5:
            continue
        facts = dict(
            tried=f"{tried}; rank {rank}",
            expected=f"{right:.0f} bytes sent: reduce_scatter {padded}, allgather {padded}",
            got=f"{sent:.0f} bytes sent: {_format_traffic(seen)}",
        )
        raise mistakes.traffic(seen, padded, size, **facts)


def _format_traffic(seen: list) -> str:
    return ", ".join(f"{name} {num_bytes}" for name, num_bytes in seen[:4])[:60] or "none"


def four_results(subject: Subject, draw: Draw) -> None:
    """Two ranks: all weights and three shards come back, and every input stays as it is."""
    c = case(draw, 2, draw.size(8, 12, 16))
    _form(c, _run(subject, [c])[0], c.tried)


def one_process(subject: Subject, draw: Draw) -> None:
    """Two ranks, updates 1 and 3: moments, master and weights as one process has them."""
    size = draw.size(8, 12, 16)  # of both: what is kept by shape, and used again, shows
    cases = [case(draw, 2, size, step) for step in (1, 3)]
    for c, found in zip(cases, _run(subject, cases), strict=True):
        _form(c, found, c.tried)
        _values(c, found, c.tried)


def four_ranks(subject: Subject, draw: Draw) -> None:
    """Four ranks: the values again, and what each sends."""
    c = case(draw, 4, draw.size(8, 12, 16), 3)
    (found,) = _run(subject, [c])
    _form(c, found, c.tried)
    _values(c, found, c.tried)
    _traffic(c, found, c.tried)


def other_dtypes(subject: Subject, draw: Draw) -> None:
    """Models in 16 or 64 bits: so many travel, both ways, and 32 are kept."""
    dtypes = (torch.bfloat16, torch.float16, torch.float64)
    cases = [case(draw, 2, draw.size(8, 12, 16), 3, dtype) for dtype in dtypes]
    for c, found in zip(cases, _run(subject, cases), strict=True):
        _form(c, found, c.tried)
        _values(c, found, c.tried)
        _traffic(c, found, c.tried)


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """Two ranks: a second call of the same shapes, step and settings is an update of its own."""
    size, dtypes = draw.size(8, 12, 16), (torch.float32, torch.bfloat16, torch.float16)
    cases = [case(draw, 2, size, 3, dtype) for dtype in dtypes for _ in range(2)]
    for i, (c, found) in enumerate(zip(cases, _run(subject, cases), strict=True)):
        _form(c, found, c.tried)
        try:
            _values(c, found, c.tried)
        except Wrong as wrong:
            if i % 2 == 0:
                raise
            rows = dict(wrong.rows)
            raise Wrong(
                "REMEMBERS",
                "a second call of the same shapes is wrong",
                tried=f"{rows['Tried']}, after a call with other numbers",
                expected=rows["Expected"],
                got=rows["Got"],
                fits="something kept from the first call.",
                look="what is stored outside the call, by `cache`, or in a default argument.",
            ) from None


def three_ranks(subject: Subject, draw: Draw) -> None:
    """Three ranks divide nothing: the last shards are padded, and one may be padding alone."""
    cases = [case(draw, 3, draw.size(10, 11, 13), 3), case(draw, 3, 4)]
    try:
        results = _run(subject, cases)
    except AnswerError as failure:
        raise Wrong(
            "ZERO1-PAD",
            "a number of ranks that divides nothing fails",
            tried=cases[0].tried,
            expected=f"shards of {cases[0].shard}, the last one padded",
            got=f"{failure.error}"[:120],
            look="how long the gradient is when it is cut into equal parts.",
        ) from None
    for c, found in zip(cases, results, strict=True):
        _form(c, found, c.tried)
        _values(c, found, c.tried)
        _traffic(c, found, c.tried)


def thirds(subject: Subject, draw: Draw) -> None:
    """Three ranks, 16 bits: no third of these sums is a 16-bit number, so the division rounds."""
    for dtype in (torch.bfloat16, torch.float16):
        drawn = case(draw, 3, draw.size(8, 12, 16), 1, dtype)
        g = drawn.grads[0]
        c = UpdateCase([g, g, g + 0.25], drawn.whole, 1)  # 3 g + 1/4: never a multiple of 3/4
        (found,) = _run(subject, [c])
        _form(c, found, c.tried)
        _values(c, found, c.tried)


def settings_of_each_call(subject: Subject, draw: Draw) -> None:
    """Two ranks, three calls: settings may differ from call to call, and 0 is one too."""
    usual, other = (case(draw, 2, 8, 3) for _ in range(2))
    tiny = [1e-8 * g.abs() for g in case(draw, 2, 8).grads]  # beside them an eps of 1e-8 shows
    small = UpdateCase(tiny, case(draw, 2, 8).whole, 1)
    changes = SETTINGS | dict(lr=0.02, betas=(0.0, 0.5), weight_decay=0.0)
    calls = [(usual, SETTINGS), (other, changes), (small, SETTINGS | dict(eps=0.0))]
    given = [([(c.inputs(rank), settings) for c, settings in calls],) for rank in range(2)]
    found = subject.run_ranks(given, probe="course_lib.probes.zero:updates")
    for number, (c, settings) in enumerate(calls[1:], 1):
        tried = f"{c.tried}, after another call; {_show_settings(settings)}"
        _form(c, [rank.value[number] for rank in found], tried)
        expected = _update_whole(c, settings)
        for rank, one in enumerate(found):
            for name, value in zip(STATE, one.value[number]["out"][1:], strict=True):
                right = c.cut(expected[name], rank)
                if torch.allclose(value, right, **CLOSE):
                    continue
                same = torch.allclose(value, c.cut(c.after[name], rank), **CLOSE)
                raise Wrong(
                    "ZERO1-SETTINGS",
                    f"{name} is that of other settings",
                    tried=tried,
                    expected=vector(right),
                    got=f"{vector(value)} on rank {rank}",
                    fits="the settings of the first call, kept." if same else "",
                    look="`or`, or an `if` on a setting: 0 counts as False there; and what\n"
                    "outlives a call.",
                )


def _update_whole(c: UpdateCase, settings: dict) -> dict[str, Tensor]:
    """AdamW's update of all weights with these settings, in float64."""
    grad, (b1, b2) = c.total.double() / c.ranks, settings["betas"]
    master, m, v = (c.whole[name].double() for name in STATE)
    m, v = b1 * m + (1 - b1) * grad, b2 * v + (1 - b2) * grad**2
    move = m / (1 - b1**c.step) / ((v / (1 - b2**c.step)).sqrt() + settings["eps"])
    master = master * (1 - settings["lr"] * settings["weight_decay"]) - settings["lr"] * move
    return {name: x.float() for name, x in zip(STATE, (master, m, v), strict=True)}


def _show_settings(settings: dict) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def not_finite(subject: Subject, draw: Draw) -> None:
    """Two ranks, and one: infinity and NaN go through AdamW's formula, number by number."""
    cases = []
    for dtype in (torch.float32, torch.float16):
        for first, second in (
            ({1: torch.inf}, {}),
            ({}, {6: torch.nan}),
            ({6: -torch.inf}, {0: torch.nan}),
        ):
            c = case(draw, 2, 8, 3, dtype)
            for grad, put in zip(c.grads, (first, second), strict=True):
                for place, value in put.items():
                    grad[place] = value
            cases.append(c)
    for c, found in zip(cases, _run(subject, cases), strict=True):
        _form(c, found, c.tried, finite=False)
        for rank, one in enumerate(found):
            _spread(c, rank, one["out"], f"{c.tried}; rank {rank}")
    alone = case(draw, 1, 5, 3)
    alone.grads[0][2] = torch.inf
    out = subject.call(*alone.inputs(0).values(), **SETTINGS)
    _expect_four(out, alone.tried)
    _spread(alone, 0, out, "no process group; 5 weights, update 3")


def _spread(c: UpdateCase, rank: int, out: Sequence[Tensor], tried: str) -> None:
    bad = ~torch.isfinite(c.total)
    where = ", ".join(f"{c.total[i].item()} at {int(i)}" for i in bad.nonzero())
    tried = f"{tried}; a summed gradient of {where}"
    mine = c.cut(bad, rank)
    for name, value in zip(STATE, out[1:], strict=True):
        right = c.cut(c.after[name], rank)
        expect_spread(value, right, mine, code="ZERO1-NOT-FINITE", tried=f"{tried}; {name}")
    right = c.after["master"].to(c.grads[0].dtype)
    expect_spread(out[0], right, bad, code="ZERO1-NOT-FINITE", tried=f"{tried}; weights")


def groups(subject: Subject, draw: Draw) -> None:
    """A group is the world of its ranks: two pairs, each with weights of its own."""
    pairs = [case(draw, 2, draw.size(8, 12), 3) for _ in range(2)]
    tried = f"4 ranks, two groups of 2; {pairs[0].tried}"
    given = [([(pairs[rank // 2].inputs(rank % 2), SETTINGS)],) for rank in range(4)]
    facts = dict(tried=tried, look="every call that takes a `group`.")
    try:
        found = subject.run_ranks(given, probe="course_lib.probes.zero:updates_in_pairs")
        for c, ranks in zip(pairs, (found[:2], found[2:]), strict=True):
            _form(c, [r.value[0] for r in ranks], tried)
            _values(c, [r.value[0] for r in ranks], tried)
    except AnswerError as failure:
        got = f"{type(failure.error).__name__}: {failure.error}"[:120]
        raise Wrong(
            "ZERO1-GROUP",
            "a group is not used everywhere",
            got=got,
            **facts,
            expected="each pair updates its own weights",
        ) from None
    except Wrong as wrong:
        raise Wrong(
            "ZERO1-GROUP",
            "a group is not used everywhere",
            got=wrong.finding,
            **facts,
            expected="each pair updates its own weights",
        ) from None


def one_rank(subject: Subject, draw: Draw) -> None:
    """One process without any group is a world of one rank: plain AdamW."""
    c = case(draw, 1, draw.size(5, 6), 3)
    _update_alone(subject, c, SETTINGS, f"no process group; {c.size} weights, update 3")
    tiny = 1e-8 * case(draw, 1, c.size).grads[0]  # beside it an eps of 1e-8 shows
    first = UpdateCase([tiny], case(draw, 1, c.size).whole, 1, DEFAULT_EPS)
    settings = {name: value for name, value in SETTINGS.items() if name != "eps"}
    _update_alone(
        subject, first, settings, "no process group; gradients of about 1e-8, eps not given"
    )


def _update_alone(subject: Subject, c: UpdateCase, settings: dict, tried: str) -> None:
    try:
        out = subject.call(*c.inputs(0).values(), **settings)
    except AnswerError as failure:
        raise Wrong(
            "ZERO1-ALONE",
            "a world without a group fails",
            tried=tried,
            expected="an update of all weights",
            got=f"{type(failure.error).__name__}: {failure.error}"[:120],
            look="where the world size comes from: `place(group)`.",
        ) from None
    found = [{"out": out, "held": 0, "seen": [], "changed": []}]
    _form(c, found, tried)
    _values(c, found, tried)


SUITES = (
    Suite(
        "zero1-step",
        (
            four_results,
            one_process,
            four_ranks,
            other_dtypes,
            each_call_alone,
            three_ranks,
            thirds,
            settings_of_each_call,
            groups,
            one_rank,
            not_finite,
        ),
        tested="each rank keeps 1/R of master and moments, sends as much as an all-reduce, "
        "and all have the weights of one process, up to rounding.",
        remember="reduce-scatter, update, all-gather: 12/R bytes kept, only padding beyond an all-reduce.",
        next_step="2, 3 and 4 ranks with `local_ranks.run`, and the bytes of each.",
        ranks=4,
        limit_s=12.0,
    ),
)
