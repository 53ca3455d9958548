"""The review items: every answer that can be computed is, with torch and the library."""

import math
import tempfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint as checkpoint_again
from torch.utils.checkpoint import set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from course_lib.checkpoints import manifest
from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.saved_state import plain_names
from course_lib.data.batches import get_batch, rows_of_rank
from course_lib.data.token_store import encode_documents
from course_lib.fast.chunked_loss import ChunkedHead
from course_lib.fast.flash import EMPTY, add_tile, flash_backward, flash_forward, tiles
from course_lib.fast.recompute import recompute_plan
from course_lib.fast.tiles import next_power_of_2
from course_lib.gpt import GPT, MLP, GPTConfig, RMSNorm, apply_rotary_pos_emb, rotate_half
from course_lib.lab import registry
from course_lib.lab.review import items as items_module
from course_lib.lab.review.items import items
from course_lib.ladder.gains import amdahl, rung_gains
from course_lib.measure.flops import flops_per_token
from course_lib.measure.formats import weight_bytes
from course_lib.measure.memory import counted_state_bytes, saved_bytes, training_state_bytes
from course_lib.measure.operations import Operations
from course_lib.measure.roofline import Ceilings, Cost, matmul_roof
from course_lib.measure.timing import Timing, stopwatch
from course_lib.measure.utilization import mfu
from course_lib.parallel import ddp
from course_lib.parallel.zero import zero_memory, zero_traffic
from course_lib.probes.clock import Bench
from course_lib.probes.seats import environment
from course_lib.ranks import collectives, local_ranks
from course_lib.ranks.collectives import collective_cost, pad_to_multiple
from course_lib.ranks.hang import find_the_hang
from course_lib.ranks.world import read_world
from course_lib.training.adamw import adamw_step
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.fsdp_config import FSDPConfig
from course_lib.training.loss_scaling import LossScaler

SMALL = dict(vocab_size=64, d_model=64, num_heads=2, d_hidden=64)
ARGUED = {
    "ladder-rung-4": "a difference of two measured times",
    "checkpoint-policy-3": "what a plan keeps and frees is measured in test_recompute",
    "apply-rope-3": "a reason in words",
    "gpt-forward-2": "what checkpointing does is measured in test_gpt",
    "count-flops-1": "the convention's own words",
    "train-step-4": "graphs alive at once: a product",
    "save-checkpoint-1": "what a loss is computed from",
    "save-checkpoint-2": "what each part of the file is for",
    "load-checkpoint-2": "the order is tested in test_checkpoint",
    "load-checkpoint-3": "killed writers are tested in test_checkpoint",
    "ring-reduce-scatter-3": "who waits for whom: lesson 17 runs it",
    "ddp-sync-3": "what a skipped collective meets is tested in test_ddp",
    "ddp-no-sync-1": "the bytes of micro-batches are counted in test_ddp",
    "ddp-no-sync-2": "what a flag that stays does is found by the checks' mutants",
    "fsdp-save-checkpoint-2": "bytes held by rank are checked by the exercise's suite",
    "fsdp-save-checkpoint-3": "what is a collective and what is not",
    "mini-fsdp-2": "collectives are counted in test_sharding",
    "fsdp-policy-1": "a product; the peak is measured in test_fsdp",
    "fsdp-policy-2": "what a call of fully_shard takes is tested in test_fsdp",
}


def rms(x):
    return x.float().pow(2).mean(-1).sqrt()


def yes(value) -> str:
    return "yes" if value else "no"


def bytes_1(n):
    float32 = dict(param_bytes=4, grad_bytes=4, master_copy=False)
    how = float32 if n.run.startswith("float32") else {}
    moments = 2 if "Adam" in n.run else 1 if "with momentum" in n.run else 0
    return training_state_bytes(1, moments=moments, **how)


def bytes_2(n):
    weight = torch.tensor(1.0, dtype=torch.bfloat16)
    return yes(weight + n.update != weight)


def bytes_3(n):
    made = training_state_bytes(
        n.n * 10**9, param_bytes=4, grad_bytes=4, master_copy=False, moments=1
    )
    return made / 1e9


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
    x = torch.ones(64, dtype=torch.float16)
    x[5] = n.value
    careless = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5)
    right = RMSNorm(64)(x)
    assert bool((careless == 0).all()) == (n.value * n.value > 65504)
    return yes(torch.allclose(careless, right, rtol=0.01))


def rmsnorm_4(n):
    sizes = {"B": 2, "T": 5, "D": 7, "N": 3, "H": 11, "K": 13}
    letters = [part.strip() for part in n.shape.strip("()").split(",")]
    shape = [sizes.get(letter) or int(letter) for letter in letters]
    kept = torch.ones(shape).pow(2).mean(-1, keepdim=True).shape
    named = [letter if size > 1 else "1" for letter, size in zip(letters, kept, strict=True)]
    return f"({', '.join(named)})"


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


