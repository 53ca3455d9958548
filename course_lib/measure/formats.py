"""Number formats: their bits, their ends, what they round away, and what weights take in them.

What it is: the formats that models are trained and stored in, each as a sign, exponent bits and
fraction bits, with the scales that blocks of small numbers share. What it leaves out: arithmetic in
them; numbers are rounded to a format and computed with in float32.

Sources: IEEE 754; Micikevicius et al. 2022 ("FP8 Formats for Deep Learning"); the OCP Microscaling
specification 1.0 (2023) for blocks of 32; NVIDIA's NVFP4 for blocks of 16.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Format:
    """A number format: 1 sign bit, `exponent` bits, `fraction` bits; int8 has no exponent.

    `bits` is what one number takes in memory. Each `block` consecutive numbers of a row share a
    scale of `block_bits`; 0 for none. Each tensor has scales of `tensor_bits`.
    `special` says what the highest exponent is for: "ieee", infinity and NaN alone; "nan", numbers,
    with one pattern left for NaN; "none", numbers.
    """

    exponent: int
    fraction: int
    bits: int
    special: str = "ieee"
    block: int = 0
    block_bits: int = 0
    tensor_bits: int = 0

    @property
    def bias(self) -> int:
        """What is taken from the stored exponent."""
        return 2 ** (self.exponent - 1) - 1

    @property
    def eps(self) -> float:
        """From 1 to the next larger number."""
        return 2.0**-self.fraction if self.exponent else 1.0

    @property
    def largest(self) -> float:
        """The largest finite number."""
        if not self.exponent:
            return 2.0**self.fraction - 1
        top = 2.0 ** (self.bias + (self.special != "ieee"))
        return (2 - self.eps * (2 if self.special == "nan" else 1)) * top

    @property
    def smallest_normal(self) -> float:
        """The smallest positive number with all its fraction bits."""
        return 2.0 ** (1 - self.bias) if self.exponent else 1.0

    @property
    def smallest(self) -> float:
        """The smallest positive number; below the smallest normal one, fraction bits are lost."""
        return self.smallest_normal * self.eps


FORMATS = {
    "fp32": Format(8, 23, 32),
    "tf32": Format(8, 10, 32),  # 19 bits go into the product; in memory it is float32
    "bf16": Format(8, 7, 16),
    "fp16": Format(5, 10, 16),
    "e5m2": Format(5, 2, 8),
    "e4m3": Format(4, 3, 8, "nan"),
    "mxfp8": Format(4, 3, 8, "nan", block=32, block_bits=8),
    "int8": Format(0, 7, 8, "none", tensor_bits=32),
    "mxfp4": Format(2, 1, 4, "none", block=32, block_bits=8),
    "nvfp4": Format(2, 1, 4, "none", block=16, block_bits=8, tensor_bits=32),
}


def find_format(name: str) -> Format:
    """The format of that name; ValueError lists them."""
    if name not in FORMATS:
        raise ValueError(f"no format {name!r}; there are {', '.join(FORMATS)}")
    return FORMATS[name]


def weight_bytes(shapes: Iterable[Sequence[int]], name: str) -> int:
    """Bytes of the tensors of these shapes when stored in the format `name`, scales included.

    A shape has one dimension or more; the last is the length of a row. With f = find_format(name),
    a number takes f.bits. Where f.block is not 0, each row is cut into blocks of f.block numbers.
    Each block has a scale of f.block_bits. The last block of a row may be partial: it has a whole
    scale, but stores no number that is not there. Each tensor has f.tensor_bits of its own, once,
    even one without numbers. Each tensor's bits are packed without gaps, then rounded up to whole
    bytes.
    Nothing else is counted: no gradient, no optimizer, no second copy. Returns an int, 0 for no
    shapes. An unknown name is a ValueError, as `find_format` has it, even if there are no shapes.
    """
    f, total = find_format(name), 0
    for *rows, length in shapes:
        count = 1
        for size in rows:
            count *= size
        blocks = -(-length // f.block) if f.block else 0
        bits = count * (length * f.bits + blocks * f.block_bits) + f.tensor_bits
        total += -(-bits // 8)
    return total


def round_to_format(x: Tensor, name: str) -> Tensor:
    """`x`, rounded to the nearest number of the format, ties to the even one; float32.

    Scales are not applied. What is too large becomes infinity where the format has it, else the
    largest number. NaN stays NaN.
    """
    f = find_format(name)
    wide = x.double()
    exponent = torch.frexp(wide).exponent - 1  # 1 <= |x| / 2**exponent < 2
    least = 1 - f.bias if f.exponent else 0
    step = torch.ldexp(torch.full_like(wide, f.eps), exponent.clamp(min=least))
    if not f.exponent:
        step = torch.ones_like(wide)
    near = torch.where(wide.isfinite(), torch.round(wide / step) * step, wide)
    over = near.abs() > f.largest
    end = torch.inf if f.special == "ieee" else f.largest
    return torch.where(over, end * near.sign(), near).float()


def fake_quantize(x: Tensor, name: str) -> Tensor:
    """`x` as it comes back from the format, block and tensor scales applied; float32.

    MX block scales are powers of two, those of nvfp4 are e4m3 numbers below a float32 scale of the
    tensor, that of int8 is float32. A row whose length `f.block` does not divide: ValueError.
    """
    f = find_format(name)
    if f.block and x.shape[-1] % f.block:
        raise ValueError(f"rows of {x.shape[-1]} do not divide into blocks of {f.block}")
    cut = x.float().reshape(-1, f.block) if f.block else x.float().reshape(1, -1)
    most = cut.abs().amax(1, keepdim=True)
    if name == "nvfp4":
        tensor_scale = (most.max() / (f.largest * FORMATS["e4m3"].largest)).clamp(min=1e-30)
        scale = round_to_format(most / f.largest / tensor_scale, "e4m3") * tensor_scale
    elif f.block:
        top = torch.frexp(torch.tensor(f.largest)).exponent - 1
        scale = torch.ldexp(torch.ones_like(most), torch.frexp(most).exponent - 1 - top)
    else:
        scale = most / f.largest if f.tensor_bits else torch.ones_like(most)
    scale = torch.where(scale == 0, 1.0, scale)
    return (round_to_format(cut / scale, name) * scale).reshape(x.shape)


def bit_string(value: float, name: str) -> str:
    """Sign, exponent and fraction bits of `value` as torch stores it in format `name`.

    It is "fp32", "bf16", "fp16", "e5m2" or "e4m3"; ValueError for another one.
    """
    dtypes = {"fp32": (torch.float32, torch.int32), "bf16": (torch.bfloat16, torch.int16),
              "fp16": (torch.float16, torch.int16), "e5m2": (torch.float8_e5m2, torch.uint8),
              "e4m3": (torch.float8_e4m3fn, torch.uint8)}  # fmt: skip
    if name not in dtypes:
        raise ValueError(f"torch keeps no bits of {name!r}; choose one of {', '.join(dtypes)}")
    f, (dtype, whole) = FORMATS[name], dtypes[name]
    bits = torch.tensor(value, dtype=torch.float32).to(dtype).view(whole).item() % 2**f.bits
    text = f"{bits:0{f.bits}b}"
    return f"{text[0]} {text[1 : 1 + f.exponent]} {text[1 + f.exponent :]}"
