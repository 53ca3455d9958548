"""Checks of lesson 06: GPT._init_weights.

Oracle: the standard deviation of each matrix, known to a few percent from its own numbers.
"""

import math

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPTConfig

BASE = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
RESIDUAL = ("o_proj", "down_proj")
STD = 0.02
SMALL = "course_lib.probes.first_weights:draw_small"
OTHERS = "course_lib.probes.first_weights:draw_modules"
WITH_BIAS = "course_lib.probes.modules:init_with_bias"
PRESETS = {"INIT-NO-RESIDUAL": "init:no-residual-scaling", "INIT-STD-1": "init:std-one"}


def _wide_config(draw: Draw, **changes) -> GPTConfig:
    """Matrices of 4,096 numbers or more: a standard deviation is then known to about a percent."""
    shape = dict(vocab_size=128, max_seq_len=8, num_heads=2, d_model=64, d_hidden=80)
    return GPTConfig(**(shape | dict(num_layers=draw.size(3, 9), tie_embeddings=False) | changes))


def draws_weights(subject: Subject, draw: Draw) -> None:
    """The model can be built; names and shapes stay; every weight is finite; tied stays tied."""
    state = subject.module(_wide_config(draw, tie_embeddings=True), seed=draw.seed).state()
    for name, value in state.items():
        expect.not_finite(value, tried=name)
    if not torch.equal(state["embedding.weight"], state["head.weight"]):
        raise Wrong(
            "INIT-UNTIED",
            "embedding and head are two matrices now",
            tried="tie_embeddings = True",
            expected="one matrix under two names",
            got="embedding.weight and head.weight hold different numbers",
            look="in place (`nn.init.normal_`), or a new tensor in place of the old one?",
        )


def base_std(subject: Subject, draw: Draw) -> None:
    """Linears that do not write into the residual stream: normal, mean 0, std 0.02."""
    config = _wide_config(draw)
    state = subject.module(config, seed=draw.seed).state()
    factor = 1 / math.sqrt(2 * config.num_layers)
    for name, w in _weights_of_kinds(state, BASE):
        fan_out, fan_in = w.shape
        _std(
            name,
            w,
            STD,
            (
                (
                    "INIT-DEFAULT",
                    1 / math.sqrt(3 * fan_in),
                    "the Linears still have torch's default",
                    "uniform in +-1/sqrt(fan in), what `nn.Linear` draws by itself.",
                    "which modules the `isinstance` line lets through.",
                ),
                (
                    "INIT-STD-1",
                    1.0,
                    "the weights are fifty times too large",
                    "`normal_` without its `std`.",
                    "the arguments of `nn.init.normal_`.",
                ),
                (
                    "INIT-VARIANCE",
                    math.sqrt(STD),
                    "the weights are too large",
                    "0.02 taken as the variance: its root is 0.1414.",
                    "standard deviation against variance.",
                ),
                (
                    "INIT-XAVIER",
                    math.sqrt(2 / (fan_in + fan_out)),
                    "the std depends on the matrix's shape",
                    "Xavier: sqrt(2 / (fan in + fan out)).",
                    "0.02 is a constant here.",
                ),
                (
                    "INIT-XAVIER",
                    math.sqrt(2 / fan_in),
                    "the std depends on the matrix's shape",
                    "Kaiming: sqrt(2 / fan in).",
                    "0.02 is a constant here.",
                ),
                (
                    "INIT-SCALED-ALL",
                    STD * factor,
                    "every Linear is scaled down",
                    "0.02 / sqrt(2 L) everywhere, not for residual projections alone.",
                    "`writes_residual`: which two Linears of a block have it?",
                ),
                (
                    "INIT-UNIFORM",
                    STD / math.sqrt(3),
                    "the weights are too small",
                    "uniform in +-0.02, whose std is 0.0115.",
                    "`uniform_` against `normal_`.",
                ),
                (
                    "INIT-CONSTANT",
                    0.0,
                    "all numbers of a matrix are equal",
                    "a constant: all outputs of a layer are then equal and stay so.",
                    "`nn.init.normal_`.",
                ),
            ),
            expected="0.02",
        )
        if w.abs().max() < 2 * STD:  # of 4,096 normal numbers, 186 lie beyond 2 std on average
            raise Wrong(
                "INIT-UNIFORM",
                "no number lies beyond 2 standard deviations",
                tried=name,
                expected="4.6 percent beyond 2 std, as in a normal distribution",
                got=f"largest |w| {number(w.abs().max().item())}, std {number(w.std().item())}",
                fits="a uniform distribution of that std.",
                look="`uniform_` against `normal_`.",
            )


