"""Proofs of the review items of 07_generate."""

import torch

from course_lib.generation import KVCache, make_caches, read_tokens
from course_lib.gpt import GPT, GPTConfig
from course_lib.sampling import next_token_probs


def sample_1(n):
    chances = next_token_probs(torch.tensor([[0.0, n.d]]), temperature=n.t)[0]
    return (chances[1] / chances[0]).item()


def sample_2(n):
    chances = torch.tensor([[0.5, 0.25, 0.15, 0.06, 0.04]])
    return int((next_token_probs(chances.log(), top_p=n.p) > 0).sum())


def sample_3(n):
    rest = 1 - n.a - n.b
    chances = torch.tensor([[n.a, n.b, *[rest / 8] * 8]])
    return next_token_probs(chances.log(), top_k=2)[0, 0].item()


def kv_cache_1(n):
    config = GPTConfig(
        num_layers=n.L, num_heads=32, num_kv_heads=n.G, d_model=32 * 128, max_seq_len=n.T
    )
    cache = KVCache(config, n.B, dtype=torch.bfloat16, device="meta")
    return n.L * (cache.k_BGMK.nbytes + cache.v_BGMK.nbytes) / 1e9


def kv_cache_2(n):
    model = GPT(GPTConfig(vocab_size=8, num_layers=1, num_heads=1, d_model=4, d_hidden=4))
    text, seen = torch.zeros(1, n.P, dtype=torch.long), 0
    caches = make_caches(model, 1)
    for _ in range(n.n):
        unread = text[:, caches[0].length :] if n.cached else text
        if n.cached:
            read_tokens(model, unread, caches)
        seen += unread.shape[1]
        text = torch.cat((text, text[:, :1]), dim=1)
    return seen


def kv_cache_3(n):
    config = GPTConfig(vocab_size=8, num_layers=1, num_heads=1, d_model=64, max_seq_len=40)
    cache, total = KVCache(config, 1), n.n + n.T
    zero = torch.zeros(1, 1, total, 64)
    values = torch.eye(total, 64)[None, None]
    tables = torch.ones(total, 64), torch.zeros(total, 64)
    for piece in filter(lambda s: s.stop > s.start, (slice(0, n.n), slice(n.n, total))):
        weights = cache.attend(*(x[:, :, piece] for x in (zero, zero, values)), *tables)
    return int((weights[0, 0, n.t] > 0).sum())


ARGUED = {"kv-cache-4": "what attention reads of old tokens is an argument, not a computation"}