def rotate_half_3(n):
    x = torch.zeros(n.K)
    x[n.i] = 1
    return [n.i, rotate_half(x).nonzero().item()]


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

    def q_alone(q, k, cos, sin):
        return apply_rotary_pos_emb(q, k, cos, sin)[0], k

    turns = {"rotate_half is": mixed, "rotate_half has": other_sign, "Pos": from_one, "q": q_alone}
    turn = next(value for start, value in turns.items() if n.change.startswith(start))
    table = scores(turn, 32)
    by_gap = [table.diagonal(gap) for gap in range(-31, 32)]
    return yes(all(torch.allclose(d, d[:1].expand_as(d), atol=1e-4) for d in by_gap))


def apply_rope_4(n):
    product = torch.ones(2, dtype=getattr(torch, n.q)) * torch.ones(
        2, dtype=getattr(torch, n.table)
    )
    return str(product.dtype).removeprefix("torch.")


def swiglu_3(n):
    dtype = getattr(torch, n.dtype)
    x = torch.empty(1, 1, 16, dtype=dtype, device="meta", requires_grad=True)
    with torch.device("meta"):
        mlp = MLP(16, n.F).to(dtype)
    return saved_bytes(mlp, x) - x.nbytes


def attention_1(n):
    torch.manual_seed(0)
    q, k = torch.randn(2, 20_000, n.K)
    measured = (q * k).sum(-1).std().item()
    assert abs(measured / math.sqrt(n.K) - 1) < 0.03
    return math.sqrt(n.K)


def attention_2(n):
    weights = torch.softmax(torch.zeros(n.T), dim=0)
    return weights[: n.n].sum().item()


def attention_3(n):
    seen = torch.ones(8, 8).tril(n.k) == 1
    weights = torch.zeros(8, 8).masked_fill(~seen, float("-inf")).softmax(-1)
    return int(weights.isnan().any(-1).sum())


def attention_4(n):
    made = torch.empty(n.B, n.H, n.T, n.T, dtype=torch.bfloat16, device="meta")
    return made.nbytes / 1e9


def init_weights_2(n):
    torch.manual_seed(0)
    model = GPT(GPTConfig(num_layers=n.L, **SMALL))
    rows = [b.attention.o_proj.weight.flatten() for b in model.blocks]
    return torch.cat(rows).std().item()


def gpt_forward_1(n):
    _, targets = get_batch(np.arange(200, dtype=np.uint16), np.array([n.s]), n.T)
    return [targets[0, 0].item(), targets[0, -1].item() + 1]


def count_flops_2(n):
    config = GPTConfig(**{**SMALL, "d_model": n.D, "num_layers": n.L})
    return flops_per_token(config, n.T) - flops_per_token(config, 0)


def pretokenize_2(n):
    other = eval(n.other, {"np": np})
    return str(np.concatenate((np.zeros(3, dtype=np.uint16), other)).dtype)


def pretokenize_3(n):
    class Tokens:
        vocab_size, end_of_text = 100, 99

        def encode_to_array(self, text):
            return np.zeros(len(text), dtype=np.uint16)

    return len(encode_documents(["x" * n.t] * n.n, Tokens()))


def get_batch_1(n):
    tokens = np.zeros(n.N, dtype=np.uint16)
    last = n.N - n.T - 1
    get_batch(tokens, np.array([last]), n.T)
    with pytest.raises(IndexError):
        get_batch(tokens, np.array([last + 1]), n.T)
    return [last + 1, last]


def get_batch_2(n):
    row = np.zeros(5000, dtype=np.uint16)
    windows = np.lib.stride_tricks.sliding_window_view(row, n.T + 1)
    assert np.shares_memory(windows, row) and windows.strides == (2, 2)
    return windows[np.arange(n.B)].nbytes


def get_batch_3(n):
    drawn = np.random.RandomState(0).choice(1000, n.B, replace=False)
    assert (drawn == np.random.RandomState(0).permutation(1000)[: n.B]).all()
    return n.N


def shard_batch_1(n):
    kept = rows_of_rank(np.arange(n.B), rank=n.r, world_size=n.R)
    return [kept[0], kept[-1]]


def moved(g: float, lr: float, *, w: float = 1.0, decay: float = 0.0) -> float:
    """How far the library's AdamW moves one weight in its first update."""
    param, grad, zero = torch.tensor([w, g, 0.0], dtype=torch.float64)
    new, _, _ = adamw_step(param, grad, zero, zero, 1, lr=lr, betas=(0.9, 0.95), weight_decay=decay)
    return abs((new - param).item())


