"""Rings by hand against sums in one process, against torch's own, and against the cost model."""

import pytest
import torch
import torch.distributed as dist

from course_lib.measure.held import Held
from course_lib.ranks import local_ranks
from course_lib.ranks.collectives import (
    all_gather,
    collective_cost,
    pad_to_multiple,
    pass_on,
    place,
    reduce_scatter,
    ring_all_gather,
    ring_all_reduce,
    ring_reduce_scatter,
    root_all_reduce,
)
from course_lib.ranks.traffic import Traffic, sent_bytes
from grader.course import ROOT
from grader.lesson import LessonSource

WORLD_SIZES = (1, 2, 3, 4)


def inputs(world_size: int, *shape: int, dtype=torch.float32) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(world_size)
    return [torch.randn(shape, generator=generator).to(dtype) for _ in range(world_size)]


def close(found, parts) -> bool:
    """Whether `found` is the sum of the parts, up to their order: R - 1 additions, each off by at most
    half an ulp of what has been summed, in both."""
    bound = (len(parts) - 1) * torch.finfo(found.dtype).eps * sum(p.abs().double() for p in parts)
    return bool(((found.double() - sum(p.double() for p in parts)).abs() <= bound).all())


def several(*steps):
    """A function for ranks: each (function, argument) in turn; (value, seen) of each."""

    def work():
        found = []
        for function, by_rank in steps:
            given = by_rank[dist.get_rank()].clone()
            before = given.clone()
            with Traffic() as traffic:
                value = function(given)
            assert torch.equal(given, before), "the input has changed"
            assert value.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
            found.append((value, traffic.seen))
        return found

    return work


@pytest.mark.parametrize("R", WORLD_SIZES)
def test_the_rings_equal_one_process_and_torch(R):
    xs, odd = inputs(R, 6 * R, 2), inputs(R, 3, 5)
    ints = [torch.arange(4 * R) * (r + 1) for r in range(R)]
    work = several(
        (ring_reduce_scatter, xs),
        (reduce_scatter, xs),
        (ring_all_gather, xs),
        (all_gather, xs),
        (ring_all_reduce, odd),
        (root_all_reduce, odd),
        (ring_reduce_scatter, ints),
    )
    for rank, done in enumerate(local_ranks.run(work, [()] * R)):
        scattered, its, gathered, theirs, summed, at_root, whole = (
            value for value, _ in done.value
        )
        mine = [x.chunk(R)[rank] for x in xs]
        assert close(scattered, mine) and close(its, mine) and scattered.shape == (6, 2)
        assert torch.equal(gathered, torch.cat(xs)) and torch.equal(theirs, gathered)
        assert close(summed, odd) and close(at_root, odd) and summed.shape == (3, 5)
        assert torch.equal(whole, sum(ints).chunk(R)[rank]) and whole.dtype == torch.int64


