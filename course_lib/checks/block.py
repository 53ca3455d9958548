"""Checks of lesson 05: TransformerBlock.forward, x + attention(norm(x)), then x + mlp(norm(x)).

Oracle: `run_block`, the same block in plain functions of the answer's own weights, rotation by complex
numbers; `checks.gpt` stacks it. Branches whose last matrix is 0 add nothing, so the stream that a
block hands on is seen by itself.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.calls import expect_any_default, expect_separate_calls
from course_lib.checks.calls_in_turn import expect_calls_in_turn, expect_weights_of_now
from course_lib.checks.expect import Pattern
from course_lib.checks.fixed_input import expect_weight_gradients
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import Module, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPTConfig

THETA = 100.0
"""Base of the tables that checks hand over; not a config's own, so an answer has to use the tables."""
NAMES = (
    "attention_norm.weight",
    *(f"attention.{letter}_proj.weight" for letter in "qkvo"),
    "mlp_norm.weight",
    *(f"mlp.{part}_proj.weight" for part in ("gate", "up", "down")),
)
MARKED = "course_lib.probes.residual:writers_of"
UNDER_AUTOCAST = "course_lib.probes.calls:call_under_autocast"
Branch = Callable[[Tensor], Tensor]


def small_config(**changes) -> GPTConfig:
    """3 heads of 4 numbers; an eps so large that a norm with another one shows."""
    shape = dict(
        norm_eps=0.1,
        vocab_size=23,
        max_seq_len=16,
        num_layers=1,
        num_heads=3,
        d_model=12,
        d_hidden=20,
    )
    return GPTConfig(**(shape | changes))


def draw_weights(module: Module, draw: Draw) -> dict[str, Tensor]:
    """Random weights, far larger than first ones, put into `module`; by name."""
    state = {
        name: 1 + 0.3 * draw.randn(*w.shape) if "norm" in name else 0.5 * draw.randn(*w.shape)
        for name, w in module.state().items()
    }
    module.load(state)
    return state


def tables(T: int, config: GPTConfig, theta: float = THETA) -> tuple[Tensor, Tensor]:
    """cos and sin (T, K): the turn of each position and pair, written twice."""
    inverse_freq = theta ** (-torch.arange(0, config.head_dim, 2) / config.head_dim)
    angle = torch.outer(torch.arange(T).float(), inverse_freq).repeat(1, 2)
    return angle.cos(), angle.sin()


def turn(x_BHTK: Tensor, cos_TK: Tensor, sin_TK: Tensor) -> Tensor:
    """Each pair (x[i], x[i + K/2]) times cos + i sin."""
    half = x_BHTK.shape[-1] // 2
    first, second = x_BHTK.chunk(2, -1)
    turns = torch.complex(cos_TK[:, :half], sin_TK[:, :half])
    z = torch.complex(first.contiguous(), second.contiguous()) * turns
    return torch.cat((z.real, z.imag), -1)


def split_heads(projected_BTE: Tensor, head_dim: int) -> Tensor:
    """(B, T, heads * K) to (B, heads, T, K)."""
    return projected_BTE.unflatten(-1, (-1, head_dim)).transpose(1, 2)


def run_attention(w: dict[str, Tensor], config: GPTConfig, y: Tensor, *turns: Tensor) -> Tensor:
    """The attention branch from its weights, "q_proj.weight" and so on."""
    q, k, v = (split_heads(y @ w[f"{n}_proj.weight"].T, config.head_dim) for n in "qkv")
    out = F.scaled_dot_product_attention(
        turn(q, *turns), turn(k, *turns), v, is_causal=True, enable_gqa=True
    )
    return out.transpose(1, 2).flatten(2) @ w["o_proj.weight"].T


def parts_of(
    w: dict[str, Tensor], config: GPTConfig, *turns: Tensor
) -> tuple[Branch, Branch, Branch, Branch]:
    """Norm and branch of the attention, norm and branch of the MLP, as functions of x."""
    inner = {n.removeprefix("attention."): t for n, t in w.items() if n.startswith("attention.")}

    def norm(which: str) -> Branch:
        gain = w[f"{which}_norm.weight"]
        return lambda x: F.rms_norm(x, (config.d_model,), gain, config.norm_eps)

    def mlp(y: Tensor) -> Tensor:
        hidden = F.silu(y @ w["mlp.gate_proj.weight"].T) * (y @ w["mlp.up_proj.weight"].T)
        return hidden @ w["mlp.down_proj.weight"].T

    return norm("attention"), lambda y: run_attention(inner, config, y, *turns), norm("mlp"), mlp


