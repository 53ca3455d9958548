"""What a call depends on besides its inputs: other calls before or after it, torch's default dtype,
autocast, how tensors lie in memory; and what it does to them, and to what other calls gave."""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from course_lib.measure.sharing import find_shared_memory


def call_between(
    answer: Callable, first: tuple, second: tuple, options: dict[str, Any] | None = None
) -> tuple[Any, Any, Any, Any, str]:
    """`answer(*first)` as it came, the same result after `answer(*second)`, that of `second`, and what
    `answer(*first)` gives then; last, `changed_argument`. Every call gets tensors of its own, and
    `options` by name."""
    named = options or {}
    with torch.no_grad():
        result = answer(*_copy(first), **named)
        came = _copy(result)
        between = _copy(answer(*_copy(second), **named))
        later, again = _copy(result), _copy(answer(*_copy(first), **named))
    return came, later, between, again, changed_argument(answer, first, named)


def changed_argument(answer: Callable, args: tuple, options: dict[str, Any]) -> str:
    """Which of `args` holds other numbers after `answer(*args, **options)`, and in which way it was
    called, such as "argument 0 in eval mode, gradients off"; "" for none.

    Called with gradients off and on, a module in eval mode and in training.
    """
    for way in ways_to_call(answer):
        given = _copy(args)
        with called_in(answer, way):
            answer(*given, **options)
        for i, (kept, used) in enumerate(zip(args, given, strict=True)):
            if not _is_same(kept, used):
                return f"argument {i} {way.words}"
    return ""


class Way(NamedTuple):
    """How an answer is called: a module in eval mode or in training, gradients off or on."""

    words: str
    training: bool | None
    """None for an answer that is no module."""
    grads: bool


def ways_to_call(answer: Callable) -> list[Way]:
    """Gradients off and on; a module so in eval mode, then in training."""
    modes = {"in eval mode,": False, "in training,": True}
    return [
        Way(f"{mode} gradients {'on' if grads else 'off'}", training, grads)
        for mode, training in (modes.items() if isinstance(answer, nn.Module) else [("with", None)])
        for grads in (False, True)
    ]


@contextlib.contextmanager
def called_in(answer: Callable, way: Way):
    """Calls of `answer` in the body go that way; a module is in its own mode again afterwards."""
    module = answer if isinstance(answer, nn.Module) and way.training is not None else None
    was_training = module is not None and module.training
    if module is not None:
        module.train(bool(way.training))
    try:
        with torch.set_grad_enabled(way.grads):
            yield
    finally:
        if module is not None:
            module.train(was_training)


def results_in_turn(
    answer: Callable, groups: list[list[tuple]]
) -> list[tuple[str, list[list], list[list], list[list]]]:
    """What `answer(*args)` gives for all `args` of all `groups` in turn, in each way to call it.

    Each row has the words of the way, then three times a list of results for each group: as they
    came; as they are after the last call, when all have been kept; and as they come where a group's
    calls get the same tensors, whose numbers are written over from call to call. The tensors of a
    group's calls have the same shapes and dtypes.
    """
    rows = []
    for way in ways_to_call(answer):
        with called_in(answer, way):
            kept: list[list] = [[] for _ in groups]
            came: list[list] = [[] for _ in groups]
            for i, calls in enumerate(groups):
                for args in calls:
                    kept[i].append(answer(*_copy(args)))
                    came[i].append(_copy(kept[i][-1]))
            later = [[_copy(result) for result in results] for results in kept]
            reused: list[list] = [[] for _ in groups]
            for i, calls in enumerate(groups):
                given = _copy(tuple(calls[0]))
                for args in calls:
                    with torch.no_grad():
                        for old, new in zip(given, args, strict=True):
                            old.copy_(new)
                    reused[i].append(_copy(answer(*given)))
        rows.append((way.words, came, later, reused))
    return rows


def shared_results(answer: Callable, calls: list[tuple]) -> str:
    """Which result of `answer(*args)`, for each `args` of `calls` in turn, lies in the memory of one
    of an earlier call, such as "result 1 of (3, 6) and result 1 of (4, 6)"; "" for none. A call whose
    `args` are more than numbers goes by its place, as "call 2"."""
    before: list[tuple[str, Any]] = []
    for place, args in enumerate(calls):
        plain = all(isinstance(arg, (int, float, str)) for arg in args)
        call = tuple(args) if plain else f"call {place}"
        out = answer(*_copy(args))
        parts = out if isinstance(out, (tuple, list)) else (out,)
        results = [(f"result {i} of {call}", part) for i, part in enumerate(parts)]
        for name, part in results:
            for earlier, kept in before:
                if find_shared_memory((kept,), part):
                    return f"{name} and {earlier}"
        before += results
    return ""


def first_changed(answer: Callable, calls: list[tuple[tuple, dict[str, Any]]]) -> int:
    """The place of the first of `calls` whose result, one array, is another one when all have been
    made; -1 for none."""
    found = [answer(*args, **named) for args, named in calls]
    alone = [answer(*args, **named).tolist() for args, named in calls]
    return next((i for i, out in enumerate(found) if out.tolist() != alone[i]), -1)


def call_under_defaults(
    answer: Callable, args: tuple, options: dict[str, Any] | None = None
) -> list[Any]:
    """`answer(*args)` as it is, then with float64 and then with bfloat16 as torch's default dtype.

    What a call raised under another default comes back as its text.
    """
    before, results = torch.get_default_dtype(), []
    for default in (before, torch.float64, torch.bfloat16):
        try:
            torch.set_default_dtype(default)
            with torch.no_grad():
                results.append(_copy(answer(*_copy(args), **(options or {}))))
        except Exception as error:
            if default == before:
                raise
            results.append(f"{type(error).__name__}: {error}")
        finally:
            torch.set_default_dtype(before)
    return results


def call_under_autocast(answer: Callable, *args: Any) -> Any:
    """`answer(*args)` with gradients off, where autocast lets matrix products return bfloat16."""
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        return answer(*args)


def call_expanded(answer: Callable, args: tuple) -> list[tuple[Any, Any]]:
    """`answer` of tensors that are expanded along one dimension, for each dimension in turn: what it
    gives for copies, then for the expanded tensors themselves, or the text of what they raised.

    The tensors of `args` that have that dimension hold along it the numbers of its first place.
    """
    pairs = []
    for dim in range(max(x.dim() for x in args if isinstance(x, Tensor))):
        views = [
            x.narrow(dim, 0, 1).expand_as(x) if isinstance(x, Tensor) and x.dim() > dim else x
            for x in args
        ]
        right = _copy(answer(*(x.contiguous() if isinstance(x, Tensor) else x for x in views)))
        try:
            found = _copy(answer(*views))
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        pairs.append((right, found))
    return pairs


def _is_same(kept: Any, used: Any) -> bool:
    """Whether a tensor, or all tensors of a tuple or list, hold what they held."""
    if isinstance(kept, Tensor):
        return kept.shape == used.shape and bool(
            kept.isclose(used, rtol=0, atol=0, equal_nan=True).all()
        )
    if type(kept) in (list, tuple):
        return len(kept) == len(used) and all(map(_is_same, kept, used))
    return True


def _copy(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return type(value)(map(_copy, value)) if type(value) in (list, tuple) else value
