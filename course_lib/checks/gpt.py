"""Checks of lesson 06: GPT.forward.

Oracle: `logits_of`, the same architecture written once more in plain functions of the answer's own
weights.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.block import run_block, tables
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong, number
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.gpt import GPTConfig


def _small_config(**changes) -> GPTConfig:
    shape = dict(vocab_size=23, max_seq_len=8, num_layers=3, num_heads=2, d_model=8, d_hidden=12)
    return GPTConfig(**(shape | dict(tie_embeddings=False) | changes))


def _weights(module, draw: Draw) -> dict[str, Tensor]:
    """Weights far larger than the initial ones, so that every step shows in the logits."""
    state = {
        name: 1 + 0.3 * draw.randn(*w.shape) if "norm" in name else 0.4 * draw.randn(*w.shape)
        for name, w in module.state().items()
    }
    module.load(state)
    return state


def logits_of(
    state: dict[str, Tensor],
    config: GPTConfig,
    idx: Tensor,
    *,
    final_norm: bool = True,
    blocks: list[int] | None = None,
    restart: bool = False,
) -> Tensor:
    """Logits by the plain formulas; the options leave something out, as wrong answers do."""
    x = F.embedding(idx, state["embedding.weight"])
    start, turns = x, tables(idx.shape[1], config, config.rope_theta)
    for i in range(config.num_layers) if blocks is None else blocks:
        w = {
            n.removeprefix(f"blocks.{i}."): v
            for n, v in state.items()
            if n.startswith(f"blocks.{i}.")
        }
        x = run_block(w, config, start if restart else x, *turns)
    if final_norm:
        x = F.rms_norm(x, (config.d_model,), state["norm.weight"], config.norm_eps)
    return x @ state["head.weight"].T


def pair(subject: Subject, draw: Draw) -> None:
    """(B, T) in, (logits (B, T, V), None) out, with T = max_seq_len and with a shorter T."""
    config = _small_config()
    module, V, full = subject.module(config), config.vocab_size, config.max_seq_len
    for T in (full, draw.size(5, 3, 6)):
        idx = draw.randint(0, V, (2, T))
        tried = f"idx of shape (2, {T}), no targets, max_seq_len {full}"
        try:
            out = module.forward(idx)
        except AnswerError as failure:
            raise _explain_error(failure, T, full, tried) or failure from None
        logits, loss = _pair(out, tried)
        if logits is None or (isinstance(loss, Tensor) and loss.dim() == 3):
            raise Wrong(
                "GPT-SWAPPED",
                "the two results are in the other order",
                tried=tried,
                expected="(logits, None)",
                got="(None, logits)",
                look="the `return`.",
            )
        if isinstance(logits, Tensor) and logits.shape in ((2, V), (2, 1, V)):
            raise Wrong(
                "GPT-LAST-ONLY",
                "only the last position has logits",
                tried=tried,
                expected=f"logits of shape (2, {T}, {V})",
                got=f"shape {tuple(logits.shape)}",
                fits="`x[:, -1]` before the head, as in generation.",
                hides="training would use 1 prediction out of T.",
                look="indices with -1.",
            )
        expect.tensor(logits, shape=(2, T, V), dtype=torch.float32, tried=tried)
        if loss is not None:
            raise Wrong(
                "GPT-LOSS-ALWAYS",
                "there is a loss without targets",
                tried=tried,
                expected="(logits, None)",
                got=f"loss {loss}"[:60],
                look="`targets is None`.",
            )


def _pair(out, tried: str) -> tuple:
    expect.not_none(out, "(logits, loss)", tried=tried)
    if not isinstance(out, tuple) or len(out) != 2:
        what = (
            f"a tensor of shape {tuple(out.shape)}"
            if isinstance(out, Tensor)
            else type(out).__name__
        )
        raise Wrong(
            "GPT-PAIR",
            "the answer is not a pair",
            tried=tried,
            expected="(logits, loss)",
            got=what,
            look="what stands after each `return`.",
        )
    return out


def _explain_error(failure: AnswerError, T: int, full: int, tried: str) -> Wrong | None:
    error = failure.error
    facts = dict(
        tried=tried,
        expected=f"logits of shape (2, {T}, 23)",
        got=f"{type(error).__name__}: {error}"[:76],
    )
    if isinstance(error, ValueError) and T == full:
        return Wrong(
            "GPT-LIMIT",
            "the longest allowed sequence is refused",
            look="`>` against `>=`.",
            **facts,
        )
    if isinstance(error, RuntimeError) and T < full and "size of tensor" in str(error):
        return Wrong(
            "GPT-TABLES",
            "a sequence shorter than max_seq_len fails",
            fits="cos and sin of all positions meeting fewer tokens.",
            look="the rows of `self.cos_TK` and `self.sin_TK` that T tokens need.",
            **facts,
        )
    return None


def right_logits(subject: Subject, draw: Draw) -> None:
    """The logits of an independent implementation with the same weights."""
    config = _small_config(num_layers=draw.size(3, 2, 4), max_seq_len=8)
    module, L = subject.module(config), config.num_layers
    state, idx = _weights(module, draw), draw.randint(0, config.vocab_size, (2, draw.size(6, 4, 7)))
    logits, _ = _pair(module.forward(idx), "idx alone")
    expect.tensor(logits, shape=(*idx.shape, config.vocab_size), dtype=torch.float32)
    expect.values(
        logits,
        logits_of(state, config, idx),
        [
            Pattern(
                code="GPT-NO-NORM",
                value=logits_of(state, config, idx, final_norm=False),
                finding="the final norm is missing",
                fits="the head on the bare residual stream.",
                look="`self.norm`.",
            ),
            Pattern(
                code="GPT-RESTART",
                value=logits_of(state, config, idx, restart=True),
                finding="only the last block has an effect",
                fits="every block applied to the embedding, its output then overwritten.",
                look="what goes into `block(...)`, and what its result is called.",
            ),
            Pattern(
                code="GPT-NO-BLOCKS",
                value=logits_of(state, config, idx, blocks=[]),
                finding="no block has an effect",
                fits="block outputs that are not kept.",
                look="what the loop assigns.",
            ),
            Pattern(
                code="GPT-ONE-BLOCK",
                value=logits_of(state, config, idx, blocks=[0]),
                finding="only the first block has an effect",
                fits="a loop that ends after one turn.",
                look="the indentation after the loop.",
            ),
            Pattern(
                code="GPT-ONE-BLOCK",
                value=logits_of(state, config, idx, blocks=list(range(L - 1))),
                finding="the last block has no effect",
                fits="a loop that ends one block early.",
                look="what the loop runs over.",
            ),
            Pattern(
                code="GPT-BLOCK-ORDER",
                value=logits_of(state, config, idx, blocks=[*range(L)][::-1]),
                finding="the blocks run in another order",
                fits="the last block first.",
                look="what the loop runs over.",
            ),
        ],
        # float32, a few hundred operations in another order: measured 1e-5 on logits up to 10
        rtol=1e-4,
        atol=2e-4,
        tried=f"{L} blocks, random weights and tokens",
        finding="the logits differ",
        look="embedding, blocks, norm, head: in this order, each once.",
    )


def right_loss(subject: Subject, draw: Draw) -> None:
    """Mean cross-entropy in nats; the caller has shifted the targets already."""
    config = _small_config()
    module = subject.module(config)
    state, shape = _weights(module, draw), (draw.size(2, 3), draw.size(6, 5))
    idx, targets = (draw.randint(0, config.vocab_size, shape) for _ in range(2))
    tried = f"random tokens and targets, each {shape}"
    logits, loss = _pair(module.forward(idx, targets), tried)
    if loss is None:
        raise Wrong(
            "GPT-NO-LOSS",
            "no loss although there are targets",
            tried=tried,
            expected="(logits, loss)",
            got="(logits, None)",
            look="the condition on `targets`.",
        )
    if isinstance(loss, Tensor) and loss.dim() == 3:
        raise Wrong(
            "GPT-SWAPPED",
            "the two results are in the other order",
            tried=tried,
            expected="(logits, loss)",
            got="(loss, logits)",
            look="the `return`.",
        )
    expect.tensor(logits, shape=(*shape, config.vocab_size), dtype=torch.float32, tried=tried)
    expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried)
    reference = logits_of(state, config, idx)
    nats = _cross_entropy(reference, targets)
    expect.values(
        loss,
        nats,
        [
            Pattern(
                code="GPT-SHIFT-TWICE",
                value=_cross_entropy(reference[:, :-1], targets[:, 1:]),
                finding="the loss is shifted once more",
                preset="loss-shift:twice",
                fits="logits[:, :-1] against targets[:, 1:].",
                hides="the model would learn the token after the next one, without any error.",
                look="who shifts: `targets[b, t]` follows `idx[b, t]` already.",
            ),
            Pattern(
                code="GPT-SHIFT-IDX",
                value=_cross_entropy(reference[:, :-1], idx[:, 1:]),
                finding="the loss does not use the targets",
                fits="logits[:, :-1] against idx[:, 1:].",
                look="the second argument of `cross_entropy`.",
            ),
            Pattern(
                code="GPT-COPY",
                value=_cross_entropy(reference, idx),
                preset="loss-shift:copy",
                finding="the loss does not use the targets",
                fits="the input as its own target: a loss for copying.",
                look="the second argument of `cross_entropy`.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * targets.numel(),
                finding="the loss is a sum",
                fits='`reduction="sum"`: it grows with the batch.',
                look="the reduction.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * shape[1],
                finding="the loss is a sum over positions",
                fits="a sum over T, a mean over B.",
                look="the reduction.",
            ),
            Pattern(
                code="GPT-LOSS-SUM",
                value=nats * shape[0],
                finding="the loss is a sum over sequences",
                fits="a mean over T, a sum over B.",
                look="the reduction.",
            ),
            Pattern(
                code="GPT-BITS",
                value=nats / math.log(2),
                finding="the loss is in bits",
                fits="a logarithm of base 2.",
                look="the docstring says nats.",
            ),
            Pattern(
                code="GPT-SOFTMAX-FIRST",
                value=_cross_entropy(reference.softmax(-1), targets),
                finding="softmax is applied twice",
                fits="cross_entropy of probabilities.",
                hides="the loss cannot fall below ln V - 1 or so.",
                look="`cross_entropy` takes logits.",
            ),
            Pattern(
                code="GPT-SIGN",
                value=-nats,
                finding="the loss has the wrong sign",
                fits="a mean log-probability.",
                look="the sign.",
            ),
        ],
        rtol=1e-4,
        atol=1e-4,
        tried=tried,
        finding="the loss differs",
        look="`F.cross_entropy` on (B * T, V) logits and (B * T,) targets.",
    )


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def ignored_targets(subject: Subject, draw: Draw) -> None:
    """Targets of -100 do not count, neither in the sum nor in the number."""
    config = _small_config()
    module = subject.module(config)
    state = _weights(module, draw)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 6)) for _ in range(2))
    targets[0, 2:] = -100
    tried = "12 targets, 4 of them -100"
    reference = logits_of(state, config, idx)
    mean = _cross_entropy(reference, targets)
    try:
        _, loss = _pair(module.forward(idx, targets), tried)
    except AnswerError as failure:
        if isinstance(failure.error, IndexError):
            raise Wrong(
                "GPT-IGNORE",
                "a target of -100 is an error",
                tried=tried,
                expected=f"loss {number(mean.item())}, over the 8 others",
                got=f"{type(failure.error).__name__}: {failure.error}"[:76],
                look="`ignore_index`, whose default is -100.",
            ) from None
        raise
    every = F.cross_entropy(reference.flatten(0, 1), targets.clamp(min=0).flatten())
    expect.values(
        expect.tensor(loss, shape=(), dtype=torch.float32, tried=tried),
        mean,
        [
            Pattern(
                code="GPT-IGNORE-MEAN",
                value=mean * 8 / 12,
                fits="a sum over 8, divided by 12.",
                finding="uncounted positions are in the divisor",
                look="where the mean is taken.",
            ),
            Pattern(
                code="GPT-IGNORE",
                value=every,
                finding="a target of -100 counts as token 0",
                fits="targets cut off at 0.",
                look="`ignore_index`, whose default is -100.",
            ),
        ],
        rtol=1e-4,
        atol=1e-4,
        tried=tried,
        finding="the loss with uncounted positions differs",
        look="`ignore_index`, whose default is -100.",
    )


def too_long(subject: Subject, draw: Draw) -> None:
    """T = max_seq_len + 1 is refused with a ValueError."""
    config = _small_config()
    idx = draw.randint(0, config.vocab_size, (1, config.max_seq_len + 1))
    facts = dict(
        tried=f"{idx.shape[1]} tokens, max_seq_len {config.max_seq_len}",
        expected="a ValueError that names both numbers",
        look="the first lines of forward, before anything is computed.",
    )
    try:
        subject.module(config).forward(idx)
    except AnswerError as failure:
        error = failure.error
        if isinstance(error, ValueError):
            return
        raise Wrong(
            "GPT-TOO-LONG",
            "a sequence that is too long fails late, or with another error",
            got=f"{type(error).__name__}: {error}"[:76],
            **facts,
        ) from None
    raise Wrong("GPT-TOO-LONG", "a sequence that is too long is accepted", got="a result", **facts)


def any_layout(subject: Subject, draw: Draw) -> None:
    """Tokens and targets whose rows do not lie one after the other in memory."""
    module = subject.module(_small_config())
    idx, targets = (draw.randint(0, 23, (3, 5)) for _ in range(2))
    wanted = module.forward(idx, targets)[1]
    tried = "tokens and targets as transposed views: not contiguous"
    facts = dict(tried=tried, expected=f"the same loss, {number(wanted.item())}")
    try:
        loss = module.forward(*(x.t().contiguous().t() for x in (idx, targets)))[1]
    except AnswerError as failure:
        raise Wrong(
            "STRIDED",
            "tensors that are not contiguous raise",
            got=f"{type(failure.error).__name__}: {failure.error}"[:76],
            hides="targets are a slice of the window that idx is a slice of.",
            look="`view`, which never copies; `flatten` and `reshape` do where they have to.",
            **facts,
        ) from None
    if not torch.allclose(loss, wanted, rtol=1e-4):
        raise Wrong(
            "STRIDED",
            "tensors that are not contiguous give another loss",
            got=number(loss.item()),
            look="the memory read in its own order, not in that of the indices.",
            **facts,
        )


def gradients(subject: Subject, draw: Draw) -> None:
    """The loss reaches every parameter, with the right gradient, checkpointing on or off."""
    config = _small_config(activation_checkpointing=True)
    module = subject.module(config)
    state = _weights(module, draw)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 6)) for _ in range(2))
    leaves = {n: w.clone().requires_grad_() for n, w in state.items()}
    _cross_entropy(logits_of(leaves, config, idx), targets).backward()
    for switch in (False, True):
        module = subject.module(_small_config(activation_checkpointing=switch))
        module.load(state)
        _, grads = module.vjp(idx, targets, upstream=torch.ones(()), item=1)
        tried = f"activation_checkpointing = {switch}"
        for name, leaf in leaves.items():
            if name not in grads:
                raise Wrong(
                    "GPT-NO-GRAD",
                    "a parameter gets no gradient",
                    tried=tried,
                    expected=f"a gradient for {name}",
                    got="none",
                    look="`no_grad`, `.detach()`, `.data` or `.item()` on the way.",
                )
            expect.values(
                grads[name],
                leaf.grad,
                rtol=1e-3,
                atol=1e-4,
                finding="a gradient differs",
                tried=f"{tried}, {name}",
                look="steps that leave the graph.",
            )


def checkpointing(subject: Subject, draw: Draw) -> None:
    """The switch makes the forward pass keep less, in training only."""
    idx = draw.randint(0, 23, (4, 8))

    def saved_bytes(switch: bool, training: bool, layers: int = 4) -> int:
        module = subject.module(_small_config(num_layers=layers, activation_checkpointing=switch))
        return module.saved_bytes(idx, idx, training=training)

    off, on, on_eval = saved_bytes(False, True), saved_bytes(True, True), saved_bytes(True, False)
    got = (
        f"{off / 1e3:.0f} kB without, {on / 1e3:.0f} kB with, {on_eval / 1e3:.0f} kB with, in eval"
    )
    # a block keeps about 20 tensors of its input's size, a checkpointed one only that input
    if on > 0.5 * off:
        raise Wrong(
            "GPT-NO-CHECKPOINT",
            "the switch does not save memory in training",
            tried="bytes kept for the backward pass, 4 blocks",
            got=got,
            expected="far fewer with activation_checkpointing: one input per block",
            look="`self.config.activation_checkpointing` and `self.training`.",
        )
    inputs = 3 * 4 * 8 * _small_config().d_model * 4  # of 3 blocks, (4, 8, D) in float32
    more = on - saved_bytes(True, True, layers=1)
    if more < 0.9 * inputs:
        raise Wrong(
            "GPT-ONE-CHECKPOINT",
            "the blocks are not checkpointed one by one",
            tried="bytes kept for the backward pass, 4 blocks against 1",
            got=f"{more / 1e3:.1f} kB more",
            expected=f"the input of each block: {inputs / 1e3:.1f} kB for 3 more blocks",
            fits="one checkpoint around several blocks.",
            hides="the backward pass then holds the inside of all of them at once.",
            look="what `checkpoint` is given: one block.",
        )
    if on_eval < 0.9 * off:
        raise Wrong(
            "GPT-CHECKPOINT-EVAL",
            "blocks are checkpointed outside of training too",
            tried="bytes kept for the backward pass, 4 blocks",
            got=got,
            expected="in eval mode as many as without the switch",
            look="`self.training`.",
        )


def low_precision(subject: Subject, draw: Draw) -> None:
    """In a bfloat16 model the loss is still taken in float32."""
    config = _small_config()
    module = subject.module(config)
    _weights(module, draw)
    module.to(torch.bfloat16)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 8)) for _ in range(2))
    logits, loss = _pair(module.forward(idx, targets), "a model in bfloat16")
    facts = dict(tried="a model in bfloat16", look="`.float()` on the logits, before the loss.")
    expected = _cross_entropy(logits.float(), targets)
    if loss.dtype != torch.float32:
        raise Wrong(
            "GPT-LOSS-BF16",
            "the loss is taken in 16 bits",
            **facts,
            expected=f"float32: {expected.item():.5f}",
            got=f"{expect._name(loss.dtype)}: {loss.item():.5f}",
            hides="between 8 and 16, bfloat16 steps by 0.0625.",
        )
    if abs(loss - expected) > 1e-4:
        raise Wrong(
            "GPT-LOSS-BF16",
            "the loss is rounded to 16 bits on the way",
            **facts,
            expected=f"{expected.item():.5f}",
            got=f"{loss.item():.5f}",
        )


SUITES = (
    Suite(
        "gpt-forward",
        (
            pair,
            right_logits,
            right_loss,
            ignored_targets,
            too_long,
            any_layout,
            gradients,
            checkpointing,
            low_precision,
        ),
        proved="logits, loss and gradients equal those of an independent implementation;\n"
        "checkpointing saves memory in training and changes nothing else.",
        remember="the caller shifts, and the first loss is near ln V.",
        next_step="shift once more in the loss, train for a minute, and read what it generates.",
        loads=(DYNAMO,),
    ),
)
