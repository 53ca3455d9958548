"""The formula of `course_lib.measure.activations` against what autograd really saves."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from course_lib import gpt
from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.activations import activation_bytes, kept_bytes
from course_lib.measure.memory import saved_bytes

SIZES = [
    (GPTConfig(vocab_size=37, max_seq_len=16, num_layers=1, num_heads=1, d_model=8, d_hidden=20), 1, 5),
    (GPTConfig(vocab_size=101, max_seq_len=64, num_layers=2, num_heads=2, d_model=24, d_hidden=40), 3, 17),
    (GPTConfig.preset("tiny", vocab_size=500, tie_embeddings=False), 2, 64),
    (GPTConfig.preset("small", num_layers=3), 1, 48),
    (GPTConfig.preset("tiny", num_kv_heads=2, vocab_size=500), 2, 64),
]  # fmt: skip


def kept_by_the_model(config, B, T, dtype=torch.float32, device="cpu") -> int:
    with torch.device(device):
        model, tokens = GPT(config).to(dtype), torch.zeros(B, T, dtype=torch.long)
    return saved_bytes(model, tokens, tokens.clone())


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("config, B, T", SIZES)
def test_equal_to_what_autograd_saves(config, B, T, fast):
    config = dataclasses.replace(config, fast_attention=fast)
    assert kept_bytes(config, B, T) == kept_by_the_model(config, B, T)


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("config, B, T", SIZES)
def test_equal_in_sixteen_bits(config, B, T, fast, monkeypatch):
    """The fused kernel itself is asked, as on a GPU; on a CPU `fused_attention` goes by float32."""
    config = dataclasses.replace(config, fast_attention=fast)
    monkeypatch.setattr(
        gpt,
        "fused_attention",
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True),
    )
    found = kept_by_the_model(config, B, T, torch.bfloat16)
    assert kept_bytes(config, B, T, dtype_bytes=2) == found


@pytest.mark.parametrize("name", ["134m", "xl"])
def test_equal_for_large_models_on_the_meta_device(name):
    config = GPTConfig.preset(name, fast_attention=False)
    assert kept_bytes(config, 8, 512) == kept_by_the_model(config, 8, 512, device="meta")


def test_only_the_explicit_attention_grows_with_the_square():
    for fast, square in ((True, 0), (False, 4 * 6 * 6 + 6)):
        config = GPTConfig.preset("small", fast_attention=fast)
        at = [activation_bytes(config, 1, T)["attention"] for T in (1, 2, 3)]
        assert at[0] - 2 * at[1] + at[2] == 2 * square


def test_all_but_the_mask_grow_with_the_batch():
    config = GPTConfig.preset("small")
    one, eight = (activation_bytes(config, B, 64) for B in (1, 8))
    assert eight == {part: 8 * n for part, n in one.items()}