def adamw_step_1(n):
    assert moved(n.large, n.lr) == pytest.approx(moved(n.small, n.lr), rel=1e-3)
    return moved(n.large, n.lr)


def adamw_step_2(n):
    one, zero = torch.ones(1, dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    _, m, v = adamw_step(zero, 7 * one, zero, zero, 1, lr=1.0, betas=(n.b1, n.b2), weight_decay=0)
    return (m / v.sqrt()).item()


def adamw_step_3(n):
    if n.optimizer == "AdamW":
        return round(moved(3.0 * n.k, 0.1) / moved(3.0, 0.1), 6)
    steps = []
    for gradient in (3.0, 3.0 * n.k):
        weight = nn.Parameter(torch.ones(1))
        weight.grad = torch.tensor([gradient])
        torch.optim.SGD([weight], lr=0.1).step()
        steps.append(1 - weight.item())
    return round(steps[1] / steps[0], 4)


def param_groups_2(n):
    dimensions = n.part[n.part.index("(") :].strip("()").rstrip(",").count(",") + 1
    params = [nn.Parameter(torch.ones([3] * dimensions)), nn.Parameter(torch.ones(2, 2))]
    params.append(nn.Parameter(torch.ones(2)))
    config = SimpleNamespace(weight_decay=0.1, beta1=0.9, beta2=0.95, lr=1e-3)
    model = SimpleNamespace(parameters=lambda: iter(params))
    trainer = SimpleNamespace(config=config, plain_model=model)
    groups = DistributedTrainer._setup_optimizer(trainer).param_groups
    (own,) = [g for g in groups if any(p is params[0] for p in g["params"])]
    return yes(own["weight_decay"] > 0)


def param_groups_3(n):
    model = nn.LayerNorm(4)
    params = eval(n.made, {"model": model})
    first = [p for p in params if p.dim() >= 2]
    return yes([p for p in params if p.dim() < 2] and not first)


def get_lr_2(n):
    config = SimpleNamespace(lr=n.lr, warmup_steps=n.W, max_steps=10 * n.W, min_lr=0.0)
    return DistributedTrainer.get_lr(SimpleNamespace(config=config), n.s)


def get_lr_4(n):
    steps = np.arange(n.M, 3 * n.M)
    rates = np.cos(np.pi * (steps - n.W) / (n.M - n.W))
    return steps[np.argmax(rates > 1 - 1e-12)]


def train_step_2(n):
    for factor, acts in ((0.99, False), (1.01, True)):
        weight = nn.Parameter(torch.zeros(1))
        weight.grad = torch.tensor([n.A * factor * n.limit / n.A])
        before = weight.grad.clone()
        nn.utils.clip_grad_norm_([weight], n.limit)
        assert (weight.grad < 0.9999 * before).item() == acts
    return n.limit / n.A


def train_step_3(n):
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = torch.tensor([1.0, float(n.bad), 2.0, 3.0])
    nn.utils.clip_grad_norm_([weight], 1.0)
    left = weight.grad[1] if n.where == "that entry" else weight.grad[0]
    return str(left.item()).removesuffix(".0")


def save_checkpoint_3(n):
    model = nn.Linear(100, 100, bias=False)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 100)).sum().backward()
    optimizer.step()
    held = counted_state_bytes(model, optimizer)
    return n.n * 1e6 * (held["weights"] + held["optimizer"]) / 10_000 / 1e9


def load_checkpoint_1(n):
    class DDP(nn.Module):  # holds the model under the same name, and needs no other rank
        def __init__(self, module):
            super().__init__()
            self.module = module

    plain = nn.ModuleDict({"norm": RMSNorm(4)})
    made = {
        "a compiled model inside DDP": DDP(torch.compile(plain)),
        "DDP alone": DDP(plain),
        "torch.compile alone": torch.compile(plain),
        "DDP inside torch.compile": torch.compile(DDP(plain)),
    }
    assert list(plain_names({n.name: 0})) == ["norm.weight"]
    (found,) = [how for how, model in made.items() if list(model.state_dict()) == [n.name]]
    return found


def fsdp_load_resharded_1(n):
    parts = torch.arange(n.n).chunk(n.R)  # as FSDP2 cuts
    return len(parts[n.R - 1]) if len(parts) == n.R else 0


def fsdp_load_resharded_2(n):
    saved, wanted = (torch.arange(n.n).chunk(ranks) for ranks in (n.R, n.Q))
    return int(torch.isin(wanted[n.q], saved[n.r]).sum())


