"""Plain values as bytes: what the judge and a confined worker say to each other.

A message is one value: None, bool, int, float, str, tensor, array, dtype, tuple, list, or dict with
str keys. It travels as a JSON header, in which every container is tagged, followed by the raw bytes
of tensors and arrays in the order of the header; a permuted view stays one. Nothing is pickled.
What arrives is treated as hostile:
sizes, depth, counts, dtypes and shapes are checked before anything is allocated, and whatever does
not fit is a `ProtocolError`.

    4 bytes header length | 8 bytes body length | header | body

The judge may also send the dataclasses in `SENT`, by name and fields; the worker may not.
A value that is none of these travels as `Opaque`: the name of its kind, and nothing of it.
"""

import ctypes
import dataclasses
import importlib
import json
import math
import socket
import struct
import time
from typing import Any

import numpy as np
import torch
from torch import Tensor

HEADER_BYTES, BODY_BYTES = 1 << 20, 16 << 20  # what a check reads of an answer is a tenth of it
TRUSTED_HEADER_BYTES = 16 << 20  # the judge sends whole notebooks' worth of source
TRUSTED_BODY_BYTES = 64 << 20
DEPTH, ITEMS, DIMS, DIGITS = 12, 20_000, 16, 4000
FRAME = struct.Struct(">IQ")
DTYPES = {
    str(d).removeprefix("torch."): d
    for d in (
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
        torch.uint8,
        torch.int8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.bool,
        torch.complex64,
        torch.complex128,
    )
}
ARRAYS = {
    np.dtype(d).name: np.dtype(d)
    for d in (
        np.bool_,
        np.uint8,
        np.uint16,
        np.uint32,
        np.uint64,
        np.int8,
        np.int16,
        np.int32,
        np.int64,
        np.float16,
        np.float32,
        np.float64,
    )
}
SENT = {
    "GPTConfig": "course_lib.gpt",
    "CharTokenizer": "course_lib.data.tokenizer",
    "TrainConfig": "course_lib.training.train_config",
    "OnePass": "course_lib.probes.one_pass",
    "ByteTokenizer": "course_lib.probes.byte_tokenizer",
    "CachingTokenizer": "course_lib.probes.byte_tokenizer",
}
KINDS = frozenset(
    "set frozenset bytes bytearray complex function method generator range type module object slice "
    "ndarray Generator map filter zip dict_keys dict_values dict_items builtin_function_or_method "
    "property coroutine memoryview ellipsis number tensor text".split()
)


class ProtocolError(Exception):
    """The other side sent what this protocol does not allow."""


class ConnectionClosed(Exception):
    """The other side is gone."""