def run_block(w: dict[str, Tensor], config: GPTConfig, x: Tensor, *turns: Tensor) -> Tensor:
    """The block from its weights; `turns` are cos and sin (T, K)."""
    n1, a, n2, m = parts_of(w, config, *turns)
    h = x + a(n1(x))
    return h + m(n2(h))


def expect_calls_alone(
    module: Module, config: GPTConfig, draw: Draw, run: Callable[..., Tensor], code: str
) -> None:
    """Each result of `module` follows from its own x, its own tables and the weights of now.

    `run` is the oracle, as run(weights, config, x, cos, sin); `code` begins a code.
    """
    state = draw_weights(module, draw)
    first, second = ((draw.randn(2, 5, 12), *tables(5, config, theta)) for theta in (THETA, 3.0))
    tried = "x and tables, then others of the same shapes, then the first ones again"
    close = dict(rtol=1e-4, atol=1e-3)
    out = expect_separate_calls(module.probe, first, second, tried=tried, **close)
    stale = Pattern(
        code=f"{code}-STALE-TABLES",
        value=run(state, config, second[0], *first[1:]),
        finding="the tables of an earlier call are used",
        fits="cos and sin that are kept.",
        look="what outlives a call: a cache, a global name, an attribute.",
    )
    expect.values(
        out, run(state, config, *second), [stale], **close, tried=tried,
        finding="the second of two calls is wrong", look="what outlives a call.",
    )  # fmt: skip
    expect_any_default(module.probe, first, tried="parameters, x and tables in float32", **close)
    expect_weights_of_now(module, state, first, lambda w: run(w, config, *first), **close)
    module.load(state)
    thetas = (THETA, 3.0, 30.0, 2.0)  # attention sees how far tokens are apart, so no later rows
    groups = [
        [(draw.randn(B, T, 12), *tables(T, config, theta)) for theta in thetas]
        for B, T in ((1, 1), (2, 1), (1, 5))
    ]
    expect_calls_in_turn(
        module.probe, groups, lambda *given: (run(state, config, *given),), names=("the result",),
        tried="x and tables of several shapes", **close,
    )  # fmt: skip


def expect_not_limited(
    module: Module, config: GPTConfig, draw: Draw, run: Callable[..., Tensor], code: str, last: str
) -> None:
    """Where the matrix `last` is 100,000 times as large, its results are too: nothing cuts them off."""
    state = draw_weights(module, draw)
    state[last] = 1e5 * state[last]
    module.load(state)
    given = (draw.randn(2, 5, 12), *tables(5, config))
    out, right = module.forward(*given), run(state, config, *given)
    bad = ~torch.isclose(out, right, rtol=1e-3, atol=1e-4 * float(right.abs().max()))
    if bad.any():
        row = tuple(int(i) for i in bad.nonzero()[0, :2])
        raise Wrong(
            f"{code}-LIMITED",
            "large values are cut off",
            tried=f"{last} times 100,000",
            expected=vector(right[row]),
            got=vector(out[row]),
            look="`clamp`, `nan_to_num`, or a cast to 16 bits on the way.",
        )


def expect_marks(module: Module, code: str, *names: str) -> None:
    """The projections of these names, and no others, say that they write into the stream."""
    found = list(map(str, module.probe(MARKED)))
    if found != list(names):
        raise Wrong(
            f"{code}-RESIDUAL-MARK",
            "the attribute `writes_residual` is not where it was",
            tried="the parts that the constructor makes",
            expected=f"`writes_residual` on {' and '.join(names)} alone",
            got=", ".join(found)[:60] or "on none",
            hides="GPT draws the first weights of such a projection more narrowly (lesson 06).",
            look="`__init__`: it came with the exercise; leave it.",
        )


def runs(subject: Subject, draw: Draw) -> None:
    """(2, 5, 12) in, a finite tensor of the same shape and dtype out, twice the same."""
    config = small_config()
    module, x = subject.module(config), draw.randn(2, 5, 12)
    if set(module.state()) != set(NAMES):
        raise Wrong(
            "BLOCK-STATE",
            "the parameters are other ones",
            tried="TransformerBlock(config)",
            expected="two norms, attention and mlp, as `__init__` makes them",
            got=", ".join(module.state())[:76] or "none",
            look="`__init__`: it came with the exercise; leave it.",
        )
    tried = "x of shape (2, 5, 12), float32"
    given = (x, *tables(5, config))
    out = expect.tensor(module.forward(*given), shape=x.shape, dtype=x.dtype, tried=tried)
    if not torch.equal(out, module.forward(*given)):
        raise Wrong(
            "BLOCK-RANDOM",
            "the same input gave two different outputs",
            tried=tried,
            expected="the same numbers both times",
            got="other numbers the second time",
            fits="dropout, or a state that forward changes.",
            look="anything random, or assigned to `self`, in forward.",
        )


