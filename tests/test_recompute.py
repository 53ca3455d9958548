"""Recomputation by plan: the cheapest that fits, the same gradients, the bytes that it says."""

import dataclasses
import itertools
import random

import pytest
import torch
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from torch.utils.flop_counter import FlopCounterMode

from course_lib.fast.recompute import half_blocks, loss_by_plan, recompute_plan, selective_contexts
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.held import Held
from course_lib.measure.memory import saved_bytes

CONFIG = GPTConfig(
    vocab_size=64,
    max_seq_len=32,
    num_layers=3,
    num_heads=2,
    d_model=32,
    d_hidden=88,
    fast_attention=False,
)


@pytest.fixture
def run():
    torch.manual_seed(0)
    return GPT(CONFIG), torch.randint(64, (2, 24)), torch.randint(64, (2, 24))


def gradients(model, loss):
    return torch.autograd.grad(loss, list(model.parameters()))


def test_no_choice_that_fits_is_cheaper():
    draw = random.Random(0)
    for _ in range(60):
        n = draw.randint(1, 7)
        inputs = [draw.randint(1, 4) for _ in range(n)]
        kept = [i + draw.randint(0, 12) for i in inputs]
        flops = [draw.randint(1, 9) for _ in range(n)]
        budget = draw.randint(sum(inputs), sum(kept) + 2)
        plan = recompute_plan(kept, inputs, flops, budget)
        assert plan == sorted(set(plan))
        used = sum(inputs[i] if i in plan else kept[i] for i in range(n))
        best = min(
            sum(flops[i] for i in some)
            for r in range(n + 1)
            for some in itertools.combinations(range(n), r)
            if sum(inputs[i] if i in some else kept[i] for i in range(n)) <= budget
        )
        assert used <= budget and sum(flops[i] for i in plan) == best


def test_what_can_never_fit_is_refused():
    with pytest.raises(ValueError, match="4 bytes at the least, over 3"):
        recompute_plan([10, 10], [2, 2], [1, 1], 3)
    assert recompute_plan([10, 10], [2, 2], [1, 1], 4) == [0, 1]
    assert recompute_plan([10, 10], [2, 2], [1, 1], 20) == []
    assert recompute_plan([], [], [], 0) == []


@pytest.mark.parametrize("plan", [[], [0], [1, 4], range(6)])
def test_a_plan_keeps_the_bytes_it_says_and_every_gradient(run, plan):
    model, idx, targets = run
    kept, inputs, _ = half_blocks(CONFIG, 2, 24)
    before = saved_bytes(lambda: loss_by_plan(model, idx, targets, ()))
    assert before == saved_bytes(model, idx, targets)
    freed = before - saved_bytes(lambda: loss_by_plan(model, idx, targets, plan))
    # the rotary tables go when no attention is left that keeps them
    tables = 2 * 32 * 16 * 4 * all(2 * i in plan for i in range(3))
    assert freed == sum(kept[i] - inputs[i] for i in plan) + tables
    wanted = gradients(model, model(idx, targets)[1])
    for a, b in zip(gradients(model, loss_by_plan(model, idx, targets, plan)), wanted, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("num_kv_heads", [2, 1])
def test_flops_are_those_of_one_more_forward_pass(num_kv_heads):
    config = dataclasses.replace(CONFIG, num_kv_heads=num_kv_heads)
    model, (idx, targets) = GPT(config), torch.randint(64, (2, 2, 24))

    def counted(plan):
        with FlopCounterMode(display=False) as counter, set_checkpoint_early_stop(False):
            loss_by_plan(model, idx, targets, plan).backward()
        return counter.get_total_flops()

    flops = half_blocks(config, 2, 24)[2]
    for plan in ([0], [1], range(6)):
        assert counted(plan) - counted(()) == sum(flops[i] for i in plan)


def test_selective_recomputes_no_product_and_keeps_less(run):
    model, idx, _ = run
    block, leaf = model.blocks[0], torch.randn(2, 24, 32, requires_grad=True)
    found = {}
    for name, way in (
        ("none", None),
        ("whole", {}),
        ("selective", dict(context_fn=selective_contexts)),
    ):
        args = leaf + 0, model.cos_TK[:24], model.sin_TK[:24]
        with Held() as held, FlopCounterMode(display=False) as counter:
            out = (
                block(*args)
                if way is None
                else checkpoint(block, *args, use_reentrant=False, **way)
            )
            bytes_now = held.bytes()
            grads = torch.autograd.grad(out.square().sum(), (leaf, *block.parameters()))
        found[name] = bytes_now, counter.get_total_flops(), grads
    kept, flops, grads = zip(*found.values(), strict=True)
    assert kept[1] < kept[2] < kept[0] and flops[0] == flops[2] < flops[1]
    for other in grads[1:]:
        for a, b in zip(other, grads[0], strict=True):
            torch.testing.assert_close(a, b)