def tables_std(subject: Subject, draw: Draw) -> None:
    """Embedding and head: std 0.02 too, tied or not."""
    state = subject.module(_wide_config(draw), seed=draw.seed).state()
    _std(
        "embedding.weight, not tied",
        state["embedding.weight"],
        STD,
        (
            (
                "INIT-EMBEDDING",
                1.0,
                "the embedding still has torch's default",
                "std 1, what `nn.Embedding` draws by itself.",
                "is an `nn.Embedding` an `nn.Linear`?",
            ),
            (
                "INIT-EMBEDDING",
                64**-0.5,
                "the embedding has another std",
                "1 / sqrt(d_model).",
                "0.02 is a constant here.",
            ),
        ),
        expected="0.02",
    )
    _std(
        "head.weight, not tied",
        state["head.weight"],
        STD,
        (
            (
                "INIT-HEAD",
                1 / math.sqrt(3 * 64),
                "the head still has torch's default",
                "uniform in +-1/sqrt(fan in).",
                "which Linears are left out.",
            ),
            (
                "INIT-HEAD",
                0.0,
                "the head is zero",
                "a zero head: the first loss is ln V exactly, but the\ndocstring asks for a draw.",
                "which Linears are treated apart.",
            ),
        ),
        expected="0.02",
    )


def residual_std(subject: Subject, draw: Draw) -> None:
    """o_proj and down_proj: 0.02 / sqrt(2 L)."""
    config = _wide_config(draw)
    L = config.num_layers
    state = subject.module(config, seed=draw.seed).state()
    wanted = STD / math.sqrt(2 * L)
    named = _weights_of_kinds(state, RESIDUAL)
    stds = {name.split(".")[-2]: w.std().item() for name, w in named}
    _std_of_one(stds, wanted, L)
    fixed = tuple(
        (
            "INIT-FIXED-DEPTH",
            STD / math.sqrt(2 * k),
            "the scale does not follow num_layers",
            f"0.02 / sqrt({2 * k}), as for {k} layers.",
            "`self.config.num_layers`.",
        )
        for k in (4, 6, 12, 24, 48)
    )
    for name, w in named:
        _std(
            name,
            w,
            wanted,
            (
                (
                    "INIT-NO-RESIDUAL",
                    STD,
                    "residual projections are not scaled down",
                    "0.02, as elsewhere.",
                    "`writes_residual`, and where `std` is changed.",
                ),
                (
                    "INIT-ROOT-L",
                    STD / math.sqrt(L),
                    "the scale misses a factor",
                    "0.02 / sqrt(L): a block adds to the stream twice, so 2 L terms add up.",
                    "how many terms are summed by the last layer.",
                ),
                (
                    "INIT-NO-ROOT",
                    STD / (2 * L),
                    "residual projections are scaled down too far",
                    "0.02 / (2 L): independent terms add in the square, so a root belongs there.",
                    "`math.sqrt`.",
                ),
                (
                    "INIT-NO-ROOT",
                    STD / L,
                    "residual projections are scaled down too far",
                    "0.02 / L: independent terms add in the square, so a root belongs there.",
                    "`math.sqrt`.",
                ),
                (
                    "INIT-UPSCALED",
                    STD * math.sqrt(2 * L),
                    "residual projections are scaled up",
                    "0.02 times sqrt(2 L).",
                    "division or multiplication.",
                ),
                (
                    "INIT-ZERO-RESIDUAL",
                    0.0,
                    "residual projections are zero",
                    "zeros: a choice of other models; the docstring asks for a draw.",
                    "the std.",
                ),
                *fixed,
            ),
            expected=f"0.02 / sqrt(2 * {L}) = {number(wanted)}",
        )


