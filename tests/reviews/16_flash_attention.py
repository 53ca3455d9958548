"""Proofs of the review items of 16_flash_attention."""

import math
from unittest import mock

import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.fast.flash import EMPTY, add_tile, flash_backward, flash_forward, tiles


def online_softmax_1(n):
    state = torch.tensor([float(n.m)]), torch.ones(1), torch.zeros(1, 1)
    total = add_tile(*state, torch.tensor([[float(n.n)]]), torch.zeros(1, 1))[1]
    return total.item() - 1  # the tile's own largest score counts 1


def online_softmax_2(n):
    """Of all places where the largest score can be, the share that lies in the first tile."""
    return 100 * len(range(24 * n.n)[next(tiles(24 * n.n, 24))]) / (24 * n.n)


def flash_forward_1(n):
    with mock.patch("course_lib.fast.flash.add_tile", side_effect=add_tile) as counted:
        flash_forward(*torch.zeros(3, 1, 1, int(n.T), 2), tile=int(n.tile))
    return counted.call_count


def flash_forward_2(n):
    """Scores whose largest is m and whose exponentials against it sum to the total."""
    rest = math.log(n.total - 1) if n.total > 1 else EMPTY
    q = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2).expand(1, 1, 2, 2)
    k = torch.tensor([[n.m, 0.0], [max(n.m + rest, -1e9), 0.0]]).view(1, 1, 2, 2)
    return round(flash_forward(q * 2**0.5, k, k, causal=False)[1][0, 0, 0].item(), 2)


def flash_forward_3(n):
    q = torch.zeros(int(n.B), int(n.H), 2, 1)
    return flash_forward(q, q, q)[1].nbytes * n.T / 2 / 1e6  # of two tokens, times T / 2


def flash_backward_1(n):
    """One query over two keys whose scores differ by the logit of p; dk of the first is ds q."""
    q, k, v = (torch.zeros(1, 1, 2, 1) for _ in "qkv")
    q[:], k[0, 0, 0], v[0, 0, :, 0] = 1, math.log(n.p / (1 - n.p)), torch.tensor([n.x, n.y])
    grad = torch.tensor([1.0, 0.0]).view(1, 1, 2, 1)
    out, lse = flash_forward(q, k, v, causal=False)
    return round(flash_backward(grad, q, k, v, out, lse, causal=False)[1][0, 0, 0].item(), 4)


def flash_backward_2(n):
    q = torch.ones(1, 1, 2, 2, requires_grad=True)
    with FlopCounterMode(display=False) as forward:
        weights = torch.softmax(q @ q.mT, -1) @ q
    with FlopCounterMode(display=False) as backward:
        weights.sum().backward()
    with torch.no_grad():
        out, lse = flash_forward(q, q, q, causal=False)
        with FlopCounterMode(display=False) as again:
            flash_backward(q, q, q, q, out, lse, causal=False)
        with FlopCounterMode(display=False) as tiled:
            flash_forward(q, q, q, causal=False)
    part = (
        slice(0, 2) if "together" in n.part else slice(1, 2) if "backward" in n.part else slice(1)
    )
    old, new = (
        sum(c.get_total_flops() for c in counts[part])
        for counts in ((forward, backward), (tiled, again))
    )
    return 100 * (new - old) / old