def silent_branches(subject: Subject, draw: Draw) -> None:
    """Branches that add 0 leave the stream as it is, to the last bit, and its gradient too."""
    config = small_config()
    module, x = subject.module(config), 3 * draw.randn(2, 5, 12)
    state = draw_weights(module, draw)
    for name in ("attention.o_proj.weight", "mlp.down_proj.weight"):
        state[name] = torch.zeros_like(state[name])
    module.load(state)
    given = (x, *tables(5, config))
    tried = "o_proj and down_proj all 0, so that both branches give 0"
    out = expect.tensor(module.forward(*given), shape=x.shape, dtype=x.dtype, tried=tried)
    if not torch.equal(out, x):
        n1, _, n2, _ = parts_of(state, config, *tables(5, config))
        raise Wrong(
            "BLOCK-STREAM",
            "the stream does not pass through unchanged",
            tried=tried,
            expected=f"x itself: {vector(x[0, 0])}",
            got=vector(out[0, 0]),
            fits=_name_stream(out, x, n1, n2),
            hides="what a block does to the stream, every block above it has to live with.",
            look="what each branch is added to.",
        )
    upstream = draw.randn(*x.shape)
    (grad, *_), _ = module.vjp(*given, upstream=upstream)
    expect.values(
        torch.zeros_like(x) if grad is None else grad, upstream, rtol=0, atol=1e-6,
        tried=f"{tried}; a random upstream gradient", finding="the gradient of x is another one",
        look="`.detach()`, `.data` or `no_grad` on the stream.",
    )  # fmt: skip


def _name_stream(out: Tensor, x: Tensor, n1: Branch, n2: Branch) -> str:
    known = {
        "nothing but the branches: x was not added.": torch.zeros_like(x),
        "the norm of x, twice: a norm on the stream (post-norm).": n2(n1(x)),
        "the norm of x: the last norm is on the stream.": n2(x),
        "the norm of x in place of x: its result took the name x.": n1(x),
        "x counted twice.": 2 * x,
        "x counted four times.": 4 * x,
        "x and its norm, added up.": x + n2(x),
    }
    return next((words for words, y in known.items() if torch.allclose(out, y, atol=1e-4)), "")


def right_values(subject: Subject, draw: Draw) -> None:
    """Random weights against the formula."""
    config = small_config(num_kv_heads=draw.size(3, 1))
    module, T = subject.module(config), draw.size(6, 4, 7)
    state, x, given = draw_weights(module, draw), draw.randn(2, T, 12), tables(T, config)
    out = expect.tensor(module.forward(x, *given), shape=x.shape, dtype=x.dtype)
    n1, a, n2, m = parts_of(state, config, *given)
    swapped = parts_of(state, config, *given[::-1])[1]
    h, behind = x + a(n1(x)), x + n1(a(x))
    attends = "what goes into `self.attention`, and what is added to what."
    reads = "what goes into `self.mlp`: which x, and through which norm."
    expect.values(
        out,
        run_block(state, config, x, *given),
        [
            _pattern("PARALLEL", "the MLP doesn't see what attention added", reads, h + m(n2(x)),
                   "both branches reading the x that came in, and both added."),
            _pattern("LOST", "what attention added is lost", "which x the MLP's output is added to.",
                   x + m(n2(h)), "the MLP's output added to the x that came in."),
            _pattern("ORDER", "the branches are in the other order", "which branch comes first.",
                   _then(x, (n2, m), (n1, a)), "the MLP first, then attention."),
            _pattern("NO-NORM", "no branch goes through its norm", attends,
                   _then(x, (None, a), (None, m)), "x + attention(x), then x + mlp(x)."),
            _pattern("NO-NORM", "attention reads the stream without its norm", attends,
                   _then(x, (None, a), (n2, m)), "x + attention(x)."),
            _pattern("NO-NORM", "the MLP reads the stream without its norm", reads,
                   _then(x, (n1, a), (None, m)), "x + mlp(x)."),
            _pattern("NORMS", "the two norms have changed places", "which norm belongs to which branch.",
                   _then(x, (n2, a), (n1, m)), "mlp_norm in front of attention."),
            _pattern("NORMS", "both branches read through one norm", "which norm belongs to which branch.",
                   _then(x, (n1, a), (n1, m)), "attention_norm in front of both."),
            _pattern("NORMS", "both branches read through one norm", "which norm belongs to which branch.",
                   _then(x, (n2, a), (n2, m)), "mlp_norm in front of both."),
            _pattern("BEHIND", "the norms are behind the branches", "where each norm is.",
                   behind + n2(m(behind)),
                   "x + norm(branch(x)), as OLMo 2 has it."),
            _pattern("ONE-BRANCH", "the MLP has no effect", reads, h, "attention alone."),
            _pattern("ONE-BRANCH", "attention has no effect", attends, _then(x, (n2, m)),
                   "the MLP alone."),
            _pattern("TABLES", "cos and sin have changed places", "the order of the tables.",
                   _then(x, (n1, swapped), (n2, m)), "sin handed on as cos."),
        ],
        # float32, sums of a few dozen products: measured 2e-6 on outputs up to 10
        rtol=1e-4,
        atol=1e-4,
        tried=f"random weights, x of shape {tuple(x.shape)}",
        finding="the stream that comes out differs",
        look="two lines, one for each branch: norm, branch, plus.",
    )  # fmt: skip