class Opaque:
    """Stands for a value that does not travel. Its class bears the name of the value's kind."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


def make_opaque(kind: str) -> Opaque:
    """An `Opaque` of that kind. Unknown names become "object", or a name could carry a message out."""
    return type(kind if kind in KINDS else "object", (Opaque,), {})()


def encode(value: Any, *, trusted: bool = False) -> bytes:
    """One frame. ProtocolError when the value is too large or too deep.

    What the judge sends is `trusted` with more than a worker is, so that no answer makes the judge
    read more than a check has use for.
    """
    body: list[bytes] = []
    budget = [ITEMS]
    header = json.dumps(_pack_value(value, body, budget, 0), separators=(",", ":")).encode("ascii")
    size = sum(map(len, body))
    most_header, most_body = _allowed_bytes(trusted)
    if len(header) > most_header or size > most_body:
        raise ProtocolError(f"a message of {len(header) + size:,} bytes is too large")
    return b"".join((FRAME.pack(len(header), size), header, *body))


def _allowed_bytes(trusted: bool) -> tuple[int, int]:
    return (TRUSTED_HEADER_BYTES, TRUSTED_BODY_BYTES) if trusted else (HEADER_BYTES, BODY_BYTES)


def _pack_value(value: Any, body: list[bytes], budget: list[int], depth: int) -> Any:
    budget[0] -= 1
    if budget[0] < 0 or depth > DEPTH:
        raise ProtocolError("a value with too many parts")
    if value is None or isinstance(value, bool):
        return value
    # subclasses may define their own __eq__ or __repr__: only the plain number travels
    if isinstance(value, int):
        plain = int.__int__(value)
        return plain if plain.bit_length() < 3 * DIGITS else ["o", "number"]
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, Tensor):
        return _pack_tensor(value, body)
    if isinstance(value, np.ndarray):
        return _pack_array(value, body)
    if isinstance(value, torch.dtype):
        return ["y", str(value).removeprefix("torch.")]
    if isinstance(value, (tuple, list)):
        parts = [_pack_value(v, body, budget, depth + 1) for v in value]
        return ["t" if isinstance(value, tuple) else "l", parts]
    if isinstance(value, dict) and all(type(k) is str for k in value):
        return ["d", {k: _pack_value(v, body, budget, depth + 1) for k, v in value.items()}]
    if dataclasses.is_dataclass(value) and SENT.get(type(value).__name__) == type(value).__module__:
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return ["c", type(value).__name__, _pack_value(fields, body, budget, depth + 1)]
    return ["o", type(value).__name__]


def _pack_tensor(value: Tensor, body: list[bytes]) -> list:
    with torch._C.DisableTorchFunctionSubclass():  # a subclass gets no say in what its bytes are
        name = str(value.dtype).removeprefix("torch.")
        strided = value.layout == torch.strided and value.device.type == "cpu"
        if not strided or value.is_nested or name not in DTYPES:
            return ["o", "tensor"]
        plain = value.detach().as_subclass(Tensor)
        plain = plain.resolve_conj().resolve_neg()
        order = sorted(range(plain.dim()), key=plain.stride, reverse=True)
        permuted = not plain.is_contiguous() and plain.permute(order).is_contiguous()
        size = plain.numel() * plain.element_size()  # first: it may be one number, expanded
        if size > TRUSTED_BODY_BYTES or plain.dim() > DIMS:
            raise ProtocolError(f"a tensor of {size:,} bytes is too large")
        plain = plain.permute(order) if permuted else plain.contiguous()
        body.append(ctypes.string_at(plain.data_ptr(), size) if size else b"")
        return ["T", name, list(plain.shape), *([order] if permuted else [])]


def _pack_array(value: np.ndarray, body: list[bytes]) -> list:
    dtype = np.ndarray.__getattribute__(value, "dtype").newbyteorder("=")
    if ARRAYS.get(dtype.name) != dtype:
        return ["o", "ndarray"]
    size = math.prod(np.shape(value)) * dtype.itemsize
    if size > TRUSTED_BODY_BYTES or len(np.shape(value)) > DIMS:
        raise ProtocolError(f"an array of {size:,} bytes is too large")
    plain = np.array(value, dtype=dtype, order="C", subok=False)
    body.append(plain.tobytes())
    return ["N", dtype.name, list(plain.shape)]


def decode(header: bytes, body: bytes, *, trusted: bool = False) -> Any:
    """The value of a frame. `trusted` allows dataclasses; only a worker reads the judge that way."""
    try:
        tree = json.loads(header)
    except (ValueError, RecursionError):
        raise ProtocolError("a header that is not JSON") from None
    reader = _Reader(body, trusted)
    try:
        value = reader.read_value(tree, 0)
    except (TypeError, ValueError, OverflowError, RecursionError, KeyError) as problem:
        raise ProtocolError(f"a malformed value: {type(problem).__name__}") from None
    if reader.used != len(body):
        raise ProtocolError("bytes that belong to no tensor")
    return value


class _Reader:
    """Builds the value, taking each tensor's bytes from the front of the body."""

    def __init__(self, body: bytes, trusted: bool):
        self.body, self.trusted, self.used, self.items = body, trusted, 0, 0

    def read_value(self, tree: Any, depth: int) -> Any:
        self.items += 1
        if self.items > ITEMS or depth > DEPTH:
            raise ProtocolError("a value with too many parts")
        if tree is None or isinstance(tree, (bool, int, float)):
            return tree
        if isinstance(tree, str):
            return tree
        if not isinstance(tree, list) or not tree or not isinstance(tree[0], str):
            raise ProtocolError("an untagged container")
        tag, *rest = tree
        if tag in ("t", "l"):
            (parts,) = rest
            values = [self.read_value(part, depth + 1) for part in _require(list, parts)]
            return tuple(values) if tag == "t" else values
        if tag == "d":
            (parts,) = rest
            return {k: self.read_value(v, depth + 1) for k, v in _require(dict, parts).items()}
        if tag == "T":
            return self.read_tensor(*rest)
        if tag == "N":
            return self.read_array(*rest)
        if tag == "y":
            return DTYPES[_require(str, *rest)]
        if tag == "o":
            return make_opaque(_require(str, *rest))
        if tag == "c" and self.trusted:
            name, fields = rest
            return getattr(importlib.import_module(SENT[name]), name)(
                **self.read_value(fields, depth + 1)
            )
        raise ProtocolError("an unknown tag")

    def read_tensor(self, name: str, shape: list, order: list | None = None) -> Tensor:
        """The tensor; with `order`, of the dimensions as they lie in memory, the view of it."""
        if order is not None:
            if [*map(type, _require(list, order))] != [int] * len(_require(list, shape)):
                raise ProtocolError("an order that cannot be")
            if sorted(order) != [*range(len(shape))]:
                raise ProtocolError("an order that cannot be")
            places = sorted(range(len(order)), key=order.__getitem__)
            return self.read_tensor(name, shape).permute(places)
        dtype = DTYPES[_require(str, name)]
        raw = self.take_bytes(shape, dtype.itemsize)
        if not raw:
            return torch.empty(shape, dtype=dtype)
        if dtype is torch.bool:  # a byte that is neither 0 nor 1 would be equal to both
            return (torch.frombuffer(raw, dtype=torch.uint8) != 0).reshape(shape)
        return torch.frombuffer(raw, dtype=dtype).reshape(shape).clone()

    def read_array(self, name: str, shape: list) -> np.ndarray:
        dtype = ARRAYS[_require(str, name)]
        raw = self.take_bytes(shape, dtype.itemsize)
        if dtype == np.bool_:
            return (np.frombuffer(raw, np.uint8) != 0).reshape(shape)
        return np.frombuffer(raw, dtype).reshape(shape).copy()

    def take_bytes(self, shape: list, itemsize: int) -> bytearray:
        """The next bytes of the body, as many as the shape asks for."""
        shape = _require(list, shape)
        if len(shape) > DIMS or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
            raise ProtocolError("a shape that cannot be")
        # the product without the zeros, too: strides of an empty tensor may overflow as well
        if math.prod(max(n, 1) for n in shape) > 1 << 40:
            raise ProtocolError("a shape that cannot be")
        size = math.prod(shape) * itemsize
        if size > len(self.body) - self.used:
            raise ProtocolError("a tensor larger than its bytes")
        raw = bytearray(self.body[self.used : self.used + size])
        self.used += size
        return raw


