"""Sharding by hand against one process and torch's fully_shard: values, collectives, bytes held."""

import faulthandler

import pytest
import torch
import torch._dynamo  # noqa: F401  optimizers import it when they are made: once here, not on each rank
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from course_lib.gpt import GPT, GPTConfig, TransformerBlock
from course_lib.measure.held import Held
from course_lib.parallel import mini_fsdp
from course_lib.parallel.mini_fsdp import ShardedModule, full_parameters, shard_model
from course_lib.parallel.zero import zero_traffic
from course_lib.ranks import local_ranks
from course_lib.ranks.local_ranks import RankFailed
from course_lib.ranks.traffic import Traffic, sent_bytes

WORLD_SIZES = (1, 2, 3, 4)
LAYERS, ROWS, T, V = 3, 12, 8, 23
CONFIG = GPTConfig(
    vocab_size=V, max_seq_len=T, num_layers=LAYERS, num_heads=2, d_model=16, d_hidden=40
)


def gpt() -> GPT:
    torch.manual_seed(0)
    return GPT(CONFIG)


PLAIN = gpt()
BLOCK = sum(p.numel() for p in PLAIN.blocks[0].parameters())
ROOT = sum(p.numel() for p in PLAIN.parameters()) - LAYERS * BLOCK


def padded(n: int, R: int) -> int:
    return -(-n // R) * R


def batch(step: int):
    tokens = torch.randint(V, (ROWS, T + 1), generator=torch.Generator().manual_seed(step))
    return tokens[:, :-1], tokens[:, 1:]


def ours(model, **options):
    return shard_model(model, TransformerBlock, **options)


def torchs(model, dtype=None, reshard_after_forward=True):
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=reshard_after_forward)
    return fully_shard(model, mesh=mesh, mp_policy=policy, reshard_after_forward=False)


def gradients(model) -> dict[str, torch.Tensor]:
    """Whole gradients under the names of the plain model."""
    if not isinstance(model, ShardedModule):
        named = model.named_parameters()
        return {n: getattr(p.grad, "full_tensor", lambda p=p: p.grad)() for n, p in named}
    for m in sharded(model):
        m.shard.data, m.shard.grad = m.shard.grad, m.shard.data
    found = full_parameters(model)
    for m in sharded(model):
        m.shard.data, m.shard.grad = m.shard.grad, m.shard.data
    return found


def sharded(model) -> list[ShardedModule]:
    return [m for m in model.modules() if isinstance(m, ShardedModule)]


def train(wrap, steps: int = 2, **options):
    """Losses over `steps` updates of AdamW, collectives and bytes of the last, weights at the end."""
    rank, R = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    model = wrap(gpt(), **options)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses, grads = [], {}
    for step in range(steps):
        idx, targets = (x.tensor_split(R)[rank] for x in batch(step))
        with Traffic() as traffic, Held() as held:
            logits, loss = model(idx, targets)
            traffic.mark("forward has ended")
            after_forward = held.settled_bytes()
            loss.backward()
        grads = grads or gradients(model)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach() / R)
        if R > 1:
            dist.all_reduce(losses[-1])
    state = sum(x.nbytes for s in optimizer.state.values() for n, x in s.items() if n != "step")
    return {
        "losses": torch.stack(losses),
        "grads": grads,
        "seen": traffic.seen,
        "after_forward": after_forward,
        "peak": held.peak,
        "dtype": logits.dtype,
        "state": int(state),
        "shards": sum(p.numel() for p in model.parameters()),
        "weights": full_parameters(model) if isinstance(model, ShardedModule) else None,
    }


def alone():
    return train(lambda model: model)["losses"]


def alike(found, expected, atol=2e-5) -> bool:
    """Losses near 3, after updates whose gradients were added in another order: each weight of AdamW
    may be off by lr times some 1e-6, a loss by less than 1e-5. A wrong mean, or a stale weight, is
    off by 1e-2 and more."""
    return torch.allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("R", WORLD_SIZES)