def fsdp_load_resharded_3(n):
    with tempfile.TemporaryDirectory() as folder:
        part, target = Path(folder) / "step_1.part", Path(folder) / "step_1"
        part.mkdir()
        for name in ("__0_0.distcp", "__1_0.distcp", ".metadata"):
            (part / name).write_bytes(b"abc")
        manifest.publish(part, target, manifest.describe(part, [p.name for p in part.iterdir()]))
        if "no manifest" in n.what:
            (target / manifest.NAME).unlink()
        if "shorter" in n.what:
            (target / "__0_0.distcp").write_bytes(b"ab")
        if "only one" in n.what:
            (target / "__0_0.distcp").unlink()
        try:
            manifest.compare(target, manifest.read(target)["files"])
        except CheckpointError:
            return "no"
        return yes(manifest.published(Path(folder), "step_*"))


def zero_memory_2(n):
    shard = zero_memory(n.n, n.R, 3, param_bytes=1)["weights"]
    return [shard, n.R * shard - n.n]


def zero_memory_3(n):
    sizes = dict(param_bytes=n.w, grad_bytes=n.g, optimizer_bytes=n.o)
    plain, cut = (sum(zero_memory(10**9, 10**6, stage, **sizes).values()) for stage in (0, n.s))
    return round(plain / cut, 3)  # what is left of a shard on a million ranks


def zero1_step_2(n):
    """Both moments of AdamW after some updates, by the sum over by the mean."""
    grads, fixed = torch.randn(5, 100), dict(lr=0.01, betas=(0.9, 0.95), weight_decay=0.0)
    ends = []
    for factor in (n.R, 1):
        state = (torch.zeros(100),) * 3
        for step, grad in enumerate(grads, 1):
            state = adamw_step(state[0], factor * grad, *state[1:], step, **fixed)
        ends.append(state)
    assert torch.allclose(ends[0][0], ends[1][0], atol=1e-5), "the weights come out right"
    return [round((a / b).mean().item(), 3) for a, b in zip(ends[0][1:], ends[1][1:], strict=True)]


def zero1_step_4(n):
    halves = [collective_cost(name, 100, 8)["bytes"] for name in ("reduce_scatter", "all_gather")]
    return (n.k * halves[0] + halves[1]) / sum(halves)


def count_ops_1(n):
    """The chain runs; fused, its first read and its last write are left."""
    x = torch.randn(n.m * 1000)
    with Operations() as found:
        for _ in range(n.n):
            x = x.relu()
    moved = found.seen[:1] if "fused" in n.how else found.seen
    return sum(o.read + o.written for o in moved) / 4000


def count_ops_2(n):
    x, w = torch.ones(n.R, n.C), torch.ones(n.C)
    with Operations() as found:
        eval(n.what, {"x": x, "w": w})
    return found.num_bytes


def fused_rmsnorm_2(n):
    squares = torch.full((n.D,), n.total / n.D)
    return (squares.sum() / n.B / squares.mean()).item()


def fused_rmsnorm_3(n):
    end = 0.0
    for i in range(1, n.n + 1):
        end = max(i * n.tau, end) + n.t
    return end


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


def ddp_sync_1(n):
    grads = [torch.tensor([float(g)]) for g in (n.a, n.b, n.c)]
    return synced(grads)


def ddp_sync_2(n):
    return synced([torch.tensor([float(n.g)]), *[None] * (n.R - 1)])


def synced(grads):
    args = [([torch.zeros(1)], [g]) for g in grads]
    found = {rank.value[0].item() for rank in local_ranks.run(ddp.sync_gradients, args)}
    assert len(found) == 1
    return found.pop()


def ddp_buckets_1(n):
    params = [nn.Parameter(torch.zeros(int(size))) for size in (n.a, n.b, n.c, n.d)]
    model = ddp.DataParallel(nn.ParameterList(params), bucket_bytes=4 * int(n.cap))
    return sum(p.numel() for p in model.buckets[-1])


def ddp_buckets_2(n):
    ends = 0.0
    for i in range(1, n.k + 1):
        ready = i / n.k if n.when == "as they fill" else 1.0
        ends = max(ends, ready) + 1 / n.k
    return round(100 * (ends - 1), 6)


def init_distributed_1(n):
    told = environment(n.m * n.P + n.l, per_machine=n.P, machines=n.m + 1)
    seat = read_world(told, 0)
    assert told["GROUP_RANK"] == str(n.m)
    return [seat["rank"], seat["local_rank"]]


def init_distributed_2(n):
    told = [environment(r, per_machine=n.P, machines=n.M) for r in range(n.M * n.P)]
    seats = [read_world(texts, n.G) for texts in told]
    assert all(int(seat["device"].partition(":")[2]) < n.G for seat in seats)
    return sum(seat["rank"] >= n.G for seat in seats)


def init_distributed_3(n):
    name = n.what.partition(",")[0]
    return yes(len({environment(r, per_machine=2, machines=2)[name] for r in range(4)}) == 1)


