"""Data parallelism by hand against one process with the whole batch, and against torch's DDP."""

import contextlib
import faulthandler

import pytest
import torch
import torch._dynamo  # noqa: F401  torch's DDP imports it in forward: once here, not on each rank
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from course_lib.parallel.ddp import DataParallel, broadcast_state, sync_gradients
from course_lib.ranks import local_ranks
from course_lib.ranks.local_ranks import RankFailed
from course_lib.ranks.traffic import Traffic

WORLD_SIZES = (1, 2, 3, 4)
D = 6
CAP = 200  # bytes in a bucket: several buckets, and a parameter or two in each
TOTAL = 10  # rows of an update, over all ranks: 3 and 4 do not divide it


class Toy(nn.Module):
    """Has what goes wrong: a tied weight, a frozen layer, a layer that some calls do not use."""

    def __init__(self):
        super().__init__()
        self.first, self.spare = nn.Linear(D, 8), nn.Linear(D, D)
        self.second, self.frozen = (
            nn.Linear(8, D, bias=False),
            nn.Linear(D, D).requires_grad_(False),
        )
        self.tied, self.last = nn.Linear(D, D, bias=False), nn.Linear(D, D, bias=False)
        self.last.weight = self.tied.weight
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x, use_spare: bool):
        x = self.second(torch.tanh(self.first(x)))
        if use_spare:
            x = x + self.spare(x)
        return self.last(torch.tanh(self.frozen(self.tied(x)))) * self.scale


class AfterBackward(nn.Module):
    """`sync_gradients` in the shape of a wrapper."""

    def __init__(self, module):
        super().__init__()
        self.module = module
        broadcast_state(module)

    def forward(self, *args):
        return self.module(*args)

    def finish(self):
        params = [p for p in self.module.parameters() if p.requires_grad]
        means = sync_gradients(params, [p.grad for p in params])
        for p, mean in zip(params, means, strict=True):
            p.grad = mean

    no_sync = contextlib.nullcontext


def share(rank: int, world_size: int, step: int) -> torch.Tensor:
    """This rank's rows: unequal where world_size does not divide TOTAL."""
    generator = torch.Generator().manual_seed(step)
    return torch.randn(TOTAL, D, generator=generator).tensor_split(world_size)[rank]


def uses_spare(rank: int, step: int) -> bool:
    return rank == step % 2


def part_of_loss(model, rank: int, world_size: int, step: int) -> torch.Tensor:
    """This rank's sum over rows, so that the mean over ranks is the mean over all rows."""
    out = model(share(rank, world_size, step), uses_spare(rank, step))
    return out.pow(2).sum() / TOTAL * world_size


def rehearse(wrap, steps: int = 1):
    """One update of `steps` micro-batches on this rank, in facts."""
    faulthandler.disable()  # gloo aborts a rank of a wrong answer: said by RankFailed, not on paper
    rank, world_size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(rank)  # other weights on every rank: rank 0's must win
    model = Toy()
    with Traffic() as traffic:
        wrapped = wrap(model)
        start = {name: p.detach().clone() for name, p in model.named_parameters()}
        for name, p in model.named_parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda _, name=name: traffic.mark(name))
        traffic.mark("update")
        for step in range(steps):
            last = step == steps - 1
            with contextlib.nullcontext() if last else wrapped.no_sync():
                part_of_loss(wrapped, rank, world_size, step).backward()
        traffic.mark("backward has ended")
        getattr(wrapped, "finish", lambda: None)()
    begins = traffic.seen.index(("update", 0))
    return {
        "start": start,
        "made": traffic.seen[:begins],
        "seen": traffic.seen[begins + 1 :],
        "grads": {n: p.grad for n, p in model.named_parameters() if p.grad is not None},
    }


def alone(world_size: int, steps: int = 1) -> dict[str, torch.Tensor]:
    """The gradients of one process that sees all rows of all ranks."""
    torch.manual_seed(0)
    model = Toy()
    for step in range(steps):
        for rank in range(world_size):
            (part_of_loss(model, rank, world_size, step) / world_size).backward()
    return {n: p.grad for n, p in model.named_parameters() if p.grad is not None}


