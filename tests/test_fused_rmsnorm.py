"""RMSNorm as one kernel, in the course's interpreter and, where it is installed, in Triton's own."""

import importlib.util
import os
import subprocess
import sys

import pytest
import torch
from torch import nn

from course_lib.fast import tiles as tl
from course_lib.fast.fused_rmsnorm import LONGEST, fused_rmsnorm, rmsnorm_kernel
from course_lib.gpt import RMSNorm

SHAPES = [(1, 1), (3, 5), (2, 3, 33), (4, 64), (2, 1000), (7,), (0, 4)]


def pair(shape, dtype):
    torch.manual_seed(0)
    norm = RMSNorm(shape[-1]).to(dtype)
    with torch.no_grad():
        norm.weight.normal_(1.0, 0.5)
    return norm, torch.randn(shape).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_it_is_the_norm_of_the_model(shape, dtype):
    norm, x = pair(shape, dtype)
    right, out = norm(x), fused_rmsnorm(x, norm.weight)
    upstream = torch.randn_like(right)
    assert out.shape == right.shape and out.dtype == right.dtype
    # float32: other orders of sums; 16 bits: one rounding, that may fall to the other side
    close = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=8e-3, atol=1e-2)
    torch.testing.assert_close(out, right, **close)
    for found, grad in zip(
        torch.autograd.grad(out, (x, norm.weight), upstream),
        torch.autograd.grad(right, (x, norm.weight), upstream),
        strict=True,
    ):
        torch.testing.assert_close(found, grad, **close)


def test_gradients_in_float64(monkeypatch):
    monkeypatch.setattr(tl, "float32", torch.float64)  # what the kernels compute in
    monkeypatch.setattr(torch, "float32", torch.float64)  # and the sum over programs
    norm, x = pair((3, 5), torch.float64)
    assert torch.autograd.gradcheck(fused_rmsnorm, (x, norm.weight))


def test_rows_that_lie_apart():
    norm, _ = pair((4, 20), torch.float32)
    wide = torch.randn(4, 50)
    apart = [wide[:, 10:30], wide[::2, :20], wide.t()[:20].t()]
    for x in (*apart, torch.randn(20, 4).t(), torch.randn(1, 20).expand(4, 20)):
        torch.testing.assert_close(fused_rmsnorm(x, norm.weight), norm(x))


def test_each_number_crosses_memory_once():
    norm, x = pair((3, 5), torch.float32)
    with tl.count_launches() as launches:
        out = fused_rmsnorm(x, norm.weight)
        torch.autograd.grad(out, x, torch.ones_like(out))
    forward, backward = launches
    assert (forward.loads["x_ptr"] == 1).all() and (forward.stores["out_ptr"] == 1).all()
    assert (forward.loads["weight_ptr"] == 3).all() and forward.num_bytes == 4 * 3 * 15
    for name in ("x_ptr", "grad_ptr"):
        assert (backward.loads[name] == 1).all()
    assert (backward.stores["dx_ptr"] == 1).all() and (backward.loads["dx_ptr"] == 0).all()


@pytest.mark.parametrize(
    "x, weight",
    [
        ((2, 4), (5,)),
        ((2, 4), (1, 4)),
        ((), ()),
        ((1, 0), (0,)),
        ((1, LONGEST + 1), (LONGEST + 1,)),
    ],
)
def test_what_does_not_fit_is_refused(x, weight):
    with pytest.raises(ValueError, match="expected"):
        fused_rmsnorm(torch.ones(x), torch.ones(weight))
    with pytest.raises(ValueError, match="float"):
        fused_rmsnorm(torch.ones(2, 4, dtype=torch.int64), torch.ones(4))


# --- the interpreter -------------------------------------------------------------------------


@tl.jit
def copy_kernel(x_ptr, out_ptr, first, BLOCK: tl.constexpr):
    lanes = first + tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


def test_what_leaves_a_tensor_is_refused():
    x = torch.arange(8.0)
    with pytest.raises(
        tl.OutOfBounds, match=r"copy_kernel, program 2: a load at offset 8 of x_ptr"
    ):
        copy_kernel[(3,)](x, torch.empty(12), 0, BLOCK=4)
    with pytest.raises(tl.OutOfBounds, match="a load at offset -1 of x_ptr"):
        copy_kernel[(1,)](x, torch.empty(12), -1, BLOCK=4)
    with pytest.raises(tl.OutOfBounds, match="a store at offset 4 of out_ptr"):
        copy_kernel[(2,)](x, torch.empty(4), 0, BLOCK=4)
    with pytest.raises(tl.OutOfBounds, match="offset 3 of x_ptr, between two of its rows"):
        copy_kernel[(1,)](torch.ones(2, 5)[:, :3], torch.empty(8), 0, BLOCK=4)
    with pytest.raises(tl.OutOfBounds):
        copy_kernel[(1,)](torch.empty(0), torch.empty(4), 0, BLOCK=4)