def find_the_hang_1(n):
    absent = [int(word) for word in n.who.replace(",", " ").split() if word.isdigit()]
    call = ("all_reduce", 64)
    lists = [[] if rank in absent else [(*call, False)] for rank in range(n.R)]
    assert find_the_hang(lists) == (0, absent)
    return "another"


def find_the_hang_2(n):
    lists = [[("all_reduce", 64, True)] * n.n + [("all_reduce", 64, False)] for _ in range(n.R)]
    del lists[n.r][n.n]
    place, (rank,) = find_the_hang(lists)
    return [place, rank]


def find_the_hang_3(n):
    words = n.b.split()
    name = "all_reduce" if words[0] == "one" else words[1]
    other = (name, int(words[words.index("bytes") - 1]), False)
    return yes(find_the_hang([[("all_reduce", n.a, False)]] * 3 + [[other]]))


def on_one_rank(rank: int, world_size: int, **replaced):
    """`collectives` as that rank sees it, with messages replaced."""
    replaced["place"] = lambda group=None: (rank, world_size)
    return mock.patch.multiple(collectives, **replaced)


def ring_reduce_scatter_1(n):
    """The rows of `x` say which chunk they are; the first one passed on is kept."""
    sent = []
    with on_one_rank(n.r, n.R, pass_on=lambda chunk, group: sent.append(chunk.item()) or chunk):
        collectives.ring_reduce_scatter(torch.arange(n.R))
    return sent[0]


def ring_reduce_scatter_2(n):
    with on_one_rank(0, n.R, pass_on=lambda chunk, group: chunk):
        return collectives.ring_reduce_scatter(torch.zeros(n.n)).numel()


def ring_all_gather_1(n):
    """What arrives says in which step; the place it gets is that of the rank it comes from."""
    steps = iter(range(1, n.R))
    with on_one_rank(n.r, n.R, pass_on=lambda chunk, group: torch.tensor([next(steps)])):
        return collectives.ring_all_gather(torch.tensor([0])).tolist().index(n.s)


def ring_all_gather_2(n):
    num_bytes = n.n * getattr(torch, n.dtype).itemsize
    names = ("reduce_scatter", "all_gather", "all_reduce")
    first, second, both = (collectives.collective_cost(x, num_bytes, 4)["bytes"] for x in names)
    return {1.0: "the same", 0.5: "half"}[(first + second) / both]


def collective_cost_2(n):
    sent = []
    wire = mock.Mock(send=lambda x, **to: sent.append(x.numel()))
    with on_one_rank(0, n.R, dist=wire):
        collectives.root_all_reduce(torch.zeros(n.S))
    return sum(sent)


def collective_cost_3(n):
    """Seconds of latency, over the seconds that a megabyte takes."""
    late = collectives.collective_cost("all_reduce", 0, n.R, latency_s=n.a * 1e-6)
    per_mb = collectives.collective_cost("all_reduce", 10**6, n.R, bytes_per_s=n.B * 1e9)
    return late["seconds"] / per_mb["seconds"]


def mini_fsdp_1(n):
    return pad_to_multiple(torch.zeros(n.N), n.R).numel() // n.R


def mini_fsdp_3(n):
    grads = torch.rand(n.R, 3) + 1
    return round((grads.sum(0) / grads.mean(0)).mean().item(), 3)


def sharding_strategy_1(n):
    size = FSDPConfig(sharding="HYBRID_SHARD", shard_size=n.S).ranks_per_copy(n.R)
    return f"({n.R // size}, {size})"


def sharding_strategy_2(n):
    stage = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0}[n.name]
    return zero_traffic(1000, 8, stage) / zero_traffic(1000, 8, 0)


def mixed_precision_policy_1(n):
    return [getattr(torch, n.dtype).itemsize, torch.float32.itemsize]


def mixed_precision_policy_2(n):
    total = torch.tensor(1.0, dtype=getattr(torch, n.dtype))
    return yes(total + n.x != total)


def activation_bytes_1(n):
    with torch.device("meta"):
        layer, x = nn.Linear(n.a, n.b, bias=False), torch.zeros(n.n, n.a)
    return saved_bytes(layer, x.requires_grad_()) / 1000


def activation_bytes_2(n):
    targets = torch.zeros(n.n, dtype=torch.int64, device="meta")
    logits = torch.zeros(n.n, n.V, dtype=getattr(torch, n.how), device="meta", requires_grad=True)
    both = saved_bytes(lambda: F.cross_entropy(logits.float(), targets))
    return (both - targets.nbytes - 4) / 1e6  # the 4: how many targets count


