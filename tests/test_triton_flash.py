"""The attention kernels equal flash.py, forward and backward, in Triton's interpreter or on a GPU.

Triton is an extra. Where it is missing, the tests that need it are skipped, and say so:

    TRITON_INTERPRET=1 python -m pytest tests/test_triton_flash.py
"""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F

from course_lib.fast import triton_flash
from course_lib.fast.flash import flash_forward
from course_lib.fast.flash_attention import flash_attention
from course_lib.fast.triton_flash import Tiles, triton_attention, why_not

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def missing() -> str:
    """Why the kernels cannot be run here, "" where they can."""
    x = torch.zeros(1, 1, 1, 16, device=DEVICE)
    if reason := why_not(x):
        return reason
    try:
        triton_attention(x, x, x)
    except Exception as problem:  # this one alone: any other is for the tests to show
        if "only 0-dimensional arrays can be converted" in str(problem):
            return (
                f"the interpreter of Triton {triton_flash.triton.__version__} needs numpy below 2.4"
            )
    return ""


runs = pytest.mark.skipif(bool(missing()), reason=missing())
compiles = pytest.mark.skipif(triton_flash.triton is None, reason="Triton is not installed")
on_a_gpu = pytest.mark.skipif(DEVICE == "cpu", reason="no GPU: 16-bit sums are a GPU's own")


def drawn(seed: int, dtype=torch.float32) -> tuple[list[torch.Tensor], torch.Tensor, dict, Tiles]:
    """q, k, v, a gradient, options and tiles; as they lie in a model, heads inside tokens, or not."""
    random = torch.Generator().manual_seed(seed)

    def one_of(*values):
        return values[int(torch.randint(len(values), (), generator=random))]

    B, H, T, K = one_of(1, 2), one_of(1, 2), one_of(1, 5, 16, 33, 48), one_of(16, 20, 64, 128)
    all_four = torch.randn(4, B, T, H, K, generator=random).transpose(2, 3)
    *qkv, grad = (x.contiguous() if seed % 2 else x for x in all_four.to(DEVICE, dtype))
    num_keys = torch.randint(T + 1, (B,), generator=random).to(DEVICE) if seed % 3 == 0 else None
    options = dict(causal=one_of(True, False), num_keys=num_keys)
    return qkv, grad, options, Tiles(one_of(16, 32), one_of(16, 32), stages=2)


def gradients(function, tensors, grad) -> list[torch.Tensor]:
    tensors = [x.detach().clone().requires_grad_() for x in tensors]  # clone keeps the layout
    out = function(*tensors)
    return [out.detach(), *torch.autograd.grad(out, tensors, grad)]


def exact(qkv, grad, options) -> list[torch.Tensor]:
    return gradients(
        lambda *x: flash_attention(*x, **options), [x.double() for x in qkv], grad.double()
    )


@runs
@pytest.mark.parametrize("seed", range(16))
def test_equal_to_flash(seed):
    qkv, grad, options, tiles = drawn(seed)
    found = gradients(lambda *x: triton_attention(*x, tiles=tiles, **options), qkv, grad)
    for name, a, b in zip(("out", "dq", "dk", "dv"), found, exact(qkv, grad, options), strict=True):
        assert a.dtype == torch.float32 and a.shape == b.shape
        # sums of at most 48 products of float32: 48 roundings of 2^-24, each of a few units
        torch.testing.assert_close(
            a.double(), b, rtol=0, atol=2e-5 * max(1, b.abs().max()), msg=lambda m, n=name: n + m
        )


@runs
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_sixteen_bits(dtype):
    """Interpreted, tiles are float32 and the bound of tests/test_flash.py holds. On a GPU weights and
    ds are rounded to 16 bits before they are multiplied: one more eps / 2 of every term."""
    eps = torch.finfo(dtype).eps
    for seed in range(4):
        qkv, grad, options, tiles = drawn(seed, dtype)
        found = gradients(
            lambda *x, t=tiles, o=options: triton_attention(*x, tiles=t, **o), qkv, grad
        )
        wanted = exact(qkv, grad, options)
        largest = max(x.abs().max().double() for x in (*qkv, grad))
        sums = (grad.double() * wanted[0]).abs().sum(-1).max() * largest
        more = 0 if DEVICE == "cpu" else len(grad[0, 0]) * largest**3
        for a, b, dots in zip(found, wanted, (0, sums, sums, 0), strict=True):
            bound = eps * (b.abs() + dots + more) + 1e-4 * b.abs().max().clamp(min=1)
            assert a.dtype == dtype and ((a.double() - b).abs() <= bound).all()


@runs
def test_logsumexp_and_a_sequence_of_padding():
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 1, 9, 16, device=DEVICE, requires_grad=True) for _ in range(3))
    num_keys = torch.tensor([0, 4], device=DEVICE)
    out, lse = triton_attention(q, k, v, num_keys=num_keys, with_logsumexp=True)
    wanted = flash_forward(q, k, v, num_keys=num_keys)
    torch.testing.assert_close(out, wanted[0])
    torch.testing.assert_close(lse, wanted[1])
    assert (lse[0] == -torch.inf).all() and (out[0] == 0).all()
    grads = torch.autograd.grad(out.sum(), (q, k, v))
    assert all((g[0] == 0).all() and g.isfinite().all() for g in grads)
    assert (grads[2][1, :, 4:] == 0).all()  # padding learns nothing


