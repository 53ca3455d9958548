"""One task of chunked-loss: inputs, the answer's loss and gradients, and torch's on the whole matrix.

What is here: `LossCase`, and its expectations. What it leaves out: which tasks there are
(chunked_loss.py, chunked_loss_edges.py).
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw

IGNORED = -100
# float32 sums of some hundred terms near 1, in another order than the oracle's
RTOL, ATOL = 1e-4, 1e-6


class LossCase:
    """Inputs, the answer's three results, and torch's on the whole matrix."""

    def __init__(
        self,
        subject: Subject,
        draw: Draw,
        chunk: int,
        *,
        N: int = 12,
        ignored=(),
        dtype: torch.dtype = torch.float32,
        scale: float = 1.0,
        D: int = 0,
        turned: bool = False,
    ):
        V, D = draw.size(9, 11), D or draw.size(5, 6)
        self.x, self.weight = draw.randn(N, D, dtype=dtype), scale * draw.randn(V, D, dtype=dtype)
        if turned:  # the same numbers, in memory column by column
            self.x, self.weight = (t.T.contiguous().T for t in (self.x, self.weight))
        self.targets = draw.randint(0, V, (N,))
        self.targets[0], self.targets[-1] = V - 1, 0  # token 0 counts like any other
        for rows in ignored:
            self.targets[rows] = IGNORED
        self.chunk, self.counts = chunk, self.targets != IGNORED
        self.tried = f"{N} tokens, chunk {chunk}, V {V}, D {D}"
        if dtype != torch.float32:
            self.tried += f", {str(dtype).removeprefix('torch.')}"
        if ignored:
            self.tried += f"; {int(self.counts.sum())} targets count"
        exact = [t.double().requires_grad_() for t in (self.x, self.weight)]
        loss = F.cross_entropy(exact[0] @ exact[1].T, self.targets)
        self.loss, self.gradients = loss.item(), torch.autograd.grad(loss, exact)
        out = subject.module(chunk).method("loss_and_gradients", self.x, self.weight, self.targets)
        self.found = self._expect_three(out)

    def _expect_three(self, out: Any) -> list[Tensor]:
        if not isinstance(out, (tuple, list)) or len(out) != 3:
            got = f"{len(out)} values" if isinstance(out, (tuple, list)) else type(out).__name__
            raise Wrong(
                "CHUNK-TRIPLE",
                "the answer did not return three tensors",
                tried=self.tried,
                expected="(loss, dx, dweight)",
                got=got,
                look="the last line.",
            )
        for name, x, like in zip(
            ("loss", "dx", "dweight"), out, (None, self.x, self.weight), strict=True
        ):
            shape, dtype = (like.shape, like.dtype) if like is not None else ((), torch.float32)
            empty = isinstance(x, Tensor) and x.isnan().any()
            if empty and tuple(x.shape) == tuple(shape) and bool((~self.counts).any()):
                raise self._empty_chunk(name)
            # rows of a gradient that nobody wrote hold anything, nan too: the loss comes first
            expect.tensor(
                x, shape=shape, dtype=dtype, tried=f"{name}: {self.tried}", finite=name == "loss"
            )
        return list(out)

    def _empty_chunk(self, name: str) -> Wrong:
        return Wrong(
            "CHUNK-EMPTY",
            f"{name} is nan: one chunk counts no target",
            tried=self.tried,
            expected="finite: other chunks count targets",
            got="nan",
            fits="0 / 0: a chunk divided by its own count.",
            look="what a chunk's sum is divided by.",
        )

    def mean(self, rows) -> float:
        """The mean loss of some tokens, in float64."""
        logits = self.x[rows].double() @ self.weight.double().T
        return F.cross_entropy(logits, self.targets[rows]).item()

    def sums(self) -> tuple[Tensor, Tensor, Tensor]:
        """softmax, one-hot, and the weight 1/count of each token, float64; ignored ones have 0."""
        soft = torch.softmax(self.x.double() @ self.weight.double().T, -1)
        hot = F.one_hot(self.targets.clamp(min=0), soft.shape[1]).double()
        return soft, hot, (self.counts / self.counts.sum()).double().unsqueeze(-1)

    def expect_loss(self, patterns: list[Pattern], *, rtol: float = RTOL) -> None:
        """The loss is torch's."""
        expect.values(
            self.found[0].view(1),
            torch.tensor([self.loss]),
            patterns,
            rtol=rtol,
            atol=1e-5,
            tried=f"loss: {self.tried}",
            finding="the loss differs",
            look="what is summed, and what the sum is divided by.",
        )

    def expect_close_gradients(self, limit: float) -> None:
        """dx and dweight are off by less than `limit` of their length."""
        for name, found, right in zip(
            ("dx", "dweight"), self.found[1:], self.gradients, strict=True
        ):
            expect.not_finite(found, tried=f"{name}: {self.tried}")
            error = ((found.double() - right).norm() / right.norm()).item()
            if error > limit:
                raise Wrong(
                    "OTHER",
                    f"{name} is far from exact",
                    tried=self.tried,
                    expected=f"within {limit} of its length",
                    got=f"{number(error)} of its length",
                    look="softmax - one-hot, divided by the count, then the two products.",
                )

    def expect_gradients(self, patterns) -> None:
        """dx and dweight are torch's. `patterns(dlogits -> gradient)` gives the known mistakes."""
        for name, found, right, through in (
            ("dx", self.found[1], self.gradients[0], lambda d: (d @ self.weight.double()).float()),
            (
                "dweight",
                self.found[2],
                self.gradients[1],
                lambda d: (d.T @ self.x.double()).float(),
            ),
        ):
            expect.not_finite(found, tried=f"{name}: {self.tried}")
            expect.values(
                found,
                right.float(),
                patterns(through),
                rtol=RTOL,
                atol=ATOL,
                tried=f"{name}: {self.tried}",
                finding=f"{name} differs",
                look="softmax - one-hot, divided by the count, then the two products.",
            )
