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
from course_lib.ranks.traffic import Traffic


class _Work:
    """An all-reduce under way; the tensor holds what it held until somebody waits."""

    def __init__(self, work: dist.Work, tensor: Tensor, total: Tensor, mark: Callable[[str], None]):
        self._work, self._tensor, self._total, self._mark = work, tensor, total, mark

    def wait(self, *args) -> bool:
        self._mark("waits")
        done = self._work.wait(*args)
        with torch.no_grad():
            self._tensor.copy_(self._total)
        return done

    def get_future(self):
        self.wait()
        return self._work.get_future()

    def __getattr__(self, name: str):
        return getattr(self._work, name)


@contextlib.contextmanager
def deferred_all_reduce(mark: Callable[[str], None]) -> Iterator[None]:
    """`dist.all_reduce` whose result is there when it has been waited for, and not before.

    An answer that does not wait reads its own numbers, always and not now and then. `mark` is
    called with "waits" whenever the program stops for a sum.
    """
    real = dist.all_reduce

    def all_reduce(tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
        if not async_op:
            mark("waits")
            return real(tensor, op, group=group)
        total = tensor.detach().clone()
        return _Work(real(total, op, group=group, async_op=True), tensor, total, mark)

    dist.all_reduce = all_reduce
    try:
        yield
    finally:
        dist.all_reduce = real


def sync(answer: Callable, cases: list[tuple[list, list]]) -> list[dict]:
    """`answer(params, grads)` for each case: what it returns, sends, and does to its arguments."""
    faulthandler.disable()  # gloo may abort a rank of a wrong answer: RankFailed says so
    facts = []
    for params, grads in cases:
        given = [None if g is None else g.clone() for g in grads]
        with Traffic() as traffic, deferred_all_reduce(traffic.mark):
            means = answer(params, given)
        kept = all(a is None or torch.equal(a, b) for a, b in zip(grads, given, strict=True))
        facts.append({"means": means, "seen": traffic.seen, "kept": kept})
    return facts


def buckets(answer: Callable, seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """The updates of `plan` with `answer(model, bucket_bytes=...)` on this rank, in facts.

    "made": collectives of the making; "start": parameters and buffers after it; "updates": of each
    "seen", its collectives with marks "ready" for each gradient, "waits" and "backward ended"
    between them, and its "grads"; "kept": bytes alive after the last beside model and gradients.
    """
    faulthandler.disable()
    rank, world_size = dist.get_rank(), dist.get_world_size()
    model = make_toy(seed, rank)
    with Traffic() as traffic, deferred_all_reduce(traffic.mark):
        for p in model.parameters():
            if p.requires_grad:
                p.register_post_accumulate_grad_hook(lambda p: traffic.mark("ready"))
        before = _living_bytes()
        wrapped = answer(model, bucket_bytes=bucket_bytes)
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


def fill_buckets(
    answer: Callable, shapes: list[tuple[int, str]], bucket_bytes: int
) -> list[list[int]]:
    """By bucket the numbers of the parameters in it. `shapes`: elements, and "half", "frozen" or ""."""
    params = [
        nn.Parameter(
            torch.zeros(n, dtype=torch.bfloat16 if how == "half" else torch.float32),
            requires_grad=how != "frozen",
        )
        for n, how in shapes
    ]
    number = {p: i for i, p in enumerate(params)}
    found = answer(nn.ParameterList(params), bucket_bytes=bucket_bytes).buckets
    return [[number[p] for p in bucket] for bucket in found]


def one_rank(answer: Callable, seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """As `buckets`, and "errors": what a limit of 0 raises, and a second backward pass."""

    def no_room() -> None:
        answer(make_toy(seed), bucket_bytes=0)

    def run_twice() -> None:
        model = answer(make_toy(seed), bucket_bytes=bucket_bytes)
        for _ in range(2):
            model(torch.ones(1, D), "").sum().backward()

    facts = buckets(answer, seed, bucket_bytes, plan)
    facts["errors"] = {action.__name__: _error_name(action) for action in (no_room, run_twice)}
    return facts


def _error_name(action: Callable[[], None]) -> str:
    try:
        action()
    except Exception as error:
        return type(error).__name__
    return "nothing"


def no_sync(answer: type[ddp.Replica], seed: int, bucket_bytes: int, plan: Plan) -> dict:
    """As `buckets`, with the library's DataParallel and the answer's `no_sync` in it."""
    return buckets(_join_classes(answer), seed, bucket_bytes, plan)


def flags(answer: type[ddp.Replica]) -> dict[str, bool | str]:
    """`syncing` inside `no_sync`, after a context that stood in another, after both, after an error;
    and what came of that error."""
    one = _join_classes(answer)(make_toy(0))
    found = {}
    with one.no_sync():
        found["inside"] = one.syncing
        with one.no_sync():
            found["deeper"] = one.syncing
        found["between"] = one.syncing
    found["after"] = one.syncing
    one.syncing, found["error"] = True, "none"
    try:
        with one.no_sync():
            raise KeyError("of the check")
    except KeyError:
        found["error"] = "KeyError"
    found["after error"] = one.syncing
    return found


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
