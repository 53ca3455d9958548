"""ZeRO: formulas against counted bytes, the sharded update against one process and torch's own."""

import warnings

import pytest
import torch
import torch._dynamo  # noqa: F401  optimizers import it when they are made: once here, not on each rank
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.measure.memory import training_state_bytes
from course_lib.parallel.zero import ShardedAdamW, shard_of, zero1_step, zero_memory, zero_traffic
from course_lib.ranks import local_ranks
from course_lib.ranks.collectives import all_gather, pad_to_multiple, place, reduce_scatter
from course_lib.ranks.traffic import Traffic, sent_bytes
from course_lib.training.adamw import adamw_step

with (
    warnings.catch_warnings()
):  # this import compiles with torch.jit, which torch itself deprecates
    warnings.simplefilter("ignore", DeprecationWarning)
    from torch.distributed.optim import ZeroRedundancyOptimizer

WORLD_SIZES = (1, 2, 3, 4)
N = 10  # 3 and 4 do not divide it
FIXED = dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)


def test_sixteen_bytes_a_parameter_by_stage():
    """7 billion parameters on 8 ranks, in GB, as figure 1 of the paper counts them."""
    found = [{k: v / 1e9 for k, v in zero_memory(7_000_000_000, 8, s).items()} for s in range(4)]
    assert found[0] == {"weights": 14, "gradients": 14, "optimizer": 84}
    assert found[1] == {"weights": 14, "gradients": 14, "optimizer": 10.5}
    assert found[2] == {"weights": 14, "gradients": 1.75, "optimizer": 10.5}
    assert found[3] == {"weights": 1.75, "gradients": 1.75, "optimizer": 10.5}
    assert sum(zero_memory(N, 1, 3).values()) == training_state_bytes(N)


def test_a_shard_is_rounded_up_and_settings_count():
    assert zero_memory(10, 4, 3) == {"weights": 6, "gradients": 6, "optimizer": 36}
    fp32 = zero_memory(10, 4, 2, param_bytes=4, grad_bytes=4, optimizer_bytes=8)
    assert fp32 == {"weights": 40, "gradients": 12, "optimizer": 24}
    assert all(type(b) is int for b in fp32.values())
    for bad in (4, -1):
        with pytest.raises(ValueError, match="stage must be one of 0, 1, 2, 3"):
            zero_memory(10, 4, bad)
    with pytest.raises(ValueError, match="world_size"):
        zero_memory(10, 0, 1)


def test_stages_one_and_two_send_as_much_as_plain_data_parallelism():
    psi = 2 * 1000
    assert [zero_traffic(1000, 4, s) for s in range(4)] == [
        2 * 3 / 4 * psi,
        2 * 3 / 4 * psi,
        2 * 3 / 4 * psi,
        3 * 3 / 4 * psi,
    ]
    assert zero_traffic(1000, 1, 3) == 0


def state(R: int, dtype=torch.float32, size: int = N):
    """Weights, and by update the gradients of every rank; quarters up to 2 in 16 bits, whose sums are
    exact there: where a sum is near zero, Adam would make a step of lr of another rounding."""
    generator = torch.Generator().manual_seed(R)
    weights = torch.randn(size, generator=generator)
    grads = torch.randn(3, R, size, generator=generator)
    if dtype != torch.float32:
        grads = grads.mul(4).round().clamp(-8, 8).div(4).to(dtype)
    return weights, [list(parts) for parts in grads]


def plain(weights, grads, R):
    """Three updates in one process, of the mean gradient."""
    m = v = torch.zeros_like(weights)
    for step, parts in enumerate(grads, 1):
        mean = sum(p.float() for p in parts) / R
        weights, m, v = adamw_step(weights, mean, m, v, step, **FIXED)
    return weights, m, v


def updates(step_function, weights, grads):
    """Three updates on this rank: values, collectives of one update, bytes, shapes."""
    rank, R = place()
    master = shard_of(weights)
    m, v = torch.zeros_like(master), torch.zeros_like(master)
    for step, parts in enumerate(grads, 1):
        before = [t.clone() for t in (parts[rank], master, m, v)]
        given = (parts[rank], master, m, v)
        with Traffic() as traffic:
            out = step_function(*given, step, **FIXED)
        kept = all(torch.equal(a, b) for a, b in zip(before, given, strict=True))
        full, master, m, v = out
    return {"weights": full, "shards": (master, m, v), "seen": traffic.seen, "kept": kept}


def near(found, expected) -> bool:
    """Equal up to the order in which R gradients are added: some roundings of 6e-8 in them, which
    m / sqrt(v) hands on to an update of at most about lr."""
    return found.shape == expected.shape and torch.allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("R", WORLD_SIZES)