def test_training_is_that_of_one_process_and_of_fully_shard(R):
    def both():
        theirs = train(torchs)
        return train(ours), {key: theirs[key] for key in ("losses", "grads", "seen")}

    expected = train(lambda model: model)
    for rank in local_ranks.run(both, [()] * R, seconds=30):
        found, theirs = rank.value
        for run in (found, theirs):
            assert alike(run["losses"], expected["losses"])
            for name, grad in expected["grads"].items():  # AdamW alone would not feel their scale
                assert torch.allclose(run["grads"][name], grad, rtol=1e-4, atol=1e-6), name
        # a rank trains 1 / R of the numbers, and its Adam keeps two moments of those
        shards = (LAYERS * padded(BLOCK, R) + padded(ROOT, R)) // R
        assert found["shards"] == shards and found["state"] == 8 * shards
        names = [n for n, _ in found["seen"]]
        if R > 1:  # torch sends nothing where there is nobody, and so may not count
            for kind in ("allgather", "reduce_scatter"):
                assert names.count(kind) == [n for n, _ in theirs["seen"]].count(kind)


@pytest.mark.parametrize("R", (2, 3))
def test_the_collectives_come_block_by_block(R):
    block, root = 4 * padded(BLOCK, R), 4 * padded(ROOT, R)
    forward = [("allgather", root), *[("allgather", block)] * LAYERS, ("forward has ended", 0)]
    backward = [("allgather", block), ("reduce_scatter", block)] * LAYERS
    whole = LAYERS * block + root
    for rank in local_ranks.run(train, [(ours, 1)] * R):
        seen = rank.value["seen"]
        assert seen == forward + backward + [("reduce_scatter", root)]
        # three times (R - 1) / R of the weights, less the root's, which are gathered once
        stage3 = zero_traffic(whole // 4, R, 3, param_bytes=4, grad_bytes=4)
        assert sent_bytes(seen, R) == stage3 - (R - 1) / R * root


def test_kept_weights_save_a_gather_and_cost_memory():
    def both():
        return train(ours, 1), train(ours, 1, reshard_after_forward=False)

    for rank in local_ranks.run(both, [()] * 2):
        freed, kept = rank.value
        assert torch.equal(freed["losses"], kept["losses"])
        names = [n for n, _ in kept["seen"]]
        assert (
            names.count("allgather") == LAYERS + 1 and names.count("reduce_scatter") == LAYERS + 1
        )
        # what is kept longer is the weights of all blocks, and nothing else
        assert kept["after_forward"] - freed["after_forward"] == 4 * LAYERS * padded(BLOCK, 2)
        assert kept["peak"] > freed["peak"]


@pytest.mark.parametrize("R", (1, 2))
def test_bfloat16_halves_the_gathers_and_not_the_reduction(R):
    """Losses as torch's in bfloat16: both round every product to 8 bits, in one order."""

    def both():
        return train(ours, dtype=torch.bfloat16), train(torchs, dtype=torch.bfloat16)["losses"]

    exact = alone()
    for rank in local_ranks.run(both, [()] * R, seconds=30):
        found, theirs = rank.value
        assert alike(found["losses"], theirs, atol=5e-3) and alike(
            found["losses"], exact, atol=5e-2
        )
        assert not torch.equal(found["losses"], exact) and found["dtype"] == torch.bfloat16
        gathered = {b for n, b in found["seen"] if n == "allgather"}
        reduced = {b for n, b in found["seen"] if n == "reduce_scatter"}
        assert gathered == {2 * padded(BLOCK, R), 2 * padded(ROOT, R)}
        assert reduced == {4 * padded(BLOCK, R), 4 * padded(ROOT, R)}


@pytest.mark.parametrize("R", (1, 3))
def test_the_weights_come_back_whole(R):
    def untouched():
        return full_parameters(ours(gpt()))

    plain = {n: p for n, p in gpt().named_parameters(remove_duplicate=False)}
    for rank in local_ranks.run(untouched, [()] * R):
        assert rank.value.keys() == plain.keys() and "head.weight" in plain
        assert all(torch.equal(rank.value[n], plain[n]) for n in plain)


class Odd(nn.Module):
    """A frozen layer, a layer without use, an inner part, and a number of weights that 4 does not divide."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.inner, self.frozen, self.unused = nn.Linear(3, 5), nn.Linear(5, 5), nn.Linear(2, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.frozen(torch.tanh(self.inner(x)))


def gradient_of_odd(x, inner: bool):
    model = inner_sharded() if inner else ShardedModule(Odd())
    for part in x:  # two micro-batches add up
        model(part).pow(2).sum().backward()
    return [m.shard.grad for m in sharded(model)]


def inner_sharded():
    model = Odd()
    model.inner = ShardedModule(model.inner)
    return ShardedModule(model, reshard_after_forward=False)


@pytest.mark.parametrize("R", (2, 4))
@pytest.mark.parametrize("inner", [False, True])
def test_frozen_and_unused_weights_and_accumulation(R, inner):
    x = torch.randn(R, 2, 4, 3, generator=torch.Generator().manual_seed(0))
    ranks = local_ranks.run(gradient_of_odd, [(x[r], inner) for r in range(R)])
    model = Odd()
    (model(x.flatten(0, 2)).pow(2).sum() / R).backward()
    layers = [model.inner] if inner else [model.inner, model.unused]
    flat = torch.cat(
        [
            (torch.zeros_like(p) if p.grad is None else p.grad).flatten()
            for layer in layers
            for p in layer.parameters()
        ]
    )
    whole = torch.cat([r.value[-1] for r in ranks])[: flat.numel()]
    assert torch.allclose(whole, flat, rtol=1e-5, atol=1e-5)
    if inner:  # nothing that the outer wrapper has was used: no gradient, on any rank
        assert [r.value[0] for r in ranks] == [None] * R


def test_nothing_is_left_after_an_update_but_the_shards():
    def work():
        model = ours(gpt())
        with Held() as held:
            idx, targets = batch(0)
            for _ in range(2):
                model(idx, targets)[1].backward()
            free, left = [m.full is None for m in sharded(model)], held.bytes()
            with torch.no_grad():
                model(idx, targets)
            free += [m.full is None for m in sharded(model)]
        return free, left, held.bytes()

    for rank in local_ranks.run(work, [()] * 2):
        free, *left = rank.value
        shards = 4 * (LAYERS * padded(BLOCK, 2) + padded(ROOT, 2)) // 2
        tokens = 8 * ROWS * (T + 1)
        assert all(free) and left == [shards + tokens] * 2


def test_what_cannot_be_sharded_is_refused():
    with pytest.raises(ValueError, match="got none"):
        ShardedModule(nn.Tanh())
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.float64))
    with pytest.raises(ValueError, match="torch.float32, torch.float64"):
        ShardedModule(mixed)
    tied = nn.Sequential(nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2))
    tied[0][0].weight = tied[1].weight
    with pytest.raises(ValueError, match="tied weight lies in two wrappers"):
        shard_model(nn.Sequential(tied, nn.Linear(2, 2)), nn.Sequential)


def test_the_trainers_model_trains_without_any_group():
    assert alike(train(ours)["losses"], alone())


# Wrong answers, and what shows them.


class NeverFrees(ShardedModule):
    def keep(self, x):
        return x


class NeverDivides(ShardedModule):
    def scatter(self, grad):
        return super().scatter(grad) * dist.get_world_size()


class AllReduces(ShardedModule):
    def scatter(self, grad):
        dist.all_reduce(grad)
        self.full = None
        return grad.chunk(dist.get_world_size())[dist.get_rank()] / dist.get_world_size()


class IgnoresDtype(ShardedModule):
    def __init__(self, module, *, dtype=None, **options):
        super().__init__(module, **options)


class GathersWide(ShardedModule):
    """Computes in `dtype`, and still sends float32."""

    def gather(self):
        return mini_fsdp.all_gather(self.shard.detach(), self.group).to(self.dtype)


class ReducesThin(ShardedModule):
    def scatter(self, grad):
        self.full = None
        return (mini_fsdp.reduce_scatter(grad, self.group) / dist.get_world_size()).float()


class GathersEachTime(ShardedModule):
    def bring_back(self, kept):
        return kept if isinstance(kept, torch.Tensor) else self.gather().as_strided(*kept)


class ShardsNothing(ShardedModule):
    def __init__(self, module, **options):
        super().__init__(module, **options)
        whole = mini_fsdp.all_gather(self.shard.detach(), self.group)
        self.shard = nn.Parameter(whole)

    def gather(self):
        return self.shard.detach().to(self.dtype)

    def scatter(self, grad):
        dist.all_reduce(grad := grad.float())
        self.full = None
        return grad / dist.get_world_size()


def all_at_once(model, **options):
    return ShardedModule(model, **options)


def wrapped_by(kind):
    def wrap(model, **options):
        model.blocks = nn.ModuleList(kind(block, **options) for block in model.blocks)
        return kind(model, **options | {"reshard_after_forward": False})

    return wrap


WRONG = {
    "never frees": (wrapped_by(NeverFrees), "after forward"),
    "never divides": (wrapped_by(NeverDivides), "gradients"),
    "all-reduces": (wrapped_by(AllReduces), "collectives"),
    "ignores dtype": (wrapped_by(IgnoresDtype), "bytes in bf16"),
    "gathers wide": (wrapped_by(GathersWide), "bytes in bf16"),
    "reduces thin": (wrapped_by(ReducesThin), "bytes in bf16"),
    "gathers each time": (wrapped_by(GathersEachTime), "collectives"),
    "shards nothing": (wrapped_by(ShardsNothing), "bytes held"),
    "gathers all at once": (all_at_once, "collectives"),
}


def facts(wrap):
    idx, targets = (x.tensor_split(2)[dist.get_rank()] for x in batch(0))
    model = wrap(gpt())
    model(idx, targets)[1].backward()
    grads = [m.shard.grad.clone() for m in sharded(model)]
    thin = train(wrap, 1, dtype=torch.bfloat16)
    return grads, train(wrap, 1), thin["seen"]


def alike_shards(right, found) -> bool:
    return len(right) == len(found) and all(
        x.shape == y.shape and torch.allclose(x, y, atol=1e-6)
        for x, y in zip(right, found, strict=True)
    )


@pytest.fixture(scope="module")
def right():
    return [r.value for r in local_ranks.run(facts, [(ours,)] * 2, seconds=30)]


def shows(wrap, right) -> dict[str, bool]:
    """What is wrong beside the right one, on two ranks."""
    found = [r.value for r in local_ranks.run(facts, [(wrap,)] * 2, seconds=30)]
    pairs = list(zip(right, found, strict=True))
    return {
        "gradients": any(not alike_shards(a, b) for (a, _, _), (b, _, _) in pairs),
        "collectives": any(a["seen"] != b["seen"] for (_, a, _), (_, b, _) in pairs),
        "after forward": any(
            b["after_forward"] > a["after_forward"] + 4 * BLOCK for (_, a, _), (_, b, _) in pairs
        ),
        "bytes held": any(
            b["shards"] != a["shards"] or b["state"] != a["state"] for (_, a, _), (_, b, _) in pairs
        ),
        "bytes in bf16": any(a != b for (_, _, a), (_, _, b) in pairs),
    }


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_answer_shows(name, right):
    wrap, sign = WRONG[name]
    assert shows(wrap, right)[sign]


def test_the_right_answer_shows_nothing(right):
    assert not any(shows(ours, right).values())


def test_a_rank_that_leaves_out_a_block_is_not_waited_for_ever():
    def skips():
        faulthandler.disable()  # gloo may abort the rank: said by RankFailed
        model = ours(gpt())
        if dist.get_rank() == 1:
            model.module.blocks = model.module.blocks[:-1]
        model(*batch(0))[1].backward()

    with pytest.raises((RankFailed, local_ranks.RanksStuck)):
        local_ranks.run(skips, [()] * 2, seconds=3)
