"""Writing with a cache: the same tokens as without, whatever is read in which pieces."""

import dataclasses

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from course_lib.data.corpus import Corpus
from course_lib.data.tokenizer import Tokenizer
from course_lib.fast.padding import pad_vocabulary
from course_lib.generation import (
    WRITER,
    generate_cached,
    load_writer,
    make_caches,
    read_heads,
    read_tokens,
)
from course_lib.gpt import GPT, GPTConfig, causal_attention
from course_lib.sampling import next_token_probs

TINY = GPTConfig(vocab_size=50, max_seq_len=24, num_layers=3, num_heads=4, d_model=32, d_hidden=40)


def make_model(**changes) -> GPT:
    """Weights far larger than the first ones, so that the likeliest tokens differ."""
    torch.manual_seed(0)
    model = GPT(dataclasses.replace(TINY, **changes))
    for p in model.parameters():
        if p.dim() == 2:
            torch.nn.init.normal_(p, std=0.3)
    return model


def draw_prompt(B: int, T: int) -> torch.Tensor:
    return torch.randint(TINY.vocab_size, (B, T), generator=torch.Generator().manual_seed(T))


@pytest.mark.parametrize("num_kv_heads", [None, 2, 1])
@pytest.mark.parametrize("B, T", [(1, 1), (1, 7), (3, 5)])
def test_the_same_tokens_as_without_a_cache(num_kv_heads, B, T):
    model, idx = make_model(num_kv_heads=num_kv_heads), draw_prompt(B, T)
    for settings in (dict(temperature=0), dict(temperature=1.3, top_k=20, top_p=0.9)):
        both = [
            write(idx, max_new_tokens=12, generator=torch.Generator().manual_seed(1), **settings)
            for write in (model.generate, lambda *a, **k: generate_cached(model, *a, **k))
        ]
        assert torch.equal(*both) and both[0].shape == (B, T + 12)
        assert len(set(both[0][0, T:].tolist())) > 2  # a model in a loop would prove little


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("pieces", [[10], [1, 3, 6], [1] * 10, [7, 1, 2]])
def test_pieces_give_the_logits_of_the_whole(pieces, fast):
    model, idx = make_model(num_kv_heads=2, fast_attention=fast), draw_prompt(2, 10)
    whole, caches, at = model(idx)[0], make_caches(model, 2), 0
    for T in pieces:
        logits = read_tokens(model, idx[:, at : at + T], caches)
        at += T
        # float32, sums in another order
        assert torch.allclose(logits, whole[:, at - 1], rtol=1e-4, atol=1e-4)
    assert [cache.length for cache in caches] == [10] * 3


def test_a_batch_is_its_sequences():
    model, idx = make_model(num_kv_heads=2), draw_prompt(3, 4)
    together = generate_cached(model, idx, max_new_tokens=9, temperature=0)
    alone = [generate_cached(model, row[None], max_new_tokens=9, temperature=0) for row in idx]
    assert torch.equal(together, torch.cat(alone))


def test_it_writes_up_to_the_end_of_the_tables_and_not_beyond():
    model, idx = make_model(), draw_prompt(1, 5)
    written = generate_cached(model, idx, max_new_tokens=20, temperature=0)  # the last is not read
    assert torch.equal(written, model.generate(idx, max_new_tokens=20, temperature=0))
    with pytest.raises(ValueError, match="5 tokens and 21 new ones.*24.*model.generate"):
        generate_cached(model, idx, max_new_tokens=21, temperature=0)
    assert torch.equal(generate_cached(model, idx, max_new_tokens=0), idx)


def test_a_full_cache_refuses_and_stays_as_it_is():
    model, idx = make_model(), draw_prompt(1, 9)
    caches = make_caches(model, 1, room=6)
    read_tokens(model, idx[:, :4], caches)
    with pytest.raises(ValueError, match="room for 6 tokens and keeps 4, got 3 more"):
        read_tokens(model, idx[:, 4:7], caches)
    assert [cache.length for cache in caches] == [4] * 3
    logits = read_tokens(model, idx[:, 4:6], caches)
    assert torch.allclose(logits, model(idx[:, :6])[0][:, -1], rtol=1e-4, atol=1e-4)