def normal_shape(subject: Subject, draw: Draw) -> None:
    """Of each kind as many numbers lie far from 0 as of a normal distribution, and none is cut off.

    24,576 numbers or more of a kind: 34 lie beyond 3.2 std on average; that none does has a chance of
    1e-14, and 10 standard errors less still.
    """
    state = subject.module(
        _wide_config(draw, vocab_size=1024, num_layers=6), seed=draw.seed
    ).state()
    for kind in (*BASE, *RESIDUAL, "embedding", "head"):
        w = torch.cat([w.flatten() for _, w in _weights_of_kinds(state, (kind,))])
        sizes, n = w.abs() / w.std(), w.numel()
        for far in (3.2, 2, 1):
            wanted = math.erfc(far / math.sqrt(2))
            share = (sizes > far).float().mean().item()
            if share and abs(share - wanted) < 10 * math.sqrt(wanted * (1 - wanted) / n):
                continue
            raise Wrong(
                "INIT-NOT-NORMAL",
                "the weights are not normally distributed",
                tried=f"{n:,} numbers of {kind}, 6 layers; std {number(w.std().item())}",
                expected=f"{wanted:.2%} of them beyond {far} std",
                got=f"{share:.2%} beyond {far} std; the largest is {number(sizes.max().item())} std",
                fits="" if share else "a distribution that is cut off.",
                look="`trunc_normal_`, `clamp`, or another distribution of that std.",
            )


def gains_stay(subject: Subject, draw: Draw) -> None:
    """Norm gains are 1 after the call."""
    state = subject.module(_wide_config(draw), seed=draw.seed).state()
    for name, gain in state.items():
        if "norm" in name and not torch.equal(gain, torch.ones_like(gain)):
            raise Wrong(
                "INIT-GAINS",
                "norm gains were changed",
                tried=name,
                expected="[1, 1, 1, 1, ...]",
                got=vector(gain, 4),
                fits="a draw for every module that has a `weight`.",
                hides="a gain near 0 mutes its whole branch.",
                look="the `isinstance` line: RMSNorm is neither Linear nor Embedding.",
            )


def biases(subject: Subject, draw: Draw) -> None:
    """The bias of a Linear, where there is one, is 0 after the call."""
    found = subject.module(_wide_config(draw), seed=draw.seed).probe(WITH_BIAS)
    if not torch.equal(found, torch.zeros_like(found)):
        raise Wrong(
            "INIT-BIAS",
            "a bias is not 0",
            tried="a Linear whose bias is [3, 3, 3, 3, 3], given to _init_weights",
            expected="[0, 0, 0, 0, 0]",
            got=vector(found),
            hides="the course's Linears have none, those of other models do.",
            look="`module.bias`, which may be None.",
        )


