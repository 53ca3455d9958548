"""The sharded trainer: the same numbers as one process, and what is held and sent for them.

Ranks are forked once for many runs: most of the time goes into their first update.
"""

import functools
import math

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_lib.measure.held import Held
from course_lib.measure.memory import counted_state_bytes
from course_lib.ranks.traffic import Traffic
from course_lib.runs.options import parse
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.fsdp_trainer import FSDPTrainer, full_tensor
from tests.fsdp_runs import (
    GLOBAL_BATCH,
    REL,
    V,
    make,
    on_ranks,
    read,
    settings,
    single,
    steps,
    values,
)
from tests.soak import campaign, times

STEPS = 4
CASES = {
    2: [
        ("FULL_SHARD", None, "fp32"),
        ("FULL_SHARD", None, "bf16"),
        ("SHARD_GRAD_OP", None, "fp32"),
        ("NO_SHARD", None, "fp32"),
        ("HYBRID_SHARD", 2, "fp32"),
    ],
    3: [("FULL_SHARD", None, "fp32")],
    4: [
        ("FULL_SHARD", None, "fp32"),
        ("SHARD_GRAD_OP", None, "fp32"),
        ("NO_SHARD", None, "fp32"),
        ("HYBRID_SHARD", 2, "fp32"),
    ],
}


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def curve():
    return steps(single(), STEPS)


def close(a: list[dict], b: list[dict], rel: float = REL) -> bool:
    return all(
        x["loss"] == pytest.approx(y["loss"], rel=rel)
        and x["grad_norm"] == pytest.approx(y["grad_norm"], rel=10 * rel)
        and x["lr"] == y["lr"]
        for x, y in zip(a, b, strict=True)
    )


def losses(rows: list[dict]) -> list[float]:
    return [row["loss"] for row in rows]


def run(config, kind=FSDPTrainer, count=STEPS, **changes):
    return steps(make(config, kind, **changes), count)


def observed(config) -> dict:
    """One run on this rank: what its updates report, what it holds, and what it sends."""
    trainer, held, sent = make(config), {}, {}
    rows = steps(trainer, STEPS)
    hook = trainer.optimizer.register_step_pre_hook(
        lambda *_: held.update(counted_state_bytes(trainer.plain_model, trainer.optimizer))
    )
    ((idx, targets),) = trainer.next_batches()
    for parts in (1, 2):
        with Traffic() as traffic:
            trainer.train_step(list(zip(idx.chunk(parts), targets.chunk(parts), strict=True)))
        sent[parts] = traffic.seen
    hook.remove()
    shards, units, taken = trainer.mesh.shape[-1], [], set()
    for module in trainer._get_fsdp_policy():
        own = [p for p in module.parameters() if p not in taken]
        taken |= set(own)
        units.append(
            sum(math.ceil(p.shape[0] / shards) * shards * p.shape[1:].numel() for p in own)
        )
    return {
        "rows": rows,
        "held": held,
        "sent": sent,
        "units": units,
        "mesh": tuple(trainer.mesh.shape),
        "axes": trainer.mesh.mesh_dim_names,
        "shapes": [tuple(p.shape) for p in trainer.plain_model.parameters()],
    }


def all_cases(cases: list) -> tuple[list[dict], list[dict]]:
    """`run_steps` for each case, and DDP's rows."""
    found = [
        observed(settings(sharding=strategy, shard_size=size, precision=dtype))
        for strategy, size, dtype in cases
    ]
    return found, run(settings(), DistributedTrainer)


@pytest.mark.parametrize("ranks", CASES)
def test_every_strategy_learns_what_one_process_learns(curve, ranks):
    """And holds its part, and sends what its name says: one, DDP and all strategies."""
    by_rank = values(on_ranks(ranks, all_cases, CASES[ranks]))
    for number, (strategy, size, dtype) in enumerate(CASES[ranks]):
        found = [rank[0][number] for rank in by_rank]
        assert all(rank["rows"] == found[0]["rows"] for rank in found), (
            "every rank reports the same"
        )
        if dtype == "fp32":
            assert close(found[0]["rows"], curve), strategy
        holds_its_part(found, strategy, size)
        sends_what_it_should(found, strategy, dtype)
    assert close(by_rank[0][1], curve), "DDP"


