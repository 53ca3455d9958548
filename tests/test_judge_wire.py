"""The wire carries plain values, both ways, and turns everything else into `ProtocolError`."""

import itertools
import json
import math
import pickle
import socket
import struct
import time

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from course_lib.gpt import GPTConfig
from grader.judge import wire
from grader.judge.wire import FRAME, ProtocolError, decode, encode

QUICK = settings(max_examples=150, derandomize=True, suppress_health_check=list(HealthCheck))
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=4).map(tuple)
        | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=12,
)


def parts(frame):
    header, body = FRAME.unpack(frame[: FRAME.size])
    rest = frame[FRAME.size :]
    assert len(rest) == header + body
    return rest[:header], rest[header:]


def back(value, **more):
    return decode(*parts(encode(value)), **more)


def same(a, b):
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, (tuple, list)):
        return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    return type(a) is type(b) and (a == b or a != a)


@QUICK
@given(PLAIN)
def test_plain_values_come_back_as_they_were(value):
    assert same(back(value), value)


@pytest.mark.parametrize("dtype", wire.DTYPES.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)], ids=str)
def test_tensors_of_every_dtype_and_shape(dtype, shape):
    x = (torch.arange(math.prod(shape)) % 2).reshape(shape).to(dtype)
    y, z = back([x, x.T if x.dim() == 2 else x])
    assert same(y, x) and y.is_contiguous() and (x.dim() != 2 or same(z, x.T))


def test_a_permuted_view_arrives_as_one():
    for order in itertools.permutations(range(4)):
        x = torch.arange(120.0).reshape(2, 3, 4, 5).permute(order)
        y = back(x)
        assert torch.equal(x, y) and y.stride() == x.stride()
    for x in (torch.arange(9.0)[::2], torch.ones(1).expand(3, 4)):  # no permuted whole
        assert torch.equal(back(x), x) and back(x).is_contiguous()


@pytest.mark.parametrize("dtype", wire.ARRAYS.values(), ids=str)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (2, 3)], ids=str)
def test_arrays_of_every_dtype_and_shape(dtype, shape):
    x = (np.arange(math.prod(shape)) % 2).reshape(shape).astype(dtype)
    for sent in (x, x.T, x.astype(dtype.newbyteorder(">"))):
        y = back([sent])[0]
        assert type(y) is np.ndarray and y.dtype == dtype and np.array_equal(y, sent)
        assert y.flags.c_contiguous and y.flags.writeable


def test_arrays_of_objects_do_not_travel():
    for value in (np.array([{}]), np.array(["text"]), np.zeros(2, "M8[s]"), np.zeros(2, "i4,f4")):
        assert type(back(value)).__name__ == "ndarray"
    for tree in (["N", "object", [1]], ["N", "uint16", [9]], ["N", "uint16", [-1]], ["N", 3, []]):
        with pytest.raises(ProtocolError):
            decode(json.dumps(tree).encode(), b"xx")


def test_a_bool_of_an_array_is_0_or_1_too():
    header = json.dumps(["N", "bool", [3]]).encode()
    assert decode(header, b"\x00\x01\x7f").view(np.uint8).tolist() == [0, 1, 1]


def test_arrays_of_objects_and_forged_arrays_do_not_travel_as_such():
    class Forged(np.ndarray):
        def __eq__(self, other):
            return True

        __hash__ = None

    for value in (np.array([object()]), np.array(["text"]), np.array([(1, 2)], dtype="i4,i4")):
        assert type(back(value)).__name__ == "ndarray" and isinstance(back(value), wire.Opaque)
    assert type(back(np.ones(2).view(Forged))) is np.ndarray


def test_nan_and_infinity_travel_inside_tensors():
    x = torch.tensor([math.nan, math.inf, -0.0])
    assert torch.equal(back(x).view(torch.int32), x.view(torch.int32))


def test_what_is_no_plain_value_travels_as_the_name_of_its_kind():
    class Secret:
        pass

    for value, kind in (
        (Secret(), "object"),
        ({1, 2}, "set"),
        (b"raw", "bytes"),
        (1j, "complex"),
        (torch.ones(2).to_sparse(), "tensor"),
        (10**9999, "number"),
        ({1: 2}, "object"),
    ):
        came = back(value)
        assert isinstance(came, wire.Opaque) and type(came).__name__ == kind, value


def test_subclasses_arrive_as_their_plain_values():
    class Always(int):
        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    class Forged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return True

    assert type(back(Always(3))) is int and back(Always(3)) != 4
    came = back(torch.ones(2).as_subclass(Forged))
    assert type(came) is torch.Tensor and not torch.allclose(came, torch.zeros(2))
    assert type(back(torch.nn.Parameter(torch.ones(2)))) is torch.Tensor