def _then(x: Tensor, *branches: tuple[Branch | None, Branch]) -> Tensor:
    """x with the branches added, one after the other; None is no norm."""
    for norm, branch in branches:
        x = x + branch(norm(x) if norm else x)
    return x


def _pattern(code: str, finding: str, look: str, value: Tensor, fits: str) -> Pattern:
    return Pattern(code=f"BLOCK-{code}", value=value, finding=finding, fits=fits, look=look)


def any_input(subject: Subject, draw: Draw) -> None:
    """One token, one sequence; a view that is not contiguous; a model in bfloat16."""
    config = small_config()
    module = subject.module(config)
    state = draw_weights(module, draw)
    for B, T in ((1, 1), (1, 5), (3, 1)):
        x, given = draw.randn(B, T, 12), tables(T, config)
        tried = f"x of shape {tuple(x.shape)}"
        out = expect.tensor(module.forward(x, *given), shape=x.shape, dtype=x.dtype, tried=tried)
        expect.values(
            out, run_block(state, config, x, *given), rtol=1e-4, atol=1e-4, tried=tried,
            look="sizes written as numbers, and `squeeze`.",
        )  # fmt: skip
    x, given = draw.randn(2, 5, 12), tables(5, config)
    expect_any_layout(
        lambda x: module.forward(x, *given), x, tried="x of shape (2, 5, 12)", rtol=1e-4, atol=1e-4
    )
    module.to(torch.bfloat16)
    tried = "parameters and x in bfloat16, tables in float32"
    out = expect.tensor(
        module.forward(x.bfloat16(), *given), shape=x.shape, dtype=torch.bfloat16, tried=tried
    )
    # a few dozen roundings of 2^-9 of numbers up to 10
    expect.values(
        out.float(), run_block(state, config, x, *given), rtol=0.1, atol=0.3, tried=tried,
        look="casts in forward.",
    )  # fmt: skip


def exact_stream(subject: Subject, draw: Draw) -> None:
    """In every float dtype, large numbers and small ones, what branches of 0 leave is x to the bit,
    also in float32 where the branches give bfloat16."""
    config = small_config()
    module = subject.module(config)
    state = {
        name: torch.zeros_like(w) if "norm" not in name else w for name, w in module.state().items()
    }
    module.load(state)
    for dtype, most, autocast in (
        (torch.float32, 1e12, False),
        (torch.float32, 1e12, True),
        (torch.float64, 1e12, False),
        (torch.bfloat16, 1e12, False),
        (torch.float16, 6e4, False),
        (torch.float16, 65_504.0, False),  # its largest number
    ):
        module.to(dtype)
        size = torch.logspace(-3, 0, 12, dtype=torch.float64) * most
        x = (size * draw.randn(2, 5, 12).double().clamp(-1, 1)).to(dtype)
        if dtype == torch.float64:
            x = x + torch.pi
        tried = f"all projections 0, parameters and x in {str(dtype)[6:]}, x up to {most:g}"
        given = (x, *tables(5, config))
        if autocast:
            tried += ";\nunder torch.autocast, so that both branches give bfloat16"
        out = module.probe(UNDER_AUTOCAST, *given) if autocast else module.forward(*given)
        expect.tensor(out, shape=x.shape, dtype=dtype, tried=tried)
        if torch.equal(out, x):
            continue
        index = tuple(int(i) for i in (out != x).nonzero()[0])
        was, came = x[index].item(), out[index].item()
        others_stay = x[out != x].abs().min() > 0.25 * x.abs().max()
        limited = others_stay or abs(came - was) > 0.02 * abs(was)
        raise Wrong(
            "BLOCK-LIMITED" if limited else "BLOCK-ROUNDED",
            "large values are cut off" if limited else "the stream loses digits",
            tried=tried,
            expected=f"x itself: {was!r} at {index}",
            got=f"{came!r}",
            look="`clamp`, or a cast on the way." if limited else "casts in forward.",
        )


