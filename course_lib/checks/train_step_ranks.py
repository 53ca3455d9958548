"""Checks of lesson 11 on two ranks: DistributedTrainer.train_step with batches of its own on each.

Oracle: `Plain` of train_step_mistakes.py, which has the micro-batches of both ranks as one batch.
"""

from collections.abc import Iterator

from course_lib.checks import train_step_mistakes as mistakes
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw
from course_lib.checks.train_step_mistakes import MOVED_ALIKE, Batches, Plain
from course_lib.probes.trainer import T, V, small_config
from course_lib.ranks.traffic import sent_bytes

B, PARTS = 2, 3
NUMBERS = 16
"""Bytes of the two all-reduces beside the gradients."""
SETTINGS = dict(grad_accumulation=PARTS, grad_clip=0.1, warmup_steps=20)
STATE = {"rates": "the rate", "step": "step", "tokens": "tokens_seen", "weights": "weights"}


def _batches(draw: Draw, counts: tuple[int, ...]) -> Batches:
    made = []
    for count in counts:
        idx, targets = (draw.randint(0, V, (B, T)) for _ in range(2))
        targets.view(-1)[count:] = mistakes.IGNORED
        made.append((idx, targets))
    return made


def _run(subject: Subject, plans: list[list[Batches]], tried: str, refused=()) -> list[dict]:
    """What each rank says of its plan (`probes.trainer.updates`)."""
    args = [(plan, list(refused), SETTINGS) for plan in plans]
    try:
        found = subject.run_ranks(args, probe="course_lib.probes.trainer:updates")
    except AnswerError as failure:
        raise AnswerError(failure.error, tried=tried, line=failure.line) from None
    return [rank.value for rank in found]


def _twin(found: list[dict]) -> Plain:
    return Plain(small_config(**SETTINGS), found[0]["start"], V)


def shared_update(subject: Subject, draw: Draw) -> None:
    """Two ranks make one update of all their targets, and send the gradients once."""
    counts = [(16, 3, draw.size(9, 8, 10)), (7, 1, draw.size(2, 3))]
    plans = [[_batches(draw, each)] for each in counts]
    tried = f"2 ranks of {PARTS} micro-batches; of the first's {list(counts[0])} targets count,\n"
    tried += f"of the second's {list(counts[1])}"
    found = _run(subject, plans, tried)
    parts = [plan[0] for plan in plans]
    twin = _twin(found)
    loss, norm = twin.update(parts[0] + parts[1], small_config(**SETTINGS).lr / 20)
    for rank, one in enumerate(found):
        update, at = one["updates"][0], f"{tried}; rank {rank}"
        told = mistakes.read_three(update["found"], at)
        _gradient(told["grad_norm"], norm, parts, rank, _twin(found), at)
        _loss(told["loss"], loss, parts, rank, _twin(found), at)
        _expect_tokens(update["tokens"], counts, rank, at)
        if not update["kept"]:
            raise Wrong(
                "INPLACE",
                "the micro-batches were changed",
                tried=at,
                expected="arguments that stay as they are",
                got="another list, or other numbers in it",
                look="what is taken out of `batches`, and methods that end in an underscore.",
            )
    _expect_weights(found, 0, twin, tried)
    for rank, one in enumerate(found):
        _expect_traffic(one, rank, tried)
        _expect_one_graph(one, rank, tried)


def _gradient(told: float, norm: float, parts: list, rank: int, before: Plain, tried: str) -> None:
    if mistakes.is_near(told, norm):
        return
    facts = dict(
        tried=tried,
        expected=f"grad_norm {number(norm)}, of the targets of all ranks",
        got=f"grad_norm {number(told)}, {number(told / norm)} times that",
    )
    for shares, code, finding, fits, look in _ways(parts, rank):
        if mistakes.is_near(told, before.mixture(parts[0] + parts[1], shares)[1]):
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong(
        "TRAIN-RANKS",
        "on two ranks the gradient is another one",
        look="what is counted on all ranks, and `self.backward`.",
        **facts,
    )


