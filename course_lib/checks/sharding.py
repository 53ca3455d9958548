"""Checks of lesson 23: ShardedModule, by hand.

Oracle: one process with the rows of all ranks. What is held is compared between freeing and
keeping, so that no absolute size of activations is needed.
"""

import torch
from torch import Tensor

from course_lib.checks.report import Wrong, number
from course_lib.checks.sharding_methods import groups_and_dtypes
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.mini_fsdp import LAYERS, Odd, T, V, gpt

PROBE = "course_lib.probes.mini_fsdp:"
FREES, KEEPS = {}, {"reshard_after_forward": False}
SCALE = "AdamW divides by the size of the gradient: its losses look right."


def _batch(draw: Draw, ranks: int) -> list[tuple[Tensor, Tensor]]:
    tokens = draw.randint(0, V, (2 * ranks, T + 1))
    return list(zip(tokens[:, :-1].chunk(ranks), tokens[:, 1:].chunk(ranks), strict=True))


def _observe_ranks(subject: Subject, draw: Draw, cases: list[dict], ranks: int):
    """Facts by case and rank, and loss and gradients of one process."""
    rows = _batch(draw, ranks)
    found = subject.run_ranks([(cases, *part, draw.seed) for part in rows], probe=PROBE + "observe")
    model = gpt(draw.seed)
    loss = model(*(torch.cat(side) for side in zip(*rows, strict=True)))[1]
    loss.backward()
    named = model.named_parameters(remove_duplicate=False)
    return (
        [[r.value[i] for r in found] for i in range(len(cases))],
        loss.item(),
        {n: p.grad for n, p in named},
    )