def test_the_sharded_update_is_the_update_of_one_process(R):
    weights, grads = state(R)
    expected, m, v = plain(weights, grads, R)
    shard = -(-N // R)
    shards = [pad_to_multiple(x, R).chunk(R) for x in (expected, m, v)]
    for rank, done in enumerate(local_ranks.run(updates, [(zero1_step, weights, grads)] * R)):
        found = done.value
        assert near(found["weights"], expected) and found["kept"]
        for ours, whole in zip(found["shards"], shards, strict=True):
            assert ours.shape == (shard,) and near(ours, whole[rank])
        padded = 4 * shard * R
        assert found["seen"] == [("reduce_scatter", padded), ("allgather", padded)]
        assert sent_bytes(found["seen"], R) == zero_traffic(
            shard * R, R, 1, param_bytes=4, grad_bytes=4
        )


@pytest.mark.parametrize("R", (2, 3))
def test_sixteen_bits_travel_and_thirtytwo_are_kept(R):
    weights, grads = state(R, torch.bfloat16)
    expected, _, _ = plain(weights, grads, R)
    for rank, done in enumerate(local_ranks.run(updates, [(zero1_step, weights, grads)] * R)):
        found = done.value
        assert found["weights"].dtype == torch.bfloat16
        assert all(s.dtype == torch.float32 for s in found["shards"])
        master = pad_to_multiple(expected, R).chunk(R)[rank]
        assert near(found["shards"][0], master)
        assert torch.allclose(found["weights"].float(), expected, rtol=2**-8)  # 8 bits are left
        assert [b for _, b in found["seen"]] == [2 * -(-N // R) * R] * 2


class Toy(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.frozen, self.two = (
            nn.Linear(5, 7),
            nn.Linear(7, 7),
            nn.Linear(7, 3, bias=False),
        )
        self.frozen.requires_grad_(False)

    def forward(self, x):
        return self.two(torch.tanh(self.frozen(self.one(x))))


def groups(model):
    params = list(model.parameters())
    return [
        {"params": [p for p in params if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
    ]


def train(make, *, data_parallel: bool, R: int, ranks, steps: int = 4):
    """Parameters and the optimizer after some updates; `ranks`: whose rows this process has."""
    torch.manual_seed(0)
    model = Toy()
    wrapped = DistributedDataParallel(model) if data_parallel else model
    optimizer = make(model)
    for step in range(steps):
        rows = torch.randn(R, 4, 5, generator=torch.Generator().manual_seed(step))[ranks]
        for settings in optimizer.param_groups:
            settings["lr"] = 0.01 * (step + 1)
        wrapped(rows).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return {n: p.detach() for n, p in model.named_parameters()}, optimizer


@pytest.mark.parametrize("R", WORLD_SIZES)
def test_training_equals_adamw_of_one_process_and_torchs_sharded_one(R):
    kinds = dict(betas=(0.9, 0.95), lr=0.1)

    def both():
        mine = slice(dist.get_rank(), dist.get_rank() + 1)
        ours, optimizer = train(
            lambda m: ShardedAdamW(groups(m), **kinds), data_parallel=False, R=R, ranks=mine
        )
        held = sum(g[k].nbytes for g in optimizer.param_groups for k in ("master", "m", "v"))

        def torchs(model):
            trained = [p for p in model.parameters() if p.requires_grad]
            return ZeroRedundancyOptimizer(trained, torch.optim.AdamW, weight_decay=0.0, **kinds)

        def ours_plain(model):
            return ShardedAdamW(model.parameters(), weight_decay=0.0, **kinds)

        theirs, _ = train(torchs, data_parallel=True, R=R, ranks=mine)
        same, _ = train(ours_plain, data_parallel=False, R=R, ranks=mine)
        return ours, held, theirs, same

    expected, _ = train(
        lambda m: torch.optim.AdamW(groups(m), **kinds), data_parallel=False, R=R, ranks=slice(None)
    )
    sizes = [7 * 5 + 3 * 7, 7]  # matrices, biases
    for rank in local_ranks.run(both, [()] * R):
        ours, held, theirs, same = rank.value
        assert all(near(ours[n], expected[n]) for n in expected)
        assert all(near(same[n], theirs[n]) for n in expected)
        assert held == sum(zero_memory(n, R, 1)["optimizer"] for n in sizes)
        assert not near(ours["one.weight"], theirs["one.weight"])  # the decay is felt


def test_its_state_is_saved_and_loaded_by_rank():
    def work():
        def fresh():
            torch.manual_seed(0)
            model = Toy()
            return model, ShardedAdamW(groups(model), lr=0.1)

        def update(model, optimizer):
            model(torch.ones(2, 5) * (1 + dist.get_rank())).sum().backward()
            optimizer.step()
            optimizer.zero_grad()

        model, optimizer = fresh()
        update(model, optimizer)
        again, second = fresh()
        again.load_state_dict(model.state_dict())
        second.load_state_dict(optimizer.state_dict())
        update(model, optimizer)
        update(again, second)
        return torch.equal(model.one.weight, again.one.weight), second.param_groups[0]["step"]

    assert [r.value for r in local_ranks.run(work, [()] * 2)] == [(True, 2)] * 2


def test_it_trains_alone_without_any_group():
    torch.manual_seed(0)
    model, twin = Toy(), Toy()
    twin.load_state_dict(model.state_dict())
    ours, theirs = ShardedAdamW(groups(model), lr=0.1), torch.optim.AdamW(groups(twin), lr=0.1)
    for m, optimizer in ((model, ours), (twin, theirs)):
        m(torch.ones(2, 5)).sum().backward()
        optimizer.step()
    assert all(near(p, q) for p, q in zip(model.parameters(), twin.parameters(), strict=True))


# Wrong updates, and what shows them.


def shards_nothing(grad, master, m, v, step, **fixed):
    R = place()[1]
    dist.all_reduce(total := grad.clone())
    whole = [all_gather(x)[: grad.numel()] for x in (master, m, v)]
    return whole[0], *adamw_step(whole[0], total / R, *whole[1:], step, **fixed)


def all_reduces(grad, master, m, v, step, **fixed):
    R = place()[1]
    dist.all_reduce(total := grad.clone())
    master, m, v = adamw_step(master, shard_of(total) / R, m, v, step, **fixed)
    return all_gather(master)[: grad.numel()], master, m, v


def never_divides(grad, master, m, v, step, **fixed):
    mine = reduce_scatter(pad_to_multiple(grad, place()[1]))
    master, m, v = adamw_step(master, mine, m, v, step, **fixed)
    return all_gather(master)[: grad.numel()], master, m, v


def own_gradient(grad, master, m, v, step, **fixed):
    master, m, v = adamw_step(master, shard_of(grad), m, v, step, **fixed)
    return all_gather(master)[: grad.numel()], master, m, v


def keeps_the_padding(grad, master, m, v, step, **fixed):
    _, *shards = zero1_step(grad, master, m, v, step, **fixed)
    return all_gather(shards[0]), *shards


def gathers_the_moments(grad, master, m, v, step, **fixed):
    weights, *shards = zero1_step(grad, master, m, v, step, **fixed)
    all_gather(shards[1])
    return weights, *shards


def in_place(grad, master, m, v, step, **fixed):
    weights, new, m2, v2 = zero1_step(grad, master, m, v, step, **fixed)
    return weights, master.copy_(new), m.copy_(m2), v.copy_(v2)


def widens_first(grad, master, m, v, step, **fixed):
    weights, *shards = zero1_step(grad.float(), master, m, v, step, **fixed)
    return weights.to(grad.dtype), *shards


WRONG = {
    shards_nothing: "bytes held", all_reduces: "traffic", never_divides: "values", own_gradient: "values",
    keeps_the_padding: "shape", gathers_the_moments: "traffic", in_place: "input",
    widens_first: "traffic in 16 bits",
}  # fmt: skip


def shows(wrong, R: int = 3) -> dict[str, bool]:
    weights, grads = state(R)
    expected, m, _ = plain(weights, grads, R)
    found = [r.value for r in local_ranks.run(updates, [(wrong, weights, grads)] * R)]
    half = state(R, torch.bfloat16)
    thin = [r.value for r in local_ranks.run(updates, [(wrong, *half)] * R)]
    shard = -(-N // R)
    return {
        "shape": any(f["weights"].shape != (N,) for f in found),
        "values": any(not torch.allclose(f["weights"][:N], expected, atol=1e-6) for f in found)
        or any(
            not near(f["shards"][1][:2], x[:2])
            for f, x in zip(found, pad_to_multiple(m, R).chunk(R), strict=True)
        ),
        "bytes held": any(s.numel() != shard for f in found for s in f["shards"]),
        "traffic": any(
            sent_bytes(f["seen"], R) != zero_traffic(shard * R, R, 1, param_bytes=4, grad_bytes=4)
            for f in found
        ),
        "traffic in 16 bits": any(
            sent_bytes(f["seen"], R) != zero_traffic(shard * R, R, 1) for f in thin
        ),
        "input": not all(f["kept"] for f in found),
    }


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.__name__)
def test_a_wrong_update_shows(wrong):
    assert shows(wrong)[WRONG[wrong]]


def test_the_right_update_shows_nothing():
    assert not any(shows(zero1_step).values())