def other_modules(subject: Subject, draw: Draw) -> None:
    """Any Linear and any Embedding, subclasses too, in place; what is frozen stays so."""
    config = _wide_config(draw)
    found = subject.module(config, seed=draw.seed).probe(OTHERS)
    for kind, told in found.items():
        tried = f"{kind}, 64 x 64, given to _init_weights"
        scaled, weight = "with writes_residual" in kind, told["weight"]
        wanted = STD / math.sqrt(2 * config.num_layers) if scaled else STD
        words = f"0.02 / sqrt(2 * {config.num_layers})" if scaled else "0.02"
        # 4,096 numbers: 7 percent are 6 standard errors
        if abs(weight.float().std().item() / wanted - 1) > 0.07:
            narrow = weight.float().std().item() * math.sqrt(2 * config.num_layers) / STD
            by_attribute = scaled or ("writes_residual" in kind and abs(narrow - 1) < 0.07)
            named = "INIT-NAMES" if by_attribute else "OTHER"
            code = "INIT-SUBCLASS" if "subclass" in kind else named
            raise Wrong(
                code,
                f"{kind} is drawn otherwise",
                tried=tried,
                expected=f"std {number(wanted)}: {words}",
                got=f"std {number(weight.float().std().item())}",
                fits={
                    "INIT-SUBCLASS": "an exact comparison of types.",
                    "INIT-NAMES": "names of parts in place of the attribute."
                    if scaled
                    else "`hasattr`: the attribute may be there and say no.",
                }.get(code, ""),
                look="`isinstance`, and `getattr(module, ...)`.",
            )
        if not weight.any(dim=1).all():
            raise Wrong(
                "INIT-PADDING",
                "a row of zeros is left out of the draw",
                tried=tried,
                expected="64 rows with std 0.02, the padding row too",
                got=f"row {weight.any(dim=1).tolist().index(False)} is [0, 0, 0, ...]",
                look="what is done with `padding_idx`.",
            )
        bias = told["bias"]
        if bias is not None and bias.any():
            raise Wrong(
                "INIT-BIAS",
                f"the bias of {kind} is not 0",
                tried=tried,
                expected="[0, 0, 0, ...]",
                got=vector(bias, 3),
                look="`isinstance`, and `module.bias`.",
            )
        parts = ["weight", "bias"] if bias is not None else ["weight"]
        other = [name for name in parts if name not in told["same"]]
        moved = [name for name in parts if name not in told["in_place"]]
        if other or moved or weight.dtype != _dtype_of(kind):
            raise Wrong(
                "INIT-PLACE",
                f"the {(other + moved + parts)[0]} is a new tensor, not the old one with new numbers",
                tried=tried,
                expected=f"the same parameter in the same memory, in {str(_dtype_of(kind))[6:]}",
                got=f"{'another parameter' if other else 'other memory'}, "
                f"in {str(weight.dtype)[6:]}",
                hides="an optimizer, a tied head or a hook would hold on to the old one.",
                look="`nn.init.normal_`, or `copy_`: what ends in an underscore.",
            )
        if any(name not in told["trains"] for name in parts):
            raise Wrong(
                "INIT-FROZEN",
                "`requires_grad` was changed",
                tried=tried,
                expected="weight and bias frozen as before, or not frozen as before",
                got="the other one",
                look="`requires_grad_`, and what is computed without `no_grad`.",
            )


def small_matrices(subject: Subject, draw: Draw) -> None:
    """The numbers of a matrix are drawn one by one: those of a Linear of two are not opposites."""
    count = 400
    weights = subject.module(_wide_config(draw), seed=draw.seed).probe(SMALL, count)
    found, wanted = weights.mean(1).std().item(), STD / math.sqrt(2)
    if abs(found / wanted - 1) > 0.25:  # 400 means: 7 standard errors
        raise Wrong(
            "INIT-DEPENDENT",
            "the numbers of one matrix depend on each other",
            tried=f"{count} Linears with two weights each; the mean of each pair",
            expected=f"std 0.02 / sqrt(2) = {number(wanted)}",
            got=f"std {number(found)}",
            fits="a matrix that is centered or rescaled after the draw." if found < wanted else "",
            look="everything that is done after the draw.",
        )


def _dtype_of(kind: str) -> torch.dtype:
    return torch.float64 if "float64" in kind else torch.float32