def _sizes(ranks: int) -> tuple[int, int]:
    """Numbers in a block and in the rest, up to multiples of the ranks."""
    model = gpt()
    block = sum(p.numel() for p in model.blocks[0].parameters())
    root = sum(p.numel() for p in model.parameters()) - LAYERS * block
    return tuple(-(-n // ranks) * ranks for n in (block, root))


def one_rank(subject: Subject, draw: Draw) -> None:
    """On one rank: the loss and the gradient of the plain model."""
    (by_rank,), loss, grads = _observe_ranks(subject, draw, [FREES], 1)
    _loss(by_rank, loss, "3 blocks, 1 rank")
    _gradients(by_rank[0]["grads"], grads, 1, "3 blocks, 1 rank")


def two_ranks(subject: Subject, draw: Draw) -> None:
    """On two ranks: halves and their mean gradients; then what is held, then what is sent."""
    cases = [FREES, KEEPS, {"dtype": torch.bfloat16}]
    (full, kept, low), loss, grads = _observe_ranks(subject, draw, cases, 2)
    tried, (block, root) = "3 blocks, 2 ranks", _sizes(2)
    if sorted(full[0]["shards"]) != sorted([root // 2, *[block // 2] * LAYERS]):
        raise Wrong(
            "FSDP-SHARDS-NOTHING",
            "a rank does not hold its half",
            tried=tried,
            expected=f"{(root + LAYERS * block) // 2:,} numbers for the optimizer",
            got=f"{sum(full[0]['shards']):,}",
            look="what `self.shard` is.",
        )
    _loss(full, loss, tried)
    _gradients(full[0]["grads"], grads, 2, tried)
    _expect_freed(full[0], kept[0], 4 * LAYERS * block)
    _expect_none_left(full[0], 4 * sum(full[0]["shards"]))
    _sends(full[0], kept[0], low[0], block, root)
    _expect_low_gradients(low[0]["grads"], grads)


def _loss(by_rank: list[dict], loss: float, tried: str) -> None:
    mean = sum(rank["loss"] for rank in by_rank) / len(by_rank)
    if abs(mean - loss) > 1e-4:  # float32 sums of losses near 3 in another order: measured 5e-7
        raise Wrong(
            "OTHER",
            "the loss is not that of the plain model",
            tried=tried,
            expected=number(loss),
            got=number(mean),
            look="the arguments, and `using`.",
        )


def _gradients(found: dict, wanted: dict, ranks: int, tried: str) -> None:
    if not found:
        raise Wrong(
            "FSDP-NO-GRADIENT",
            "no gradient reaches the shards",
            tried=tried,
            expected="`shard.grad` after the backward pass",
            got="None",
            fits="weights that were gathered outside of `Unshard.apply`.",
            look="which tensor `using` is given.",
        )
    got, due = (torch.cat([side[n].flatten() for n in wanted]) for side in (found, wanted))
    # float32 sums in another order: measured 1e-7 of the largest; a wrong mean is off by a factor
    close = dict(rtol=0, atol=1e-4 * due.abs().max().item())
    if torch.allclose(got, due, **close):
        return
    facts = dict(
        tried=tried,
        expected=f"gradient norm {number(due.norm().item())}, as in one process",
        got=f"{number(got.norm().item())}, {number((got.norm() / due.norm()).item())} times it",
    )
    for code, factor, finding, fits in (
        (
            "FSDP-NO-DIVIDE",
            ranks,
            f"the gradient is {ranks} times too long",
            "a sum over the ranks.",
        ),
        (
            "FSDP-DIVIDE-TWICE",
            1 / ranks,
            f"the gradient is {ranks} times too short",
            "a mean that is divided once more.",
        ),
    ):
        if ranks > 1 and torch.allclose(got, factor * due, **close):
            raise Wrong(code, finding, fits=fits, hides=SCALE, look="`scatter`.", **facts)
    raise Wrong(
        "OTHER", "the gradient is not that of one process", look="`scatter`, `whole`.", **facts
    )


def _expect_freed(one: dict, other: dict, blocks: int) -> None:
    """After forward the weights of the blocks are gone, unless they are to stay."""
    back = _gathers(one["sent"], after=True)
    facts = dict(
        tried="3 blocks, 2 ranks, after the forward pass",
        expected=f"{blocks:,} bytes fewer than with reshard_after_forward False",
        got=f"{other['after_forward'] - one['after_forward']:,} bytes fewer",
        preset="timeline:fsdp-kept",
    )
    if one["open"]:
        raise Wrong(
            "FSDP-NEVER-FREES",
            "gathered weights stay after the forward pass",
            look="what `self.full` is when `forward` returns.",
            **facts,
        )
    if not other["open"]:
        raise Wrong(
            "FSDP-RESHARD",
            "reshard_after_forward False frees all the same",
            look="when `self.full` becomes None.",
            **facts,
        )
    if other["after_forward"] - one["after_forward"] != blocks:
        if not back:
            raise Wrong(
                "FSDP-NO-GATHER",
                "nothing is gathered for the backward pass",
                **facts,
                fits="a graph that keeps the weights, because `keep` does not know them.",
                look="`self.full` while the module runs.",
            )
        raise Wrong(
            "FSDP-ALIAS",
            "weights are forgotten, and still held",
            **facts,
            fits="a second name for the gathered tensor, or for a part of it.",
            look="every place where the result of a gather is stored.",
        )


def _expect_none_left(one: dict, due: int) -> None:
    facts = dict(
        tried="3 blocks, 2 ranks, after the backward pass",
        got=f"{one['left']:,} bytes",
        expected=f"{due:,} bytes: the gradients of the shards",
    )
    if one["open_after"]:
        raise Wrong(
            "FSDP-AFTER-BACKWARD",
            "gathered weights stay after the backward pass",
            **facts,
            hides="the next step would compute with old weights, or hold two copies.",
            look="what `scatter` does beside its result.",
        )
    if one["left"] > due:
        raise Wrong(
            "FSDP-ALIAS",
            "weights are forgotten, and still held",
            **facts,
            look="every place where the result of a gather is stored.",
        )


def _gathers(sent: list, after: bool) -> int:
    """All-gathers before or after the mark between the passes."""
    cut = [name for name, _ in sent].index("backward")
    return sum(name == "allgather" for name, _ in (sent[cut:] if after else sent[:cut]))


def _sends(full: dict, kept: dict, low: dict, block: int, root: int) -> None:
    """Each block: an all-gather in forward, one in backward, one reduce-scatter; float32 sums."""
    back = [("allgather", 4 * block), ("reduce_scatter", 4 * block)] * LAYERS
    forward = [("allgather", 4 * root), *[("allgather", 4 * block)] * LAYERS, ("backward", 0)]
    last = [("reduce_scatter", 4 * root)]
    _collectives(full["sent"], forward + back + last, "3 blocks, 2 ranks")
    _collectives(kept["sent"], forward + back[1::2] + last, "reshard_after_forward False")
    _bytes(low["sent"], block)


def _expect_low_gradients(found: dict, grads: dict) -> None:
    for name, due in grads.items():
        if not torch.allclose(found[name], due, rtol=0, atol=0.1 * due.abs().max().item()):
            raise Wrong(
                "OTHER",
                "the gradient is another one in bfloat16",
                tried="dtype bfloat16",
                expected=f"about that of float32 for {name}",
                got="off by more than a tenth",
                look="which dtype each tensor has on its way.",
            )


def _collectives(sent: list, due: list, tried: str) -> None:
    sent = [(name, n) for name, n in sent]
    if sent == due:
        return
    names, wanted = ([name for name, _ in side] for side in (sent, due))
    facts = dict(tried=tried, expected=_words(wanted), got=_words(names))
    if "allreduce" in names:
        raise Wrong(
            "FSDP-ALL-REDUCE",
            "a whole gradient is summed on every rank",
            **facts,
            hides="twice the bytes of a reduce-scatter, and a whole gradient held.",
            look="`scatter`: which collective leaves a shard on each rank.",
        )
    if _gathers(sent, True) > _gathers(due, True):
        raise Wrong(
            "FSDP-GATHER-EACH",
            "backward gathers more often than needed",
            **facts,
            fits="one gather for every weight, or for weights that were kept.",
            look="what `whole` leaves behind.",
        )
    raise Wrong("OTHER", "other collectives are issued", **facts, look="`gather` and `scatter`.")


def _words(names: list[str]) -> str:
    kinds = dict.fromkeys(name for name in names if name != "backward")
    return ", ".join(f"{names.count(kind)} {kind}" for kind in kinds) or "none"


def _bytes(sent: list, numbers: int) -> None:
    gathered, reduced = (
        max((b for n, b in sent if n == name), default=0) / numbers
        for name in ("allgather", "reduce_scatter")
    )
    facts = dict(
        tried="dtype bfloat16, 2 ranks",
        expected="2 bytes a parameter gathered, 4 reduced",
        got=f"{gathered:g} gathered, {reduced:g} reduced",
    )
    if gathered != 2:
        raise Wrong(
            "FSDP-GATHER-WIDE",
            "float32 travels where bfloat16 would do",
            **facts,
            look="when `gather` casts: before it sends, or after.",
        )
    if reduced != 4:
        raise Wrong(
            "FSDP-REDUCE-LOW",
            "gradients are added up in bfloat16",
            **facts,
            hides="two ranks lose little; a sum over 256 loses the small addends.",
            look="the dtype of what `reduce_scatter` is given.",
        )


def odd_cases(subject: Subject, draw: Draw) -> None:
    """Evaluation frees too; three ranks that divide nothing; tied, frozen and unused weights on four."""
    (freed, kept), loss, grads = _observe_ranks(subject, draw, [FREES, KEEPS], 3)
    _gradients(freed[0]["grads"], grads, 3, "3 blocks, 3 ranks")
    if kept[0]["open_eval"]:
        raise Wrong(
            "FSDP-EVAL",
            "a forward pass without gradients leaves weights gathered",
            tried="torch.no_grad(), reshard_after_forward False",
            expected="`self.full` None",
            got=f"gathered in {kept[0]['open_eval']} wrappers",
            hides="no backward pass comes that would free them.",
            look="`forward`.",
        )
    batches = [[draw.randn(3, 5) for _ in range(2)] for _ in range(4)]
    ranks = subject.run_ranks(
        [(part, draw.seed) for part in batches], probe=PROBE + "odd_gradients"
    )
    model = Odd(draw.seed)
    for x in [x for part in batches for x in part]:
        (model(x).pow(2).mean() / 4).backward()
    named = model.named_parameters(remove_duplicate=False)
    due = {
        n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in named if p.requires_grad
    }
    _gradients(ranks[0].value, due, 4, "tied, frozen, unused weights, 2 micro-batches, 4 ranks")


SUITES = (
    Suite(
        "mini-fsdp",
        (one_rank, two_ranks, groups_and_dtypes, odd_cases),
        tested="a rank keeps 1 / R, gathers a block for as long as it computes with it, "
        "and trains as one process does.",
        remember="two all-gathers and a reduce-scatter: 1.5 times the bytes of DDP.",
        next_step="in the figure: which of a layer's three collectives overlap with computing?",
        ranks=4,
        sends_much=True,
        limit_s=12.0,
    ),
)
