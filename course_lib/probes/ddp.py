"""What the checks of data parallelism run on every rank, with all-reduces that are watched.

What it is: the functions `probe=` names for answers to `ddp-sync`, `ddp-buckets` and `ddp-no-sync`;
each returns plain values. What it leaves out: the model (ddp_twin.py), and what is right, which
course_lib.checks says.
"""

import contextlib
import faulthandler
import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from course_lib.measure.held import held_now
from course_lib.parallel import ddp
from course_lib.probes.ddp_twin import D, Plan, gradients, make_toy, part_of_loss, rows_of, step
from course_lib.ranks.collectives import place
from course_lib.ranks.traffic import Traffic


class _Work:
    """An all-reduce under way; the tensors hold what they held until somebody waits."""

    def __init__(
        self,
        work: dist.Work,
        tensors: list[Tensor],
        totals: list[Tensor],
        mark: Callable[[str], None],
    ):
        self._work, self._tensors, self._totals, self._mark = work, tensors, totals, mark

    def wait(self, *args) -> bool:
        self._mark("waits")
        done = self._work.wait(*args)
        with torch.no_grad():
            for tensor, total in zip(self._tensors, self._totals, strict=True):
                tensor.copy_(total)
        return done

    def get_future(self):
        self.wait()
        return self._work.get_future()

    def __getattr__(self, name: str):
        return getattr(self._work, name)


@contextlib.contextmanager
def deferred_all_reduce(mark: Callable[[str], None]) -> Iterator[None]:
    """`dist.all_reduce` whose result is there when it has been waited for, and not before; that of
    `dist.all_reduce_coalesced` too.

    An answer that does not wait reads its own numbers, always and not now and then. `mark` is
    called with "waits" whenever the program stops for a sum.
    """
    real, real_coalesced = dist.all_reduce, dist.all_reduce_coalesced

    def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        if not async_op:
            mark("waits")
            return real(tensor, op, group=group)
        total = tensor.detach().clone()
        return _Work(real(total, op, group=group, async_op=True), [tensor], [total], mark)

    def all_reduce_coalesced(tensors, op=dist.ReduceOp.SUM, group=None, async_op=False):
        if not async_op:
            mark("waits")
            return real_coalesced(tensors, op, group=group)
        totals = [tensor.detach().clone() for tensor in tensors]
        work = real_coalesced(totals, op, group=group, async_op=True)
        return _Work(work, list(tensors), totals, mark)

    dist.all_reduce, dist.all_reduce_coalesced = all_reduce, all_reduce_coalesced
    try:
        yield
    finally:
        dist.all_reduce, dist.all_reduce_coalesced = real, real_coalesced


def make_pair() -> dist.ProcessGroup:
    """Of four ranks, 0 and 2 are a group, 1 and 3 another: that of this rank."""
    groups = [dist.new_group([0, 2]), dist.new_group([1, 3])]
    return groups[dist.get_rank() % 2]


@contextlib.contextmanager
def without_group() -> Iterator[None]:
    """No process group for a while, for a rank that is alone."""
    dist.destroy_process_group()
    try:
        yield
    finally:
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def sync(answer: Callable, params: list, grads: list) -> dict:
    """`answer(params, grads)` on this rank: what it returns, sends, and does to its arguments.

    "means"; "seen"; "kept": whether the arguments are as they were; "own": whether no mean lies in
    their memory; "free": whether no mean is part of a graph. The parameters want gradients.
    """
    return _sync(answer, params, grads)


def sync_in_turn(answer: Callable, calls: list[tuple[list, list]]) -> list[dict]:
    """The same for each (params, grads) of `calls`, one call after the other."""
    return [_sync(answer, params, grads) for params, grads in calls]


def sync_in_pairs(answer: Callable, params: list, grads: list) -> dict:
    """The same for `answer(params, grads, group)`, on four ranks that are two groups."""
    return _sync(answer, params, grads, make_pair())


def sync_odd(answer: Callable, params: list, grads: list) -> dict:
    """The same for gradients that are part of a graph; rank 0's matrices are transposed in memory."""
    return _sync(answer, params, grads, odd=True)


def sync_odd_alone(answer: Callable, params: list, grads: list) -> dict:
    """The same on one rank without a process group."""
    with without_group():
        return _sync(answer, params, grads, odd=True)


def sync_alone(answer: Callable, params: list, grads: list) -> dict:
    """The same on one rank without a process group."""
    with without_group():
        return _sync(answer, params, grads)