def independent_draws(subject: Subject, draw: Draw) -> None:
    """Each matrix is a draw of its own, and follows torch's seed."""
    config = _wide_config(draw)
    first = subject.module(config, seed=draw.seed).state()
    q, k = (first[f"blocks.0.attention.{name}.weight"] for name in ("q_proj", "k_proj"))
    if torch.equal(q, k):
        raise Wrong(
            "INIT-SAME",
            "two matrices hold the same numbers",
            tried="q_proj and k_proj",
            expected="two draws",
            got=f"both begin {vector(q[0], 3)}",
            fits="a seed that is set again for every module.",
            look="`manual_seed`.",
        )
    for i, (one, w) in enumerate(first.items()):
        for two in list(first)[:i]:
            if w.dim() > 1 and first[two].shape == w.shape and torch.equal(first[two], w):
                raise Wrong(
                    "INIT-SAME",
                    "two matrices hold the same numbers",
                    tried=f"{two} and {one}",
                    expected="two draws",
                    got=f"both begin {vector(w[0], 3)}",
                    fits="numbers that are copied, or kept and used again.",
                    look="where the numbers of the second one come from.",
                )
    again, other = (subject.module(config, seed=draw.seed + n).state() for n in (0, 1))
    name = "blocks.0.attention.q_proj.weight"
    if torch.equal(first[name], other[name]):
        raise Wrong(
            "INIT-SAME",
            "the seed has no effect",
            tried="torch.manual_seed(0), then (1)",
            expected="other numbers",
            got=f"both begin {vector(first[name][0], 3)}",
            fits="a generator with a seed of its own.",
            look="`manual_seed`, `generator=`.",
        )
    if not torch.equal(first[name], again[name]):
        raise Wrong(
            "INIT-UNSEEDED",
            "the same seed gives other numbers",
            tried="the same seed, twice",
            expected=vector(first[name][0], 3),
            got=vector(again[name][0], 3),
            fits="numbers from another source than torch's generator.",
            look="where the numbers are drawn.",
        )


def _weights_of_kinds(state: dict[str, Tensor], kinds: tuple[str, ...]) -> list[tuple[str, Tensor]]:
    return [(name, w) for name, w in state.items() if name.split(".")[-2] in kinds]


def _std(name: str, w: Tensor, wanted: float, patterns: tuple, *, expected: str) -> None:
    """The std of w is `wanted` and its mean 0, both within 6 standard errors; else `Wrong`."""
    std, mean, n = w.std().item(), w.mean().item(), w.numel()
    error = 6 / math.sqrt(2 * n)  # relative; 4 to 7 percent for these matrices
    tried = f"{name}, {n:,} numbers"
    if abs(std - wanted) > error * wanted:
        facts = dict(tried=tried, expected=f"std {expected}", got=f"std {number(std)}")
        for code, value, finding, fits, look in patterns:
            if abs(std - value) <= error * value + 1e-8:
                raise Wrong(
                    code, finding, fits=fits, look=look, preset=PRESETS.get(code, ""), **facts
                )
        raise Wrong(
            "OTHER", "the standard deviation differs", look="the `std` of this kind.", **facts
        )
    if abs(mean) > 6 * std / math.sqrt(n):
        raise Wrong(
            "INIT-MEAN",
            "the weights are not centered",
            tried=tried,
            expected="mean 0",
            got=f"mean {number(mean)}, std {number(std)}",
            look="the first argument of `normal_` after the tensor is the mean.",
        )


def _std_of_one(stds: dict[str, float], wanted: float, L: int) -> None:
    """`Wrong` when exactly one of the two kinds is scaled."""
    scaled = {kind for kind, std in stds.items() if abs(std - wanted) < 0.1 * wanted}
    plain = {kind for kind, std in stds.items() if abs(std - STD) < 0.1 * STD}
    if len(scaled) == len(plain) == 1:
        raise Wrong(
            "INIT-ONE-BRANCH",
            "only one of the two branches is scaled",
            tried=f"{L} layers: o_proj ends attention, down_proj ends the MLP",
            expected=f"std {number(wanted)} for both",
            got=", ".join(f"{kind} {number(std)}" for kind, std in stds.items()),
            look=f"how `{plain.pop()}` would be recognized: both carry `writes_residual`.",
        )


SUITES = (
    Suite(
        "init-weights",
        (
            draws_weights,
            base_std,
            tables_std,
            residual_std,
            normal_shape,
            gains_stay,
            independent_draws,
            biases,
            other_modules,
            small_matrices,
        ),
        tested="every matrix is drawn with the std its place asks for, gains stay 1, and the "
        "draw follows torch's seed.",
        remember="2 L branches add up, so each is scaled by 1 / sqrt(2 L).",
        next_step="the figure init: switch the residual scale off at 48 layers.",
    ),
)
