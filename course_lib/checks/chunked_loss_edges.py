"""Edges of the chunked loss: sizes, layouts, dtypes, precision of the gradients, later calls.

What is here: checks of ChunkedHead.loss_and_gradients, for `chunked_loss`. Oracle: as there.
"""

import torch
import torch.nn.functional as F

from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.loss_case import ATOL, IGNORED, RTOL, LossCase
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw


def any_size(subject: Subject, draw: Draw) -> None:
    """One token, one column, a chunk of one token, of all and of more than there are."""
    for N, chunk, D in ((12, 64, 5), (12, 12, 5), (12, 1, 5), (1, 4, 5), (1, 1, 5), (7, 3, 1)):
        c = LossCase(subject, draw, chunk, N=N, D=D)
        c.expect_loss([])
        c.expect_gradients(lambda through: [])
    c = LossCase(subject, draw, 64, ignored=[[1, 4, 11]])
    c.expect_loss([])
    c.expect_gradients(lambda through: [])


def any_layout(subject: Subject, draw: Draw) -> None:
    """x and weight as transposed views, in memory column by column."""
    for chunk in (5, 64):
        c = LossCase(subject, draw, chunk, turned=True)
        c.tried += ", transposed views"
        c.expect_loss([])
        c.expect_gradients(lambda through: [])


def any_dtype(subject: Subject, draw: Draw) -> None:
    """float64 and float16 in: the loss is float32 all the same, the gradients are of the dtype of x."""
    for dtype, rtol in ((torch.float64, RTOL), (torch.float16, 3e-3)):
        c = LossCase(subject, draw, 5, dtype=dtype)
        c.expect_loss([], rtol=rtol)
        c.expect_close_gradients(10 * rtol)


def sixteen_bit_gradients(subject: Subject, draw: Draw) -> None:
    """bf16 in: count, sum and softmax - one-hot in float32, where 257 targets count and where the
    softmax is nearly 1."""
    V, N = draw.size(9, 11), 260
    # whole numbers times quarters: the logits are exact in bf16, in any order of summation
    x = draw.randint(-2, 3, (N, 5)).bfloat16()
    weight = (draw.randint(-8, 9, (V, 5)) / 4).bfloat16()
    targets = draw.randint(0, V, (N,))
    targets[[3, 100, 200]] = IGNORED
    right = F.cross_entropy(x.float() @ weight.float().T, targets).item()
    loss, *_ = subject.module(32).method("loss_and_gradients", x, weight, targets)
    if abs(loss.item() - right) > 2e-4 * right:
        near = {257 / 256: "the count of targets", 257 / 258: "the count of targets"}
        known = [name for by, name in near.items() if abs(loss.item() - right * by) < 2e-4 * right]
        raise Wrong(
            "CHUNK-COUNT-16",
            "the loss is not summed and divided in float32",
            tried="bfloat16, 257 targets count; logits that are exact in 16 bits",
            expected=f"{right:.6f}",
            got=f"{loss.item():.6f}",
            fits=f"{(known or ['the loss, or the count of targets'])[0]} in 16 bits.",
            look="dtypes of the count and of the sum of losses.",
        )
    # one logit of 8 and zeros: its probability is 1 - (V - 1) exp(-8), which 16 bits round to 1
    x, weight = torch.zeros(2, V).bfloat16(), torch.eye(V).bfloat16()
    x[0, 2] = x[1, 4] = 8
    targets = torch.tensor([2, 4])
    exact = x.double().requires_grad_()
    F.cross_entropy(exact @ weight.double().T, targets).backward()
    _, dx, _ = subject.module(4).method("loss_and_gradients", x, weight, targets)
    error = ((dx.double() - exact.grad).norm() / exact.grad.norm()).item()
    if error > 0.02:  # rounded once, or twice: 0.002 each
        raise Wrong(
            "CHUNK-GRAD-16",
            "softmax - one-hot is taken in 16 bits",
            tried=f"bfloat16, 2 tokens; the target's logit 8, {V - 1} others 0",
            expected=f"dx of the target {number(exact.grad[0, 2].item())}",
            got=number(dx[0, 2].item()),
            look="where the gradient of the logits becomes 16 bits: after the subtraction.",
        )