def test_a_model_in_16_bits_keeps_16_bits():
    model = make_model(num_kv_heads=1).bfloat16()
    caches = make_caches(model, 2)
    assert {c.k_BGMK.dtype for c in caches} | {c.v_BGMK.dtype for c in caches} == {torch.bfloat16}
    K = TINY.head_dim
    assert sum(c.k_BGMK.nbytes + c.v_BGMK.nbytes for c in caches) == 2 * 3 * 2 * 1 * 24 * K * 2
    assert generate_cached(model, draw_prompt(2, 3), max_new_tokens=5).shape == (2, 8)


def test_a_token_costs_one_pass_through_the_matrices():
    model = make_model()
    caches = make_caches(model, 1)
    read_tokens(model, draw_prompt(1, 12), caches)
    counts = []
    for step in (
        lambda: read_tokens(model, draw_prompt(1, 1), caches),
        lambda: model(draw_prompt(1, 13)),
    ):
        with FlopCounterMode(display=False) as counter, torch.no_grad():
            step()
        counts.append(counter.get_total_flops())
    assert counts[1] == 13 * counts[0]  # neither counts what is inside the CPU's fused kernel


def test_a_padded_vocabulary_writes_the_same():
    model, idx = make_model(), draw_prompt(2, 4)
    before = generate_cached(model, idx, max_new_tokens=6, temperature=0)
    assert torch.equal(
        before, generate_cached(pad_vocabulary(model), idx, max_new_tokens=6, temperature=0)
    )


def test_chances_of_a_small_example():
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    half = next_token_probs(logits, top_k=2)
    assert torch.allclose(half, torch.tensor([[0.625, 0.375, 0.0, 0.0]]))
    assert torch.equal(next_token_probs(logits, top_p=0.79), half)
    assert torch.equal(next_token_probs(logits, temperature=0), torch.tensor([[1.0, 0, 0, 0]]))
    assert torch.allclose(next_token_probs(logits, top_p=1.0), logits.exp())
    assert next_token_probs(logits, top_p=0.01)[0, 0] == 1


def test_the_stored_model_knows_python_and_each_call_makes_another():
    """Whatever Python runs here, its library is much of what the model has read."""
    one, other = load_writer(), load_writer()
    assert WRITER.stat().st_size < 4e6 and one.head.weight is one.embedding.weight
    assert one.config.num_kv_heads == 2 and one.embedding.weight.dtype == torch.float32
    text = Corpus.default().text()[1_000_000:1_050_000]
    tokens = torch.from_numpy(Tokenizer.course().encode_to_array(text).astype("int64"))
    window = tokens[torch.arange(0, 64 * 129).view(64, 129)]
    with torch.no_grad():
        assert one(window[:, :-1], window[:, 1:])[1] < 4.2, "a minute's model is at 5.6"
        one.embedding.weight.zero_()
        assert other.embedding.weight.any()


def test_the_heads_of_a_line_are_those_that_attention_gets():
    """The first branch's output follows from them, and afterwards the model attends as before."""
    torch.manual_seed(0)
    model, idx = load_writer().requires_grad_(False), torch.randint(8192, (1, 9))
    q, k = read_heads(model, idx)
    assert q.shape == k.shape == (4, 4, 9, 32)
    block, was = model.blocks[0], model(idx)[0]
    x = block.attention_norm(model.embedding(idx))
    v = block.attention.v_proj(x).view(1, 9, 2, 32).transpose(1, 2).repeat_interleave(2, dim=1)
    out = causal_attention(q[:1], k[:1], v).transpose(1, 2).flatten(2)
    usual = block.attention(x, model.cos_TK[:9], model.sin_TK[:9])
    assert torch.allclose(block.attention.o_proj(out), usual, atol=1e-5)
    assert torch.equal(model(idx)[0], was)
    with pytest.raises(ValueError, match="takes one text, got 2"):
        read_heads(model, idx.expand(2, 9))
    assert torch.equal(model(idx)[0], was)