def _ways(parts: list[Batches], rank: int) -> Iterator[tuple]:
    """(shares, code, finding, fits, look) of the gradients that mistakes with ranks give."""
    counts = [mistakes.count_targets(batches) for batches in parts]
    total = sum(map(sum, counts))
    local = [n / sum(mine) for mine in counts for n in mine]
    whole = [n / total for mine in counts for n in mine]
    mine = [float(r == rank) for r, batches in enumerate(parts) for _ in batches]
    for factor in (1.0, 0.5):
        yield (
            [factor * share for share in local],
            "TRAIN-LOCAL-COUNTS",
            "each rank divides by its own targets",
            "shares within a rank: targets of a rank that has few weigh more.",
            "`self.sum_over_ranks`, and what is divided by it.",
        )
    for factor, how in ((0.5, "short"), (2.0, "long")):
        yield (
            [factor * share for share in whole],
            "TRAIN-RANK-MEAN",
            f"the gradient is two times too {how}",
            "DDP takes the mean over ranks, and `self.backward` makes a sum of it.",
            "what is multiplied or divided beside that.",
        )
    for shares in (local, whole):
        for factor in (1.0, 2.0):
            yield (
                [factor * share * own for share, own in zip(shares, mine, strict=True)],
                "TRAIN-NOT-SHARED",
                "the gradient is that of one rank alone",
                "a backward pass in which DDP sends nothing.",
                "which model is called, and what stands around its backward pass.",
            )


def _loss(told: float, loss: float, parts: list, rank: int, before: Plain, tried: str) -> None:
    if mistakes.is_near(told, loss):
        return
    counts = [mistakes.count_targets(batches) for batches in parts]
    facts = dict(
        tried=tried,
        expected=f"loss {number(loss)}, of the targets of all ranks",
        got=f"loss {number(told)}",
    )
    for total in (sum(map(sum, counts)), sum(counts[rank])):
        own = before.mixture(parts[rank], [n / total for n in counts[rank]])[0]
        if mistakes.is_near(told, own):
            raise Wrong(
                "TRAIN-LOCAL-LOSS",
                "the gradient is right, the loss is that of one rank",
                hides="the log has the part of rank 0, and looks like training all the same.",
                look="`self.sum_over_ranks`.",
                **facts,
            )
    raise Wrong(
        "TRAIN-LOSS",
        "the gradient is right, the loss that is told is not",
        look="what is added up for the log, over micro-batches and over ranks.",
        **facts,
    )


def _expect_tokens(seen: float, counts: list[tuple[int, ...]], rank: int, tried: str) -> None:
    total = sum(map(sum, counts))
    if seen == total:
        return
    own = seen == sum(counts[rank])
    raise Wrong(
        "TRAIN-TOKENS",
        "tokens_seen is another number",
        tried=tried,
        expected=f"{total}, the targets that count on all ranks",
        got=f"{seen}"[:40],
        fits="the targets of this rank alone." if own else "",
        look="where `self.tokens_seen` grows.",
    )


def _expect_weights(found: list[dict], update: int, twin: Plain, tried: str) -> None:
    for rank, one in enumerate(found):
        now = one["updates"][update]["weights"]
        off = mistakes.distance(now, twin.weights(), one["start"])
        if off > MOVED_ALIKE:
            raise Wrong(
                "TRAIN-APART",
                "the weights of a rank went elsewhere",
                tried=f"{tried}; rank {rank}",
                expected="weights as after the same update by plain torch",
                got=f"they are elsewhere: off by {off:.0%} of the way from the start",
                look="clipping and step: what each rank does with the same gradient.",
            )


def _expect_traffic(one: dict, rank: int, tried: str) -> None:
    """The gradients once, and two numbers."""
    grads = sum(weight.nbytes for weight in one["start"].values())
    seen = [(name, size) for name, size in one["updates"][0]["seen"] if size]
    sent, right = sent_bytes(seen, 2), sent_bytes([("allreduce", grads + NUMBERS)], 2)
    if sent <= right:
        return
    twice = sent > 1.9 * right
    raise Wrong(
        "TRAIN-SENT-AGAIN" if twice else "TRAIN-TRAFFIC",
        "the gradients are sent more than once" if twice else "more is sent than is needed",
        tried=f"{tried}; rank {rank}",
        expected=f"{right:.0f} bytes: gradients {grads}, and two numbers of 8",
        got=f"{sent:.0f} bytes: {', '.join(f'{name} {size}' for name, size in seen[:5])}"[:90],
        hides="all numbers are right, and on many machines every update takes longer.",
        look="`self.micro_batches`: in which backward pass DDP may send."
        if twice
        else "every call that speaks with other ranks, and how often it is made.",
    )