def overflow(subject: Subject, draw: Draw) -> None:
    """In float16 a stream near its largest number overflows where a branch adds to it."""
    config = small_config()
    sign = 1.0 - 2 * draw.randint(0, 2, (12,))
    wide = torch.eye(20, 12)
    known = {
        "attention.v_proj.weight": torch.eye(12),
        "mlp.gate_proj.weight": (8 / 12 * sign).repeat(20, 1),  # silu(8) is nearly 8
        "mlp.up_proj.weight": wide,
    }
    for last, adds in (
        ("mlp.down_proj.weight", 2500 * wide.T),
        ("attention.o_proj.weight", 20_000 * torch.eye(12)),
    ):
        module = subject.module(config)
        ends = {
            n: torch.ones_like(w) if "norm" in n else torch.zeros_like(w)
            for n, w in module.state().items()
        }
        module.load(ends | known | {last: adds})
        module.to(torch.float16)
        x = (60_000 * sign).half().expand(1, 2, 12).contiguous()
        out = module.forward(x, *tables(2, config))
        tried = f"float16, x of 60,000 and -60,000; through {last}, 20,000 more of the same sign"
        expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried, finite=False)
        if out.isfinite().any():
            raise Wrong(
                "BLOCK-LIMITED",
                "the stream is kept in the range of float16",
                tried=tried,
                expected="inf, or nan made of it: 80,000 is above 65,504, the largest number",
                got=vector(out[0, 0]),
                hides="an overflow that nobody sees goes on as a wrong number.",
                look="`clamp` and `nan_to_num`.",
            )


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result follows from its own x and tables and from the weights of now, and stays."""
    config = small_config()
    expect_calls_alone(subject.module(config), config, draw, run_block, "BLOCK")


def no_limit(subject: Subject, draw: Draw) -> None:
    """What a branch adds may be large."""
    config = small_config()
    for last in ("attention.o_proj.weight", "mlp.down_proj.weight"):
        expect_not_limited(subject.module(config), config, draw, run_block, "BLOCK", last)


def residual_mark(subject: Subject, draw: Draw) -> None:
    """The two projections that end the branches are marked as the constructor marks them."""
    expect_marks(subject.module(small_config()), "BLOCK", "attention.o_proj", "mlp.down_proj")


def gradient(subject: Subject, draw: Draw) -> None:
    """The gradient reaches x and every parameter, through both branches."""
    config = small_config()
    module, x = subject.module(config), draw.randn(2, 5, 12)
    state, given, upstream = draw_weights(module, draw), tables(5, config), draw.randn(2, 5, 12)
    (grad, *_), of_params = module.vjp(x, *given, upstream=upstream)
    leaves = {n: w.clone().requires_grad_() for n, w in {"x": x, **state}.items()}
    w = {n: leaf for n, leaf in leaves.items() if n != "x"}
    (run_block(w, config, leaves["x"], *given) * upstream).sum().backward()
    got = {"x": grad, **of_params}
    if missing := [name for name in leaves if got.get(name) is None]:
        raise Wrong(
            "BLOCK-DETACHED",
            "the gradient does not reach everything",
            expected="gradients for x and every parameter",
            got=f"none for {', '.join(missing)}"[:76],
            look="`.detach()`, `.data` or `no_grad` in forward.",
        )
    for name, leaf in leaves.items():
        expect.values(
            got[name], leaf.grad, rtol=1e-3, atol=1e-3, tried="a random upstream gradient",
            finding=f"the gradient of {name} differs", look="steps that leave the graph.",
        )  # fmt: skip
    expect_weight_gradients(module, (x, *given), upstream, tried="a random upstream gradient")


SUITES = (
    Suite(
        "block-forward",
        (
            runs,
            silent_branches,
            right_values,
            no_limit,
            each_call_alone,
            any_input,
            exact_stream,
            overflow,
            gradient,
            residual_mark,
        ),
        tested="attention and MLP read the stream through their norms and add to it; where they add "
        "nothing, the stream and its gradient pass through to the last bit.",
        remember="nothing replaces the stream, so its gradient has a path that no branch is on.",
        next_step="read on: what a dozen blocks learn, with norms in front and with norms on the stream.",
    ),
)