@pytest.mark.parametrize("R", WORLD_SIZES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_counted_bytes_are_those_of_the_cost_model(R, dtype):
    xs = inputs(R, 12 * R, dtype=dtype)
    work = several(
        (ring_reduce_scatter, xs),
        (ring_all_gather, xs),
        (ring_all_reduce, xs),
        (reduce_scatter, xs),
        (all_gather, xs),
    )
    num_bytes = xs[0].nbytes
    expected = [
        ("reduce_scatter", num_bytes),
        ("all_gather", R * num_bytes),
        ("all_reduce", num_bytes),
    ]
    for done in (rank.value for rank in local_ranks.run(work, [()] * R)):
        for (_, seen), (name, whole) in zip(done[:3], expected, strict=True):
            cost = collective_cost(name, whole, R)
            assert [n for n, _ in seen].count("send") == cost["messages"]
            assert [n for n, _ in seen] == ["send", "recv"] * cost["messages"]
            assert sum(b for n, b in seen if n == "send") == cost["bytes"] == sent_bytes(seen, R)
        # torch's own: one each, counted as the whole tensor, so the same bytes in a ring
        assert done[3][1] == [("reduce_scatter", num_bytes)]
        assert done[4][1] == [("allgather", R * num_bytes)]
        assert sent_bytes(done[3][1], R) == sent_bytes(done[0][1], R)


def test_the_root_is_the_bottleneck_and_the_ring_has_none():
    R, xs = 4, inputs(4, 16)
    ranks = local_ranks.run(several((root_all_reduce, xs), (ring_all_reduce, xs)), [()] * R)
    sent = [[sent_bytes(seen, R) for _, seen in rank.value] for rank in ranks]
    assert [root for root, _ in sent] == [3 * 64, 64, 64, 64]
    assert [ring for _, ring in sent] == [1.5 * 64] * R


def test_only_the_result_is_held():
    (x,) = inputs(1, 3000)
    for function, numbers in ((ring_reduce_scatter, 1000), (ring_all_gather, 9000)):
        ranks = local_ranks.run(function, [(x.clone(),) for _ in range(3)])
        assert [rank.held_bytes for rank in ranks] == [4 * numbers] * 3

    def peak(x):
        with Held() as held:
            ring_reduce_scatter(x)
        return held.peak

    # two chunks beside the input: a ring that cloned the input would hold three and more
    assert [r.value for r in local_ranks.run(peak, [(x.clone(),) for _ in range(3)])] == [8000] * 3


def test_a_group_of_some_of_the_ranks():
    def pair(x):
        groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
        group = groups[dist.get_rank() % 2]
        return (
            place(group),
            ring_all_reduce(x, group),
            root_all_reduce(x, group),
            all_gather(x, group),
        )

    xs = inputs(4, 5)
    for rank, done in enumerate(local_ranks.run(pair, [(x,) for x in xs])):
        other = (rank + 2) % 4
        assert done.value[0] == (rank // 2, 2)
        assert close(done.value[1], [xs[rank], xs[other]]) and close(
            done.value[2], [xs[rank], xs[other]]
        )
        assert torch.equal(done.value[3], torch.cat([xs[min(rank, other)], xs[max(rank, other)]]))


def test_without_any_group_the_world_has_one_rank():
    assert place() == (0, 1)
    x = torch.arange(6.0)
    for function in (
        ring_reduce_scatter,
        ring_all_gather,
        ring_all_reduce,
        reduce_scatter,
        all_gather,
    ):
        found = function(x)
        assert torch.equal(found, x) and found.data_ptr() != x.data_ptr()


def test_bad_shapes_are_refused():
    work = lambda x: ring_reduce_scatter(x)  # noqa: E731
    with pytest.raises(local_ranks.RankFailed, match="2 ranks divide, got shape .3,"):
        local_ranks.run(work, [(torch.ones(3),)] * 2)
    with pytest.raises(ValueError, match="single number"):
        ring_all_gather(torch.tensor(1.0))
    assert pad_to_multiple(torch.ones(5), 4).tolist() == [1, 1, 1, 1, 1, 0, 0, 0]
    assert pad_to_multiple(torch.ones(4), 4).numel() == 4


def test_the_cost_of_an_all_reduce_in_numbers():
    # 100 MB on 4 ranks, 10 microseconds and 25 GB/s: 6 messages of 25 MB, 6 * (10 us + 1 ms)
    cost = collective_cost("all_reduce", 100_000_000, 4, latency_s=1e-5, bytes_per_s=25e9)
    assert cost == {"messages": 6, "bytes": 150_000_000.0, "seconds": pytest.approx(6.06e-3)}
    half = collective_cost("reduce_scatter", 100_000_000, 4, latency_s=1e-5, bytes_per_s=25e9)
    assert half["seconds"] == pytest.approx(3.03e-3)
    assert collective_cost("all_gather", 8, 1) == {"messages": 0, "bytes": 0.0, "seconds": 0.0}
    with pytest.raises(ValueError, match="name must be one of"):
        collective_cost("gossip", 8, 2)
    with pytest.raises(ValueError, match="world_size"):
        collective_cost("all_reduce", 8, 0)


def test_traffic_reads_every_spelling_of_torch():
    def spellings(x):
        ops, name = torch.ops._c10d_functional, dist.group.WORLD.group_name
        with Traffic() as traffic:
            dist.all_gather([torch.empty_like(x) for _ in range(2)], x)
            ops.wait_tensor(ops.all_gather_into_tensor(x, 2, name))
            ops.wait_tensor(ops.all_reduce(x, "sum", name))
            ops.wait_tensor(ops.reduce_scatter_tensor(x, "sum", 2, name))
            traffic.mark("here")
        return traffic.seen

    ranks = local_ranks.run(spellings, [(torch.ones(4),)] * 2)
    assert ranks[0].value == [
        ("allgather", 32),
        ("allgather", 32),
        ("allreduce", 16),
        ("reduce_scatter", 16),
        ("here", 0),
    ]
    assert sent_bytes(ranks[0].value, 2) == 16 + 16 + 16 + 8


def test_held_counts_what_a_graph_keeps_and_forgets_what_is_gone():
    w = torch.randn(100, requires_grad=True)
    with Held() as held:
        y = (w * 2).exp().sum()  # exp keeps its result for backward, without a name
        kept = held.bytes()
        y.backward()
        del y
        w.grad = None
        after = held.bytes()
    assert kept == 400 + 4 and after == 0 and held.peak >= 800


# Wrong rings, and what shows them.


def whole_at_every_step(x):
    total, passing = x.clone(), x
    for _ in range(place()[1] - 1):
        passing = pass_on(passing)
        total += passing
    return total.chunk(place()[1])[place()[0]].clone()


def one_step_short(x):
    rank, R = place()
    chunks = x.chunk(R)
    partial = chunks[(rank - 1) % R].clone()
    for step in range(1, R - 1):
        partial = pass_on(partial) + chunks[(rank - 1 - step) % R]
    return partial


def shifted(x):
    rank, R = place()
    chunks = x.chunk(R)
    partial = chunks[rank].clone()
    for step in range(1, R):
        partial = pass_on(partial) + chunks[(rank - step) % R]
    return partial


def overwrites(x):
    rank, R = place()
    chunks = x.chunk(R)
    for step in range(R - 1):
        chunks[(rank - step - 2) % R].add_(pass_on(chunks[(rank - step - 1) % R]))
    return chunks[rank].clone()


def keeps_the_input(x):
    rank, R = place()
    chunks = ring_all_reduce(x).chunk(R)
    return chunks[rank]


WRONG = {whole_at_every_step: "bytes", one_step_short: "values", shifted: "values",
         overwrites: "input", keeps_the_input: "bytes held"}  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.__name__)
def test_a_wrong_ring_shows(wrong):
    def work(x):
        before = x.clone()
        return wrong(x), torch.equal(x, before)

    R, xs = 3, inputs(3, 12)
    ranks = local_ranks.run(work, [(x.clone(),) for x in xs])
    cost = collective_cost("reduce_scatter", 48, R)["bytes"]
    shows = {
        "values": any(
            not close(r.value[0], [x.chunk(R)[i] for x in xs]) for i, r in enumerate(ranks)
        ),
        "bytes": any(sent_bytes(r.collectives, R) != cost for r in ranks),
        "bytes held": any(r.held_bytes > 16 for r in ranks),
        "input": any(not r.value[1] for r in ranks),
    }
    assert shows[WRONG[wrong]], shows


@pytest.mark.parametrize("R, latency_s, bytes_per_s", [(2, 9e-6, 40e9), (8, 3e-6, 370e9)])
def test_the_fit_of_lesson_19_finds_the_link_that_made_the_times(R, latency_s, bytes_per_s, capsys):
    """Also where every other time is ten percent off, up and down in turn."""
    path = ROOT / "book/19_collectives.md"
    cells = LessonSource(path, path.read_text(encoding="utf-8")).source.cells
    (text,) = [cell.source for cell in cells if "def fit(" in cell.source]
    scope = {"torch": torch, "Tensor": torch.Tensor, "collective_cost": collective_cost}
    exec(text.partition("\nfound = ")[0], scope)  # noqa: S102
    link = {"latency_s": latency_s, "bytes_per_s": bytes_per_s}

    def rows(R: int, noise: float) -> list[dict]:
        found = []
        for name, ring in scope["LIKE"].items():
            for power in range(10, 31, 2):
                s = collective_cost(ring, 2**power, R, **link)["seconds"]
                off = (1 + noise) ** (1 if power % 4 else -1)
                found.append({"name": name, "bytes": 2**power, "seconds": max(s, 1e-6) * off})
        return found

    for noise, within in ((0.0, 1e-4), (0.1, 0.1)):
        for found in scope["tabulate"]({"ranks": R, "rows": rows(R, noise)}).values():
            assert found == pytest.approx(link, rel=within)
    said = capsys.readouterr().out
    assert (
        f"{1e6 * latency_s:.1f} us and {bytes_per_s / 1e9:.2f} GB/s" in said and "nan" not in said
    )
