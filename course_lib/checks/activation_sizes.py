"""The last checks of activation_bytes: other models and batches, one after another.

Oracle: `count_kept`, which lists what each operation keeps, as (numbers, bytes of each).
"""

from dataclasses import replace

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw
from course_lib.gpt import GPTConfig


def count_kept(config: GPTConfig, B: int, T: int, size: int) -> dict[str, int]:
    """The bytes of each part, tensor by tensor."""
    D, F, H, N = config.d_model, config.d_hidden, config.num_heads, B * T
    rows, narrow = B * H * T, size < 4
    norm = [(N * D, 4), (N * D, 4), (N, 4), (D * narrow, 4)]
    wide = [(N * D, size)] * 5
    softmax = [(rows * T, 4), (rows * T * narrow, size), (T * T, 1)]
    parts = {
        "norms": norm + 2 * config.num_layers * norm,
        "attention": (wide + ([(rows, 4)] if config.fast_attention else softmax))
        * config.num_layers,
        "mlp": [(N * D, size), *[(N * F, size)] * 4] * config.num_layers,
        "head": [(N * D, size), (N * config.vocab_size, 4)],
    }
    return {part: sum(n * each for n, each in kept) for part, kept in parts.items()}


def other_sizes(subject: Subject, draw: Draw) -> None:
    """Another batch of the same model, one token, sequences of full length, counts above 2^53."""
    base = GPTConfig(vocab_size=137, max_seq_len=64, num_layers=draw.size(3, 6), num_heads=2,
                     d_model=24, d_hidden=44, tie_embeddings=False)  # fmt: skip
    heads = draw.size(3, 5)
    own = replace(base, num_heads=heads, num_kv_heads=heads, d_model=8 * heads, num_layers=1)
    narrow = replace(own, d_hidden=7, vocab_size=5, fast_attention=False)
    far = 2**20 + 1
    long = replace(narrow, max_seq_len=far)
    cases = (
        (base, draw.size(5, 8), 17, 4),
        (base, draw.size(3, 2), 17, 4),
        (base, draw.size(5, 8), 64, 4),
        (base, 1, 1, 2),
        (own, 1, 64, 2),
        (narrow, 2, 1, 2),
        (narrow, 7, 64, 4),
        (long, 2**24 + 1, far, 4),
        (replace(long, fast_attention=True), 2**37 + 1, far, 2),
    )
    before: tuple[GPTConfig, int, int, int] | None = None
    for case in cases:
        config, B, T, size = case
        found = subject.call(config, B, T, dtype_bytes=size)
        right = count_kept(*case)
        tried = (
            f"L {config.num_layers}, D {config.d_model}, H {config.num_heads}, "
            f"F {config.d_hidden}, V {config.vocab_size}; B {B:,}, T {T:,}; "
            f"{'fused' if config.fast_attention else 'explicit'}, {size} bytes a number"
        )
        expect.dict_of(found, tuple(right), "ACT-PARTS", tried=tried)
        for part, wanted in right.items():
            patterns = [] if before is None else _bend(part, case, before)
            if part == "head":
                patterns.append(
                    Pattern(
                        code="ACT-PARAMETERS",
                        value=wanted + size * config.d_model * config.vocab_size,
                        finding="head: the parameters are counted too",
                        fits="the head's matrix, counted where the embedding is another one.",
                        look="weights are there anyway: the docstring leaves them out.",
                    )
                )
            rounded = found[part]
            if isinstance(rounded, int) and 0 < abs(rounded - wanted) < wanted / 10**6:
                patterns.append(
                    Pattern(
                        code="ACT-ROUNDED",
                        value=rounded,
                        finding=f"{part}: a large count is rounded",
                        fits="a float on the way, which keeps about 16 digits, or 7 in float32.",
                        look="`/`, `float`, a number with a point, a tensor.",
                    )
                )
            expect.integer(rounded, wanted, patterns, tried=f"{part}: {tried}")
        before = case


def checkpointing_ignored(subject: Subject, draw: Draw) -> None:
    """A config that asks for activation checkpointing gets the count without it."""
    config = GPTConfig(vocab_size=61, max_seq_len=32, num_layers=draw.size(3, 4), num_heads=2,
                       d_model=16, d_hidden=40, activation_checkpointing=True)  # fmt: skip
    found, right = subject.call(config, 2, 9, dtype_bytes=4), count_kept(config, 2, 9, 4)
    if found != right:
        raise Wrong(
            "ACT-CHECKPOINTED",
            "the count is another one when config asks for checkpointing",
            tried="a config with activation_checkpointing=True",
            expected=str(right),
            got=f"{found}"[:150],
            look="the docstring: activation checkpointing is off, whatever `config` says.",
        )


def _bend(
    part: str, case: tuple[GPTConfig, int, int, int], before: tuple[GPTConfig, int, int, int]
) -> list[Pattern]:
    """What an answer gives for `part` that keeps something of the call before."""
    config, B, T, size = case
    last, last_B, last_T, last_size = before
    return [
        Pattern(
            code="ACT-REMEMBERS",
            value=count_kept(*other)[part],
            finding=f"{part}: the count is that of the call before",
            fits="a result kept by a part of what it depends on.",
            look="what is stored outside the function, and `cache`.",
        )
        for other in (
            before,
            (last, B, T, size),
            (config, last_B, T, size),
            (config, B, last_T, size),
            (config, B, T, last_size),
        )
    ]
