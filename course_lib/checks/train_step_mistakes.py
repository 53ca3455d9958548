"""The update of lesson 11 by plain torch, and the numbers that wrong answers give.

What it is: the oracle of train_step.py, and how its checks recognize a mistake. The numbers of a
mistake are computed only when an answer differs, so a right answer does not pay for them.
"""

import functools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.func import functional_call

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError
from course_lib.gpt import GPT, GPTConfig
from course_lib.training.train_config import TrainConfig

Batches = list[tuple[Tensor, Tensor]]
Clip = Callable[[list, float], object]
IGNORED = -100
KEYS = ("loss", "grad_norm", "lr")
LR = 1e-3
# Adam's first step is the sign of a gradient, and one near 0 may take either: measured 1e-4
MOVED_ALIKE = 0.01
CLOSE = 1e-4  # float32 sums over 800,000 parameters in another order: measured 8e-7 on the norm


class Plain:
    """The update in a dozen lines: one big batch, torch's AdamW, clip_grad_norm_."""

    def __init__(self, config: TrainConfig, weights: dict[str, Tensor], vocab_size: int):
        self.config = config
        self.model = _model(config.model_config(vocab_size))  # its shape; the weights are these
        self.named = {n: w.clone().requires_grad_() for n, w in weights.items()}
        self.params = list(self.named.values())
        decay = config.weight_decay
        groups = [
            {"params": [p for p in self.params if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in self.params if p.dim() < 2], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, betas=(config.beta1, config.beta2), fused=True)

    def gradient(self, batches: Batches) -> tuple[float, float]:
        """Loss and gradient norm of all micro-batches as one batch; adds to `p.grad`."""
        loss = self.mean(*_one_batch(batches))
        loss.backward()
        return loss.item(), norm_of(self.params).item()

    def update(
        self,
        batches: Batches,
        lr: float,
        *,
        clear: bool = True,
        clip: Clip = torch.nn.utils.clip_grad_norm_,
    ) -> tuple[float, float]:
        """One update from all micro-batches as one batch; its loss and gradient norm."""
        if clear:
            self.optimizer.zero_grad()
        loss, norm = self.gradient(batches)
        clip(self.params, self.config.grad_clip or math.inf)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        return loss, norm

    def mean(self, idx: Tensor, targets: Tensor) -> Tensor:
        """Mean loss over the targets that count."""
        logits, _ = functional_call(self.model, self.named, (idx,))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def mixture(self, batches: Batches, shares: list[float]) -> tuple[float, float]:
        """Loss and gradient norm when the mean loss of each micro-batch has that share."""
        self.optimizer.zero_grad()
        loss = sum(s * self.mean(*b) for s, b in zip(shares, batches, strict=True) if s)
        loss.backward()
        return loss.item(), norm_of(self.params).item()

    def weights(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return {n: p.detach() for n, p in self.named.items()}


@functools.cache
def _model(config: GPTConfig) -> GPT:
    return GPT(config)


def _one_batch(batches: Batches) -> tuple[Tensor, Tensor]:
    """All rows as one batch. Shorter rows are filled at their end: a causal model does not see
    it from earlier positions, and the targets there don't count."""
    T = max(idx.shape[1] for idx, _ in batches)
    rows = [
        (F.pad(i, (0, T - i.shape[1])), F.pad(t, (0, T - t.shape[1]), value=IGNORED))
        for i, t in batches
    ]
    idx, targets = (torch.cat(side) for side in zip(*rows, strict=True))
    return idx, targets


def read_three(found, tried: str) -> dict[str, float]:
    """The three numbers as floats, of floats or of tensors of no dimension."""
    expect.dict_of(found, KEYS, "TRAIN-KEYS", tried=tried)
    for key in KEYS:
        value = found[key]
        if type(value) in (float, int) or isinstance(value, Tensor) and value.dim() == 0:
            continue
        shape = f" of shape {tuple(value.shape)}" if isinstance(value, Tensor) else ""
        raise Wrong(
            "TYPE",
            f"{key} is not one number",
            tried=tried,
            expected="three numbers: floats, or tensors of no dimension",
            got=f"{key}: a {type(value).__name__}{shape}",
            look="what is added up, and what is returned.",
        )
    return {key: float(found[key]) for key in KEYS}


def count_targets(batches: Batches) -> list[int]:
    """Targets that count, of each micro-batch."""
    return [int((targets != IGNORED).sum()) for _, targets in batches]


def norm_of(params: Iterable) -> Tensor:
    """The global norm of the gradients."""
    return torch.nn.utils.get_total_norm([p.grad for p in params if p.grad is not None])


def is_near(a: float, b: float) -> bool:
    """Equal but for the order of float32 sums."""
    return abs(a - b) <= CLOSE * max(abs(a), abs(b))


def distance(
    found: dict[str, Tensor], wanted: dict[str, Tensor], start: dict[str, Tensor]
) -> float:
    """How far `found` is from `wanted`, as a share of the way from `start` to `wanted`.

    Matrices and gains are looked at by themselves, and the larger share counts: the matrices are so
    many more that nobody would see where the gains went.
    """
    farthest = 0.0
    for names in (
        [n for n in start if start[n].dim() >= 2],
        [n for n in start if start[n].dim() < 2],
    ):
        off, way = (
            _length([a[n] - b[n] for n in names]) for a, b in ((found, wanted), (wanted, start))
        )
        farthest = max(farthest, off / way if math.isfinite(off) else math.inf)
    return farthest


def _length(tensors: list[Tensor]) -> float:
    return torch.nn.utils.get_total_norm(tensors).item()


@dataclass(frozen=True, kw_only=True)
class Weighing:
    """A way to add up micro-batches: what it is called, and the share of each mean loss."""

    code: str
    finding: str
    fits: str
    shares: list[float]
    look: str = "the value on which `_backward` is called."
    hides: str = ""
    preset: str = ""


def weighings(batches: Batches) -> Iterator[Weighing]:
    """The wrong ways that learners take."""
    counts, sizes = count_targets(batches), [targets.numel() for _, targets in batches]
    k, total = len(batches), sum(counts)
    equal = [(n > 0) / k for n in counts]  # a mean over no targets has no share
    scale = "AdamW rescales its step, so the curve can look normal; clipping and log are wrong."
    yield Weighing(
        code="TRAIN-SUM",
        finding=f"the gradient is {k} times too long",
        hides=scale,
        fits=f"{k} mean losses added, none of them divided.",
        shares=[float(n > 0) for n in counts],
        preset="accumulation:sum",
    )
    yield Weighing(
        code="TRAIN-SUM",
        finding=f"the gradient is {total} times too long",
        hides=scale,
        fits="each mean loss times its tokens, not divided by all of them.",
        shares=[float(n) for n in counts],
    )
    yield Weighing(
        code="TRAIN-MEAN-OF-MEANS",
        finding="few tokens weigh as much as many",
        fits=f"each mean loss divided by {k}, however many targets it counts.",
        hides="equal micro-batches give the right gradient, so most tests pass.",
        shares=equal,
        preset="accumulation:ragged",
    )
    yield Weighing(
        code="TRAIN-POSITIONS",
        finding="targets of -100 are counted",
        fits="shares by the size of the micro-batch: `numel()`, or its rows.",
        look="how the targets are counted.",
        shares=[n / sum(sizes) for n in sizes],
    )
    for shares in ([n / total / k for n in counts], [share / k for share in equal]):
        yield Weighing(
            code="TRAIN-TWICE",
            finding=f"the gradient is {k} times too short",
            fits=f"a share that is divided by {k} once more.",
            hides=scale,
            shares=shares,
            preset="accumulation:twice",
        )
    for i, code, where, fits in (
        (
            k - 1,
            "TRAIN-LAST-ONLY",
            "last",
            "a gradient cleared inside the loop, or a `_backward` after it.",
        ),
        (0, "TRAIN-FIRST-ONLY", "first", "a loop that ends after one turn."),
    ):
        if counts[i] == 0:
            continue  # it has no mean loss that could have an effect
        for share in (counts[i] / total, 1 / k, 1.0):
            yield Weighing(
                code=code,
                finding=f"only the {where} micro-batch has an effect",
                fits=fits,
                look="what stands inside the loop, and what after it.",
                shares=[share * (j == i) for j in range(k)],
                preset="accumulation:last" if i else "",
            )


def compare(
    found: dict[str, float],
    loss: float,
    norm: float,
    plain: Callable[[], Plain],
    batches: Batches,
    tried: str,
) -> None:
    """Gradient norm, then loss, are those of the big batch; else `Wrong` with what they fit.

    `plain` gives the model as it was before the update.
    """
    for key, value, item in (("grad_norm", norm, 1), ("loss", loss, 0)):
        if is_near(found[key], value):
            continue
        facts = dict(
            tried=tried,
            expected=f"{key} {number(value)}, that of the whole batch",
            got=f"{key} {number(found[key])}, {number(found[key] / value)} times that",
        )
        before = plain()
        for way in weighings(batches):
            if is_near(found[key], before.mixture(batches, way.shares)[item]):
                raise _loss(way, facts) if key == "loss" else _gradient(way, facts)
        what = "gradient" if key == "grad_norm" else "loss"
        raise Wrong(
            "OTHER",
            f"the {what} is not that of the whole batch",
            look="the share of each micro-batch, and what is added up.",
            **facts,
        )


def _gradient(way: Weighing, facts: dict) -> Wrong:
    return Wrong(
        way.code,
        way.finding,
        fits=way.fits,
        hides=way.hides,
        look=way.look,
        preset=way.preset,
        **facts,
    )


def _loss(way: Weighing, facts: dict) -> Wrong:
    fits = "the last loss alone." if "LAST" in way.code else way.fits
    return Wrong(
        "TRAIN-LOSS",
        "the gradient is right, the loss that is told is not",
        fits=fits,
        hides="the same training shows another curve when it is cut in other parts.",
        look="what is added up for the log.",
        **facts,
    )


def put_together(failure: AnswerError, tried: str) -> Wrong | None:
    """When rows of different length were to be joined: the memory of the big batch."""
    if "must match" not in (said := str(failure.error)) and "stack expects" not in said:
        return None
    return Wrong(
        "TRAIN-CAT",
        "the micro-batches are put together",
        tried=tried,
        expected="one forward and one backward for each micro-batch",
        got=f"{type(failure.error).__name__}: {failure.error}"[:76],
        hides="the memory of the whole batch, which accumulation is there to avoid.",
        look="`torch.cat`, `torch.stack`.",
    )


def clip_each(params: list, limit: float) -> None:
    """Every tensor to the limit by itself."""
    for p in params:
        torch.nn.utils.clip_grad_norm_([p], limit)


def clip_groups(params: list, limit: float) -> None:
    """Matrices and gains to the limit, each by themselves."""
    for is_matrix in (True, False):
        group = [p for p in params if (p.dim() >= 2) is is_matrix]
        torch.nn.utils.clip_grad_norm_(group, limit)


def clip_nothing(params: list, limit: float) -> None:
    """No limit."""


def clip_inside(plain: Plain, batches: Batches) -> float:
    """The norm that clipping inside the loop tells last."""
    counts = count_targets(batches)
    plain.optimizer.zero_grad()
    for n, batch in zip(counts, batches, strict=True):
        (plain.mean(*batch) * n / sum(counts)).backward()
        norm = torch.nn.utils.clip_grad_norm_(plain.params, plain.config.grad_clip)
    return norm.item()


def compare_rates(found: list[float], due: list[float], highest: float, tried: str) -> None:
    """`found` are the first of the rates that are due; else `Wrong` with the pattern they fit."""
    if _all_close(found, due):
        return
    n, facts = len(found), dict(tried=tried, expected=vector(due[: len(found)]), got=vector(found))
    for code, rates, finding, fits, look in (
        (
            "TRAIN-LR-STUCK",
            [due[0]] * n,
            "the rate does not change",
            "a step counter that stays 0.",
            "what `get_lr` is asked for, and what counts.",
        ),
        (
            "TRAIN-LR-NEXT",
            due[1:],
            "every rate is that of the next update",
            "get_lr(step + 1), or a counter that moves before it is read.",
            "what `self.step` is when `get_lr` is asked.",
        ),
        (
            "TRAIN-MICRO-STEPS",
            due[::2],
            "the schedule counts micro-batches",
            "a counter that moves once per micro-batch.",
            "where `self.step` grows, and by how much.",
        ),
        (
            "TRAIN-LR-CONSTANT",
            [highest] * n,
            "the rate is the highest one, always",
            "config.lr in place of the schedule.",
            "`self.get_lr`.",
        ),
        (
            "TRAIN-LR-LATE",
            [highest, *due],
            "each rate comes one update late",
            "the rate of a group, read before it is written.",
            'what "lr" is taken from.',
        ),
    ):
        if _all_close(found, rates):
            raise Wrong(code, finding, fits=fits, look=look, **facts)
    raise Wrong("OTHER", "the rates differ", look="`self.get_lr(self.step)`.", **facts)


def _all_close(found: list[float], wanted: list[float]) -> bool:
    return all(math.isclose(a, b, rel_tol=1e-6) for a, b in zip(found, wanted, strict=False))


def unscaled_loss(tried: str) -> Wrong:
    """When float16 gets gradients of the plain loss."""
    return Wrong(
        "TRAIN-BARE",
        "the loss is never scaled up",
        tried=tried,
        expected="a loss that is multiplied before its backward pass",
        got="gradients of the plain loss, too small for float16",
        fits="a `.backward()` of its own: neither scale nor ranks are in it.",
        look="`self.backward`.",
    )