def _require(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ProtocolError(f"not a {kind.__name__}")
    return value


def send(sock: socket.socket, value: Any, deadline: float, *, trusted: bool = False) -> None:
    """One frame, whole. TimeoutError at `deadline` (time.monotonic()), ConnectionClosed when nobody reads."""
    frame = encode(value, trusted=trusted)
    try:
        sock.settimeout(_time_left(deadline))
        sock.sendall(frame)
    except (BrokenPipeError, ConnectionError):
        raise ConnectionClosed("nobody reads") from None


def receive(sock: socket.socket, deadline: float, *, trusted: bool = False) -> Any:
    """The next value; TimeoutError, ConnectionClosed or ProtocolError when none comes."""
    header_size, body_size = FRAME.unpack(_receive_exactly(sock, FRAME.size, deadline))
    most_header, most_body = _allowed_bytes(trusted)
    if header_size > most_header or body_size > most_body:
        raise ProtocolError(f"a frame of {header_size + body_size:,} bytes is too large")
    header = _receive_exactly(sock, header_size, deadline)
    return decode(
        bytes(header), bytes(_receive_exactly(sock, body_size, deadline)), trusted=trusted
    )


def _receive_exactly(sock: socket.socket, size: int, deadline: float) -> bytearray:
    """`size` bytes. Memory grows as they come, so a frame that only claims to be large costs none."""
    found = bytearray()
    while len(found) < size:
        sock.settimeout(_time_left(deadline))
        try:
            part = sock.recv(min(1 << 20, size - len(found)))
        except ConnectionError:
            raise ConnectionClosed("the connection broke") from None
        if not part:
            raise ConnectionClosed("the connection ended")
        found += part
    return found


def _time_left(deadline: float) -> float | None:
    if deadline == math.inf:
        return None
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left
