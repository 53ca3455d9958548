"""Formats are those of torch where torch has them; bytes are those of tensors that exist."""

import math

import pytest
import torch

from course_lib.measure.formats import (
    FORMATS,
    bit_string,
    fake_quantize,
    find_format,
    round_to_format,
    weight_bytes,
)

DTYPES = {
    "fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16,
    "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2,
}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_the_numbers_of_a_format_are_those_of_torch(name):
    ours, theirs = FORMATS[name], torch.finfo(DTYPES[name])
    assert (ours.bits, ours.eps, ours.largest) == (theirs.bits, theirs.eps, theirs.max)
    assert ours.smallest_normal == theirs.smallest_normal
    assert 1 + ours.exponent + ours.fraction == ours.bits
    assert ours.smallest == smallest_bits(DTYPES[name])


def smallest_bits(dtype: torch.dtype) -> float:
    """The number whose bits are 0...01."""
    whole = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[dtype.itemsize]
    return torch.tensor([1], dtype=whole).view(dtype).double().item()


def test_formats_that_torch_only_stores():
    assert torch.float4_e2m1fn_x2.itemsize * 8 == 2 * FORMATS["mxfp4"].bits  # two in a byte
    assert torch.float8_e8m0fnu.itemsize * 8 == FORMATS["mxfp4"].block_bits
    four = FORMATS["mxfp4"]
    assert (four.largest, four.smallest_normal, four.smallest, four.eps) == (6, 1, 0.5, 0.5)
    numbers = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])  # all that e2m1 has
    assert torch.equal(round_to_format(numbers, "mxfp4"), numbers)
    assert round_to_format(torch.linspace(-9, 9, 999), "mxfp4").unique().numel() == 15
    assert FORMATS["int8"].largest == torch.iinfo(torch.int8).max
    assert FORMATS["tf32"].largest == pytest.approx(FORMATS["fp32"].largest, rel=1e-3)


@pytest.mark.parametrize("name", DTYPES)
def test_rounding_is_that_of_torch(name):
    torch.manual_seed(0)
    f = FORMATS[name]
    size = torch.randn(20_000).sign() * 2 ** torch.empty(20_000).uniform_(-40, 40)
    ties = torch.tensor([1 + f.eps / 2, 1 + 1.5 * f.eps, f.smallest / 2, 1.5 * f.smallest, 0.0])
    x = torch.cat([size, ties])
    x = x[x.abs() <= f.largest]  # beyond, torch before 2.13 gives nan where later ones stop
    assert torch.equal(round_to_format(x, name), x.to(DTYPES[name]).float())


def test_what_is_too_large_or_no_number():
    x = torch.tensor([1e30, -1e30, math.nan, math.inf])
    assert round_to_format(x, "fp16")[:2].tolist() == [math.inf, -math.inf]
    assert (
        round_to_format(x, "e4m3")[:2].tolist()
        == [448, -448]
        == round_to_format(x, "mxfp8")[:2].tolist()
    )
    assert all(round_to_format(x, name)[2].isnan() for name in FORMATS)
    assert round_to_format(x, "bf16")[3] == math.inf and round_to_format(x, "mxfp4")[3] == 6


@pytest.mark.parametrize("name", FORMATS)
def test_what_comes_back_is_near(name):
    torch.manual_seed(0)
    x = 0.02 * torch.randn(64, 128)
    error = ((fake_quantize(x, name) - x).norm() / x.norm()).item()
    f = FORMATS[name]
    most = 0.02 if name == "int8" else f.eps / 2 * (1.3 if f.bits == 4 else 1)
    assert error <= most, "relative error is at most half a step, a little more where 6 is the end"
    assert torch.equal(fake_quantize(torch.zeros(2, 64), name), torch.zeros(2, 64))
    assert fake_quantize(x, name).shape == x.shape


def test_a_scale_a_block_saves_the_small_rows():
    x = torch.cat([torch.full((1, 32), 1e-6), torch.full((1, 32), 100.0)])
    assert (fake_quantize(x, "mxfp8")[0] / x[0] - 1).abs().max() < 0.07
    assert (
        fake_quantize(x, "e4m3")[0].abs().max() == 0
        and fake_quantize(x, "int8")[0].abs().max() == 0
    )
    with pytest.raises(ValueError, match="blocks of 32"):
        fake_quantize(torch.zeros(2, 40), "mxfp4")


@pytest.mark.parametrize("name", DTYPES)
def test_bytes_are_those_of_tensors(name):
    shapes = [(3, 5), (7,), (2, 3, 4)]
    tensors = [torch.zeros(shape, dtype=DTYPES[name]) for shape in shapes]
    assert weight_bytes(shapes, name) == sum(t.nbytes for t in tensors)


def test_bytes_of_blocks():
    assert weight_bytes([(2, 32)], "mxfp4") == 2 * (16 + 1)
    assert weight_bytes([(2, 33)], "mxfp4") == 33 + 4  # two blocks a row
    assert weight_bytes([(2, 33)], "nvfp4") == 33 + 6 + 4
    assert weight_bytes([(1, 3)], "mxfp4") == 2 + 1  # half a byte is a byte
    assert weight_bytes([(5,), (5,)], "int8") == 2 * (5 + 4)
    assert weight_bytes([(64, 32)], "mxfp8") == 64 * 33
    assert weight_bytes([], "fp32") == 0


def test_bits_of_known_numbers():
    assert bit_string(1.0, "bf16") == "0 01111111 0000000"
    assert bit_string(-1.5, "fp16") == "1 01111 1000000000"
    assert bit_string(448.0, "e4m3") == "0 1111 110"
    assert bit_string(2.0**-24, "fp16") == "0 00000 0000000001"
    for name in DTYPES:
        sign, exponent, fraction = bit_string(0.15625, name).split()
        f = FORMATS[name]
        value = 2.0 ** (int(exponent, 2) - f.bias) * (1 + int(fraction, 2) * f.eps)
        assert sign == "0" and value == 0.15625


def test_unknown_names_list_the_known():
    with pytest.raises(ValueError, match="fp32, tf32, bf16"):
        find_format("fp12")
    with pytest.raises(ValueError, match="fp12"):
        weight_bytes([(1,)], "fp12")
    with pytest.raises(ValueError, match="mxfp4"):
        bit_string(1.0, "mxfp4")