def same(found: dict, expected: dict) -> bool:
    """Equal up to the order of float32 sums: some dozens of roundings of 6e-8 of the largest entry.
    A mean that is not taken, or a rank that is left out, is off by tens of percents."""
    largest = max(g.abs().max() for g in expected.values())
    return found.keys() == expected.keys() and all(
        torch.allclose(found[n], expected[n], rtol=1e-5, atol=2e-6 * float(largest))
        for n in expected
    )


def reduces(facts: dict) -> list[int]:
    """Bytes of the all-reduces of the update, in order."""
    return [b for name, b in facts["seen"] if name == "allreduce"]


def torchs(model):
    return DistributedDataParallel(model, find_unused_parameters=True)


TRAINED = [p.nbytes for p in reversed(list(Toy().parameters())) if p.requires_grad]
BUCKETS = [sum(p.nbytes for p in b) for b in DataParallel(Toy(), bucket_bytes=CAP).buckets]


@pytest.mark.parametrize("R", WORLD_SIZES)
def test_gradients_are_those_of_one_process_and_of_torch(R):
    def all_three():
        hand = rehearse(lambda m: DataParallel(m, bucket_bytes=CAP))
        return hand, rehearse(AfterBackward), rehearse(torchs)

    expected = alone(R)
    torch.manual_seed(0)
    first = {name: p.detach() for name, p in Toy().named_parameters()}
    for rank in local_ranks.run(all_three, [()] * R):
        hand, after, theirs = rank.value
        for facts in rank.value:
            assert all(torch.equal(facts["start"][n], first[n]) for n in first)
            assert same(facts["grads"], expected)
            assert not any(name.startswith("frozen") for name in facts["grads"])
        assert reduces(hand) == BUCKETS and reduces(after) == TRAINED[::-1]
        assert sum(reduces(hand)) == sum(TRAINED)
        tensors = [t.nbytes for t in (*Toy().parameters(), *Toy().buffers())]
        assert hand["made"] == [("broadcast", b) for b in tensors]


@pytest.mark.parametrize("R", (1, 2, 4))
def test_buckets_leave_while_backward_still_computes(R):
    ranks = local_ranks.run(rehearse, [(lambda m: DataParallel(m, bucket_bytes=CAP),)] * R)
    for rank in ranks:
        names = [name for name, _ in rank.value["seen"]]
        gone = names.index("allreduce")
        assert gone < names.index("first.weight") < names.index("backward has ended")
    (late,) = {
        tuple(n for n, _ in r.value["seen"])[-len(TRAINED) - 1 :]
        for r in local_ranks.run(rehearse, [(AfterBackward,)] * R)
    }
    assert late == ("backward has ended", *["allreduce"] * len(TRAINED))


def test_a_rank_that_lacks_a_gradient_keeps_the_order_of_the_buckets():
    """`spare` is used on rank 0 alone: its bucket, and those behind it, leave rank 1 in finish()."""
    ranks = local_ranks.run(rehearse, [(lambda m: DataParallel(m, bucket_bytes=CAP),)] * 2)
    early = [[n for n, _ in r.value["seen"]] for r in ranks]
    before = [names[: names.index("backward has ended")].count("allreduce") for names in early]
    assert before[0] == len(BUCKETS) and before[1] < len(BUCKETS)
    assert [reduces(r.value) for r in ranks] == [BUCKETS] * 2


@pytest.mark.parametrize("R", (1, 2, 3))
def test_no_sync_sends_the_sum_of_all_micro_batches_once(R):
    def both():
        return rehearse(lambda m: DataParallel(m, bucket_bytes=CAP), 3), rehearse(torchs, 3)

    expected = alone(R, 3)
    for rank in local_ranks.run(both, [()] * R):
        hand, theirs = rank.value
        assert same(hand["grads"], expected) and same(theirs["grads"], expected)
        assert reduces(hand) == BUCKETS
        names = [name for name, _ in hand["seen"]]
        assert names[: names.index("allreduce")].count("first.weight") == 2