def _expect_one_graph(one: dict, rank: int, tried: str) -> None:
    held, graph = one["updates"][0]["graphs"], one["graph"]
    if held > 1.5 * graph:
        raise Wrong(
            "TRAIN-GRAPHS",
            "activations of several micro-batches are held at once",
            tried=f"{tried}; rank {rank}",
            expected=f"{graph} bytes for a backward pass, those of one micro-batch",
            got=f"{held} bytes, {held / graph:.1f} times that",
            hides="the memory of the whole batch, which accumulation is there to avoid.",
            look="when `self.backward` is called: for each micro-batch, before the next one.",
        )


def rank_of_nothing(subject: Subject, draw: Draw) -> None:
    """A rank none of whose targets count takes part; where none counts anywhere, all refuse."""
    some, more = draw.size(9, 8, 10), draw.size(5, 6)
    counts = [[(some, 2, 0), (0, 0, 0)], [(0, 0, 0)] * 2, [(more, 1, 3), (4, 2, 1)]]
    plans = [[_batches(draw, update[rank]) for update in counts] for rank in range(2)]
    tried = f"2 ranks; of the first's {list(counts[0][0])} targets count, of the second's none"
    try:
        found = _run(subject, plans, tried, refused=[1])
    except AnswerError as failure:
        if isinstance(failure.error, NotImplementedError):
            raise
        raise Wrong(
            "TRAIN-RANK-EMPTY",
            "a rank whose own targets do not count stops",
            tried=tried,
            expected="an update of the targets that the other rank has",
            got=f"{type(failure.error).__name__}: {failure.error}"[:150],
            hides="the other ranks wait for it in their next collective.",
            look="what is divided or compared: the count of this rank, or of all?",
        ) from None
    tried = "2 ranks; after an update, one in which no target counts on either"
    for rank, one in enumerate(found):
        before, refused, _ = one["updates"]
        _expect_refusal(before, refused, f"{tried}; rank {rank}")
    twin, lr = _twin(found), small_config(**SETTINGS).lr
    for i, update in enumerate((0, 2)):
        twin.update(plans[0][update] + plans[1][update], lr * (i + 1) / 20)
    _expect_weights(found, 2, twin, f"{tried}, and one more")
    for rank, one in enumerate(found):
        if one["updates"][2]["step"] != 2:
            raise Wrong(
                "TRAIN-STEPS",
                "step is another number",
                tried=f"{tried}, and one more; rank {rank}",
                expected="2, the updates that were made",
                got=f"{one['updates'][2]['step']}"[:40],
                look="where `self.step` grows.",
            )


def _expect_refusal(before: dict, refused: dict, tried: str) -> None:
    error = refused["error"]
    facts = dict(
        tried=tried,
        expected="ValueError, and a trainer that is as it was",
        look="where the targets of all ranks are counted, and what stands above that.",
    )
    if error is None or not error[1]:
        raise Wrong(
            "TRAIN-NOTHING",
            "an update without any targets is not refused",
            got=f"{error[0]}: {error[2]}"[:90] if error else "no error",
            hides="a share of nothing is nan, and nan goes into every weight.",
            **facts,
        )
    changed = [name for key, name in STATE.items() if not _is_same(before[key], refused[key])]
    if changed:
        raise Wrong(
            "TRAIN-HALF",
            "a refused update has changed the trainer",
            got=f"ValueError; changed: {', '.join(changed)}",
            **facts,
        )


def _is_same(a, b) -> bool:
    if isinstance(a, dict):
        return all(bool((a[name] == b[name]).all()) for name in a)
    return a == b