def activation_bytes_3(n):
    sizes = []
    for T in (8, 8 * n.k):
        q = torch.zeros(1, 2, T, 4, requires_grad=True)
        fused = saved_bytes(lambda q=q: F.scaled_dot_product_attention(q, q, q, is_causal=True))
        scores = torch.zeros(1, 2, T, T, requires_grad=True)
        mlp_input = torch.zeros(1, T, 4, requires_grad=True)
        sizes.append(
            {
                "softmax": saved_bytes(lambda s=scores: s.softmax(-1)),
                "log-sum-exp": fused - 2 * q.nbytes,  # q is q, k and v here; and the output
                "input": saved_bytes(nn.Linear(4, 8), mlp_input),
            }
        )
    name = n.what.split()[0]
    return sizes[1][name] / sizes[0][name]


def checkpoint_policy_1(n):
    x, layer = torch.zeros(4, 8, requires_grad=True), nn.Linear(8, 8, bias=False)
    spent = []
    for run in (layer, lambda x: checkpoint_again(layer, x, use_reentrant=False)):
        with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
            run(x).sum().backward()
        spent.append(counter.get_total_flops())
    return n.f * spent[1] / spent[0]


def checkpoint_policy_2(n):
    plan = recompute_plan([n.a, n.b], [0, 0], [n.x, n.y], n.a + n.b - n.need)
    return {(0,): "A", (1,): "B", (0, 1): "both"}[tuple(plan)]


def chunked_loss_1(n):
    return np.mean([n.s / max(n.a, 1)] * n.a + [n.t / max(n.b, 1)] * n.b)


def chunked_loss_2(n):
    weight = torch.tensor([[n.p], [1 - n.p]]).log()
    aims, ones = torch.zeros(n.n, dtype=torch.int64), torch.ones(n.n, 1)
    logits = (ones @ weight.T).requires_grad_()
    loss = F.cross_entropy(logits, aims)
    found, _, _ = ChunkedHead(2).loss_and_gradients(ones, weight, aims)
    assert abs(found - loss.item()) < 1e-5
    return torch.autograd.grad(loss, logits)[0][0, 0].item()


def grad_scaler_1(n):
    scaler = LossScaler(float(n.S), growth_interval=n.n)
    kinds = [1.0] * n.g + [math.inf] + [1.0] * n.n
    return scaler.rehearse([[torch.tensor([k])] for k in kinds])[-1]["scale"]


def grad_scaler_3(n):
    weight = nn.Parameter(torch.zeros(1))
    weight.grad = torch.tensor([float(n.n) * n.S])
    nn.utils.clip_grad_norm_([weight], 1.0)
    return weight.grad.item() / n.S


def time_it_1(n):
    bench = Bench([n.W / 1e3], launch=n.a / 1e3)
    return 1e3 * stopwatch(bench.function, warmup=0, repeats=1, clock=bench.clock)[0]


def arithmetic_intensity_1(n):
    roof = matmul_roof(n.M, n.K, n.N, number_bytes=n.s, flops_per_s=1.0, bytes_per_s=1.0)
    return [roof["flops"], roof["bytes"]]


