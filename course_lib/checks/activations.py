"""Checks of lesson 17: activation_bytes.

Oracle: each part by arithmetic, for sizes of which no two are equal; then the bytes that autograd
really saves in a small model, by `saved_bytes`.
"""

from collections.abc import Iterable
from typing import Any

import torch

from course_lib.checks import expect
from course_lib.checks.activation_sizes import checkpointing_ignored, other_sizes
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.memory import saved_bytes

PARTS = ("norms", "attention", "mlp", "head")
PRESET = "activations:default"


class ActivationCase:
    """One model and batch: the sizes by letter, and the answer's parts."""

    def __init__(self, subject: Subject, draw: Draw, *, fast: bool = True, size: int | None = None):
        self.config = GPTConfig(
            vocab_size=draw.size(137, 151),
            max_seq_len=64,
            num_layers=draw.size(3, 6),
            num_heads=2,
            d_model=draw.size(24, 28),
            d_hidden=draw.size(44, 52),
            fast_attention=fast,
        )
        self.B, self.T, self.size = draw.size(5, 8), 17, size or 4
        self.N, self.H = self.B * self.T, self.config.num_heads
        self.D, self.F = self.config.d_model, self.config.d_hidden
        self.L, self.V = self.config.num_layers, self.config.vocab_size
        self.tried = (
            f"L {self.L}, D {self.D}, H {self.H}, F {self.F}, V {self.V}; B {self.B}, "
            f"T {self.T}; {'fused' if fast else 'explicit'}, {self.size} bytes a number"
        )
        given = {} if size is None else {"dtype_bytes": size}
        out = subject.call(self.config, self.B, self.T, **given)
        self.found = _four_ints(out, self.tried)

    def expect(
        self,
        part: str,
        right: int,
        one: int,
        params: int,
        patterns: Iterable[tuple[str, int, str, str, str]],
    ) -> None:
        """`part` is `right`. `one`: its value for one sequence; `params`: weights of the part."""
        s = self.size
        general = [
            (
                "BATCH",
                one,
                "one sequence is counted, not the batch",
                "the value for B = 1",
                "`batch`: how many tokens are there?",
            ),
            (
                "ELEMENTS",
                right // 4,
                "numbers are counted, not bytes",
                "a quarter: float32 has 4 bytes",
                "`dtype_bytes`, and what is always float32.",
            ),
            (
                "PARAMETERS",
                right + s * params,
                "the parameters are counted too",
                f"{s * params:,} more, the bytes of this part's weights",
                "weights are there anyway: the docstring leaves them out.",
            ),
        ]
        if part in ("attention", "mlp"):
            general.append(
                (
                    "LAYERS",
                    right // self.L,
                    "one layer is counted",
                    "one of L layers",
                    "`num_layers`.",
                )
            )
        expect.integer(
            self.found[part],
            right,
            [
                Pattern(
                    code=f"ACT-{code}",
                    value=value,
                    finding=f"{part}: {finding}",
                    fits=f"{fits}.",
                    look=look,
                    preset="activations:logits" if part == "head" else PRESET,
                )
                for code, value, finding, fits, look in [*patterns, *general]
            ],
            tried=f"{part}: {self.tried}",
        )


def norms(subject: Subject, draw: Draw) -> None:
    """Input, normalized input, one number a token; 2 L + 1 of them."""
    c = ActivationCase(subject, draw)
    N, D, n = c.N, c.D, 2 * c.L + 1
    kept = 4 * (2 * N * D + N)
    c.expect(
        "norms",
        n * kept,
        n * kept // c.B,
        n * D,
        [
            *(
                (
                    "LAYERS",
                    few * kept,
                    "one layer is counted",
                    f"{few} norms",
                    "how many norms does the whole model have?",
                )
                for few in (1, 2, 3)
            ),
            (
                "NORM-FINAL",
                2 * c.L * kept,
                "the norm before the head is missing",
                "2 L norms",
                "how many norms does the whole model have?",
            ),
            (
                "NORM-COPIES",
                n * 4 * (N * D + N),
                "one tensor of each norm is missing",
                "N D + N numbers",
                "w * (x * r): what do the gradients of w and of x need?",
            ),
            (
                "NORM-COPIES",
                n * 4 * N * D,
                "two tensors of each norm are missing",
                "N D numbers",
                "w * (x * r): what do the gradients of w and of x need?",
            ),
            (
                "NORM-RMS",
                n * 4 * 2 * N * D,
                "the inverse rms is missing",
                "2 N D numbers",
                "w * (x * r): by what is the gradient of x multiplied?",
            ),
            (
                "TWICE",
                n * 4 * (3 * N * D + N),
                "the output is counted here too",
                "3 N D + N numbers",
                "the docstring: a norm's output is the next part's input.",
            ),
            (
                "NORM-RMS-WIDE",
                n * 4 * 3 * N * D,
                "the inverse rms is counted D times",
                "3 N D numbers",
                "`keepdim=True`: how many numbers does one token have there?",
            ),
        ],
    )


