"""What the checks of `Operations` run under an answer: small programs, each with its own operations.

What it is: the programs by name and `observe_programs`, which runs them in a process that can be sent no
functions (`local_ranks.run(..., probe=)`), and returns plain values. What it leaves out: which
operations are right, which course_lib.checks says.

Shapes: x (R, C), y (R, C), w (C,).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves


def _views(x: Tensor, y: Tensor, w: Tensor) -> Any:
    x.detach().unsqueeze(0).expand(2, *x.shape)
    x.split(1)
    x.view(-1).view(x.shape)
    return x.t() * y.t()


def _new_names(x: Tensor, y: Tensor, w: Tensor) -> Any:
    return x.t().reshape(-1)  # a copy, and another shape for it


def _turn_in_place(x: Tensor, y: Tensor, w: Tensor) -> Any:
    x.t_().unsqueeze_(0)
    return x + 1


def _reserve_memory(x: Tensor, y: Tensor, w: Tensor) -> Any:
    torch.empty(5)
    x.new_empty(3)
    return torch.empty_like(x).copy_(x)


def _backward(x: Tensor, y: Tensor, w: Tensor) -> Any:
    x.requires_grad_()
    (x * y).sum().backward()
    return x.grad


def _add_foreach(x: Tensor, y: Tensor, w: Tensor) -> Any:
    torch._foreach_add_([x, w], 1.0)
    return x


def _add_into(x: Tensor, y: Tensor, w: Tensor) -> Any:
    z = x.clone()
    torch.add(x, y, out=z)
    return z


def _multiply_wide(x: Tensor, y: Tensor, w: Tensor) -> Any:
    return w.expand(x.shape) * 2


def _view_more(x: Tensor, y: Tensor, w: Tensor) -> Any:
    x.select(0, 0)
    x[:, 1:]
    x.permute(1, 0)
    x.transpose(0, 1)
    x.diagonal()
    x.unbind()
    x.unfold(1, 2, 1)
    x.as_strided((2,), (1,))
    x.view(torch.int32)
    x.transpose_(0, 1).transpose_(0, 1)
    x[None].squeeze(0)
    x[None].squeeze_(0)
    return x - y


def _copy_views(x: Tensor, y: Tensor, w: Tensor) -> Any:
    return torch.view_copy(x, (-1,)), torch.unsqueeze_copy(x, 0)


def _use_parts(x: Tensor, y: Tensor, w: Tensor) -> Any:
    z = x[:, :2] * 2
    x[0].add_(1)
    x[:, 1].neg_()
    return x, z


def _write_two(x: Tensor, y: Tensor, w: Tensor) -> Any:
    values, places = torch.empty(len(x)), torch.empty(len(x), dtype=torch.int64)
    torch.max(x, 1, out=(values, places))
    return values, places


def _write_both(x: Tensor, y: Tensor, w: Tensor) -> Any:
    return torch.ops.aten.rrelu_with_noise(x, y, 0.25, 0.25, True), y


def _go_on(x: Tensor, y: Tensor, w: Tensor) -> Any:
    x.add_(w).add_(w)
    x.view(-1).mul_(2)
    return x


def _use_dtypes(x: Tensor, y: Tensor, w: Tensor) -> Any:
    return (x > y).sum(), x.double()


def _give_twice(x: Tensor, y: Tensor, w: Tensor) -> Any:
    both = torch.cat([x, x])
    torch.add(x, x, out=x)
    torch._foreach_mul_([x, x], 3.0)
    return x, both


PROGRAMS: dict[str, Callable[[Tensor, Tensor, Tensor], Any]] = {
    "chain": lambda x, y, w: x * w + y,
    "again": lambda x, y, w: ((x * w) * w) * w,
    "views": _views,
    "new names": _new_names,
    "turned": _turn_in_place,
    "reserved": _reserve_memory,
    "in place": lambda x, y, w: x.add_(w),
    "foreach": _add_foreach,
    "list": lambda x, y, w: torch.cat([x, y]),
    "two results": lambda x, y, w: torch.max(x, dim=1),
    "keyword": lambda x, y, w: torch.add(x, y, alpha=3),
    "out": _add_into,
    "16 bits": lambda x, y, w: x.bfloat16() + y.bfloat16(),
    "square": lambda x, y, w: x * x,
    "wide": _multiply_wide,
    "turned twin": lambda x, y, w: x @ x.t(),
    "more views": _view_more,
    "copies": _copy_views,
    "parts": _use_parts,
    "new list": lambda x, y, w: tuple(torch._foreach_add([x, w], 1.0)),
    "made": lambda x, y, w: torch.ones(x.shape) + x,
    "out of two": _write_two,
    "both": _write_both,
    "goes on": _go_on,
    "dtypes": _use_dtypes,
    "pair": lambda x, y, w: x * x.view(x.shape),
    "twice": _give_twice,
    "parameter": lambda x, y, w: (x * nn.Parameter(w)).detach(),
    "backward": _backward,
    "fails": lambda x, y, w: (x * 2) @ y,
    "fails in place": lambda x, y, w: (x * 2).add_(y.t()),
    "fails into out": lambda x, y, w: torch.mm(x * 2, y, out=w),
    "fails in a list": lambda x, y, w: torch._foreach_add_([x * 2, w], [y, y]),
}


def observe_programs(counter: Callable, names: list[str], given: list[Tensor]) -> dict[str, dict]:
    """Each program under a counter of its own, by name: "seen", "before", "out", "error",
    "after".

    "seen": (name, read, written) of what was noted; "bytes": its `num_bytes`; "before": how many at
    the start; "out": the tensors that came back; "error": the name of what was raised; "after": how
    many more were noted when the counter was closed.
    """
    return {
        name: _observe_program(counter(), PROGRAMS[name], [x.clone() for x in given])
        for name in names
    }


def _observe_program(operations: Any, program: Callable, given: list[Tensor]) -> dict:
    out, error, before = None, "", len(plain_entries(operations))
    try:
        with operations:
            out = program(*given)
    except NotImplementedError:  # an answer that is not written yet
        raise
    except Exception as raised:
        error = type(raised).__name__
    seen, num_bytes = plain_entries(operations), _number(operations.num_bytes)
    given[1] * 2  # nobody counts any more
    tensors = [x.detach() for x in tree_leaves(out) if isinstance(x, Tensor)]
    after = len(plain_entries(operations)) - len(seen)
    return {
        "seen": seen,
        "bytes": num_bytes,
        "before": before,
        "out": tensors,
        "error": error,
        "after": after,
    }


def plain_entries(operations: Any) -> list[tuple]:
    """What was noted, in values that travel."""
    return [(str(o.name), _number(o.read), _number(o.written)) for o in operations.seen]


def _number(value: Any) -> Any:
    return value if isinstance(value, (int, float)) else str(value)


def nest_counters(counter: Callable, given: list[Tensor]) -> list[list[tuple]]:
    """What two counters see, one inside the other; then the inner one, used a second time."""
    x, y, _ = given
    outer, inner = counter(), counter()
    with outer:
        x * 2
        with inner:
            x + y
    first = [plain_entries(outer), plain_entries(inner)]
    with inner:
        x - y
    return [*first, plain_entries(inner)]