def holds_its_part(found: list[dict], strategy: str, size: int | None) -> None:
    """4 bytes of weight, 4 of gradient, 8 of AdamW a parameter, over the ranks that share a copy."""
    parts = 1 if strategy == "NO_SHARD" else size or len(found)
    for rank, one in enumerate(found):
        # rows go out in blocks of ceil(rows / parts), the last ranks may get fewer
        kept = sum(
            len(range(shape[0])[block * (rank % parts) : block * (rank % parts + 1)])
            * math.prod(shape[1:])
            for shape in one["shapes"]
            for block in [math.ceil(shape[0] / parts)]
        )
        assert one["held"] == {"weights": 4 * kept, "gradients": 4 * kept, "optimizer": 8 * kept}
        assert kept <= math.ceil(1.02 * sum(map(math.prod, one["shapes"])) / parts)
    two_axes = strategy in ("NO_SHARD", "HYBRID_SHARD")
    assert found[0]["axes"] == (("replicate", "shard") if two_axes else ("shard",))
    assert found[0]["mesh"] == ((len(found) // parts, parts) if two_axes else (len(found),))


def sends_what_it_should(found: list[dict], strategy: str, dtype: str) -> None:
    """Every collective of an update of one micro-batch, and of two, with its bytes."""
    *blocks, root = found[0]["units"]
    weight = 2 if dtype == "bf16" else 4
    forward = [root, *blocks]  # the root first: its embedding is needed first
    each = {
        "FULL_SHARD": forward + blocks[::-1],
        "HYBRID_SHARD": forward + blocks[::-1],
        "SHARD_GRAD_OP": forward,
        "NO_SHARD": [],
    }[strategy]
    once = [4 * n for n in [*blocks[::-1], root]]  # float32 whatever the weights, once an update
    copies = {"NO_SHARD": once, "HYBRID_SHARD": [n // 2 for n in once]}.get(strategy, [])
    for micro_batches, sent in found[0]["sent"].items():
        assert all(rank["sent"][micro_batches] == sent for rank in found)
        large = {name: [b for n, b in sent if n == name and b > 8] for name, _ in sent}
        # what stays gathered until backward stays over the micro-batches as well
        count = 1 if strategy == "SHARD_GRAD_OP" else micro_batches
        assert large.pop("allgather", []) == [weight * n for n in each] * count, strategy
        assert large.pop("reduce_scatter", []) == ([] if strategy == "NO_SHARD" else once), strategy
        assert large.pop("allreduce") == copies, strategy
        assert not any(large.values()), "nothing else of any size"
        small = [n for n, b in sent if b <= 8]
        assert small.count("allreduce") == len(small) <= 6, "loss, tokens, the gradient's norm"


@pytest.mark.parametrize("ranks", [1, 2])
def test_nothing_else_stays(curve, ranks):
    """Of all tensors of the process, after a run: the shards and their moments, and two tables."""

    def keep():
        keep.trainer = make(settings())
        rows = steps(keep.trainer, STEPS)
        return rows, sum(p.numel() for p in keep.trainer.plain_model.parameters())

    for rank in on_ranks(ranks, keep):
        rows, numel = rank.value
        assert close(rows, curve), "a world of one too"
        assert 12 * numel / ranks <= rank.held_bytes < 12 * numel / ranks + 2 * 128 * 32 * 4 + 4000


class RootOnly(FSDPTrainer):
    """A policy that learners write."""

    def _get_fsdp_policy(self):
        return [self.plain_model]


class Frozen(FSDPTrainer):
    """One gain takes no gradient."""

    def _wrap_model(self):
        self.plain_model.blocks[0].mlp_norm.weight.requires_grad_(False)
        return super()._wrap_model()


class Letters:
    """A tokenizer of numbers."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) % V for c in text]

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))


def peak(kind=FSDPTrainer) -> int:
    """Most bytes beyond what is kept, in the forward pass."""
    trainer = make(settings(), kind)
    steps(trainer, 1)
    with torch.no_grad(), Held() as seen:
        trainer.model(torch.zeros(1, 4, dtype=torch.int64))
    trainer._free()
    return seen.peak


def kept_for_backward(**changes) -> int:
    trainer = make(settings(**changes))
    steps(trainer, 1)
    idx, targets = trainer.next_batches()[0]
    with Held() as seen:
        loss = trainer.model(idx, targets)[1]  # noqa: F841  alive while counting
        return seen.bytes()


def low(dtype: str) -> tuple[list[dict], dict]:
    """Losses, and the dtypes of a block's inputs, of weights in use, of gradients and of shards."""
    trainer, seen = make(settings(precision=dtype)), {}
    block = trainer.plain_model.blocks[1]

    def look(module, args):
        seen["inputs"] = [str(x.dtype)[6:] for x in args]

    block.attention.register_forward_pre_hook(look)
    block.attention.q_proj.register_forward_pre_hook(
        lambda module, args: seen.update(used=str(module.weight.dtype)[6:])
    )
    trainer.optimizer.register_step_pre_hook(
        lambda *_: seen.update(grad=str(block.mlp.up_proj.weight.grad.dtype)[6:])
    )
    rows = steps(trainer, STEPS)
    return rows, seen | {"kept": str(block.mlp.up_proj.weight.dtype)[6:]}


def frozen() -> tuple[bool, int]:
    trainer = make(settings(), Frozen)
    steps(trainer, 2)
    gain = trainer.plain_model.blocks[0].mlp_norm.weight
    return full_tensor(gain).eq(1).all().item(), len(trainer.optimizer.state)


def unequal() -> dict:
    """An update of which one rank has targets that do not count, on the last micro-batch all."""
    trainer = make(settings(), accumulation=2)
    parts = trainer.next_batches()
    if trainer.world.rank == trainer.world.world_size - 1:
        parts[0][1][:, 5:] = -100
        parts[1][1][:] = -100
    return read(trainer.train_step(parts))


def evaluated(strategy: str) -> tuple[float, int, float]:
    """Validation loss, parameters that are gathered after it, and the next training loss."""
    trainer = make(settings(sharding=strategy))
    steps(trainer, 2)
    loss = trainer.evaluate()
    gathered = sum(
        p.numel() for p in trainer.plain_model.parameters() if not hasattr(p, "to_local")
    )
    return loss, gathered, steps(trainer, 1)[0]["loss"]


def sampled() -> tuple[str, int, dict]:
    trainer = make(settings())
    steps(trainer, 1)
    with Traffic() as traffic:
        text = trainer.sample(Letters(), 5)
    gathers = sum(name == "allgather" for name, _ in traffic.seen)
    return text, gathers, steps(trainer, 1)[0]


def two_ranks() -> dict:
    """All that is tried on two ranks."""
    offload, recompute = {"cpu_offload": True}, {"activation_checkpointing": True}
    return {
        "peak": (peak(), peak(RootOnly)),
        "kept": (kept_for_backward(), kept_for_backward(**recompute)),
        "same": [
            run(settings(**offload)),
            run(settings(**recompute)),
            run(settings(sharding="SHARD_GRAD_OP", **offload, **recompute)),
        ],
        "low": {dtype: low(dtype) for dtype in ("bf16", "fp16")},
        "frozen": frozen(),
        "unequal": unequal(),
        "sampled": sampled(),
        "evaluated": [evaluated("FULL_SHARD"), evaluated("SHARD_GRAD_OP")],
    }


@pytest.fixture(scope="module")
def two():
    first, second = values(on_ranks(2, two_ranks))
    assert {k: v for k, v in first.items() if k not in ("peak", "kept")} == {
        k: v for k, v in second.items() if k not in ("peak", "kept")
    }
    return first


def test_blocks_are_gathered_one_after_the_other(two):
    """A policy of the root alone has the whole model in memory at once, one of blocks two of five."""
    by_block, at_once = two["peak"]
    assert by_block < 0.6 * at_once


def test_offload_and_recomputation_change_no_number(two, curve):
    for rows in two["same"]:
        assert close(rows, curve)
    plain, recomputed = two["kept"]
    assert recomputed < 0.75 * plain


@pytest.mark.parametrize(
    "dtype, full, eps", [("bf16", "bfloat16", 2**-8), ("fp16", "float16", 2**-11)]
)
def test_low_precision_is_for_what_is_gathered(two, curve, dtype, full, eps):
    rows, seen = two["low"][dtype]
    assert seen == {
        "inputs": [full, "float32", "float32"],
        "used": full,
        "grad": "float32",
        "kept": "float32",
    }
    # a loss is a mean over 192 tokens of logits that are each off by some eps of about 1
    assert losses(rows) == pytest.approx(losses(curve), abs=2 * eps)
    assert losses(rows) != losses(curve)


def test_a_frozen_parameter_stays_and_has_no_state(two):
    assert two["frozen"] == (True, 4 * 9 + 2 - 1)


def test_unequal_batches_count_by_token(two):
    one = single(batch_size=3)
    parts = [one.loader.next_batch() for _ in range(4)]  # of rank 0, rank 1, rank 0, rank 1
    parts[1][1][:, 5:] = -100
    parts[3][1][:] = -100
    assert close([two["unequal"]], [read(one.train_step(parts))])


def test_validation_leaves_nothing_gathered(two):
    one = single(batch_size=GLOBAL_BATCH // 2)
    steps(one, 2)
    loss, after = one.evaluate(), steps(one, 1)[0]["loss"]
    for found in two["evaluated"]:
        assert found == (pytest.approx(loss, rel=REL), 0, pytest.approx(after, rel=REL))


def test_all_ranks_sample_the_same_and_gather_once(two):
    text, gathers, _ = two["sampled"]
    assert gathers == 5, "each of four blocks and the rest, once for five tokens"
    assert len(text.split()) == 4 + 5


@campaign
def test_compiled_blocks_learn_the_same(curve, monkeypatch):
    """Briefly without code of its own, which shows graphs and breaks; in the soak with it."""
    backend = "inductor" if times(0, 1) else "eager"
    compiled = functools.partial(torch.compile, backend=backend, fullgraph=True)
    monkeypatch.setattr(torch, "compile", compiled)

    def work():
        with _disable_current_modes():  # what counts the traffic of ranks cannot be compiled
            return run(settings(compile=True))

    assert close(on_ranks(times(1, 2), work, seconds=300)[0].value, curve)


@campaign
def test_ranks_end_as_they_should_every_time():
    for _ in range(times(1, 50)):
        first, second = values(on_ranks(2, run, settings(), FSDPTrainer, 1))
        assert first == second


@pytest.mark.parametrize(
    "given, words",
    [
        ({"sharding": "full"}, "sharding must be one of FULL_SHARD, SHARD_GRAD_OP"),
        ({"checkpoint": "whole"}, "checkpoint must be one of sharded, full"),
        ({"shard_size": 2}, "shard_size belongs to HYBRID_SHARD"),
        ({"async_save": True, "checkpoint": "full"}, "async_save writes shards"),
        ({"model_size": "huge"}, "model_size must be one of"),
    ],
)
def test_bad_settings_are_said(given, words, capsys):
    with pytest.raises(ValueError, match=words):
        settings(**given)
    argv = [word for name, value in given.items() for word in (f"--{name}", str(value))]
    with pytest.raises(SystemExit):
        parse(FSDPConfig, [word for word in argv if word != "True"], prog="train")
    assert words in capsys.readouterr().err.splitlines()[-1]


def test_copies_must_come_out_even(monkeypatch):
    config = settings(sharding="HYBRID_SHARD", shard_size=2)
    assert config.ranks_per_copy(4) == 2
    with pytest.raises(ValueError, match="shard_size 2 and 3 ranks"):
        config.ranks_per_copy(3)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert settings(sharding="HYBRID_SHARD").ranks_per_copy(16) == 4, "the ranks of a machine"


def test_sizes_follow_the_device_where_they_are_used():
    given = FSDPConfig(device="auto", model_size="medium")
    assert (given.batch_size, given.seq_len) == (None, None), "the same on every machine"
    small, gpu = given.with_sizes("cpu"), given.with_sizes("cuda")
    assert (small.batch_size, small.tokens_per_sequence) == (2, 128)
    assert (gpu.batch_size, gpu.tokens_per_sequence) == (8, 512)
    tiny = FSDPConfig(model_size="tiny", batch_size=3, seq_len=64).with_sizes("cpu")
    assert (tiny.batch_size, tiny.seq_len) == (3, 64)


def asked_ahead(units: int) -> tuple[list[dict], list[int], list[int]]:
    """Rows of a run, and how many blocks were asked for when each computed, forward and backward."""
    trainer = make(settings(prefetch_units=units))
    rows = steps(trainer, STEPS)
    forward, backward = [], []
    with Traffic() as traffic:

        def gathers() -> int:
            return sum(name == "allgather" for name, _ in traffic.seen)

        for block in trainer.plain_model.blocks:
            block.mlp.register_forward_pre_hook(lambda *_: forward.append(gathers()))
            block.mlp.register_full_backward_hook(lambda *_: backward.append(gathers()))
        trainer.train_step(trainer.next_batches())
    return rows, forward, backward


@pytest.mark.parametrize(
    "units, forward, backward",
    [
        (0, [2, 3, 4, 5], [7, 8, 9, 9]),  # the root's and its own; backward torch asks for one more
        (1, [3, 4, 5, 5], [7, 8, 9, 9]),
        (2, [4, 5, 5, 5], [8, 9, 9, 9]),
        (9, [5, 5, 5, 5], [9, 9, 9, 9]),
    ],
)
def test_weights_are_asked_for_as_far_ahead_as_told(curve, units, forward, backward):
    for rows, asked, asked_backward in values(on_ranks(2, asked_ahead, units)):
        assert close(rows, curve)
        assert (asked, asked_backward) == (forward, backward)
