"""Checks of lesson 06: GPT.forward. Those of the loss are in gpt_loss, the oracle is in gpt_oracle."""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_separate_calls
from course_lib.checks.expect import Pattern
from course_lib.checks.gpt_loss import (
    ignored_targets,
    large_logits,
    low_precision,
    many_targets,
    right_loss,
    targets_of_zero,
)
from course_lib.checks.gpt_oracle import (
    cross_entropy,
    draw_model,
    expect_pair,
    logits_of,
    small_config,
)
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite

MODULES = "course_lib.probes.modules"


def pair(subject: Subject, draw: Draw) -> None:
    """(B, T) in, (logits (B, T, V), None) out, with T = max_seq_len and with a shorter T."""
    config = small_config()
    module, V, full = subject.module(config), config.vocab_size, config.max_seq_len
    for T in (full, draw.size(5, 3, 6)):
        idx = draw.randint(0, V, (2, T))
        tried = f"idx of shape (2, {T}), no targets, max_seq_len {full}"
        try:
            out = module.forward(idx)
        except AnswerError as failure:
            raise _explain_error(failure, T, full, tried) or failure from None
        logits, loss = expect_pair(out, tried)
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
    config = small_config(num_layers=draw.size(3, 2, 4), max_seq_len=8)
    module, L = subject.module(config), config.num_layers
    state, idx = (
        draw_model(module, draw),
        draw.randint(0, config.vocab_size, (2, draw.size(6, 4, 7))),
    )
    logits, _ = expect_pair(module.forward(idx), "idx alone")
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


def too_long(subject: Subject, draw: Draw) -> None:
    """T = max_seq_len + 1 is refused with a ValueError."""
    config = small_config()
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
    module = subject.module(small_config())
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


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result follows from its own tokens and targets and from the weights of now, and stays."""
    config = small_config()
    module = subject.module(config)
    state = draw_model(module, draw)
    idx, targets, other = (draw.randint(0, config.vocab_size, (2, 5)) for _ in range(3))
    tried = "tokens with targets, other tokens without, then the first ones again"
    close = dict(rtol=1e-4, atol=1e-3)
    out = expect_separate_calls(module.probe, (idx, targets), (other,), tried=tried, **close)
    logits, loss = expect_pair(out, tried)
    if loss is not None:
        raise Wrong(
            "GPT-LOSS-ALWAYS",
            "a call without targets has the loss of an earlier one",
            tried=tried,
            expected="(logits, None)",
            got=f"loss {loss}"[:60],
            look="what is kept on `self` between two calls.",
        )
    expect.values(
        logits, logits_of(state, config, other), **close, tried=tried,
        finding="the second of two calls is wrong", look="what outlives a call.",
    )  # fmt: skip
    for name in ("embedding.weight", "norm.weight", "head.weight", "blocks.1.mlp.up_proj.weight"):
        state = state | {name: state[name].flip(0)}
        module.load(state)
        out, right = module.forward(idx)[0], logits_of(state, config, idx)
        bad = ~torch.isclose(out, right, **close)
        if bad.any():
            row = tuple(int(i) for i in bad.nonzero()[0, :2])
            raise Wrong(
                "REMEMBERS",
                "other weights give a result of the weights before",
                tried=f"other numbers loaded into {name}, between two calls",
                expected=vector(right[row]),
                got=vector(out[row]),
                hides="every update of the optimizer would be without effect.",
                look="what is kept on `self`, or outside, between two calls.",
            )


def by_name(subject: Subject, draw: Draw) -> None:
    """The arguments have the names of the exercise: idx and targets."""
    module, idx = subject.module(small_config()), draw.randint(0, 23, (2, 5))
    try:
        module.method("forward", idx=idx, targets=idx)
    except AnswerError as failure:
        raise Wrong(
            "GPT-NAMES",
            "an argument has another name",
            tried="model.forward(idx=idx, targets=targets)",
            expected="(logits, loss)",
            got=f"{type(failure.error).__name__}: {failure.error}"[:76],
            look="the line that begins with `def`.",
        ) from None


def gradients(subject: Subject, draw: Draw) -> None:
    """The loss reaches every parameter, with the right gradient, checkpointing on or off."""
    config = small_config(activation_checkpointing=True)
    module = subject.module(config)
    state = draw_model(module, draw)
    idx, targets = (draw.randint(0, config.vocab_size, (2, 6)) for _ in range(2))
    leaves = {n: w.clone().requires_grad_() for n, w in state.items()}
    cross_entropy(logits_of(leaves, config, idx), targets).backward()
    for switch in (False, True):
        module = subject.module(small_config(activation_checkpointing=switch))
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
        module = subject.module(small_config(num_layers=layers, activation_checkpointing=switch))
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
    inputs = 3 * 4 * 8 * small_config().d_model * 4  # of 3 blocks, (4, 8, D) in float32
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


def own_mode(subject: Subject, draw: Draw) -> None:
    """The model's own mode decides about checkpointing, whatever modes its parts are in."""
    config = small_config(num_layers=4, activation_checkpointing=True)
    module, idx = subject.module(config), draw.randint(0, 23, (4, 8))

    def count_kept(own: bool, inside: bool) -> int:
        return module.probe(f"{MODULES}:saved_bytes_in_modes", own, inside, idx, idx)

    for own, words in ((True, "in training"), (False, "in eval mode")):
        same, mixed = count_kept(own, own), count_kept(own, not own)
        if not 0.9 * same < mixed < 1.1 * same:
            raise Wrong(
                "GPT-CHECKPOINT-MODE",
                "the mode of another module decides about checkpointing",
                tried=f"activation_checkpointing; the model {words}, all its parts not",
                expected=f"{same / 1e3:.1f} kB kept for the backward pass, as with parts {words}",
                got=f"{mixed / 1e3:.1f} kB",
                hides="a frozen block in eval mode would keep all of its inside.",
                look="whose `training` is asked: that of `self`.",
            )


SUITES = (
    Suite(
        "gpt-forward",
        (
            pair,
            right_logits,
            right_loss,
            ignored_targets,
            targets_of_zero,
            many_targets,
            each_call_alone,
            large_logits,
            by_name,
            too_long,
            any_layout,
            gradients,
            checkpointing,
            own_mode,
            low_precision,
        ),
        tested="logits, loss and gradients equal those of an independent implementation; "
        "checkpointing saves memory in training and changes none of them.",
        remember="the caller shifts, and the first loss is near ln V.",
        next_step="shift once more in the loss, train for a minute, and read what it generates.",
        loads=(DYNAMO,),
    ),
)
