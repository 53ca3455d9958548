"""Checks of lesson 05: CausalSelfAttention.forward, split, turn, attend, join.

Oracle: `block.run_attention`. A probe puts another `attend` into the module, which notes q, k and v and
hands on v: so what is split is seen before it is mixed, and what is joined can be told token by token.
"""

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.block import (
    draw_weights,
    expect_calls_alone,
    expect_marks,
    expect_not_limited,
    run_attention,
    small_config,
    split_heads,
    tables,
    turn,
)
from course_lib.checks.expect import Pattern
from course_lib.checks.fixed_input import expect_weight_gradients
from course_lib.checks.layouts import expect_any_layout
from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite

LOOK = "course_lib.probes.modules:look_at_heads"
NAMES = tuple(f"{letter}_proj.weight" for letter in "qkvo")
H, K, D = 3, 4, 12
"""Of `small_config`."""


def runs(subject: Subject, draw: Draw) -> None:
    """(2, 5, 12) in, a finite tensor of the same shape and dtype out, twice the same."""
    config = small_config()
    module, x = subject.module(config), draw.randn(2, 5, D)
    if set(module.state()) != set(NAMES):
        raise Wrong(
            "HEADS-STATE",
            "the parameters are other ones",
            tried="CausalSelfAttention(config)",
            expected=", ".join(NAMES),
            got=", ".join(module.state())[:76] or "none",
            look="`__init__`: it came with the exercise; leave it.",
        )
    tried, given = "3 heads of 4; x of shape (2, 5, 12), float32", (x, *tables(5, config))
    out = expect.tensor(module.forward(*given), shape=x.shape, dtype=x.dtype, tried=tried)
    if not torch.equal(out, module.forward(*given)):
        raise Wrong(
            "HEADS-RANDOM",
            "the same input gave two different outputs",
            tried=tried,
            expected="the same numbers both times",
            got="other numbers the second time",
            fits="dropout, or a state that forward changes.",
            look="anything random, or assigned to `self`, in forward.",
        )


def right_split(subject: Subject, draw: Draw) -> None:
    """Head h of a token is the numbers from h * K on of its projection; tables that turn nothing."""
    T = 5
    state = {name: i * torch.eye(D) for i, name in enumerate(NAMES, 1)}
    x = (torch.arange(T)[:, None] * 100.0 + torch.arange(D)).expand(2, T, D).contiguous()
    tried = "number d of token t is 100 t + d; projections that hand on 1x (q), 2x (k), 3x (v)"
    turns = (torch.ones(T, K), torch.zeros(T, K))
    seen = _look(subject, state, x, turns, tried)[1]
    for name, scale, got in zip("qkv", (1, 2, 3), seen, strict=True):
        right = scale * split_heads(x, K)
        if torch.equal(got.float(), right):
            continue
        taken = x.view(2, H, T, K)  # the memory in its own order
        strewn = x.unflatten(-1, (K, H)).permute(0, 3, 1, 2)
        factor = {n: s for n, s in zip("qkv", (1, 2, 3), strict=True) if s != scale}
        fits, look = "", "the sizes given to `view`, and which two dimensions change places."
        code = "HEADS-SPLIT"
        if torch.equal(got.float(), scale * taken):
            code, fits = "HEADS-MIXED", "view(B, H, T, K): tokens cut up into heads."
            look = "the order in memory: a token has all its heads side by side."
        elif torch.equal(got.float(), scale * strewn):
            code, fits = "HEADS-STREWN", "view(B, T, K, H): head h takes every H-th number."
        elif torch.equal(got.float(), turn(right, *turns[::-1])):
            code, fits = "HEADS-TURN", "cos and sin in each other's place: a quarter turn."
            look = "`apply_rotary_pos_emb`: what goes in, and in which order."
        elif other := [
            n for n, s in factor.items() if torch.equal(got.float(), s * split_heads(x, K))
        ]:
            code, fits = "HEADS-SWAPPED", f"the projection of {other[0]} in the place of {name}."
            look = "the order of the three arguments of `self.attend`, and what each was made by."
        raise Wrong(
            code,
            f"the heads of {name} hold other numbers",
            tried=tried,
            expected=f"token 1 of head 2 of {name}: {vector(right[0, 2, 1])}",
            got=vector(got[0, 2, 1]),
            fits=fits,
            look=look,
            hides="it has the right shape and trains, on heads that see parts of other tokens."
            if code == "HEADS-MIXED"
            else "",
        )  # fmt: skip