@runs
def test_layouts_without_a_copy_and_with_one():
    q, k, v = torch.randn(3, 2, 12, 2, 16, device=DEVICE).transpose(2, 3).unbind()
    assert triton_flash._laid_out(k, q) is k
    assert triton_flash._laid_out(k.contiguous(), q).stride() == q.stride()
    every_second = torch.randn(2, 2, 12, 32, device=DEVICE)[..., ::2]
    for other in (k.contiguous(), every_second, k[:, :1].expand(2, 2, 12, 16)):
        found = triton_attention(q, other, v)
        torch.testing.assert_close(found, flash_attention(q, other, v))
        found = triton_attention(other, q, v)
        torch.testing.assert_close(found, flash_attention(other, q, v))


@runs
@on_a_gpu
def test_as_exact_as_torch_on_this_gpu():
    for K in (64, 128):
        q, k, v, grad = torch.randn(4, 2, 4, 1000, K, device=DEVICE, dtype=torch.bfloat16)
        ours, torchs = (
            gradients(f, (q, k, v), grad)
            for f in (
                triton_attention,
                lambda *x: F.scaled_dot_product_attention(*x, is_causal=True),
            )
        )
        for a, b, c in zip(
            ours, torchs, exact((q, k, v), grad, dict(causal=True, num_keys=None)), strict=True
        ):
            assert (a - c).abs().max() <= 2 * (b - c).abs().max() + 1e-3


@compiles
def test_they_compile_for_a_gpu_that_is_not_here():
    """For compute capability 9.0 in bfloat16: products become instructions of the tensor cores."""
    program = "from tests.test_triton_flash import compiled; print(*compiled(64), *compiled(100))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env=os.environ | {"TRITON_INTERPRET": "0"},
    )
    assert done.returncode == 0, done.stderr
    assert all(int(count) > 0 for count in done.stdout.split()) and len(done.stdout.split()) == 6


def compiled(K: int) -> list[int]:
    """Tensor core instructions in each kernel, for a head of that size."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource, compile

    options = triton_flash._options(
        q := torch.empty(1, 1, 1, K, dtype=torch.bfloat16), True, Tiles.choose_for(q)
    )
    launch = {name: options.pop(name) for name in ("num_warps", "num_stages")}
    kinds = {"num_keys": "*i32", "lse": "*fp32", "dots": "*fp32", "scale": "fp32"}
    kinds |= dict.fromkeys(("q", "k", "v", "out", "grad", "dq", "dk", "dv"), "*bf16")
    counts = []
    for kernel in (triton_flash._forward, triton_flash._backward_q, triton_flash._backward_kv):
        signature = {
            name: "constexpr" if name in options else kinds.get(name, "i32")
            for name in kernel.arg_names
        }
        source = ASTSource(kernel, signature, options)
        found = compile(source, target=GPUTarget("cuda", 90, 32), options=launch)
        counts.append(found.asm["ptx"].count("wgmma.mma_async"))
    return counts


@pytest.mark.parametrize(
    "change, words",
    [
        (dict(triton=None), "pip install 'course-lib.triton.'"),
        (dict(triton=object(), _interprets=lambda: False), "TRITON_INTERPRET=1"),
        (dict(triton=object(), _interprets=lambda: True, double=1), "head size of at most 128"),
    ],
)
def test_where_they_cannot_run_it_is_said(change, words, monkeypatch):
    x = torch.zeros(1, 1, 4, 16, dtype=torch.float64 if change.pop("double", 0) else torch.float32)
    for name, value in change.items():
        monkeypatch.setattr(triton_flash, name, value)
    with pytest.raises(ValueError, match=words) as found:
        triton_attention(x, x, x)
    assert "flash_attention" in str(found.value)  # what computes the same here


@pytest.mark.parametrize("reason", ["", "Triton is not installed"])
def test_flash_takes_the_kernels_where_they_run_and_torch_elsewhere(reason, monkeypatch):
    taken = []
    chooser = sys.modules[flash_attention.__module__]
    monkeypatch.setattr(chooser, "why_not", lambda x: reason)
    monkeypatch.setattr(chooser, "triton_attention", lambda *x, **options: taken.append(options))
    q, k, v = torch.randn(3, 1, 2, 9, 16)
    out = flash_attention(q, k, v, causal=False, kernel=True)
    if reason:
        torch.testing.assert_close(out, flash_attention(q, k, v, causal=False))
    assert taken == ([] if reason else [{"causal": False, "num_keys": None}])


def test_shapes_are_refused_first():
    x = torch.zeros(1, 1, 4, 16)
    with pytest.raises(ValueError, match="of one shape"):
        triton_attention(x, x[:, :, 1:], x)