def test_a_slice_of_a_tensor_is_a_memory_of_its_own():
    big = torch.arange(12.0)
    out = torch.zeros(4)
    copy_kernel[(1,)](big[4:8], out, 0, BLOCK=4)
    assert out.tolist() == [4, 5, 6, 7]
    copy_kernel[lambda given: (tl.cdiv(given["x_ptr"].numel(), given["BLOCK"]),)](
        big, big_copy := torch.zeros(12), 0, BLOCK=4, num_warps=4
    )
    assert torch.equal(big_copy, big)


@tl.jit
def lanes_kernel(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes, mask=lanes < n))


def test_masked_lanes_hold_nothing_that_can_be_used():
    out = torch.zeros(4)
    lanes_kernel[(1,)](torch.ones(2), out, 2, BLOCK=4)
    assert out[:2].tolist() == [1, 1] and out[2:].isnan().all()
    with pytest.raises(ValueError, match="power of two"):
        lanes_kernel[(1,)](torch.ones(3), torch.zeros(3), 3, BLOCK=3)


def test_sums_keep_the_dtype_of_the_block():
    ones = torch.ones(1024)
    assert (
        tl.sum(ones.bfloat16()).item() == 1024 and tl.sum(ones.bfloat16()).dtype == torch.bfloat16
    )
    steps = torch.tensor([256.0, 1.0, 1.0, 1.0]).bfloat16()
    assert (tl.sum(steps).item(), steps.sum().item()) == (258, 260)  # 256 + 1 is 256 in 8 bits
    assert tl.sum(torch.ones(4, 8), axis=1).tolist() == [8] * 4
    assert tl.sum(torch.ones(4, 8), axis=0, keep_dims=True).shape == (1, 8)
    assert tl.max(torch.tensor([1.0, 3.0])).item() == 3
    assert tl.maximum(torch.tensor([-1.0, 2.0]), 0.0).tolist() == [0, 2]
    assert tl.minimum(torch.tensor([-1.0, 2.0]), 0.0).tolist() == [-1, 0]
    assert [tl.next_power_of_2(n) for n in (1, 2, 3, 1000, 1024)] == [1, 2, 4, 1024, 1024]


def test_the_copy_for_another_language_reads_that_one():
    class Loud:
        constexpr = tl.constexpr

    spoken = rmsnorm_kernel.with_language(Loud)
    assert spoken.__globals__["tl"] is Loud and rmsnorm_kernel.function.__globals__["tl"] is tl
    assert spoken.__code__ is rmsnorm_kernel.function.__code__


# --- real Triton, where there is one ---------------------------------------------------------

WITHOUT = "Triton is not installed: pip install 'course-lib[triton]' (Linux, 1 GB)"
TRITON = """
import torch
from course_lib.fast import tiles
from course_lib.fast.fused_rmsnorm import fused_rmsnorm
from course_lib.gpt import RMSNorm

def refuse(*args, **kwargs):
    raise AssertionError("interpreted by tiles, not by Triton")

tiles.Kernel.interpret = refuse
torch.manual_seed(0)
for shape in ((3, 5), (2, 3, 33), (4, 64)):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        norm = RMSNorm(shape[-1]).to(dtype)
        norm.weight.data.normal_(1.0, 0.5)
        x = torch.randn(shape).to(dtype).requires_grad_()
        right, out = norm(x), fused_rmsnorm(x, norm.weight)
        upstream = torch.randn_like(right)
        # Triton's interpreter cuts off what does not fit into bfloat16: one place, not half of one
        close = dict(rtol=1e-5, atol=1e-5) if dtype == torch.float32 else dict(rtol=1.6e-2, atol=2e-2)
        torch.testing.assert_close(out, right, **close)
        for a, b in zip(torch.autograd.grad(out, (x, norm.weight), upstream),
                        torch.autograd.grad(right, (x, norm.weight), upstream)):
            torch.testing.assert_close(a, b, **close)
print("the same")
"""
COMPILED = """
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from course_lib.fast.fused_rmsnorm import rmsnorm_kernel

signature = dict(x_ptr="*bf16", weight_ptr="*fp32", out_ptr="*bf16", x_stride="i32", out_stride="i32",
                 D="i32", eps="fp32", BLOCK="constexpr")
source = ASTSource(fn=rmsnorm_kernel.triton, signature=signature, constexprs={"BLOCK": 1024})
made = triton.compile(source, target=GPUTarget("cuda", 90, 32))
assert "rmsnorm_kernel" in made.asm["ptx"] and made.asm["ttir"].count("tt.load") == 2
print("compiled")
"""


def run(code: str, **env) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=240,
    )
    if "only 0-dimensional arrays can be converted" in done.stderr:
        pytest.skip("the interpreter of this Triton needs numpy below 2.4")
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason=WITHOUT)
def test_the_same_source_in_tritons_interpreter():
    assert "the same" in run(TRITON, TRITON_INTERPRET="1")


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason=WITHOUT)
def test_the_same_source_compiles_for_a_gpu():
    """To machine code of an H100 or H200, which needs no GPU; nothing is run."""
    assert "compiled" in run(COMPILED, TRITON_INTERPRET="0")


def test_it_may_stand_in_a_model():
    class Norm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return fused_rmsnorm(x, self.weight)

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), Norm(8), nn.Linear(8, 1))
    loss = model(torch.randn(6, 4)).square().mean()
    loss.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