def mfu_1(n):
    """Nothing but a head of that many million parameters, and sequences of one token."""
    shape = GPTConfig(vocab_size=n.N * 10**6 // 4, num_layers=1, num_heads=1, d_model=4, d_hidden=1)
    return round(100 * mfu(n.R, shape, 1, n.P * 1e12), 2)


def mfu_2(n):
    shape = GPTConfig(**SMALL)
    peak = n.P * 1e12 * flops_per_token(shape, 64) / (n.c * 1e9)  # a token of another size
    return 100 * mfu(n.R, shape, 64, peak, world_size=n.g)


def ladder_rung(n) -> dict:
    """Two rungs, A and then B; what a variant does not say takes 1 ms."""
    given = SimpleNamespace(**({"g": 1, "a": 1, "b": 1, "w": 1} | vars(n)))
    return rung_gains(
        given.g,
        {"A": given.a, "B": given.w},
        {"A": given.w, "B": given.a},
        {"A": given.a, "B": given.b},
    )


def ladder_rung_2(n):
    return amdahl(n.s / 100, n.k)


def ladder_rung_3(n):
    x, y = n.x, n.y
    alone, without = {"A": 100 - x, "B": 100 - y}, {"A": 100 - y, "B": 100 - x}
    found = rung_gains(100, alone, without, {"A": 100 - x, "B": 100 - x - y})
    assert found["product"] < found["total"]
    return found["total"]


FACTS = {
    "ladder-rung-1": lambda n: ladder_rung(n)["in_place"]["B"],
    "ladder-rung-2": ladder_rung_2,
    "ladder-rung-3": ladder_rung_3,
    "activation-bytes-1": activation_bytes_1,
    "activation-bytes-2": activation_bytes_2,
    "activation-bytes-3": activation_bytes_3,
    "checkpoint-policy-1": checkpoint_policy_1,
    "checkpoint-policy-2": checkpoint_policy_2,
    "chunked-loss-1": chunked_loss_1,
    "chunked-loss-2": chunked_loss_2,
    "chunked-loss-3": lambda n: torch.empty(n.c, n.V, device="meta").nbytes / 1e6,
    "bytes-1": bytes_1,
    "bytes-2": bytes_2,
    "bytes-3": bytes_3,
    "rmsnorm-1": rmsnorm_1,
    "rmsnorm-2": rmsnorm_2,
    "rmsnorm-3": rmsnorm_3,
    "rmsnorm-4": rmsnorm_4,
    "rotate-half-1": rotate_half_1,
    "rotate-half-2": rotate_half_2,
    "rotate-half-3": rotate_half_3,
    "apply-rope-1": apply_rope_1,
    "apply-rope-2": apply_rope_2,
    "apply-rope-4": apply_rope_4,
    "swiglu-1": lambda n: sum(p.numel() for p in MLP(n.D, n.F).parameters()),
    "swiglu-2": lambda n: round(F.silu(torch.tensor(float(n.g))).item() * n.u, 1) + 0.0,
    "swiglu-3": swiglu_3,
    "swiglu-4": lambda n: round((F.silu(a := torch.tensor(float(n.a))) - F.silu(-a)).item(), 4),
    "attention-1": attention_1,
    "attention-2": attention_2,
    "attention-3": attention_3,
    "attention-4": attention_4,
    "init-weights-1": lambda n: yes(
        n.loss > F.cross_entropy(torch.zeros(1, n.V), torch.tensor([0])).item() + 1
    ),
    "init-weights-2": init_weights_2,
    "gpt-forward-1": gpt_forward_1,
    "count-flops-2": count_flops_2,
    "pretokenize-1": lambda n: int(np.array(n.token).astype(np.int16)),
    "pretokenize-2": pretokenize_2,
    "pretokenize-3": pretokenize_3,
    "get-batch-1": get_batch_1,
    "get-batch-2": get_batch_2,
    "get-batch-3": get_batch_3,
    "shard-batch-1": shard_batch_1,
    "shard-batch-2": lambda n: len(rows_of_rank(np.arange(n.B), rank=0, world_size=n.R)),
    "adamw-step-1": adamw_step_1,
    "adamw-step-2": adamw_step_2,
    "adamw-step-3": adamw_step_3,
    "adamw-step-4": lambda n: moved(float(n.g), n.lr, w=float(n.w), decay=n.decay),
    "param-groups-1": lambda n: moved(0.0, n.lr, w=float(n.w), decay=n.decay),
    "param-groups-2": param_groups_2,
    "param-groups-3": param_groups_3,
    "get-lr-1": lambda n: moved(n.g, n.lr),
    "get-lr-2": get_lr_2,
    "get-lr-3": lambda n: [n.M // n.a, round(100 * n.W / (n.M // n.a))],
    "get-lr-4": get_lr_4,
    "train-step-1": lambda n: np.mean([n.l1] * n.n1 + [n.l2] * n.n2),
    "train-step-2": train_step_2,
    "train-step-3": train_step_3,
    "grad-scaler-1": grad_scaler_1,
    "grad-scaler-2": lambda n: yes(torch.tensor(n.m * 10.0**-n.k).half() == 0),
    "grad-scaler-3": grad_scaler_3,
    "quantize-memory-1": lambda n: weight_bytes([(n.r, n.c)], "mxfp4"),
    "quantize-memory-2": lambda n: weight_bytes([(n.n * 10**6, 1000 - 40)], n.fmt) / 0.96 / 1e9,
    "time-it-1": time_it_1,
    "time-it-2": lambda n: [Timing(r := (n.a, n.b, n.c, n.d, n.e)).median, sum(r) / 5],
    "arithmetic-intensity-1": arithmetic_intensity_1,
    "arithmetic-intensity-2": lambda n: (
        Ceilings(n.P * 1e12, n.b * 1e12).attainable(Cost(n.I, 1)) / 1e12
    ),
    "mfu-1": mfu_1,
    "mfu-2": mfu_2,
    "init-distributed-1": init_distributed_1,
    "init-distributed-2": init_distributed_2,
    "init-distributed-3": init_distributed_3,
    "find-the-hang-1": find_the_hang_1,
    "find-the-hang-2": find_the_hang_2,
    "find-the-hang-3": find_the_hang_3,
    "save-checkpoint-3": save_checkpoint_3,
    "load-checkpoint-1": load_checkpoint_1,
    "count-ops-1": count_ops_1,
    "count-ops-2": count_ops_2,
    "fused-rmsnorm-1": lambda n: [B := next_power_of_2(n.D), B - n.D],
    "fused-rmsnorm-2": fused_rmsnorm_2,
    "fused-rmsnorm-3": fused_rmsnorm_3,
    "online-softmax-1": online_softmax_1,
    "online-softmax-2": online_softmax_2,
    "flash-forward-1": flash_forward_1,
    "flash-forward-2": flash_forward_2,
    "flash-forward-3": flash_forward_3,
    "flash-backward-1": flash_backward_1,
    "flash-backward-2": flash_backward_2,
    "ring-reduce-scatter-1": ring_reduce_scatter_1,
    "ring-reduce-scatter-2": ring_reduce_scatter_2,
    "ring-all-gather-1": ring_all_gather_1,
    "ring-all-gather-2": ring_all_gather_2,
    "collective-cost-1": lambda n: collectives.collective_cost("all_reduce", n.S, n.R)["bytes"],
    "collective-cost-2": collective_cost_2,
    "collective-cost-3": collective_cost_3,
    "ddp-sync-1": ddp_sync_1,
    "ddp-sync-2": ddp_sync_2,
    "ddp-buckets-1": ddp_buckets_1,
    "ddp-buckets-2": ddp_buckets_2,
    "ddp-buckets-3": lambda n: collective_cost("all_reduce", 4 * n.n, n.R)["bytes"],
    "fsdp-save-checkpoint-1": lambda n: save_checkpoint_3(SimpleNamespace(n=1000 * n.n)) / n.R,
    "fsdp-load-resharded-1": fsdp_load_resharded_1,
    "fsdp-load-resharded-2": fsdp_load_resharded_2,
    "fsdp-load-resharded-3": fsdp_load_resharded_3,
    "zero-memory-1": lambda n: sum(zero_memory(n.N * 10**9, n.R, n.s).values()) / 1e9,
    "zero-memory-2": zero_memory_2,
    "zero-memory-3": zero_memory_3,
    "zero1-step-1": lambda n: n.X * zero_traffic(1000, 4, n.s) / zero_traffic(1000, 4, 0),
    "zero1-step-2": zero1_step_2,
    "zero1-step-3": lambda n: collective_cost("all_gather", 4 * n.n, n.R)["bytes"],
    "zero1-step-4": zero1_step_4,
    "mini-fsdp-1": mini_fsdp_1,
    "mini-fsdp-3": mini_fsdp_3,
    "sharding-strategy-1": sharding_strategy_1,
    "sharding-strategy-2": sharding_strategy_2,
    "mixed-precision-policy-1": mixed_precision_policy_1,
    "mixed-precision-policy-2": mixed_precision_policy_2,
}


def test_every_item_is_computed_or_argued():
    assert set(FACTS) | set(ARGUED) == set(items()) and not set(FACTS) & set(ARGUED)


@pytest.mark.parametrize("name", FACTS)
def test_the_answer_is_what_torch_and_the_library_say(name):
    item = items()[name]
    for index in range(item.variants):
        accept = item.rendered(index).accept
        found = FACTS[name](SimpleNamespace(**item.names(index)))
        typed = ", ".join(map(str, found)) if isinstance(found, list) else str(found)
        assert accept.holds(typed), f"{name}, {item.names(index)}: {accept.right}, not {typed}"


@pytest.mark.parametrize("item", items().values(), ids=lambda i: i.id)
def test_an_item_is_short_and_clean(item):
    for index in range(item.variants):
        question, answer, accept = item.rendered(index)
        assert question.endswith("?") and len(question.split()) <= 45, question
        for text in (question, answer):
            assert not {"{", "}"} & set(text) and "  " not in text, text


def test_every_concept_that_is_taught_is_asked_about():
    taught = {c for card in registry.exercises().values() for c in card.teaches}
    assert taught <= {c for item in items().values() for c in item.concepts}


def test_each_exercise_has_two_to_four_items():
    for exercise in registry.exercises():
        own = [i for i in items().values() if i.exercise == exercise]
        assert 2 <= len(own) <= 4, exercise
        assert {i.lesson for i in own} == {registry.exercise(exercise).lesson}


def test_a_seed_gives_one_variant_and_neighbours_differ():
    for item in items().values():
        asked = [item.variant(seed).question for seed in range(item.variants)]
        assert len(set(asked)) == item.variants, item.id
        assert item.variant(3) == item.variant(3) and item.variant(-1) and item.variant(2**70)


def test_options_change_their_places_and_the_right_one_stays():
    item = items()["load-checkpoint-1"]
    drawn = [item.variant(seed) for seed in range(0, 40, item.variants)]
    assert len({d.question for d in drawn}) == 1
    assert len({d.accept.options for d in drawn}) > 3
    assert all(d.accept.right in d.accept.options for d in drawn)


def test_without_its_file_the_lab_says_what_to_run(tmp_path, monkeypatch):
    monkeypatch.setattr(items_module, "FILE", tmp_path / "reviews.json")
    items.cache_clear()
    with pytest.raises(ValueError, match="course build"):
        items()
    items.cache_clear()