def _sync(
    answer: Callable, params: list, grads: list, *group: dist.ProcessGroup, odd: bool = False
) -> dict:
    faulthandler.disable()  # gloo may abort a rank of a wrong answer: RankFailed says so
    given = [[None if x is None else x.clone() for x in some] for some in (params, grads)]
    if odd:
        given[1] = [None if x is None else _in_graph(x, place()[0] == 0) for x in given[1]]
    lists = [list(some) for some in given]
    for p in lists[0]:
        p.requires_grad_()
    with Traffic() as traffic, deferred_all_reduce(traffic.mark):
        means = answer(*lists, *group)
    kept = all(
        len(now) == len(was) and all(a is b for a, b in zip(now, was, strict=True))
        for now, was in zip(lists, given, strict=True)
    ) and all(
        b is None or torch.equal(a, b)
        for a, b in zip([*params, *grads], [*given[0], *given[1]], strict=True)
    )
    found = [m for m in means if isinstance(m, Tensor)] if isinstance(means, (list, tuple)) else []
    theirs = {x.untyped_storage().data_ptr() for x in [*given[0], *given[1]] if x is not None}
    return {
        "means": [m.detach().contiguous() if isinstance(m, Tensor) else m for m in means]
        if found
        else means,
        "seen": traffic.seen,
        "kept": kept,
        "own": not any(m.untyped_storage().data_ptr() in theirs for m in found),
        "free": not any(m.requires_grad for m in found),
    }


def _in_graph(x: Tensor, transposed: bool) -> Tensor:
    """The same numbers as a part of a graph, as `backward(create_graph=True)` leaves them."""
    if transposed and x.dim() == 2:
        x = x.mT.contiguous().mT
    return x.requires_grad_() * torch.ones(())


def buckets(
    answer: Callable,
    seed: int,
    bucket_bytes: int,
    plan: Plan,
    group: dist.ProcessGroup | None = None,
) -> dict:
    """The updates of `plan` with `answer(model, bucket_bytes=...)` on this rank, in facts.

    "made": collectives of the making; "start": parameters and buffers after it; "updates": of each
    "seen", its collectives with marks "ready" for each gradient, "waits" and "backward ended"
    between them, and its "grads"; "kept": bytes alive after the last beside model and gradients.
    """
    faulthandler.disable()
    rank, world_size = place(group)
    model = make_toy(seed, dist.get_rank() if dist.is_initialized() else 0)
    given = {} if group is None else {"group": group}
    with Traffic() as traffic, deferred_all_reduce(traffic.mark):
        for p in model.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda p: traffic.mark("ready"))
        before = _living_bytes()
        wrapped = answer(model, bucket_bytes=bucket_bytes, **given)
        facts: dict[str, Any] = {
            "made": _take_seen(traffic),
            "updates": [],
            "start": {n: v.clone() for n, v in model.state_dict().items()},
        }
        before += sum(v.nbytes for v in facts["start"].values())
        for number, used in enumerate(plan):
            if number:
                step(model)
            for i, layers in enumerate(used):
                last = i == len(used) - 1
                with contextlib.nullcontext() if last else wrapped.no_sync():
                    rows = rows_of(seed, number, i)
                    part_of_loss(wrapped, layers, rows, rank, world_size).backward()
            traffic.mark("backward ended")
            wrapped.finish()
            facts["updates"].append({"seen": _take_seen(traffic), "grads": gradients(model)})
        grads = [g for u in facts["updates"] for g in u["grads"].values()]
        own = sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
        facts["kept"] = _bytes_beyond(before + own + sum(g.nbytes for g in grads))
    return facts


