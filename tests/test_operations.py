"""Counting operations: what moves numbers and what does not, forward and backward."""

import json
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from course_lib.checks.noted_operations import draw_tensors
from course_lib.checks.suite import Draw
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.operations import Operations, in_memory, tensors
from course_lib.probes.operations import PROGRAMS
from grader.course import ROOT


def counted(function) -> Operations:
    with Operations() as found:
        function()
    return found


def names(function) -> list[str]:
    return [operation.name for operation in counted(function).seen]


def test_a_norm_by_hand_is_eight_operations_and_torchs_is_one():
    x, w, b = torch.randn(4, 8), torch.ones(8), torch.zeros(8)

    def by_hand():
        mean, var = x.mean(-1, keepdim=True), x.var(-1, keepdim=True)
        return (x - mean) / torch.sqrt(var + 1e-5) * w + b

    assert names(by_hand) == ["mean", "var", "sub", "add", "sqrt", "div", "mul", "add"]
    assert names(lambda: F.layer_norm(x, (8,), w, b)) == ["native_layer_norm"]


def test_a_sum_of_four_is_nine_tensors_and_fused_five():
    a, b, c, d = torch.randn(4, 100)
    assert counted(lambda: a + b + c + d).num_bytes == 9 * a.nbytes


FREE = {
    "view": lambda x: x.view(-1),
    "transpose": lambda x: x.t(),
    "detach": lambda x: x.detach(),
    "expand": lambda x: x.expand(3, *x.shape),
    "chunk": lambda x: x.chunk(2),
    "slice": lambda x: x[1:],
    "reshape": lambda x: x.reshape(-1),
    "no copy": lambda x: x.float().contiguous(),
    "empty": lambda x: torch.empty(3),
    "empty_like": lambda x: torch.empty_like(x),
    "empty_strided": lambda x: torch.empty_strided((2,), (1,)),
    "new_empty": lambda x: x.new_empty(2),
    "item": lambda x: x[0, 0].item(),
}


@pytest.mark.parametrize("what", FREE)
def test_what_writes_no_numbers_is_free(what):
    assert names(lambda: FREE[what](torch.ones(2, 2)))[1:] == []


def test_in_place_on_lists_and_into_out():
    xs, y = [torch.ones(4), torch.ones(2)], torch.ones(4)
    for function, read, written in (
        (lambda: xs[0].mul_(2), 16, 16),
        (lambda: torch._foreach_mul_(xs, 2.0), 24, 24),
        (lambda: torch.mul(xs[0], 2, out=y), 32, 16),
        (lambda: torch.stack([y, y, xs[0]]), 32, 48),  # y once
    ):
        (one,) = counted(function).seen
        assert (one.read, one.written) == (read, written)


def test_bytes_lie_in_memory():
    x = torch.ones(4)
    assert in_memory([x.expand(5, 4)]) == 16 and in_memory([x.bfloat16()]) == 8
    assert in_memory([torch.ones(0, 4), torch.ones(())]) == 4
    assert tensors([x, (x, {"a": x})]) == [x] and tensors(None) == []


def test_the_model_counts_alike_twice_and_its_results_do_not_change():
    torch.manual_seed(0)
    model = GPT(
        GPTConfig(vocab_size=32, max_seq_len=8, num_layers=2, num_heads=2, d_model=16, d_hidden=24)
    )
    idx = torch.randint(32, (2, 8))
    alone = model(idx, idx)[1]
    alone.backward()
    kept = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    found = []
    for _ in range(2):
        with Operations() as operations:
            loss = model(idx, idx)[1]
            forward = len(operations.seen)
            loss.backward()
        found.append([o.name for o in operations.seen])
        assert torch.equal(loss, alone)
        assert all(torch.equal(a, p.grad) for a, p in zip(kept, model.parameters(), strict=True))
        model.zero_grad()
    assert found[0] == found[1] and len(found[0]) > 2 * forward
    assert found[0].count("mm") == 3 * (
        2 * 7 + 1
    )  # of 7 in a block and the head: one, and two back


def test_nested_and_after_an_error():
    outer, inner = Operations(), Operations()
    with outer:
        with pytest.raises(RuntimeError), inner:
            torch.ones(2) * 2 @ torch.ones(3)
        torch.ones(2)
    torch.ones(2)
    assert [o.name for o in inner.seen] == ["ones", "mul", "ones"]
    assert len(outer.seen) == 4
    with inner:
        torch.ones(1)
    assert len(inner.seen) == 4


def test_linear_and_dropout_change_nothing_under_it():
    torch.manual_seed(1)
    layer, x = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), torch.randn(3, 4)
    torch.manual_seed(2)
    alone = layer(x)
    torch.manual_seed(2)
    with Operations():
        assert torch.equal(layer(x), alone)


def test_the_page_says_what_was_recorded():
    record = json.loads((ROOT / "benchmarks/results/compile.json").read_text(encoding="utf-8"))
    page = (ROOT / "book/15_compile.md").read_text(encoding="utf-8")
    for kind in ("products", "attention", "others"):
        row = rf"^\| [^|]*{kind}[^|]*\| (\d+) \| (\d+) \|$"
        (said,) = re.findall(row, page, re.M)
        figures = record["figures"]
        assert [*map(int, said)] == [
            figures[side][kind] for side in ("eager_calls", "compiled_calls")
        ]
    assert record["versions"]["torch"].startswith("2.13") and "torch 2.13, on a CPU" in page


def test_the_recorded_block_still_issues_these_operations():
    from benchmarks import compile as bench

    record = json.loads((ROOT / "benchmarks/results/compile.json").read_text(encoding="utf-8"))
    assert bench.eager() == record["figures"]["eager_calls"]


def test_the_program_that_is_to_fail_fails_whatever_is_drawn():
    for seed in range(60):
        given, *_ = draw_tensors(Draw(seed))
        with pytest.raises(RuntimeError, match="cannot be multiplied"):
            PROGRAMS["fails"](*given)