def test_a_bool_is_0_or_1_whatever_byte_came():
    header = json.dumps(["T", "bool", [3]]).encode()
    assert decode(header, b"\x00\x01\x7f").view(torch.uint8).tolist() == [0, 1, 1]


def test_only_the_judge_sends_configs():
    config = GPTConfig(num_layers=2)
    assert back(config, trusted=True) == config
    with pytest.raises(ProtocolError):
        back(config)


HEADERS = {
    "an array of objects": b'["N", "object", [1]]',
    "an array of negative shape": b'["N", "float32", [-2]]',
    "an array larger than its bytes": b'["N", "float64", [2]]',
    "not JSON": b"{",
    "a pickle": pickle.dumps({"out": 1}),
    "too deep": b"[" * 100_000,
    "deep, tagged": json.dumps(["l", []]).encode()[:-3] + b'["l",[' * 50 + b"]]" * 50 + b"]]",
    "an object": b'{"out": 1}',
    "untagged": b"[1, 2]",
    "unknown tag": b'["z", 1]',
    "a class": b'["c", "GPTConfig", ["d", {}]]',
    "tag alone": b'["T"]',
    "negative shape": b'["T", "float32", [-1]]',
    "float shape": b'["T", "float32", [2.5]]',
    "NaN shape": b'["T", "float32", [NaN]]',
    "bool shape": b'["T", "float32", [true]]',
    "text shape": b'["T", "float32", "22"]',
    "huge shape": b'["T", "float32", [1099511627776, 1099511627776]]',
    "huge and empty": b'["T", "float32", [0, 1099511627775, 1099511627775]]',
    "too many dimensions": b'["T", "float32", [' + b",".join([b"1"] * 40) + b"]]",
    "more than its bytes": b'["T", "float32", [3]]',
    "fewer than its bytes": b'["T", "float32", [1]]',
    "order of too few": b'["T", "float32", [1, 1], [0]]',
    "order with a dimension twice": b'["T", "float32", [1, 1], [0, 0]]',
    "order of bools": b'["T", "float32", [1, 1], [false, true]]',
    "order of text": b'["T", "float32", [1, 1], ["0", "1"]]',
    "order a number": b'["T", "float32", [1, 1], 3]',
    "unknown dtype": b'["T", "object", [1]]',
    "dtype a list": b'["T", ["float32"], [1]]',
    "a number of many digits": b"1" + b"0" * 9000,
    "too many items": b'["l",[' + b",".join([b"1"] * 30_000) + b"]]",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_junk_is_a_protocol_error(header):
    with pytest.raises(ProtocolError):
        decode(header, bytes(8))


@QUICK
@given(st.binary(max_size=60), st.binary(max_size=20))
def test_random_bytes_raise_nothing_else(header, body):
    try:
        decode(header, body)
    except ProtocolError:
        pass


@QUICK
@given(PLAIN, st.integers(0, 400), st.integers(0, 255))
def test_a_changed_byte_raises_nothing_else(value, at, byte):
    header, body = parts(encode({"out": value, "x": torch.arange(4)}))
    broken = bytearray(header)
    broken[at % len(broken)] = byte
    try:
        decode(bytes(broken), body)
    except ProtocolError:
        pass


def test_what_is_too_large_is_not_sent():
    with pytest.raises(ProtocolError):
        encode(torch.empty(wire.BODY_BYTES + 8, dtype=torch.uint8))
    with pytest.raises(ProtocolError):
        encode(list(range(wire.ITEMS + 1)))
    cycle: list = []
    cycle.append(cycle)
    with pytest.raises(ProtocolError):
        encode(cycle)


def soon():
    return time.monotonic() + 5


def test_a_promise_of_many_bytes_is_refused_before_they_come():
    for promise in (struct.pack(">IQ", 1 << 31, 0), struct.pack(">IQ", 4, 1 << 60)):
        ours, theirs = socket.socketpair()
        theirs.sendall(promise)
        with pytest.raises(ProtocolError, match="too large"):
            wire.receive(ours, soon())
        ours.close()
        theirs.close()


def test_silence_ends_at_the_deadline_and_a_hang_up_at_once():
    ours, theirs = socket.socketpair()
    with pytest.raises(TimeoutError):
        wire.receive(ours, time.monotonic() + 0.05)
    theirs.sendall(encode("x")[:-1])
    theirs.close()
    with pytest.raises(wire.ConnectionClosed):
        wire.receive(ours, soon())
    with pytest.raises(wire.ConnectionClosed):
        wire.send(ours, "x" * 10, soon())
    ours.close()


def test_nobody_reading_ends_at_the_deadline():
    ours, theirs = socket.socketpair()
    with pytest.raises(TimeoutError):
        wire.send(ours, torch.zeros(4 << 20), time.monotonic() + 0.1)
    ours.close()
    theirs.close()
