"""Every setting of every program has a range, and nonsense is refused with a sentence."""

import dataclasses
import math
import types
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from course_lib.gpt import GPTConfig
from course_lib.runs import ranges
from course_lib.runs.ranges import Range
from course_lib.training import fsdp_config, train_config
from course_lib.training.demo import DemoConfig
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.train_config import TrainConfig

CONFIGS = (TrainConfig, FSDPConfig, GPTConfig, DemoConfig)
FIELDS = [(kind, field) for kind in CONFIGS for field in dataclasses.fields(kind)]
NONSENSE = st.one_of(
    st.integers(max_value=-1),
    st.integers(min_value=2**64),
    st.floats(max_value=-1e-6),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e30]),
    st.sampled_from(["", "gpu", "none", "5"]),
    st.sampled_from([[], (), {}, b"x", 1j]),
)


def accepts(kind, name: str, value) -> bool:
    try:
        kind(**{name: value})
    except ValueError as error:
        assert name in str(error) and len(str(error)) > len(name) + 15
        return False
    return True


def plain(kind, field) -> type:
    hint = typing.get_type_hints(kind)[field.name]
    if isinstance(hint, types.UnionType):
        (hint,) = (k for k in typing.get_args(hint) if k is not type(None))
    return hint


@pytest.mark.parametrize(
    "kind, field",
    FIELDS,
    ids=lambda x: getattr(x, "name", x.__name__ if isinstance(x, type) else ""),
)
@settings(max_examples=20)
@given(value=NONSENSE)
def test_nonsense_is_refused(kind, field, value):
    hint = plain(kind, field)
    free = field.name in ("data", "cache", "out")
    if free and isinstance(value, str) and value:
        return
    assert not accepts(kind, field.name, value)
    if hint in (int, float):
        assert not accepts(kind, field.name, True), "a bool is no number"
    if hint is int:
        assert not accepts(kind, field.name, 1.5)
    if hint is bool:
        assert not accepts(kind, field.name, 1)
    optional = field.default is None or "None" in str(typing.get_type_hints(kind)[field.name])
    assert optional or not accepts(kind, field.name, None)


def test_a_field_without_a_range_fails_at_once():
    @dataclasses.dataclass(frozen=True, kw_only=True)
    class More(TrainConfig):
        z_loss: float = 0.0

    with pytest.raises(AssertionError, match="More.z_loss has no range"):
        More()


@pytest.mark.parametrize("kind", CONFIGS)
def test_the_defaults_and_the_ends_of_ranges_are_allowed(kind):
    kind()
    table = fsdp_config.FSDP_RANGES | train_config.RANGES | getattr(kind, "ranges", {})
    for field in dataclasses.fields(kind):
        allowed = table.get(field.name)
        if isinstance(allowed, tuple):
            assert all(accepts(kind, field.name, value) for value in allowed), field.name


@pytest.mark.parametrize(
    "given_, words",
    [
        ({"grad_clip": -1}, "grad_clip must be 0 or more, got -1: 0 switches it off"),
        ({"weight_decay": -5.0}, "weight_decay must be 0 to 100, got -5.0: 0 switches it off"),
        ({"device": "gpu"}, "device must be one of auto, cpu, cuda, got 'gpu'"),
        ({"seed": -1}, "seed must be 0 to"),
        ({"keep": 0}, "keep must be at least 1, got 0"),
        ({"eval_batches": -1}, "eval_batches must be 0 or more"),
        ({"global_batch": 0}, "global_batch must be at least 1"),
        ({"lr": 0.5, "weight_decay": 3.0}, "lr . weight_decay must be below 1"),
        ({"min_lr": 0.1}, "lower min_lr or raise lr"),
        ({"max_steps": 2.0}, "max_steps must be at least 1 and a whole number, got 2.0"),
    ],
)
def test_what_is_said(given_, words):
    for kind in (TrainConfig, FSDPConfig):
        with pytest.raises(ValueError, match=words):
            kind(**given_)


def test_the_ends_of_a_range():
    assert 0 in ranges.ZERO_OR_MORE and 0 not in ranges.COUNT and math.nan not in ranges.COUNT
    assert 0.0 not in Range(0, 1, open=True) and 1 not in Range(0, 1, open=True)