def fused_attention(subject: Subject, draw: Draw) -> None:
    """Input, q, k, v, output, and one number per row of scores."""
    c = ActivationCase(subject, draw)
    N, D, L = c.N, c.D, c.L
    wide, lse, square = 4 * N * D, 4 * N * c.H, c.B * c.H * c.T * c.T
    patterns = [
        ("INPUT-TWICE", L * (7 * wide + lse), "the input is counted for each of q, k and v",
         "7 N D instead of 5 N D: three projections keep one tensor",
         "what storage do q_proj, k_proj and v_proj share?"),
        ("NO-OUTPUT", L * (4 * wide + lse), "one tensor of N D is missing", "4 N D",
         "what does the weight gradient of o_proj need?"),
        ("NO-INPUT", L * (3 * wide + lse), "two tensors of N D are missing", "q, k and v alone",
         "what do the weight gradients of q_proj and of o_proj need?"),
        ("NO-LSE", L * 5 * wide, "the log-sum-exp is missing", "5 N D alone",
         "one float32 number for each query of each head."),
        ("LSE-HEADS", L * (5 * wide + 4 * N), "the log-sum-exp is counted for one head", "4 N bytes",
         "each head has its own softmax."),
        ("SQUARE-FUSED", L * (5 * wide + 4 * square), "the fused kernel is given a T x T matrix",
         "the softmax of the explicit attention", "`config.fast_attention`: which branch is which?"),
        ("SQUARE-FUSED", L * (5 * wide + 4 * square + c.T**2), "the fused kernel is given a T x T matrix",
         "softmax and mask of the explicit attention", "`config.fast_attention`: which branch is which?"),
        ("SQUARE-FUSED", L * (5 * wide + lse + 4 * square), "the fused kernel is given a T x T matrix",
         "log-sum-exp and softmax both", "`config.fast_attention`: which branch is which?"),
    ]  # fmt: skip
    one = L * (5 * wide + lse) // c.B
    c.expect("attention", L * (5 * wide + lse), one, L * 4 * D * D, patterns)