def _look(
    subject: Subject, state: dict[str, Tensor], x: Tensor, turns: tuple, tried: str
) -> tuple[Tensor, list[Tensor]]:
    """The output when heads hand on their values, and q, k, v as `attend` gets them (B, H, T, K).

    An answer that calls it more than once is looked at as a whole in `right_values`: then the three
    are what they should be.
    """
    module = subject.module(small_config())
    module.load(state)
    out, seen = module.probe(LOOK, x, *turns)
    B, T, _ = x.shape
    facts = dict(tried=tried, expected=f"q, k and v of shape {(B, H, T, K)}")
    if not seen:
        raise Wrong(
            "HEADS-NO-ATTEND",
            "`self.attend` is not called",
            got="no call",
            hides="another kernel could not be put in its place, as lesson 16 does.",
            look="the docstring: `self.attend` takes q, k and v of all heads at once.",
            **facts,
        )
    if len(seen) == 3:
        for name, got in zip("qkv", seen, strict=True):
            if tuple(got.shape) == (B, T, H, K):
                raise Wrong(
                    "HEADS-BEHIND",
                    f"the heads of {name} stand behind the tokens",
                    got=f"{name} of shape {tuple(got.shape)}",
                    hides="attention then mixes the heads of a token, and never two tokens.",
                    look="the dimensions that must change places before attention.",
                    **facts,
                )
            if tuple(got.shape) != (B, H, T, K):
                raise Wrong(
                    "HEADS-SHAPE",
                    f"attention gets {name} in another shape",
                    got=f"{name} of shape {tuple(got.shape)}",
                    look="`view(B, T, -1, self.head_dim)` and what follows it.",
                    **facts,
                )
        return out, seen
    q, k, v = (split_heads(x @ state[f"{n}_proj.weight"].T, K) for n in "qkv")
    return out, [turn(q, *turns), turn(k, *turns), v]


def right_turns(subject: Subject, draw: Draw) -> None:
    """q and k are turned by the tables that are handed over, v is not."""
    T = draw.size(5, 4, 6)
    state = {name: 0.5 * draw.randn(D, D) for name in NAMES}
    turns, x = tables(T, small_config()), draw.randn(2, T, D)
    tried = f"random weights; cos and sin of shape {(T, K)}"
    seen = _look(subject, state, x, turns, tried)[1]
    for name, got in zip("qkv", seen, strict=True):
        plain = split_heads(x @ state[f"{name}_proj.weight"].T, K)
        turned, back = turn(plain, *turns), turn(plain, turns[0], -turns[1])
        right = plain if name == "v" else turned
        facts = dict(
            code="HEADS-TURN", look="`apply_rotary_pos_emb`: what goes in, what comes out."
        )
        patterns = [
            Pattern(
                value=plain, finding=f"{name} is not turned",
                fits="no rotation, or its result not used.",
                hides="the model would hardly know the order of its tokens.", **facts,
            ),
            Pattern(value=turn(turned, *turns), finding=f"{name} is turned twice",
                    fits="the rotation applied to its own result.", **facts),
            Pattern(value=back, finding=f"{name} is turned the other way",
                    fits="a minus in front of sin.", **facts),
            Pattern(value=turn(plain, *turns[::-1]), finding=f"{name} is turned by other angles",
                    fits="cos and sin in each other's place.", **facts),
        ]  # fmt: skip
        if name == "v":
            patterns = [Pattern(value=turned, finding="v is turned", fits="values rotated like keys.",
                                hides="what a token hands over then depends on where it is.", **facts)]  # fmt: skip
        expect.values(
            got.float(), right, patterns, rtol=1e-4, atol=1e-5, tried=f"{tried}; {name} as attention gets it",
            finding=f"{name} has other numbers", look="the steps between projection and attention.",
        )  # fmt: skip