def test_no_sync_nests_and_ends_with_an_error():
    model = DataParallel(Toy())
    with model.no_sync():
        with model.no_sync():
            pass
        assert not model.syncing
    with pytest.raises(KeyError), model.no_sync():
        raise KeyError
    assert model.syncing


def test_updates_follow_one_another():
    """Several updates with an optimizer: nothing of one is left in the next."""

    def train():
        rank, R = dist.get_rank(), dist.get_world_size()
        torch.manual_seed(rank)
        model = DataParallel(Toy(), bucket_bytes=CAP)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(4):
            part_of_loss(model, rank, R, step).backward()
            model.finish()
            optimizer.step()
            optimizer.zero_grad()
        return {n: p.detach() for n, p in model.module.named_parameters()}

    torch.manual_seed(0)
    model = Toy()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(4):
        for rank in range(2):
            (part_of_loss(model, rank, 2, step) / 2).backward()
        optimizer.step()
        optimizer.zero_grad()
    for rank in local_ranks.run(train, [()] * 2):
        assert same(rank.value, {n: p.detach() for n, p in model.named_parameters()})


def filled(params, bucket_bytes: int) -> list[list[int]]:
    """Numbers of elements by bucket."""
    module = nn.ParameterList(params)
    buckets = DataParallel(module, bucket_bytes=bucket_bytes).buckets
    return [[p.numel() for p in bucket] for bucket in buckets]


def test_buckets_are_filled_from_the_end():
    sizes = (10, 20, 30, 5, 40)
    params = [nn.Parameter(torch.zeros(n)) for n in sizes]
    # 40 is too large, and has a bucket of its own
    assert filled(params, 4 * 35) == [[40], [5, 30], [20, 10]]
    assert filled(params, 1) == [[n] for n in sizes[::-1]]
    params[2] = nn.Parameter(torch.zeros(30, dtype=torch.bfloat16))
    params[1] = nn.Parameter(torch.zeros(20), requires_grad=False)
    assert filled(params, 10_000) == [[40, 5], [30], [10]]
    with pytest.raises(ValueError, match="bucket_bytes"):
        filled(params, 0)


def test_a_second_backward_before_finish_is_refused():
    model = DataParallel(nn.Linear(3, 2))
    model(torch.ones(1, 3)).sum().backward()
    with pytest.raises(ValueError, match="second backward pass before finish"):
        model(torch.ones(1, 3)).sum().backward()


def test_half_precision_travels_in_half_the_bytes():
    def work():
        model = DataParallel(nn.Linear(8, 8, dtype=torch.bfloat16), bucket_bytes=64)
        with Traffic() as traffic:
            model(torch.ones(1, 8, dtype=torch.bfloat16)).sum().backward()
            model.finish()
        return traffic.seen, model.module.weight.grad

    for rank in local_ranks.run(work, [()] * 2):
        assert rank.value[0] == [("allreduce", 16), ("allreduce", 128)]
        assert rank.value[1].dtype == torch.bfloat16 and torch.equal(
            rank.value[1].float(), torch.ones(8, 8)
        )


# Wrong answers, and what shows them.


class NoMean(DataParallel):
    def finish(self):
        self.world_size = 1
        super().finish()


class NoOverlap(DataParallel):
    def gradient_ready(self, p):
        pass


class BucketsOfOne(DataParallel):
    def __init__(self, module, **options):
        super().__init__(module, bucket_bytes=1)


class Waits(DataParallel):
    """All-reduces in the hook of each parameter: one that a rank does not use has no hook there."""

    def gradient_ready(self, p):
        dist.all_reduce(p.grad)
        p.grad /= self.world_size

    def finish(self):
        pass


