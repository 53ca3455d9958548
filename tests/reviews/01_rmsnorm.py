"""Proofs of the review items of 01_rmsnorm."""

import torch
import torch.nn.functional as F
from torch import nn

from course_lib.gpt import RMSNorm
from tests.reviews import yes


def rms(x):
    return x.float().pow(2).mean(-1).sqrt()


def rmsnorm_1(n):
    norm = RMSNorm(64)
    nn.init.constant_(norm.weight, n.gain)
    x = torch.randn(64)
    return round(rms(norm(x * n.r / rms(x))).item(), 3)  # eps takes a little


def rmsnorm_2(n):
    torch.manual_seed(0)
    x = torch.randn(64)
    one = x.clone()
    one[3] *= 100
    changed = {"The same": x + 3, "All coordinates of x are doubled": 2 * x, "One": one, "All": -x}
    new = next(value for start, value in changed.items() if n.change.startswith(start))
    ours = not torch.allclose(RMSNorm(64)(x), RMSNorm(64)(new), atol=1e-4)
    layer = not torch.allclose(F.layer_norm(x, (64,)), F.layer_norm(new, (64,)), atol=1e-4)
    both = {(True, True): "both", (False, False): "neither", (True, False): "RMSNorm's"}
    return both.get((ours, layer), "LayerNorm's")


def rmsnorm_3(n):
    one = torch.ones(64, dtype=torch.float16)
    one[5] = n.value
    right = []
    for x in (one, torch.full((4096,), n.value, dtype=torch.float16)):  # alone, and everywhere
        careless = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
        assert bool((careless == 0).all()) == (n.value * n.value > 65504)
        right.append(torch.allclose(careless, RMSNorm(x.numel())(x), rtol=0.01))
    assert right[0] == right[1]
    return yes(right[0])


def rmsnorm_4(n):
    sizes = {"B": 2, "T": 5, "D": 7, "N": 3, "H": 11, "K": 13}
    letters = [part.strip() for part in n.shape.strip("()").split(",")]
    shape = [sizes.get(letter) or int(letter) for letter in letters]
    kept = torch.ones(shape).pow(2).mean(-1, keepdim=True).shape
    named = [letter if size > 1 else "1" for letter, size in zip(letters, kept, strict=True)]
    return f"({', '.join(named)})"