def right_join(subject: Subject, draw: Draw) -> None:
    """Heads go back where they were cut from, then through o_proj."""
    T = draw.size(5, 4, 6)
    state = {name: 0.5 * draw.randn(D, D) for name in NAMES}
    x, o = draw.randn(2, T, D), state["o_proj.weight"].T
    tried = "each head hands on its values, so that joining is all that is left to do"
    out = _look(subject, state, x, tables(T, small_config()), tried)[0]
    out = expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)
    v = x @ state["v_proj.weight"].T
    heads = split_heads(v, K)
    look = "the way back: the same two steps as in the split, in the other order."
    expect.values(
        out,
        v @ o,
        [
            Pattern(code="HEADS-JOIN", value=heads.reshape(2, T, D) @ o, look=look,
                    finding="the heads are joined in the wrong order",
                    fits="reshape(B, T, D) of (B, H, T, K), with no transpose before it.",
                    hides="it has the right shape; a token gets parts of other tokens, later ones too."),
            Pattern(code="HEADS-JOIN", value=heads.permute(0, 2, 3, 1).flatten(2) @ o, look=look,
                    finding="the heads are joined in the wrong order",
                    fits="heads as the last dimension: number 0 of every head, then number 1."),
            Pattern(code="HEADS-NO-O", value=v, finding="the last projection is missing",
                    fits="the joined heads as they are.", look="`self.o_proj`."),
            Pattern(code="HEADS-NO-O", value=v @ o @ o, finding="the last projection is there twice",
                    fits="o_proj of o_proj.", look="`self.o_proj`."),
            Pattern(code="HEADS-RESIDUAL", value=x + v @ o, finding="x is added",
                    fits="the branch with the stream in it: the block adds that.", look="the last line."),
            Pattern(code="HEADS-SWAPPED", value=x @ state["k_proj.weight"].T @ o,
                    finding="what comes out was made by k_proj", fits="k in the place of v.",
                    look="the order of the three arguments of `self.attend`."),
        ],
        rtol=1e-4,
        atol=1e-4,  # two sums of 12 products of float32
        tried=tried,
        finding="the joined heads differ",
        look=look,
    )  # fmt: skip


def right_values(subject: Subject, draw: Draw) -> None:
    """Random weights, with torch's fused attention and with the explicit one; two heads, and one."""
    sizes = (
        dict(num_heads=2, d_model=16),
        dict(num_heads=1, d_model=4),
        dict(num_heads=4, d_model=8),
    )
    for changes in (dict(fast_attention=True), dict(fast_attention=False), *sizes):
        config = small_config(**changes)
        module, T = subject.module(config), draw.size(6, 4, 7)
        state, x = draw_weights(module, draw), draw.randn(2, T, config.d_model)
        turns = tables(T, config)
        said = ", ".join(f"{name} = {value}" for name, value in changes.items())
        tried = f"random weights, {said}; x of shape {tuple(x.shape)}"
        out = expect.tensor(module.forward(x, *turns), shape=x.shape, dtype=x.dtype, tried=tried)
        plain = run_attention(
            state | {"o_proj.weight": torch.eye(config.d_model)}, config, x, *turns
        )
        missing = Pattern(code="HEADS-NO-O", value=plain, finding="the last projection is missing",
                          fits="the joined heads as they are.", look="`self.o_proj`.")  # fmt: skip
        expect.values(
            out, run_attention(state, config, x, *turns), [missing], rtol=1e-4, atol=1e-4,
            tried=tried, look="what happens to the output of `self.attend`, and to x.",
        )  # fmt: skip