def buckets_in_pairs(answer: Callable, seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """As `buckets`, with `group=`, on four ranks that are two groups."""
    return buckets(answer, seed, bucket_bytes, plan, make_pair())


KINDS = {"": torch.float32, "frozen": torch.float32, "meta": torch.float32,
         "half": torch.bfloat16, "float16": torch.float16, "double": torch.float64}  # fmt: skip
"""By kind of parameter in a layout its dtype; the second takes no gradient, the third is elsewhere."""


def fill_buckets(
    answer: Callable, layouts: list[tuple[list[tuple[int, str]], int]]
) -> list[list[list[int]]]:
    """By layout and bucket the numbers of the parameters in it, without a process group.

    A layout: (elements and one of KINDS) by parameter, and the bytes of a bucket.
    """
    with without_group():
        return [_fill_buckets(answer, *layout) for layout in layouts]


def _fill_buckets(
    answer: Callable, shapes: list[tuple[int, str]], bucket_bytes: int
) -> list[list[int]]:
    params = [
        nn.Parameter(
            torch.zeros(
                n,
                dtype=KINDS[how],
                device="meta" if how == "meta" else "cpu",
            ),
            requires_grad=how != "frozen",
        )
        for n, how in shapes
    ]
    number = {p: i for i, p in enumerate(params)}
    found = answer(nn.ParameterList(params), bucket_bytes=bucket_bytes).buckets
    return [[number[p] for p in bucket] for bucket in found]


def one_rank(answer: Callable, seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """As `buckets`, without a process group, and "errors": what limits of 0 and -1 raise, a second
    backward pass, and one inside `no_sync`. "started": buckets that the last one started, and
    left."""

    def no_room() -> None:
        answer(make_toy(seed), bucket_bytes=0)

    def less_than_none() -> None:
        answer(make_toy(seed), bucket_bytes=-1)

    def run_twice() -> None:
        model = answer(make_toy(seed), bucket_bytes=bucket_bytes)
        for _ in range(2):
            model(torch.ones(1, D), "").sum().backward()

    def run_inside() -> None:
        model = answer(make_toy(seed), bucket_bytes=bucket_bytes)
        model(torch.ones(1, D), "").sum().backward()
        counts.append(len(model.started))
        with model.no_sync():
            model(torch.ones(1, D), "").sum().backward()
        counts.append(len(model.started))

    counts: list[int] = []
    with without_group():
        facts = buckets(answer, seed, bucket_bytes, plan)
        facts["errors"] = {
            act.__name__: _error_name(act)
            for act in (no_room, less_than_none, run_twice, run_inside)
        }
    return facts | {"started": counts}


def _error_name(action: Callable[[], None]) -> str:
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def no_sync(answer: type[ddp.Replica], seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """As `buckets`, with the library's DataParallel and the answer's `no_sync` in it."""
    return buckets(_join_classes(answer), seed, bucket_bytes, plan)


def flags(answer: type[ddp.Replica]) -> dict[str, Any]:
    """What `no_sync` does to `syncing`, and to nothing else, on one rank.

    "called": behind the call, before `with`; "inside"; "after". Of one context in another:
    "deeper", "between" the two ends, "after both". "was off": behind a context that began with
    False; "other": of another copy, while this one's context is open. Of contexts that are made
    while it is the other way round than when they begin: "late", (inside, after) by what it is when
    they begin. By kind of error: "outside", whether it came out, and `syncing` after it, "between
    errors" in a context inside another, "after error" else. "seen": collectives; "grads": whether
    every `p.grad` is the object and the numbers that it was.
    """
    one, other = (_join_classes(answer)(make_toy(0)) for _ in range(2))
    for p in one.module.left.parameters():
        p.grad = torch.ones_like(p)
    before = [(p.grad, None if p.grad is None else p.grad.clone()) for p in one.parameters()]
    found: dict[str, Any] = {"outside": {}, "between errors": {}, "after error": {}, "late": {}}
    with Traffic() as traffic:
        context = one.no_sync()
        found["called"] = one.syncing
        with context:
            found["inside"] = one.syncing
        found["after"] = one.syncing
        one.syncing = True
        with one.no_sync():
            with one.no_sync():
                found["deeper"] = one.syncing
            found["between"] = one.syncing
            with other.no_sync():
                pass
            found["other"] = other.syncing
        found["after both"] = one.syncing
        for begins in (True, False):
            one.syncing = not begins
            context = one.no_sync()
            one.syncing = begins
            with context:
                inside = one.syncing
            found["late"][str(begins)] = [inside, one.syncing]
        for kind in (KeyError, KeyboardInterrupt):  # the second is no Exception
            one.syncing = True
            with one.no_sync():
                found["outside"][kind.__name__] = _raise_in(one, kind)
                found["between errors"][kind.__name__] = one.syncing
            found["outside"][kind.__name__] &= _raise_in(one, kind)
            found["after error"][kind.__name__] = one.syncing
        one.syncing = False
        with one.no_sync():
            pass
        found["was off"] = one.syncing
    found["seen"] = traffic.seen
    found["grads"] = all(
        p.grad is grad and (grad is None or torch.equal(grad, kept))
        for p, (grad, kept) in zip(one.parameters(), before, strict=True)
    )
    return found


def _raise_in(replica: ddp.Replica, kind: type[BaseException]) -> bool:
    """Whether an error inside `no_sync` comes out of it."""
    try:
        with replica.no_sync():
            raise kind("of the check")
    except kind:
        return True
    return False


def _join_classes(answer: type[ddp.Replica]) -> type[ddp.DataParallel]:
    # without one of its own it would be the library's `no_sync` that is tried
    return type("DataParallel", (answer, ddp.DataParallel), {"no_sync": answer.no_sync})


def _take_seen(traffic: Traffic) -> list[tuple[str, int]]:
    seen, traffic.seen = traffic.seen, []
    return seen


def _bytes_beyond(expected: int) -> int:
    """Bytes alive beyond `expected`. A thread of gloo lets go of a tensor a moment after its wait."""
    for _ in range(50):
        if (kept := _living_bytes() - expected) <= 0:
            break
        time.sleep(0.01)
    return kept


def _living_bytes() -> int:
    gc.collect()
    return held_now(x for x in gc.get_objects() if isinstance(x, Tensor))
