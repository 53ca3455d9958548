"""Checks of lesson 07: KVCache.attend.

Oracle: `reply`, causal attention over the whole text at once, in float64. An answer reads the same
text in pieces.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.expect import Pattern
from course_lib.checks.kv_cache_text import (
    ROOM,
    K,
    WholeText,
    patterns,
    reply,
    turn,
    write_text,
)
from course_lib.checks.long_text import expect_long_text
from course_lib.checks.report import Wrong, number, vector
from course_lib.checks.subject import AnswerError, Module, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.gpt import GPTConfig

CLOSE = dict(rtol=1e-4, atol=1e-5)  # float32: sums of a few products, each rounded at 6e-8
PROBES = "course_lib.probes.kv_cache"


def make_cache(subject: Subject, text: WholeText, *, room: int = ROOM) -> Module:
    """An empty cache for that text, its room full of NaN."""
    B, H, _, _ = text.q.shape
    config = GPTConfig(
        vocab_size=11, max_seq_len=ROOM, num_layers=2, num_heads=H, num_kv_heads=text.k.shape[1],
        d_model=H * K, d_hidden=12,
    )  # fmt: skip
    settings: dict[str, Any] = {} if room == ROOM else {"room": room}
    if text.q.dtype != torch.float32:
        settings["dtype"] = text.q.dtype
    cache = subject.module(config, B, **settings)
    cache.probe(f"{PROBES}:spoil_room")
    return cache


def read(subject: Subject, text: WholeText, pieces: Sequence[int], tried: str) -> Tensor:
    """The outputs of a fresh cache that reads the text in these pieces, side by side."""
    cache, outs, at = make_cache(subject, text), [], 0
    for T in pieces:
        outs.append(attend(cache, text, at, at + T, tried))
        at += T
    return torch.cat(outs, dim=2)


def attend(cache: Module, text: WholeText, start: int, end: int, tried: str) -> Tensor:
    """One call of `attend`, its output of the right shape and dtype and without NaN."""
    q = text.q[:, :, start:end]
    out = cache.method("attend", *text.piece(start, end))
    out = expect.tensor(out, shape=q.shape, dtype=q.dtype, tried=tried, finite=False)
    if not torch.isfinite(out).all():
        raise Wrong(
            "CACHE-ROOM",
            "the output holds NaN, from room that no token has filled",
            tried=f"{tried}; the free room holds NaN, as memory may",
            expected="finite numbers: only the first `length` tokens are read",
            got=f"{int((~torch.isfinite(out)).sum())} of {out.numel()} are not finite",
            look="the slice of the kept keys and values. A weight of 0 times NaN is NaN.",
        )
    return out


def compare(subject: Subject, text: WholeText, pieces: Sequence[int], tried: str, **within) -> None:
    """The text in these pieces gives what it gives at once."""
    out, whole = read(subject, text, pieces, tried), reply(text, pieces)
    expect.values(
        out.float(),
        whole.float(),
        (p for p in patterns(text, pieces) if not torch.allclose(p.value, whole, **CLOSE)),
        **(CLOSE | within),
        tried=tried,
        finding="the outputs are not those of the whole text read at once",
        look="positions, what is kept, and the mask, in this order.",
    )


def runs(subject: Subject, draw: Draw) -> None:
    """Five tokens into an empty cache, a finite tensor of the shape of q out."""
    text = write_text(draw, 2, 4, 2, 5)
    attend(make_cache(subject, text), text, 0, 5, "5 tokens, (B, H, T, K) = (2, 4, 5, 8), G = 2")


def first_piece(subject: Subject, draw: Draw) -> None:
    """An empty cache: plain causal attention with rotary positions."""
    N = draw.size(6, 5, 7)
    text = write_text(draw, 2, 2, 2, N)
    compare(subject, text, [N], f"{N} tokens at once into an empty cache, G = H = 2")


def keeps(subject: Subject, draw: Draw) -> None:
    """Turned keys and plain values lie in the first places, and `length` counts them."""
    n = draw.size(4, 3, 5)
    text = write_text(draw, 2, 4, 2, n + 1)
    cache, tried = make_cache(subject, text), f"{n} tokens at once, then one"
    attend(cache, text, 0, n, tried)
    attend(cache, text, n, n + 1, tried)
    inside = cache.probe(f"{PROBES}:look_inside")
    if inside["length"] != n + 1:
        raise Wrong(
            "CACHE-LENGTH",
            "`length` is not the number of kept tokens",
            tried=tried,
            expected=f"length {n + 1}",
            got=f"length {inside['length']}"[:60],
            look="`self.length`: T more with each call, once.",
        )
    shape = (2, 2, ROOM, K)
    for name, given in (("k", text.k), ("v", text.v)):
        where = f"{tried}; self.{name}_BGMK[:, :, :{n + 1}]"
        found = expect.tensor(
            inside[name], shape=shape, dtype=torch.float32, tried=where, finite=False
        )
        here = torch.arange(n + 1)
        turned, plain = turn(given, here).float(), given.float()
        wanted, other = (turned, plain) if name == "k" else (plain, turned)
        again = turn(given, torch.tensor([*range(n), 0])).float()
        kept = found[:, :, : n + 1]
        if kept.isnan().all():
            raise Wrong(
                "CACHE-ELSEWHERE",
                f"nothing is kept in self.{name}_BGMK",
                tried=where,
                expected="the tokens that were read, in the room that is reserved for them",
                got="nothing was written there",
                hides="a list that grows, or `torch.cat`, moves all that is kept at every token.",
                look="assignment to a slice of the tensors that `__init__` reserves.",
            )
        expect.values(
            kept.nan_to_num(1e6),
            wanted,
            [
                Pattern(
                    code="CACHE-UNTURNED" if name == "k" else "CACHE-VALUES",
                    value=other,
                    finding=f"the kept {name} is {'not turned' if name == 'k' else 'turned'}",
                    fits="keys kept as they came in, which every later call has to turn again."
                    if name == "k"
                    else "v turned like k.",
                    look="what is assigned to the slice.",
                ),
                Pattern(
                    code="CACHE-POSITION",
                    value=again,
                    finding="every piece is turned as if the text began with it",
                    fits="the first T rows of the tables, whatever is kept.",
                    look="which rows of cos and sin belong to the new tokens.",
                ),
            ],
            **CLOSE,
            tried=where,
            finding=f"what is kept in self.{name}_BGMK differs",
            look="the slice that is written, and what is written into it.",
        )


def one_by_one(subject: Subject, draw: Draw) -> None:
    """A prompt, then single tokens: each reads all that is kept."""
    n = draw.size(4, 3, 5)
    text = write_text(draw, 2, 2, 2, n + 3)
    compare(subject, text, [n, 1, 1, 1], f"{n} tokens at once, then three single ones")


def in_pieces(subject: Subject, draw: Draw) -> None:
    """Any pieces, any number of shared heads, one sequence or several."""
    rest = draw.size(5, 4, 7)
    for B, H, G, pieces in (
        (1, 2, 2, [3, 3]),
        (4, 4, 2, [1, 3, rest]),
        (3, 6, 1, [4, 1, 2, 1]),
        (1, 3, 3, [1] * rest),
        (2, 6, 2, [rest, 2, 1, 4]),
    ):
        text = write_text(draw, B, H, G, sum(pieces))
        compare(subject, text, pieces, f"pieces of {pieces} tokens, B = {B}, H = {H}, G = {G}")


def as_the_model_calls(subject: Subject, draw: Draw) -> None:
    """Strides as after a transpose; a whole room; bfloat16."""
    text = write_text(draw, 2, 4, 2, ROOM)
    q, k, v = (x.transpose(1, 2).contiguous().transpose(1, 2) for x in text[:3])
    pieces = [draw.size(20, 17, 19), 1, 2]
    pieces.append(ROOM - sum(pieces))
    tried = f"strides as after a transpose, the room filled to its end, pieces {pieces}"
    compare(subject, WholeText(q, k, v, text.cos, text.sin), pieces, tried)
    short = write_text(draw, 1, 4, 2, 7, dtype=torch.bfloat16)
    # turned q and k, weights and results are rounded to 2^-9 of numbers up to 3
    compare(subject, short, [4, 1, 2], "bfloat16, pieces of 4, 1 and 2", rtol=0.03, atol=0.03)


def two_layers(subject: Subject, draw: Draw) -> None:
    """A model of two layers, a cache for each: the scores of every next token."""
    V, B, H, G, N = 11, 2, 2, 1, draw.size(9, 8, 10)
    D = H * K
    table = draw.randn(V, D)
    weights = [[draw.randn(D, n * K) / 4 for n in (H, G, G)] for _ in range(2)]
    tokens = draw.randint(0, V, (B, N))
    pieces = [4] + [1] * (N - 4)
    empty = write_text(draw, B, H, G, 1)
    caches = [make_cache(subject, empty) for _ in weights]
    tried = f"two layers, a cache for each; {B} texts; pieces {pieces}"

    def split(x: Tensor, layer: int) -> WholeText:
        q, k, v = ((x @ w).unflatten(-1, (-1, K)).transpose(1, 2) for w in weights[layer])
        return WholeText(q, k, v, empty.cos, empty.sin)

    whole = table[tokens]
    for layer in range(2):
        whole = whole + reply(split(whole, layer), [N]).transpose(1, 2).flatten(2)
    at, rows = 0, []
    for T in pieces:
        x = table[tokens[:, at : at + T]]
        for layer, cache in enumerate(caches):
            out = attend(cache, split(x, layer), 0, T, tried)
            x = x + out.transpose(1, 2).flatten(2)
        rows.append(x)
        at += T
    expect.values(
        torch.cat(rows, dim=1) @ table.T,
        whole @ table.T,
        rtol=1e-3,
        atol=1e-2,  # scores up to 100, sums of 16 products
        tried=tried,
        finding="the scores differ when two caches are used in turn",
        look="what is shared by all caches: a default argument, an attribute of the class.",
    )


def full(subject: Subject, draw: Draw) -> None:
    """A token too many is a ValueError, and the cache is as it was."""
    room = draw.size(6, 5, 7)
    for more in (1, 3):
        text = write_text(draw, 1, 2, 2, room + 3)
        cache = make_cache(subject, text, room=room)
        kept = room if more == 1 else room - 2
        tried = f"room for {room} tokens, {kept} of them kept, {more} more"
        attend(cache, text, 0, kept, tried)
        before = cache.probe(f"{PROBES}:look_inside")
        facts = dict(
            tried=tried,
            expected="a ValueError that names the numbers",
            look="the first lines of `attend`, before anything is written.",
        )
        try:
            cache.method("attend", *text.piece(kept, kept + more))
        except AnswerError as failure:
            if not isinstance(failure.error, ValueError):
                raise Wrong(
                    "CACHE-FULL",
                    "a full cache fails late, or with another error",
                    got=f"{type(failure.error).__name__}: {failure.error}"[:76],
                    **facts,
                ) from None
        else:
            raise Wrong(
                "CACHE-FULL",
                "tokens that do not fit are accepted",
                got="a result",
                hides="a slice beyond the end is empty, so one token too many is lost silently.",
                **facts,
            )
        after = cache.probe(f"{PROBES}:look_inside")
        same = after["length"] == before["length"] and all(
            torch.equal(after[x].nan_to_num(7.0), before[x].nan_to_num(7.0)) for x in "kv"
        )
        if not same:
            raise Wrong(
                "CACHE-FULL-CHANGED",
                "the cache has changed although it refused the tokens",
                tried=tried,
                expected=f"length {before['length']}, and the same keys and values",
                got=f"length {after['length']}, or other numbers"[:76],
                look="the order: first the test, then what is written.",
            )


def cost(subject: Subject, draw: Draw) -> None:
    """One more token costs one row of attention, and nothing that is kept moves."""
    n = draw.size(18, 16, 20)
    text = write_text(draw, 2, 4, 2, n + 1)
    cache, tried = make_cache(subject, text), f"one token after {n} kept ones"
    attend(cache, text, 0, n, tried)
    flops = cache.probe(f"{PROBES}:count_flops", *text.piece(n, n + 1))
    before = cache.probe(f"{PROBES}:look_inside")
    attend(cache, text, n, n + 1, tried)
    after = cache.probe(f"{PROBES}:look_inside")
    row = 4 * 2 * 4 * (n + 1) * K
    facts = dict(
        tried=tried,
        expected=f"{row:,} FLOPs: two products of one query per head with {n + 1} keys or values",
        got=f"{flops:,} FLOPs" if isinstance(flops, int) else f"{flops}"[:60],
    )
    if not isinstance(flops, int) or flops > 1.01 * row:  # less: a kernel that nobody counts
        whole = isinstance(flops, int) and flops >= 0.9 * (n + 1) * row
        raise Wrong(
            "CACHE-RECOMPUTES" if whole else "CACHE-WORK",
            "the whole text is attended to again" if whole else "a token costs more than its row",
            fits="queries of earlier tokens, kept and asked again." if whole else "",
            look="which queries are multiplied: the new ones.",
            **facts,
        )
    if before["at"] != after["at"]:
        raise Wrong(
            "CACHE-COPIES",
            "what is kept was copied to another place",
            tried=tried,
            expected="the new token written beside the kept ones, in the same memory",
            got="k_BGMK or v_BGMK is another tensor after the call",
            fits="`torch.cat`, or a new tensor for every token.",
            hides="writing n tokens then moves n^2 / 2 of them.",
            look="assignment to a slice: `x[:, :, a:b] = ...`.",
        )


def room_cost(subject: Subject, draw: Draw) -> None:
    """A token costs the same in a large room as in a small one."""
    n, small, large = draw.size(10, 9, 11), 64, 1024
    text = _still(write_text(draw, 1, 2, 1, n + 3), large)
    for T in (1, 3):
        written = []
        for room in (small, large):
            cache, tried = make_cache(subject, text, room=room), f"{n} kept tokens and {T} more"
            attend(cache, text, 0, n, tried)
            written.append(cache.probe(f"{PROBES}:count_written", *text.piece(n, n + T)))
        if written[1] > written[0] + 100:
            raise Wrong(
                "CACHE-WORK",
                "the same token costs more in a larger room",
                tried=f"{tried}; room for {small}, then for {large:,}",
                expected=f"{written[0]:,} numbers computed or moved, as in the small room",
                got=f"{written[1]:,}",
                fits="something written for the whole room, such as a mask of which a part is taken."
                if written[1] < written[0] + large**2 / 2
                else "a mask of room x room numbers, of which a part is taken.",
                hides="with room for 65,536 tokens such a square has 4 billion numbers.",
                look="what is made with the size of `k_BGMK`; `length` + T is enough.",
            )


def taken_back(subject: Subject, draw: Draw) -> None:
    """After `length` was set to a smaller number the next token is at that position."""
    first, second = (write_text(draw, 1, 2, 1, 8) for _ in range(2))
    for kept in (draw.size(3, 2, 4), 0):
        q, k, v = (
            torch.cat((a[:, :, :kept], b[:, :, kept:]), 2)
            for a, b in zip(first[:3], second[:3], strict=True)
        )
        mixed = WholeText(q, k, v, first.cos, first.sin)
        cache = make_cache(subject, first)
        tried = f"6 tokens, `length` set to {kept}, then 3 others and 1"
        attend(cache, first, 0, 6, tried)
        cache.probe(f"{PROBES}:set_length", kept)
        outs = [
            attend(cache, mixed, *place, tried)
            for place in ((kept, kept + 3), (kept + 3, kept + 4))
        ]
        out, right = torch.cat(outs, 2), reply(mixed, [kept + 4])[:, :, kept:]
        length = cache.probe(f"{PROBES}:look_inside")["length"]
        if not torch.allclose(out, right, **CLOSE) or length != kept + 4:
            raise Wrong(
                "CACHE-TAKEN-BACK",
                "tokens that were taken back are still there",
                tried=tried,
                expected=f"length {kept + 4}; first output {vector(right[0, 0, 0], 3)}",
                got=f"length {length}; {vector(out[0, 0, 0], 3)}"[:76],
                fits="places counted in another attribute than `length`.",
                look="where the position of the first new token comes from: `self.length`.",
            )


def long_text(subject: Subject, draw: Draw) -> None:
    """Thousands of tokens in float32 and 16 bits: each still reads itself and all before it."""

    def call(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        T = q.shape[2]
        text = _still(WholeText(q, k, v, q, q), T)
        cache = make_cache(subject, text, room=T)
        edges, tried = (0, T - 12, T - 1, T), f"{T:,} tokens, pieces of {T - 12:,}, 11 and 1"
        places = zip(edges[:-1], edges[1:], strict=True)
        return torch.cat([attend(cache, text, *place, tried) for place in places], dim=2)

    expect_long_text(call, 2, 1, "CACHE-LONG")


def _still(text: WholeText, rows: int) -> WholeText:
    """The text with tables of so many rows that turn nothing."""
    return text._replace(cos=torch.ones(rows, K), sin=torch.zeros(rows, K))


def other_tables(subject: Subject, draw: Draw) -> None:
    """Another cache may be given other tables: with cosines of 1 and sines of 0 nothing turns."""
    text = write_text(draw, 1, 2, 1, 6)
    read(subject, text, [4, 2], "6 tokens")
    still = text._replace(cos=torch.ones_like(text.cos), sin=torch.zeros_like(text.sin))
    tried = "a second cache, with cosines of 1 and sines of 0"
    stale = Pattern(
        code="CACHE-STALE-TABLES",
        value=reply(text, [4, 2]),
        finding="the tables of an earlier cache are used",
        fits="cos and sin that are kept.",
        look="what all caches share: a global name, an attribute of the class.",
    )
    expect.values(
        read(subject, still, [4, 2], tried), reply(text, [4, 2], turned=""), [stale], **CLOSE,
        tried=tried, finding="with other tables the outputs differ", look="cos and sin.",
    )  # fmt: skip


def extreme_numbers(subject: Subject, draw: Draw) -> None:
    """However low the scores, no new token reads a later one; large values are not cut off."""
    text = write_text(draw, 1, 2, 1, 6)
    still = text._replace(cos=torch.ones_like(text.cos), sin=torch.zeros_like(text.sin))
    still.q[..., 0], still.k[..., 0] = K**0.5, -3e4
    still.k[:, :, 5, 0] = 0.0
    other = still._replace(v=still.v.clone())
    other.v[:, :, 5] += 1
    tried = "2 tokens, then 4; scaled scores near -30,000, for the last token near 0"
    out, moved = (read(subject, t, [2, 4], tried)[:, :, :5] for t in (still, other))
    bad = ~torch.isclose(out, moved, rtol=1e-4, atol=1e-5)
    if bad.any():
        row = tuple(int(i) for i in bad.nonzero()[0])[:-1]
        raise Wrong(
            "MASK-FINITE-FILL",
            "at low scores a token reads a later one",
            tried=tried,
            expected=f"output {row[2]} stays, whatever the last v is",
            got=f"{vector(out[row], 3)}, then {vector(moved[row], 3)}",
            fits="a fill that is low, but not below every score.",
            look="the number that masked scores are set to: exp of it must be 0.",
        )
    large = text._replace(v=1e6 * text.v)
    tried = "values of about 1,000,000, in float32"
    out, right = read(subject, large, [4, 2], tried), reply(large, [4, 2])
    if not torch.allclose(out, right, rtol=1e-3, atol=100):
        bad = (~torch.isclose(out, right, rtol=1e-3, atol=100)).nonzero()[0]
        row = tuple(int(i) for i in bad)[:-1]
        raise Wrong(
            "CACHE-LIMITED",
            "large values are cut off",
            tried=tried,
            expected=vector(right[row], 3),
            got=vector(out[row], 3),
            look="`clamp`, or a cast to 16 bits on the way.",
        )


def leaves_alone(subject: Subject, draw: Draw) -> None:
    """What came in may be changed afterwards; what is kept stays."""
    text = write_text(draw, 1, 2, 1, 5)
    cache = make_cache(subject, text)
    tried = "4 tokens, then one; the output of the first call overwritten in between"
    first = attend(cache, text, 0, 4, tried)
    first.zero_()
    out = attend(cache, text, 4, 5, tried)
    expect.values(
        out, reply(text, [4, 1])[:, :, 4:], **CLOSE, tried=tried,
        finding="the second output depends on what became of the first",
        look="results that share memory with what is kept.",
    )  # fmt: skip
    inside: dict[str, Any] = cache.probe(f"{PROBES}:look_inside")
    if inside["length"] != 5:
        raise Wrong(
            "CACHE-LENGTH",
            "`length` is not the number of kept tokens",
            tried=tried,
            expected="length 5",
            got=f"length {number(inside['length'])}",
            look="`self.length`.",
        )


SUITES = (
    Suite(
        "kv-cache",
        (
            runs,
            first_piece,
            keeps,
            one_by_one,
            in_pieces,
            as_the_model_calls,
            two_layers,
            leaves_alone,
            other_tables,
            extreme_numbers,
            full,
            cost,
            room_cost,
            taken_back,
            long_text,
        ),
        tested="a text read in any pieces gives what it gives at once, heads shared or not, "
        "and one more token costs one row of attention.",
        remember="2 x layers x G x K numbers are kept for each token.",
        next_step="is_causal=True in place of your mask: which pieces are still right?",
        loads=(DYNAMO,),  # the first call that is watched loads it
    ),
)
