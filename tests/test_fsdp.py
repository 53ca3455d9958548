"""The sharded trainer: the same numbers as one process, and what is held and sent for them."""

import functools
import math

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes

from course_lib.ddp_trainer import DistributedTrainer
from course_lib.fsdp_config import FSDPConfig
from course_lib.fsdp_trainer import FSDPTrainer, whole
from course_lib.measure.memory import counted_state_bytes
from course_lib.measure.traffic import Held, Traffic
from tests.fsdp_runs import GLOBAL_BATCH, make, on_ranks, settings, single, steps, values
from tests.soak import campaign, times

STEPS = 6
CASES = [
    (2, "FULL_SHARD", None), (3, "FULL_SHARD", None), (4, "FULL_SHARD", None),
    (2, "SHARD_GRAD_OP", None), (4, "SHARD_GRAD_OP", None),
    (2, "NO_SHARD", None), (4, "NO_SHARD", None),
    (2, "HYBRID_SHARD", 2), (4, "HYBRID_SHARD", 2),
]  # fmt: skip

# Between two runs of the same sums in another order. A float32 sum is off by some units of 6e-8; each
# update adds to that, and AdamW's first ones move every weight by about lr whatever its gradient, so
# that a gradient near 0 can turn a step around. Six updates were seen to differ by up to 2e-6.
REL = 2e-5


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


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


def run(config, kind=FSDPTrainer, count=STEPS, **changes):
    return steps(make(config, kind, **changes), count)


@campaign
def test_ranks_end_as_they_should_every_time():
    for _ in range(times(1, 50)):
        first, second = values(on_ranks(2, run, settings(), FSDPTrainer, 1))
        assert first == second


def observed(config) -> dict:
    """One run on this rank: what its updates report, what it holds, and what it sends."""
    trainer, held = make(config), {}
    rows = steps(trainer, STEPS)
    hook = trainer.optimizer.register_step_pre_hook(
        lambda *_: held.update(counted_state_bytes(trainer.plain_model, trainer.optimizer))
    )
    ((idx, targets),) = trainer.next_batches()
    sent = {}
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
    return {"rows": rows, "held": held, "sent": sent, "units": units, "mesh": tuple(trainer.mesh.shape),
            "axes": trainer.mesh.mesh_dim_names,
            "shapes": [tuple(p.shape) for p in trainer.plain_model.parameters()]}  # fmt: skip


@functools.cache
def seen(ranks: int, strategy: str, size: int | None, precision: str = "fp32") -> list[dict]:
    """`observed` by rank."""
    config = settings(sharding=strategy, shard_size=size, precision=precision)
    return values(on_ranks(ranks, observed, config))


@pytest.mark.parametrize("ranks, strategy, size", CASES)
def test_every_strategy_learns_what_one_process_learns(curve, ranks, strategy, size):
    found = [rank["rows"] for rank in seen(ranks, strategy, size)]
    assert all(rank == found[0] for rank in found), "every rank reports the same"
    assert close(found[0], curve)


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_ddp_and_a_world_of_one_learn_it_too(curve, ranks):
    kind = FSDPTrainer if ranks == 1 else DistributedTrainer
    assert close(on_ranks(ranks, run, settings(), kind)[0].value, curve)


