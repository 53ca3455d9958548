"""Proofs of the review items of 02_rope."""

import torch

from course_lib.gpt import apply_rotary_pos_emb, rope_tables, rotate_half
from tests.reviews import yes

ARGUED = {
    "apply-rope-3": "a reason in words",
}


def tables(length: int, K: int, first: int = 0):
    speed = 10000.0 ** (-torch.arange(0, K, 2) / K)
    angle = torch.outer(torch.arange(first, first + length), speed)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def scores(turn, length: int = 256) -> torch.Tensor:
    """Score of one q at each position (rows) with one k at each (columns)."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 16, dtype=torch.float64)
    spread = [x.expand(1, 1, length, 16) for x in (q, k)]
    q, k = turn(*spread, *(t.double() for t in tables(length, 16)))
    return (q @ k.transpose(-2, -1))[0, 0]


def rope_tables_1(n):
    """The speed from row 1; the angle from the table, up to whole turns."""
    cos, sin = rope_tables(n.t + 1, n.K, n.theta)
    angle = n.t * torch.atan2(sin[1, n.i], cos[1, n.i])
    torch.testing.assert_close(
        torch.stack((angle.cos(), angle.sin())),
        torch.stack((cos[n.t, n.i], sin[n.t, n.i])),
        atol=1e-4,
        rtol=0,
    )
    return round(angle.item(), 4)


def rope_tables_2(n):
    new, old = (float(part.replace(",", "")) for part in n.change.split(" in place of "))
    speeds = [
        torch.atan2(*(table[1, :8] for table in rope_tables(2, 16, t)[::-1])) for t in (new, old)
    ]
    changed = {"more slowly": torch.lt, "faster": torch.gt, "as before": torch.eq}[n.how](*speeds)
    found = {
        "all": torch.ones(8),
        "all but the first": torch.tensor([0.0, 1, 1, 1, 1, 1, 1, 1]),
        "the first alone": torch.tensor([1.0, 0, 0, 0, 0, 0, 0, 0]),
        "the last alone": torch.tensor([0.0, 0, 0, 0, 0, 0, 0, 1]),
    }
    return next(name for name, pairs in found.items() if torch.equal(pairs.bool(), changed))


def rope_tables_3(n):
    rows = torch.cat(rope_tables(n.T, 64), -1)
    if n.part.startswith("The positions"):
        rows = rows[torch.arange(n.T).bfloat16().long().clamp(max=n.T - 1)]
    else:
        rows = rows.bfloat16()
    return yes(len(rows.unique(dim=0)) < n.T)


def rotate_half_1(n):
    x = torch.tensor([n.a, n.b, n.c, n.d])
    if n.layout == "half-split":
        return rotate_half(x).tolist()
    return [-n.b, n.a, -n.d, n.c]


def rotate_half_2(n):
    torch.manual_seed(0)
    x = turned = torch.randn(8)
    for _ in range(n.times):
        turned = rotate_half(turned)
    half = rotate_half(x)
    made = {"x": x, "-x": -x, "rotate_half(x)": half, "-rotate_half(x)": -half}
    return next(name for name, value in made.items() if torch.equal(turned, value))


def apply_rope_1(n):
    table = scores(apply_rotary_pos_emb)
    (same,) = torch.isclose(table[n.p], table[n.m, n.n], rtol=1e-5).nonzero(as_tuple=True)
    assert n.p - (n.m - n.n) in same.tolist()
    return n.p - (n.m - n.n)


def apply_rope_2(n):
    def interleaved(x):
        return torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)

    def mixed(q, k, cos, sin):
        return q * cos + interleaved(q) * sin, k * cos + interleaved(k) * sin

    def other_sign(q, k, cos, sin):
        return q * cos - rotate_half(q) * sin, k * cos - rotate_half(k) * sin

    def from_one(q, k, cos, sin):
        cos, sin = (t.double() for t in tables(q.shape[-2], 16, first=1))
        return apply_rotary_pos_emb(q, k, cos, sin)

    def other_weights(q, k, cos, sin):
        order = torch.arange(16).view(8, 2).T.flatten()  # evens, then odds
        return apply_rotary_pos_emb(q[..., order], k[..., order], cos, sin)

    def q_alone(q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin)[0], k

    turns = {
        "rotate_half is": mixed,
        "rotate_half has": other_sign,
        "The weights": other_weights,
        "Pos": from_one,
        "q": q_alone,
    }
    turn = next(value for start, value in turns.items() if n.change.startswith(start))
    table = scores(turn, 32)
    by_gap = [table.diagonal(gap) for gap in range(-31, 32)]
    return yes(all(torch.allclose(d, d[:1].expand_as(d), atol=1e-4) for d in by_gap))


def apply_rope_4(n):
    product = torch.ones(2, dtype=getattr(torch, n.q)) * torch.ones(
        2, dtype=getattr(torch, n.table)
    )
    return str(product.dtype).removeprefix("torch.")