def shared_heads(subject: Subject, draw: Draw) -> None:
    """Fewer heads of keys and values than of queries, in another size of model."""
    heads = draw.size(4, 6)
    for G, T in ((2, draw.size(6, 7)), (1, draw.size(6, 7)), (2, 1)):
        config = small_config(num_heads=heads, num_kv_heads=G, d_model=8 * heads)
        module = subject.module(config)
        state, turns = draw_weights(module, draw), tables(T, config)
        x = draw.randn(2, T, config.d_model)
        tried = f"{heads} heads of 8 numbers, num_kv_heads = {G}; x of shape {tuple(x.shape)}"
        try:
            out = module.forward(x, *turns)
        except AnswerError as failure:
            error = failure.error
            if isinstance(error, NotImplementedError):
                raise
            raise Wrong(
                "HEADS-SHARED",
                "shared heads of keys and values raise",
                tried=tried,
                expected=f"k and v of shape (2, {G}, {T}, 8) for `self.attend`",
                got=f"{type(error).__name__}: {error}".splitlines()[0][:76],
                fits="k and v cut into as many heads as q." if "view" in str(error) or "shape" in str(error) else "",
                look="k_proj and v_proj have d_kv outputs: how many heads of head_dim is that?",
            ) from None  # fmt: skip
        out = expect.tensor(out, shape=x.shape, dtype=x.dtype, tried=tried)
        expect.values(
            out, run_attention(state, config, x, *turns), [_tile_heads(state, config, x, turns)],
            rtol=1e-4, atol=1e-3, tried=tried,
            look="the heads of k and v: `self.attend` wants them as they are.",
        )  # fmt: skip


def _tile_heads(state: dict[str, Tensor], config, x: Tensor, turns: tuple) -> Pattern:
    """Shared heads copied in the order 0 1 0 1."""
    copies = config.num_heads // config.num_kv_heads
    wide = {n: w.repeat(copies, 1) if n[0] in "kv" else w for n, w in state.items()}
    return Pattern(
        code="HEADS-SHARED",
        value=run_attention(wide, config, x, *turns),
        finding="query heads read other heads of keys and values",
        fits="copies of the heads in the order 0 1 0 1.",
        look="`self.attend` shares heads by itself, neighbors first.",
    )


def any_input(subject: Subject, draw: Draw) -> None:
    """One token, one sequence; a view that is not contiguous; a model in bfloat16."""
    config = small_config()
    module = subject.module(config)
    state = draw_weights(module, draw)
    for B, T in ((1, 1), (1, 5), (3, 1), (2, 3)):
        x, turns = draw.randn(B, T, D), tables(T, config)
        tried = f"x of shape {tuple(x.shape)}"
        out = expect.tensor(module.forward(x, *turns), shape=x.shape, dtype=x.dtype, tried=tried)
        expect.values(
            out, run_attention(state, config, x, *turns), rtol=1e-4, atol=1e-4, tried=tried,
            look="sizes written as numbers, and `squeeze`.",
        )  # fmt: skip
    x, turns = draw.randn(2, 5, D), tables(5, config)
    expect_any_layout(
        lambda x: module.forward(x, *turns), x, tried="x of shape (2, 5, 12)", rtol=1e-4, atol=1e-4
    )
    module.to(torch.bfloat16)
    tried = "parameters and x in bfloat16, tables in float32"
    out = expect.tensor(
        module.forward(x.bfloat16(), *turns), shape=x.shape, dtype=torch.bfloat16, tried=tried
    )
    # a dozen roundings of 2^-9, of numbers up to 10; scores of that size sharpen them
    expect.values(
        out.float(), run_attention(state, config, x, *turns), rtol=0.1, atol=0.4, tried=tried,
        look="casts in forward.",
    )  # fmt: skip