@pytest.mark.parametrize("ranks, strategy, size", CASES)
def test_a_rank_holds_its_part_and_no_more(ranks, strategy, size):
    """4 bytes of weight, 4 of gradient, 8 of AdamW a parameter, over the ranks that share a copy."""
    found = seen(ranks, strategy, size)
    parts = {"NO_SHARD": 1, "HYBRID_SHARD": 2}.get(strategy, ranks)
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
    assert found[0]["mesh"] == ((ranks // parts, parts) if two_axes else (ranks,))


@pytest.mark.parametrize("ranks", [1, 4])
def test_nothing_else_stays(ranks):
    """Of all tensors of the process, after an update: the shards and their moments, and two tables."""

    def keep():
        keep.trainer = make(settings())
        steps(keep.trainer, 1)
        return sum(p.numel() for p in keep.trainer.plain_model.parameters())

    for rank in on_ranks(ranks, keep):
        state = 12 * rank.value / ranks
        assert state <= rank.held_bytes < state + 2 * 128 * 32 * 4 + 4000


@pytest.mark.parametrize("micro_batches", [1, 2])
@pytest.mark.parametrize("ranks, strategy, size, dtype",
                         [(*case, "fp32") for case in CASES] + [(2, "FULL_SHARD", None, "bf16")])  # fmt: skip
def test_what_an_update_sends(ranks, strategy, size, dtype, micro_batches):
    found = seen(ranks, strategy, size, dtype)
    sent, (*blocks, root) = found[0]["sent"][micro_batches], found[0]["units"]
    assert all(rank["sent"][micro_batches] == sent for rank in found)
    large = {name: [b for n, b in sent if n == name and b > 8] for name, b in sent}
    weight = 2 if dtype == "bf16" else 4
    forward = [root, *blocks]  # the root first: its embedding is needed first
    each = {"FULL_SHARD": forward + blocks[::-1], "HYBRID_SHARD": forward + blocks[::-1],
            "SHARD_GRAD_OP": forward, "NO_SHARD": []}[strategy]  # fmt: skip
    # what stays gathered until backward stays over the micro-batches as well
    times = 1 if strategy == "SHARD_GRAD_OP" else micro_batches
    assert large.pop("allgather", []) == [weight * n for n in each] * times
    once = [4 * n for n in [*blocks[::-1], root]]  # float32 whatever the weights, once an update
    assert large.pop("reduce_scatter", []) == ([] if strategy == "NO_SHARD" else once)
    copies = {"NO_SHARD": once, "HYBRID_SHARD": [n // 2 for n in once]}.get(strategy, [])
    assert large.pop("allreduce") == copies
    assert not any(large.values()), "nothing else of any size"
    small = [n for n, b in sent if b <= 8]
    assert small.count("allreduce") == len(small) <= 6, "loss, tokens, and the norm of the gradient"


def peak(config, root_only: bool) -> int:
    """Most bytes beyond what is kept, in the forward pass."""

    class RootOnly(FSDPTrainer):
        def _get_fsdp_policy(self):
            return [self.plain_model]

    trainer = make(config, RootOnly if root_only else FSDPTrainer)
    steps(trainer, 1)
    idx = torch.zeros(1, 4, dtype=torch.int64)
    with torch.no_grad(), Held() as seen:
        trainer.model(idx)
    return seen.peak


def test_blocks_are_gathered_one_after_the_other():
    """A policy of the root alone has the whole model in memory at once, one of blocks two of five."""
    by_block = on_ranks(2, peak, settings(), False)[0].value
    at_once = on_ranks(2, peak, settings(), True)[0].value
    assert by_block < 0.6 * at_once


def low(config) -> tuple:
    """Losses, and the dtypes of weights in use, of the rotary tables, of gradients and of shards."""
    trainer, seen = make(config), {}
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
    found = steps(trainer, STEPS)
    return found, seen | {"kept": str(block.mlp.up_proj.weight.dtype)[6:]}


@pytest.mark.parametrize(
    "dtype, full, eps", [("bf16", "bfloat16", 2**-8), ("fp16", "float16", 2**-11)]
)
def test_low_precision_is_for_what_is_gathered(curve, dtype, full, eps):
    found, seen = on_ranks(2, low, settings(precision=dtype))[0].value
    assert seen == {"inputs": [full, "float32", "float32"], "used": full, "grad": "float32",
                    "kept": "float32"}  # fmt: skip
    # a loss is a mean over 192 tokens of logits that are each off by some eps of about 1
    assert [r["loss"] for r in found] == pytest.approx([r["loss"] for r in curve], abs=2 * eps)
    assert [r["loss"] for r in found] != [r["loss"] for r in curve]


@pytest.mark.parametrize(
    "strategy, change",
    [
        ("FULL_SHARD", {"cpu_offload": True}),
        ("FULL_SHARD", {"activation_checkpointing": True}),
        ("SHARD_GRAD_OP", {"cpu_offload": True, "activation_checkpointing": True}),
    ],
)
def test_offload_and_recomputation_change_no_number(strategy, change):
    plain = seen(2, strategy, None)[0]["rows"]
    found = on_ranks(2, run, settings(sharding=strategy, **change))[0].value
    assert close(found, plain, rel=1e-6)


def kept_for_backward(config) -> int:
    trainer = make(config, accumulation=1)
    steps(trainer, 1)
    idx, targets = trainer.next_batches()[0]
    with Held() as seen:
        loss = trainer.model(idx, targets)[1]  # noqa: F841  alive while counting
        return seen.bytes()


def test_activation_checkpointing_keeps_less():
    plain = on_ranks(2, kept_for_backward, settings())[0].value
    recomputed = on_ranks(2, kept_for_backward, settings(activation_checkpointing=True))[0].value
    assert recomputed < 0.75 * plain


@campaign
def test_compiled_blocks_learn_the_same(curve, monkeypatch):
    """Briefly with dynamo alone, which finds graphs and breaks; in the soak with the compiler."""
    backend = "inductor" if times(0, 1) else "aot_eager"
    compiled = functools.partial(torch.compile, backend=backend, fullgraph=True)
    monkeypatch.setattr(torch, "compile", compiled)

    def work():
        with _disable_current_modes():  # what counts the traffic of ranks cannot be compiled
            return run(settings(compile=True))

    assert close(on_ranks(2, work, seconds=300)[0].value, curve)


class Frozen(FSDPTrainer):
    """One gain takes no gradient."""

    def _wrapped(self):
        self.plain_model.blocks[0].mlp_norm.weight.requires_grad_(False)
        return super()._wrapped()


def test_a_frozen_parameter_stays_and_has_no_state():
    def freeze(config):
        trainer = make(config, Frozen)
        steps(trainer, 2)
        gain = trainer.plain_model.blocks[0].mlp_norm.weight
        return whole(gain).eq(1).all().item(), len(trainer.optimizer.state)

    (still, count), (_, without) = values(on_ranks(2, freeze, settings()))
    assert still and count == without == 4 * 9 + 2 - 1


def unequal(config) -> list[dict]:
    """An update of which one rank has targets that do not count, on the last micro-batch all."""
    trainer = make(config, accumulation=2)
    parts = trainer.next_batches()
    if trainer.world.rank == trainer.world.world_size - 1:
        parts[0][1][:, 5:] = -100
        parts[1][1][:] = -100
    return [trainer.train_step(parts)]


def test_unequal_batches_count_by_token():
    found = values(on_ranks(2, unequal, settings()))[0]
    one = single(batch_size=3)
    parts = [one.loader.next_batch() for _ in range(4)]  # of rank 0, rank 1, rank 0, rank 1
    parts[1][1][:, 5:] = -100
    parts[3][1][:] = -100
    assert close(found, [one.train_step(parts)])


def evaluated(config):
    trainer = make(config)
    steps(trainer, 2)
    loss = trainer.evaluate()
    gathered = sum(
        p.numel() for p in trainer.plain_model.parameters() if not hasattr(p, "to_local")
    )
    return loss, gathered, steps(trainer, 1)[0]["loss"]


@pytest.mark.parametrize("strategy", ["FULL_SHARD", "SHARD_GRAD_OP"])
def test_validation_leaves_nothing_gathered(strategy):
    (loss, gathered, after), other = values(on_ranks(2, evaluated, settings(sharding=strategy)))
    assert (loss, after) == (other[0], other[2])
    assert gathered == 0
    one = single(batch_size=GLOBAL_BATCH // 2)
    steps(one, 2)
    assert loss == pytest.approx(one.evaluate(), rel=REL)
    assert after == pytest.approx(steps(one, 1)[0]["loss"], rel=REL)


class Letters:
    """A tokenizer of numbers."""

    def encode(self, text: str) -> list[int]:
        return [ord(c) % 97 for c in text]

    def decode(self, ids: list[int]) -> str:
        return " ".join(map(str, ids))


def test_all_ranks_sample_the_same_and_gather_once():
    def sample(config):
        trainer = make(config)
        steps(trainer, 1)
        with Traffic() as traffic:
            text = trainer.sample(Letters(), 5)
        gathers = sum(name == "allgather" for name, _ in traffic.seen)
        return text, gathers, steps(trainer, 1)

    found = values(on_ranks(2, sample, settings()))
    assert found[0] == found[1]
    assert found[0][1] == 5, "each of four blocks and the rest, once for five tokens"
    assert len(found[0][0].split()) == 4 + 5


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
def test_bad_settings_are_said(given, words):
    with pytest.raises(ValueError, match=words):
        settings(**given)


def test_copies_must_come_out_even(monkeypatch):
    config = settings(sharding="HYBRID_SHARD", shard_size=2)
    assert config.ranks_per_copy(4) == 2
    with pytest.raises(ValueError, match="shard_size 2 and 3 ranks"):
        config.ranks_per_copy(3)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert settings(sharding="HYBRID_SHARD").ranks_per_copy(16) == 4, "the ranks of a machine"


def test_sizes_follow_the_device():
    small = FSDPConfig(device="cpu", model_size="medium")
    assert (small.batch_size, small.seq_len) == (2, 128)
    gpu = FSDPConfig(device="cuda", model_size="medium")
    assert (gpu.batch_size, gpu.tokens_per_sequence) == (8, 512)
    assert FSDPConfig(device="cpu", batch_size=3, seq_len=64).seq_len == 64