def explicit_attention(subject: Subject, draw: Draw) -> None:
    """The softmax of every head and row, and one mask."""
    c = ActivationCase(subject, draw, fast=False)
    L, wide, lse = c.L, 4 * c.N * c.D, 4 * c.N * c.H
    head, mask = 4 * c.B * c.T**2, c.T**2
    right = L * (5 * wide + c.H * head + mask)
    seen = "what does the gradient of the softmax need?"
    c.expect(
        "attention",
        right,
        L * ((5 * wide + c.H * head) // c.B + mask),
        L * 4 * c.D**2,
        [
            ("NO-SQUARE", L * 5 * wide, "the T x T softmax is missing", "5 N D alone", seen),
            (
                "NO-SQUARE",
                L * (5 * wide + mask),
                "the T x T softmax is missing",
                "5 N D and a mask",
                seen,
            ),
            (
                "NO-SQUARE",
                L * (5 * wide + lse),
                "the explicit attention is counted like the fused",
                "5 N D and a log-sum-exp",
                "`config.fast_attention`.",
            ),
            (
                "ONE-HEAD",
                L * (5 * wide + head + mask),
                "one head's softmax is counted",
                "B T T numbers",
                "each of H heads has a T x T matrix.",
            ),
            (
                "NO-MASK",
                L * (5 * wide + c.H * head),
                "the mask is missing",
                "the softmax alone",
                "masked_fill's gradient is 0 where the mask is set: it is kept.",
            ),
            (
                "MASK-WIDE",
                L * (5 * wide + c.H * head + 4 * mask),
                "the mask has bytes, not floats",
                "4 bytes an entry",
                "the dtype of the mask: torch.bool.",
            ),
            (
                "MASK-WIDE",
                L * (5 * wide + c.H * head + c.B * c.H * mask),
                "the mask is counted for every head and row",
                "B H T T entries",
                "one (T, T) mask broadcasts over all.",
            ),
            (
                "SCORES",
                L * (5 * wide + 2 * c.H * head + mask),
                "scores and softmax are both counted",
                "8 B H T T bytes",
                "the softmax's gradient needs its output, not its input.",
            ),
            (
                "INPUT-TWICE",
                L * (7 * wide + c.H * head + mask),
                "the input is counted for q, k and v each",
                "7 N D",
                "what storage do the three projections share?",
            ),
        ],
    )


def mlp(subject: Subject, draw: Draw) -> None:
    """Input, gate, up, silu(gate), the product."""
    c = ActivationCase(subject, draw)
    wide, hidden, L = 4 * c.N * c.D, 4 * c.N * c.F, c.L
    look = "write the gradient of silu(g) * u, then of down_proj: which factors occur?"
    right = L * (wide + 4 * hidden)
    c.expect(
        "mlp",
        right,
        right // c.B,
        L * 3 * c.D * c.F,
        [
            (
                "THREE-HIDDEN",
                L * (wide + 3 * hidden),
                "one hidden tensor is missing",
                "3 N F",
                look,
            ),
            (
                "THREE-HIDDEN",
                L * (wide + 2 * hidden),
                "two hidden tensors are missing",
                "2 N F",
                look,
            ),
            (
                "INPUT-TWICE",
                L * (2 * wide + 4 * hidden),
                "the input is counted for gate and up",
                "2 N D",
                "what storage do gate_proj and up_proj share?",
            ),
            (
                "NO-INPUT",
                L * 4 * hidden,
                "the input is missing",
                "4 N F alone",
                "what does the weight gradient of gate_proj need?",
            ),
            ("FIVE-HIDDEN", L * (wide + 5 * hidden), "one hidden tensor too many", "5 N F", look),
        ],
    )


def head(subject: Subject, draw: Draw) -> None:
    """Input, and the log-softmax."""
    c = ActivationCase(subject, draw)
    wide, logits = 4 * c.N * c.D, 4 * c.N * c.V
    look = "the gradient of the loss is softmax - one-hot: what is it computed from?"
    c.expect(
        "head",
        wide + logits,
        (wide + logits) // c.B,
        c.D * c.V,
        [
            ("NO-LOGSOFTMAX", wide, "the log-softmax is missing", "N D alone", look),
            (
                "NO-INPUT",
                logits,
                "the head's input is missing",
                "N V alone",
                "what does the head's weight gradient need?",
            ),
            (
                "LOGITS-TWICE",
                wide + 2 * logits,
                "logits and log-softmax are both counted",
                "2 N V",
                "the gradient is made from one of the two.",
            ),
            (
                "LAST-TOKEN",
                wide + logits // c.T,
                "one position's logits are counted",
                "B V numbers",
                "in training every position predicts.",
            ),
            (
                "LAYERS",
                c.L * (wide + logits),
                "the head is counted for every layer",
                "L heads",
                "a model has one head.",
            ),
        ],
    )


def sixteen_bits(subject: Subject, draw: Draw) -> None:
    """What stays float32 in a 16-bit model."""
    c = ActivationCase(subject, draw, fast=False, size=2)
    N, D, V, L = c.N, c.D, c.V, c.L
    where = "the docstring: what is in float32 there?"
    c.expect(
        "head",
        2 * N * D + 4 * N * V,
        (2 * N * D + 4 * N * V) // c.B,
        D * V,
        [
            (
                "LOGITS-16",
                2 * N * D + 2 * N * V,
                "the log-softmax is counted in 16 bits",
                "2 N V bytes",
                where,
            ),
            (
                "LOGITS-16",
                2 * N * D + 6 * N * V,
                "the 16-bit logits are counted as well",
                "6 N V bytes",
                "float() makes the copy that is kept; who needs the other?",
            ),
            (
                "DTYPE",
                4 * N * D + 4 * N * V,
                "the dtype has no effect",
                "4 bytes everywhere",
                "`dtype_bytes`.",
            ),
        ],
    )
    n, one = 2 * L + 1, 4 * (2 * N * D + N)
    c.expect(
        "norms",
        n * (one + 4 * D),
        n * (one // c.B + 4 * D),
        n * D,
        [
            *(
                (
                    "NORM-16",
                    n * (kept + gain),
                    "the norms are counted in 16 bits",
                    "2 bytes a number",
                    where,
                )
                for kept in (one // 2, 2 * (2 * N * D + 2 * N))
                for gain in (0, 2 * D, 4 * D)
            ),
            (
                "NORM-GAIN",
                n * one,
                "the float32 copy of the gain is missing",
                "the value of float32",
                where,
            ),
        ],
    )
    square, mask, wide = c.B * c.H * c.T**2, c.T**2, 2 * N * D
    c.expect(
        "attention",
        L * (5 * wide + 6 * square + mask),
        L * ((5 * wide + 6 * square) // c.B + mask),
        L * 4 * D * D,
        [
            (
                "SOFTMAX-16",
                L * (5 * wide + 2 * square + mask),
                "the softmax is counted in 16 bits alone",
                "2 bytes an entry",
                where,
            ),
            (
                "SOFTMAX-16",
                L * (5 * wide + 4 * square + mask),
                "the softmax is counted once",
                "4 bytes an entry",
                "softmax keeps its output; the product with v keeps what it was given.",
            ),
        ],
    )
    c.expect(
        "mlp",
        L * (wide + 8 * N * c.F),
        L * (wide + 8 * N * c.F) // c.B,
        L * 3 * D * c.F,
        [
            (
                "DTYPE",
                L * (4 * N * D + 16 * N * c.F),
                "the dtype has no effect",
                "4 bytes everywhere",
                "`dtype_bytes`.",
            ),
        ],
    )


def sixteen_bits_fused(subject: Subject, draw: Draw) -> None:
    """The log-sum-exp stays float32 in a 16-bit model."""
    c = ActivationCase(subject, draw, size=2)
    wide, rows = 2 * c.N * c.D, c.N * c.H
    right = c.L * (5 * wide + 4 * rows)
    patterns = [
        ("LSE-16", c.L * (5 * wide + few * rows), "the log-sum-exp is counted in 16 bits", fits,
         "the docstring: what is in float32 there?")
        for few, fits in ((2, "2 bytes a row"), (6, "2 and 4 bytes a row"))
    ]  # fmt: skip
    c.expect("attention", right, right // c.B, c.L * 4 * c.D * c.D, patterns)


def as_autograd_counts(subject: Subject, draw: Draw) -> None:
    """The sum on a real model, in both attentions."""
    for fast in (True, False):
        c = ActivationCase(subject, draw, fast=fast)
        model, tokens = GPT(c.config), torch.zeros(c.B, c.T, dtype=torch.long)
        tables = 2 * 4 * c.config.max_seq_len * c.config.head_dim
        real = saved_bytes(model, tokens, tokens.clone()) - tables - 16 * c.N - 4
        expect.integer(sum(c.found.values()), real, tried=f"all parts: {c.tried}")


def _four_ints(out: Any, tried: str) -> dict[str, int]:
    """`out`, if it is a dict of the four parts with whole numbers."""
    expect.not_none(out, "a dict of four numbers", tried=tried)
    if not isinstance(out, dict) or set(out) != set(PARTS):
        got = f"keys {sorted(map(str, out))}" if isinstance(out, dict) else type(out).__name__
        raise Wrong(
            "ACT-PARTS",
            "the result is not the four parts by name",
            tried=tried,
            expected='a dict with "norms", "attention", "mlp" and "head"',
            got=got[:76],
            look="the first line of the docstring.",
        )
    for part in PARTS:
        if isinstance(out[part], bool) or not isinstance(out[part], int):
            raise Wrong(
                "TYPE",
                f"{part} is a {type(out[part]).__name__}",
                tried=tried,
                expected="a whole number of bytes, an int",
                got=f"{out[part]!r}"[:60],
                look="`/` makes a float, `//` keeps an int.",
            )
    return out


SUITES = (
    Suite(
        "activation-bytes",
        (
            norms,
            fused_attention,
            explicit_attention,
            mlp,
            head,
            sixteen_bits,
            sixteen_bits_fused,
            as_autograd_counts,
            other_sizes,
            checkpointing_ignored,
        ),
        tested="equal, to the byte, to what autograd saves in these parts of a real model.",
        remember="with fused attention and F = 8/3 D a block keeps about 21 N D numbers, the loss N V.",
        next_step="at which V does the head keep more than one block? than all blocks?",
    ),
)