def one_dtype(subject: Subject, draw: Draw) -> None:
    """Attention gets q, k and v in the dtype of x, although the tables are float32."""
    config, x = small_config(), draw.randn(2, 5, D)
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        module = subject.module(config)
        module.to(dtype)
        seen = module.probe(LOOK, x.to(dtype), *tables(5, config))[1]
        for i, got in enumerate(seen):
            if got.dtype != dtype:
                raise Wrong(
                    "HEADS-DTYPE",
                    f"attention gets {'qkv'[i % 3]} in another dtype",
                    tried=f"parameters and x in {str(dtype)[6:]}, tables in float32",
                    expected=f"q, k and v in {str(dtype)[6:]}",
                    got=f"{'qkv'[i % 3]} in {str(got.dtype)[6:]}",
                    hides="kernels take one dtype for all three, or run at half the speed.",
                    look="the rotation: float32 tables make float32 of 16 bits.",
                )


def wide_numbers(subject: Subject, draw: Draw) -> None:
    """A model in float64 has the digits of float64."""
    config = small_config()
    module = subject.module(config)
    state, x, turns = draw_weights(module, draw), draw.randn(2, 5, D).double(), tables(5, config)
    module.to(torch.float64)
    tried = "parameters and x in float64, tables in float32"
    out = expect.tensor(module.forward(x, *turns), shape=x.shape, dtype=x.dtype, tried=tried)
    wide = {name: w.double() for name, w in state.items()}
    expect.values(
        out, run_attention(wide, config, x, *(t.double() for t in turns)), rtol=1e-9, atol=1e-9,
        tried=tried, finding="float64 comes back with the digits of float32",
        look="casts in forward.",
    )  # fmt: skip


def each_call_alone(subject: Subject, draw: Draw) -> None:
    """A result follows from its own x and tables and from the weights of now, and stays."""
    config = small_config()
    expect_calls_alone(subject.module(config), config, draw, run_attention, "HEADS")


def no_limit(subject: Subject, draw: Draw) -> None:
    """What heads hand on, and what comes out, may be large."""
    config = small_config()
    for last in ("v_proj.weight", "o_proj.weight"):
        expect_not_limited(subject.module(config), config, draw, run_attention, "HEADS", last)


def residual_mark(subject: Subject, draw: Draw) -> None:
    """o_proj is marked as the constructor marks it."""
    expect_marks(subject.module(small_config()), "HEADS", "o_proj")


def gradient(subject: Subject, draw: Draw) -> None:
    """The gradient reaches x and all four matrices."""
    config = small_config()
    module, x = subject.module(config), draw.randn(2, 5, D)
    state, turns, upstream = draw_weights(module, draw), tables(5, config), draw.randn(2, 5, D)
    (grad, *_), of_params = module.vjp(x, *turns, upstream=upstream)
    leaves = {n: w.clone().requires_grad_() for n, w in {"x": x, **state}.items()}
    w = {n: leaf for n, leaf in leaves.items() if n != "x"}
    (run_attention(w, config, leaves["x"], *turns) * upstream).sum().backward()
    got = {"x": grad, **of_params}
    if missing := [name for name in leaves if got.get(name) is None]:
        raise Wrong(
            "HEADS-DETACHED",
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
    expect_weight_gradients(module, (x, *turns), upstream, tried="a random upstream gradient")


SUITES = (
    Suite(
        "attention-module",
        (
            runs,
            right_split,
            right_turns,
            right_join,
            right_values,
            shared_heads,
            each_call_alone,
            no_limit,
            any_input,
            one_dtype,
            wide_numbers,
            gradient,
            residual_mark,
        ),
        tested="heads are cut, turned, attended and joined as in an independent implementation, with "
        "shared keys and values too, in float32 and bfloat16, with gradients.",
        remember="on the way out view, then transpose; on the way back transpose, then reshape.",
        next_step="GPTConfig(num_heads=1): one head of D numbers; what is left of split and join?",
    ),
)