def gradient_products(subject: Subject, draw: Draw) -> None:
    """16 bits in: the gradient of the logits is rounded to 16 bits, then multiplied, twice.

    One token, two logits that are exact, 0 and -1. Each gradient is one product of two numbers.
    """
    for dtype in (torch.bfloat16, torch.float16):
        factors = 1 + torch.arange(128) / 128  # exact in both dtypes
        slope = torch.sigmoid(torch.tensor(-1.0))
        product, wide = slope.to(dtype).float() * factors, slope * factors
        # not where 16 bits round the right product by nearly half a step, which way is then a matter of luck
        sure = (product * 0.9999).to(dtype) == (product * 1.0001).to(dtype)
        chosen = sure & (product.to(dtype) != wide.to(dtype))
        n = int(chosen.sum())
        x, weight = torch.zeros(1, 1 + 2 * n, dtype=dtype), torch.zeros(2, 1 + 2 * n, dtype=dtype)
        x[0, 0], weight[1, 0] = 1, -1
        x[0, 1 : n + 1], weight[1, n + 1 :] = factors[chosen].to(dtype), factors[chosen].to(dtype)
        _, dx, dweight = subject.module(4).method(
            "loss_and_gradients", x, weight, torch.zeros(1, dtype=torch.int64)
        )
        right, mistake = product[chosen].to(dtype), wide[chosen].to(dtype)
        for name, found in (("dx", dx[0, n + 1 :]), ("dweight", dweight[1, 1 : n + 1])):
            if (bad := found != right).any():
                at = int(bad.nonzero()[0, 0])
                raise Wrong(
                    "CHUNK-PRODUCTS",
                    f"{name} is not that of a product in 16 bits",
                    tried=f"{str(dtype)[6:]}, 1 token, logits 0 and -1, target 0; one entry of {name}: "
                    f"{slope.item():.6f}, in 16 bits, times {factors[chosen][at].item()}",
                    expected=f"{right[at].item()!r}",
                    got=f"{found[at].item()!r}",
                    fits="a float32 gradient of the logits in the product."
                    if torch.equal(found, mistake)
                    else "",
                    hides="a float32 copy of the whole weight, and slower products.",
                    look="the dtype of the logits' gradient where it is multiplied.",
                )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """Loss and gradients stay when another batch follows, and hang on their own batch alone, in 16
    bits too."""
    head = subject.module(5)
    first, second = (
        (draw.randn(12, 4), draw.randn(9, 4), draw.randint(0, 9, (12,))) for _ in range(2)
    )
    second[2][:4] = IGNORED
    # float32; then 16 bits, where a gradient is a few roundings of 2^-9 wrong
    for dtype, rtol, off in (
        (torch.float32, RTOL, 1e-4),
        (torch.bfloat16, 0.05, 0.1),
        (torch.float16, 0.05, 0.1),
    ):
        calls = [(x.to(dtype), weight.to(dtype), targets) for x, weight, targets in (first, second)]
        tried = "two batches of one shape, 12 and 8 targets count, then the first again"
        tried += f", {str(dtype).removeprefix('torch.')}"
        found = expect_separate_calls(
            lambda name, *args: head.probe("course_lib.probes.held:compare_head_calls", *args),
            *calls, tried=tried, rtol=rtol, atol=ATOL,
        )  # fmt: skip
        x, weight = (x.double().requires_grad_() for x in calls[1][:2])
        loss = F.cross_entropy(x @ weight.T, second[2])
        for name, got, right in zip(
            ("loss", "dx", "dweight"),
            found,
            (loss.detach(), *torch.autograd.grad(loss, (x, weight))),
            strict=True,
        ):
            if (got.double() - right).norm() > off * right.norm():
                at = int((got.double() - right).abs().argmax())
                raise Wrong(
                    "REMEMBERS",
                    f"{name} of the second of two calls is wrong",
                    tried=tried,
                    expected=f"{number(right.flatten()[at].item())} at place {at}",
                    got=number(got.flatten()[at].item()),
                    look="what outlives a call.",
                )