class OwnOrder(DataParallel):
    """Starts whichever bucket is full: ranks that use other parameters send in another order."""

    def gradient_ready(self, p):
        bucket = self.bucket_of[p]
        self.missing[bucket].discard(p)
        if not self.missing[bucket]:
            self.buckets.insert(len(self.started), self.buckets.pop(bucket))
            self.missing.insert(len(self.started), self.missing.pop(bucket))
            self.bucket_of = {q: i for i, b in enumerate(self.buckets) for q in b}
            self.start_bucket()


class SyncsAlways(DataParallel):
    @contextlib.contextmanager
    def no_sync(self):
        yield
        self.finish()


class ForgetsTheRest(DataParallel):
    @contextlib.contextmanager
    def no_sync(self):
        yield
        self.module.zero_grad()


class NoBroadcast(DataParallel):
    def __init__(self, module, **options):
        kept = {n: p.detach().clone() for n, p in module.named_parameters()}
        super().__init__(module, **options)
        with torch.no_grad():
            for n, p in module.named_parameters():
                p.copy_(kept[n])


WRONG = {
    NoMean: "values", NoOverlap: "overlap", BucketsOfOne: "buckets", Waits: "values",
    OwnOrder: "values", SyncsAlways: "collectives", ForgetsTheRest: "values", NoBroadcast: "start",
}  # fmt: skip


def shows(wrong, R: int = 2, steps: int = 3) -> dict[str, bool]:
    """Which facts are wrong; a hang or an error is "values"."""
    try:
        ranks = local_ranks.run(
            rehearse, [(lambda m: wrong(m, bucket_bytes=CAP), steps)] * R, seconds=4
        )
    except (RankFailed, local_ranks.RanksStuck):
        return {"values": True}
    expected = alone(R, steps)
    torch.manual_seed(0)
    first = {name: p.detach() for name, p in Toy().named_parameters()}
    late = 0
    for rank in ranks:
        names = [n for n, _ in rank.value["seen"]]
        late += names.index("allreduce") > names.index("backward has ended")
    found = [r.value for r in ranks]
    return {
        "values": not all(same(f["grads"], expected) for f in found),
        "overlap": late > 0,
        "buckets": any(reduces(f) != BUCKETS for f in found),
        "collectives": any(sum(reduces(f)) != sum(BUCKETS) for f in found),
        "start": any(not torch.equal(f["start"][n], first[n]) for f in found for n in first),
    }


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.__name__)
def test_a_wrong_answer_shows(wrong):
    assert shows(wrong)[WRONG[wrong]]


def test_the_right_answer_shows_nothing():
    assert not any(shows(DataParallel).values())


def test_plain_gradients_come_back_averaged():
    """None on some ranks, or on all; nothing given is changed; the dtype stays."""
    params = [torch.ones(2, 3), torch.ones(4), torch.ones(5, dtype=torch.bfloat16)]

    def work(grads):
        before = [None if g is None else g.clone() for g in grads]
        means = sync_gradients(params, grads)
        kept = all(a is b or torch.equal(a, b) for a, b in zip(before, grads, strict=True))
        return means, kept

    by_rank = [[torch.full((2, 3), float(r)), None, None] for r in range(3)]
    by_rank[1][2] = torch.full((5,), 3.0, dtype=torch.bfloat16)
    for rank in local_ranks.run(work, [(grads,) for grads in by_rank]):
        (one, two, three), kept = rank.value
        assert kept and one.tolist() == [[1.0] * 3] * 2 and two.tolist() == [0.0] * 4
        assert three.tolist() == [1.0] * 5 and three.dtype == torch.bfloat16
        assert rank.collectives == [("allreduce", 24), ("allreduce", 16), ("allreduce", 10)]


def test_a_rank_that_skips_an_unused_parameter_hangs():
    """What `sync_gradients` is written against: every rank must take part for every parameter."""

    def skips(x):
        faulthandler.disable()
        model = Toy()
        part_of_loss(model, dist.get_rank(), 2, 0).backward()
        for p in model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
        return F.relu(x)

    with pytest.raises((RankFailed, local_ranks.RanksStuck)):
        local_ranks.run(skips, [(torch.ones(1),)] * 2, seconds=3)
