"""Checks of lesson 13, work in a token: flops_per_token.

Oracle: arithmetic for small shapes, and for a large one the number torch's FlopCounterMode gave.
"""

from course_lib.checks import expect
from course_lib.checks.calls import expect_arguments_alone
from course_lib.checks.expect import Pattern
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPTConfig


def _odd_config(draw: Draw, **changes) -> GPTConfig:
    """Sizes of which no two are equal, so that a confusion shows."""
    shape = dict(
        vocab_size=137,
        max_seq_len=64,
        num_layers=draw.size(5, 7),
        num_heads=4,
        d_model=24,
        d_hidden=draw.size(44, 52),
        tie_embeddings=False,
    )
    return GPTConfig(**(shape | changes))


def _sizes(config: GPTConfig) -> tuple[int, int, int, int]:
    return config.num_layers, config.d_model, config.d_hidden, config.vocab_size


def whole_number(subject: Subject, draw: Draw) -> None:
    """A small model, every term by hand."""
    config, T = _odd_config(draw), 17  # the next check has other lengths
    L, D, H, V = _sizes(config)
    block, head, attention = 4 * D * D + 3 * D * H, D * V, 12 * L * D * T
    n = L * block + head
    tried = f"L {L}, D {D}, F {H}, V {V}, T {T}: {n:,} matmul parameters, 12 L D T = {attention:,}"
    expect.integer(
        subject.call(config, T),
        6 * n + attention,
        [
            *(
                Pattern(
                    code="FLOPS-FORWARD",
                    value=v,
                    finding="only the forward pass is counted",
                    fits="2 per parameter; the backward pass costs twice as much again.",
                    look="the factor in front of the parameters.",
                )
                for v in (2 * n + attention, 2 * n + attention // 3)
            ),
            *(
                Pattern(
                    code="FLOPS-BACKWARD",
                    value=v,
                    finding="only the backward pass is counted",
                    fits="4 per parameter.",
                    look="the factor in front of the parameters.",
                )
                for v in (4 * n + attention, 4 * n + 2 * attention // 3)
            ),
            *(
                Pattern(
                    code="FLOPS-MACS",
                    value=v,
                    finding="multiply-adds are counted, not FLOPs",
                    fits="3 per parameter: half of 6.",
                    look="a multiply-add is 2 FLOPs.",
                )
                for v in (3 * n + attention, 3 * n + attention // 2)
            ),
            Pattern(
                code="FLOPS-NO-ATTENTION",
                value=6 * n,
                finding="attention's own products are missing",
                fits="6 N alone.",
                look="the term with `seq_len`.",
            ),
            Pattern(
                code="FLOPS-CAUSAL-HALF",
                value=6 * n + attention // 2,
                finding="attention counts half",
                fits="6 L D T, the causal half.",
                look="the docstring: future tokens are included.",
            ),
            Pattern(
                code="FLOPS-ATTENTION-FORWARD",
                value=6 * n + attention // 3,
                finding="attention's backward pass is missing",
                fits="4 L D T.",
                look="the factor of the second term.",
            ),
            Pattern(
                code="FLOPS-ATTENTION-SQUARE",
                value=6 * n + attention * T,
                finding="attention is counted per sequence",
                fits="12 L D T^2.",
                look="per token: how many keys does one query meet?",
            ),
            Pattern(
                code="FLOPS-ONE-LAYER",
                value=6 * n + attention // L,
                finding="attention is counted for one layer",
                fits="12 D T.",
                look="the second term.",
            ),
            Pattern(
                code="FLOPS-ONE-LAYER",
                value=6 * (block + head) + attention,
                finding="the blocks are counted once",
                fits="one block instead of L.",
                look="`num_layers`.",
            ),
            Pattern(
                code="FLOPS-HEADS",
                value=6 * n + 12 * L * config.head_dim * T,
                finding="attention is counted for one head",
                fits="12 L K T.",
                look="all heads together have width d_model.",
            ),
            *(
                Pattern(
                    code="FLOPS-NO-HEAD",
                    value=6 * (n - head) + a,
                    finding="the head is missing",
                    fits="parameters of the blocks alone.",
                    look="the D x V product at the end.",
                )
                for a in (attention, 0)
            ),
            *(
                Pattern(
                    code="FLOPS-LOOKUP",
                    value=6 * (n + head + gains) + attention,
                    finding="the embedding is counted as a product",
                    fits="V x D more: a look-up copies a row and multiplies nothing.",
                    look="which of the two V x D matrices is multiplied with a token.",
                )
                for gains in (0, (2 * L + 1) * D)
            ),
            Pattern(
                code="FLOPS-GAINS",
                value=6 * (n + (2 * L + 1) * D) + attention,
                finding="norm gains are counted",
                fits="(2 L + 1) D parameters more.",
                look="the docstring: matrices only.",
            ),
            Pattern(
                code="FLOPS-TWO-MATRICES",
                value=6 * (n - L * D * H) + attention,
                finding="the MLP has three matrices",
                fits="2 D F per block.",
                look="gate, up and down.",
            ),
            Pattern(
                code="FLOPS-THREE-PROJECTIONS",
                value=6 * (n - L * D * D) + attention,
                finding="attention has four matrices",
                fits="3 D^2 per block.",
                look="q, k, v and o.",
            ),
        ],
        tried=tried,
    )


def follows_length(subject: Subject, draw: Draw) -> None:
    """Longer sequences cost more per token, in proportion to their length."""
    config = _odd_config(draw)
    L, D, _, _ = _sizes(config)
    short, long = (expect_int(subject.call(config, T)) for T in (10, 40))
    expect.integer(
        long - short,
        12 * L * D * 30,
        [
            Pattern(
                code="FLOPS-FIXED-LENGTH",
                value=0,
                finding="the length has no effect",
                fits="a fixed length, such as max_seq_len.",
                look="`seq_len`.",
            ),
        ],
        tried="the same model at T = 40 minus T = 10",
    )
    T = 4 * config.max_seq_len
    beyond = expect_int(subject.call(config, T))
    if beyond == expect_int(subject.call(config, config.max_seq_len)):
        raise Wrong(
            "FLOPS-CLAMPED",
            "beyond max_seq_len the length has no effect",
            tried=f"T = {T}, max_seq_len {config.max_seq_len}",
            expected=f"the count for {T} tokens: it is asked for, not run",
            got="that of max_seq_len",
            look="`min`, and where `max_seq_len` is read.",
        )
    expect.integer(beyond - short, 12 * L * D * (T - 10), tried=f"T = {T} minus T = 10")


def expect_int(out) -> int:
    """`out`, if it is an int."""
    expect.integer(out, out if isinstance(out, int) else 0)
    return out


def tied_head(subject: Subject, draw: Draw) -> None:
    """The head is a product, tied or not."""
    T = 16
    separate, shared = (
        expect_int(subject.call(_odd_config(Draw(draw.seed), tie_embeddings=t), T))
        for t in (False, True)
    )
    if separate != shared:
        raise Wrong(
            "FLOPS-TIED",
            "a tied model is said to cost another amount",
            tried="the same shape, tie_embeddings False and True",
            expected=f"{separate:,} twice: the head is multiplied either way",
            got=f"{separate:,} and {shared:,}",
            look="`tie_embeddings` changes what is stored, not what is multiplied.",
        )


def all_params(subject: Subject, draw: Draw) -> None:
    """convention="all": every parameter, a tied matrix once."""
    for tie in (False, True):
        config, T = _odd_config(Draw(draw.seed), tie_embeddings=tie), 16
        L, D, H, V = _sizes(config)
        n, table, gains = L * (4 * D * D + 3 * D * H) + D * V, 0 if tie else D * V, (2 * L + 1) * D
        attention = 12 * L * D * T
        expect.integer(
            subject.call(config, T, convention="all"),
            6 * (n + table + gains) + attention,
            [
                Pattern(
                    code="FLOPS-CONVENTION",
                    value=6 * n + attention,
                    finding="the convention has no effect",
                    fits='the number for "matmul".',
                    look="where `convention` is used.",
                ),
                Pattern(
                    code="FLOPS-TIED-TWICE",
                    value=6 * (n + D * V + gains) + attention,
                    finding="a tied matrix is counted twice",
                    fits="V x D for each of its two names.",
                    look="`num_params(config)`.",
                ),
                Pattern(
                    code="FLOPS-ALL-GAINS",
                    value=6 * (n + table) + attention,
                    finding="the norm gains are missing",
                    fits="matrices alone.",
                    look="`num_params(config)`.",
                ),
            ],
            tried=f'convention="all", tie_embeddings={tie}',
        )


def edges(subject: Subject, draw: Draw) -> None:
    """No token before it, one, and so many that only whole numbers are exact; words by place too."""
    config = _odd_config(draw)
    L, D, H, V = _sizes(config)
    params = 6 * (L * (4 * D * D + 3 * D * H) + D * V)
    for T in (0, 1):
        tried, right = f"T = {T}", params + 12 * L * D * T
        out = expect_int(subject.call(config, T))
        if out != right:
            raise Wrong(
                "FLOPS-EDGES",
                f"a length of {T} counts as another",
                tried=tried,
                expected=f"{right:,}: 6 per parameter, plus 12 L D T = {12 * L * D * T:,}",
                got=f"{out:,}",
                fits="a 0 taken for no length." if T == 0 else "",
                look="`or`, and conditions on `seq_len`.",
            )
    for T in (2**53 + 1, 2**70 + 1):
        out, right = expect_int(subject.call(config, T)), params + 12 * L * D * T
        if out != right:
            raise Wrong(
                "FLOPS-ROUNDED",
                "the last digits are lost",
                tried=f"T = {T:,}",
                expected=f"{right:,}",
                got=f"{out:,}",
                fits="a float on the way, or integers of 64 bits.",
                look="`float`, `/`, numbers with a point: whole numbers of Python are exact.",
            )
    wide = _odd_config(
        Draw(draw.seed), d_model=999_999_984, d_hidden=999_999_999, vocab_size=999_999_999
    )
    _, wide_D, F, wide_V = _sizes(wide)
    block = 4 * wide_D * wide_D + 3 * wide_D * F
    right = 6 * (L * block + wide_D * wide_V) + 12 * L * wide_D * 16
    out = expect_int(subject.call(wide, 16))
    if out != right:
        raise Wrong(
            "FLOPS-ROUNDED",
            "with very wide matrices the count is another one",
            tried=f"L {L}, D {wide_D:,}, F {F:,}, V {wide_V:,}, T 16",
            expected=f"{right:,}",
            got=f"{out:,}",
            fits="a float on the way, or integers of 64 bits.",
            look="`float`, `/`, tensors: whole numbers of Python are exact.",
        )
    by_place = subject.call(config, 16, "all")
    expect.integer(by_place, subject.call(config, 16, convention="all"), tried='"all" by place')
    by_name = subject.call(config=config, seq_len=16, convention="matmul")
    expect.integer(by_name, params + 12 * L * D * 16, tried='convention="matmul", all by name')


def arguments_alone(subject: Subject, draw: Draw) -> None:
    """A token costs the same, however many devices there are."""
    for convention in ("matmul", "all"):
        expect_arguments_alone(
            subject.probe, [_odd_config(draw), 16, convention], tried=f"T = 16, {convention}"
        )


def refuses(subject: Subject, draw: Draw) -> None:
    """Another convention is a ValueError, be it near one of the two or empty."""
    for word in ("nanogpt", "mat", "al", "", "allparams", "matmul_all", "ALL"):
        facts = dict(
            tried=f'convention="{word}"',
            expected="a ValueError that names the two conventions",
            look="the end of the docstring: the word is one of the two, letter by letter.",
        )
        try:
            out = subject.call(_odd_config(Draw(draw.seed)), 16, convention=word)
        except AnswerError as failure:
            if isinstance(failure.error, ValueError):
                continue
            got = f"{type(failure.error).__name__}: {failure.error}"[:76]
            raise Wrong(
                "FLOPS-UNKNOWN", "an unknown convention fails with another error", got=got, **facts
            ) from None
        raise Wrong(
            "FLOPS-UNKNOWN",
            "an unknown convention is accepted",
            got=str(out)[:60],
            fits='`in ("matmul")`, which asks about parts of one word.' if word == "mat" else "",
            **facts,
        )


def large_model(subject: Subject, draw: Draw) -> None:
    """The 134m preset at T = 512, as torch's FlopCounterMode counted it."""
    expect.integer(
        subject.call(GPTConfig.preset("134m"), 512),
        713_687_040,
        tried="preset 134m, T = 512; counted by torch's FlopCounterMode",
    )


SUITES = (
    Suite(
        "count-flops",
        (
            whole_number,
            follows_length,
            tied_head,
            all_params,
            edges,
            arguments_alone,
            refuses,
            large_model,
        ),
        ranks=1,
        tested="equal to the formula for small shapes, and to torch's own count for 134m.",
        remember="6 FLOPs per matmul parameter and token, plus 12 L D T for attention.",
        next_step="at which T does attention cost as much as the parameters?",
    ),
)
