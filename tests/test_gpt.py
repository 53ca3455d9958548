"""The model against an independent implementation of it, its switches, its counts, its errors."""

import dataclasses
import importlib.util
import json
import math
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from course_lib.gpt import GPT, PRESETS, GPTConfig
from course_lib.measure.flops import (
    flops_per_token,
    flops_per_token_counted,
    num_params,
    num_params_counted,
)
from grader.course import ROOT

TINY = GPTConfig(
    vocab_size=61,
    max_seq_len=16,
    num_layers=3,
    num_heads=2,
    d_model=16,
    d_hidden=40,
    tie_embeddings=False,
)


class OracleBlock(nn.Module):
    """The same block from torch's own modules; rotation by complex numbers."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        D, H = config.d_model, config.d_hidden
        self.attention_norm = nn.RMSNorm(D, eps=config.norm_eps)
        self.mlp_norm = nn.RMSNorm(D, eps=config.norm_eps)
        self.heads = {"q": config.num_heads, "k": config.num_kv_heads or config.num_heads}
        self.heads["v"] = self.heads["k"]
        K = D // config.num_heads
        self.attention = nn.ModuleDict(
            {f"{n}_proj": nn.Linear(D, heads * K, bias=False) for n, heads in self.heads.items()}
        )
        self.attention["o_proj"] = nn.Linear(D, D, bias=False)
        self.mlp = nn.ModuleDict(
            {
                "gate_proj": nn.Linear(D, H, bias=False),
                "up_proj": nn.Linear(D, H, bias=False),
                "down_proj": nn.Linear(H, D, bias=False),
            }
        )

    def forward(self, x: Tensor, cis: Tensor) -> Tensor:
        y = self.attention_norm(x)
        q, k, v = (
            self.attention[f"{n}_proj"](y).unflatten(-1, (heads, -1)).transpose(1, 2)
            for n, heads in self.heads.items()
        )
        out = F.scaled_dot_product_attention(
            rotate(q, cis), rotate(k, cis), v, is_causal=True, enable_gqa=True
        )
        x = x + self.attention["o_proj"](out.transpose(1, 2).flatten(2))
        y = self.mlp_norm(x)
        gate, up = self.mlp["gate_proj"](y), self.mlp["up_proj"](y)
        return x + self.mlp["down_proj"](F.silu(gate) * up)


class Oracle(nn.Module):
    """The same architecture with the same parameter names, sharing no code with course_lib.gpt."""

    def __init__(self, config: GPTConfig):
        super().__init__()
        self.config = config
        self.embedding = nn.Embedding(config.vocab_size, config.d_model)
        self.blocks = nn.ModuleList(OracleBlock(config) for _ in range(config.num_layers))
        self.norm = nn.RMSNorm(config.d_model, eps=config.norm_eps)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)

    def forward(self, idx: Tensor) -> Tensor:
        K = self.config.d_model // self.config.num_heads
        freq = self.config.rope_theta ** -(torch.arange(0, K, 2, dtype=torch.float64) / K)
        angle = torch.arange(idx.shape[1], dtype=torch.float64)[:, None] * freq
        cis = torch.polar(torch.ones_like(angle), angle)
        x = self.embedding(idx)
        for block in self.blocks:
            x = block(x, cis)
        return self.head(self.norm(x))


def rotate(x: Tensor, cis: Tensor) -> Tensor:
    """Pair i of a head is one complex number, x[i] + 1j * x[i + K/2], turned by cis."""
    real, imag = x.double().chunk(2, dim=-1)
    turned = torch.complex(real, imag) * cis
    return torch.cat((turned.real, turned.imag), dim=-1).to(x.dtype)


def loud(model: GPT) -> GPT:
    """Large random weights and gains, so that no step of forward is too small to be seen."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            draw = torch.randn(p.shape, generator=generator)
            p.copy_(1 + 0.3 * draw if "norm" in name else 0.3 * draw)
    return model


def batch(config: GPTConfig, B: int = 3, T: int = 12, seed: int = 0) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(
        config.vocab_size, (B, T + 1), generator=torch.Generator().manual_seed(seed)
    )
    return tokens[:, :-1], tokens[:, 1:]


@pytest.mark.parametrize("T", [1, 7, 16])
@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("num_kv_heads", [None, 4, 2, 1])
def test_logits_equal_an_independent_implementation(T, fast, num_kv_heads):
    config = dataclasses.replace(TINY, num_heads=4, num_kv_heads=num_kv_heads, fast_attention=fast)
    model = loud(GPT(config))
    oracle = Oracle(config)
    oracle.load_state_dict(model.state_dict())
    idx, _ = batch(config, T=T)
    # In float64 only the rotary tables are float32: 6e-8 relative, times angles of up to 15 radians,
    # through three blocks onto logits of about 10. A wrong step changes logits by 0.1 or more.
    logits, expected = model.double()(idx)[0], oracle.double()(idx)
    torch.testing.assert_close(logits, expected, rtol=0, atol=1e-4)
    # In float32 each of some hundred roundings adds up to 6e-8 of values of about 10.
    torch.testing.assert_close(model.float()(idx)[0], oracle.float()(idx), rtol=1e-4, atol=1e-3)


def test_the_oracle_is_not_blind():
    """A rotation that is left out, or a gain that is ignored, shows at that tolerance."""
    model, idx = loud(GPT(TINY)), batch(TINY)[0]
    before = model(idx)[0].detach()
    for buffer, value in ((model.sin_TK, 0.0), (model.norm.weight.data, 1.0)):
        kept = buffer.clone()
        buffer.fill_(value)
        assert (model(idx)[0] - before).abs().max() > 0.05
        buffer.copy_(kept)


@pytest.mark.parametrize("num_kv_heads", [2, 1])
def test_logits_equal_hugging_face_llama(num_kv_heads):
    if importlib.util.find_spec("transformers") is None:
        pytest.skip("transformers is not installed")
    from transformers import LlamaConfig, LlamaForCausalLM

    config = dataclasses.replace(TINY, num_kv_heads=num_kv_heads)
    model = loud(GPT(config)).eval()
    llama = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=TINY.vocab_size,
            hidden_size=TINY.d_model,
            intermediate_size=TINY.d_hidden,
            num_hidden_layers=TINY.num_layers,
            num_attention_heads=TINY.num_heads,
            num_key_value_heads=num_kv_heads,
            max_position_embeddings=TINY.max_seq_len,
            rms_norm_eps=TINY.norm_eps,
            rope_theta=TINY.rope_theta,
            tie_word_embeddings=False,
            attention_bias=False,
        )
    ).eval()
    names = (("embedding.", "model.embed_tokens."), ("blocks.", "model.layers."),
             ("attention_norm", "input_layernorm"), ("mlp_norm", "post_attention_layernorm"),
             (".attention.", ".self_attn."), ("head.", "lm_head."))  # fmt: skip
    state = {}
    for name, value in model.state_dict().items():
        for ours, theirs in names:
            name = name.replace(ours, theirs)
        state["model.norm.weight" if name == "norm.weight" else name] = value
    llama.load_state_dict(state)
    idx, targets = batch(TINY)
    with torch.no_grad():
        torch.testing.assert_close(model(idx)[0], llama(idx).logits, rtol=1e-4, atol=1e-3)
        whole = torch.cat((idx[:, :1], targets), dim=1)  # there the model shifts, here the caller
        torch.testing.assert_close(
            model(idx, targets)[1], llama(whole, labels=whole).loss, rtol=1e-4, atol=1e-4
        )


def test_fast_and_explicit_attention_agree():
    fast, explicit = (loud(GPT(dataclasses.replace(TINY, fast_attention=f))) for f in (True, False))
    idx, targets = batch(TINY)
    # the same products summed in another order: a few 6e-8 of values of about 10
    torch.testing.assert_close(fast(idx)[0], explicit(idx)[0], rtol=1e-4, atol=1e-4)
    for model in (fast, explicit):
        model(idx, targets)[1].backward()
    for p, q in zip(fast.parameters(), explicit.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-3, atol=1e-5)


def test_checkpointing_changes_neither_loss_nor_gradients():
    grads, losses, idx_targets = [], [], batch(TINY)
    for switch in (False, True):
        model = loud(GPT(dataclasses.replace(TINY, activation_checkpointing=switch)))
        loss = model(*idx_targets)[1]
        loss.backward()
        losses.append(loss.item())
        grads.append([p.grad for p in model.parameters()])
    assert losses[0] == losses[1]  # the same operations in the same order: bit for bit
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def kept(model: GPT, idx: Tensor) -> int:
    sizes: dict[int, int] = {}

    def pack(x: Tensor) -> Tensor:
        sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        out = model(idx)  # noqa: F841  alive while counting
    return sum(sizes.values())


def test_checkpointing_keeps_less_and_only_in_training():
    idx = batch(TINY)[0]
    plain = GPT(TINY)
    switched = GPT(dataclasses.replace(TINY, activation_checkpointing=True))
    assert kept(switched.train(), idx) < 0.5 * kept(plain.train(), idx)
    assert kept(switched.eval(), idx) == kept(plain.eval(), idx)


def test_the_caller_shifts():
    model, (idx, targets) = loud(GPT(TINY)), batch(TINY)
    logits, loss = model(idx, targets)
    expected = -logits.log_softmax(-1).gather(-1, targets[..., None]).mean()
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)
    targets = targets.clone()
    targets[:, 3:] = -100
    expected = -logits[:, :3].log_softmax(-1).gather(-1, targets[:, :3, None]).mean()
    torch.testing.assert_close(model(idx, targets)[1], expected, rtol=1e-5, atol=1e-5)


def test_the_loss_of_a_bfloat16_model_is_float32():
    model, (idx, targets) = loud(GPT(TINY)).bfloat16(), batch(TINY)
    logits, loss = model(idx, targets)
    assert (logits.dtype, loss.dtype) == (torch.bfloat16, torch.float32)


def test_a_later_token_changes_no_earlier_logits():
    model, idx = loud(GPT(TINY)), batch(TINY, B=1)[0]
    changed = idx.clone()
    changed[0, 8] = (changed[0, 8] + 1) % TINY.vocab_size
    before, after = model(idx)[0], model(changed)[0]
    torch.testing.assert_close(before[:, :8], after[:, :8], rtol=0, atol=1e-5)
    assert (before[:, 8:] - after[:, 8:]).abs().amax(-1).min() > 1e-3


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_first_loss_is_near_ln_v(seed):
    torch.manual_seed(seed)
    config = GPTConfig.preset("tiny")
    loss = GPT(config)(*batch(config, B=8, T=64, seed=seed))[1]
    # logits of std s raise the expected loss by about s^2 / 2; here s = 0.02 * sqrt(128) = 0.23
    assert abs(loss.item() - math.log(config.vocab_size)) < 0.1


def test_depth_does_not_change_the_size_of_the_stream():
    def last_rms(layers: int) -> float:
        torch.manual_seed(0)
        sizes = []
        model = GPT(dataclasses.replace(TINY, num_layers=layers, d_model=64))
        model.blocks[-1].register_forward_hook(
            lambda m, i, x: sizes.append(x.pow(2).mean().sqrt().item())
        )
        model(batch(TINY)[0])
        return sizes[0]

    assert last_rms(32) < 1.3 * last_rms(4)


@pytest.mark.parametrize("name", PRESETS)
def test_parameter_counts_two_ways(name):
    config = GPTConfig.preset(name)
    assert num_params(config) == num_params_counted(config)


@pytest.mark.parametrize("tie", [True, False])
def test_a_tied_matrix_is_counted_once(tie):
    config = dataclasses.replace(TINY, tie_embeddings=tie)
    assert num_params(config) == num_params_counted(config)
    tables = (1 if tie else 2) * TINY.vocab_size * TINY.d_model
    assert sum(p.numel() for p in GPT(config).blocks.parameters()) + tables + 16 == num_params(
        config
    )


def test_one_preset_has_134_million_parameters():
    assert num_params(GPTConfig.preset("134m")) == 134_105_856


@pytest.mark.parametrize("seq_len", [1, 8, 16])
def test_flops_equal_what_torch_counts(seq_len):
    for tie, num_kv_heads in ((True, None), (False, None), (False, 1)):
        config = dataclasses.replace(TINY, tie_embeddings=tie, num_kv_heads=num_kv_heads)
        assert num_params(config) == num_params_counted(config)
        assert flops_per_token(config, seq_len) == flops_per_token_counted(config, seq_len, "cpu")


@pytest.mark.parametrize("preset", ["tiny", "small", "medium", "134m", "xl"])
def test_flops_are_counted_the_same_without_computing_anything(preset):
    config = GPTConfig.preset(preset)
    for seq_len in (1, config.max_seq_len):
        assert flops_per_token_counted(config, seq_len, "meta") == flops_per_token(config, seq_len)


def test_the_conventions_differ_by_table_and_gains():
    config = GPTConfig.preset("134m")
    difference = flops_per_token(config, 512, "all") - flops_per_token(config, 512)
    assert difference == 6 * (config.vocab_size * config.d_model + 25 * config.d_model)
    assert flops_per_token(config, 512) == 713_687_040
    with pytest.raises(ValueError, match="matmul, all"):
        flops_per_token(config, 512, "nanogpt")


def test_recomputation_costs_at_most_a_third():
    """A forward is a third of forward plus backward, and the head is not repeated."""
    switched = dataclasses.replace(TINY, activation_checkpointing=True)
    ratio = flops_per_token_counted(switched, 8, "cpu") / flops_per_token(TINY, 8)
    assert 1.1 < ratio < 4 / 3


def test_generate_greedy_is_deterministic_and_takes_the_likeliest():
    model, idx = loud(GPT(TINY)), batch(TINY, B=2, T=4)[0]
    out = model.generate(idx, max_new_tokens=5, temperature=0)
    assert torch.equal(out, model.generate(idx, max_new_tokens=5, temperature=0))
    assert out.shape == (2, 9) and torch.equal(out[:, :4], idx)
    for t in range(4, 9):
        assert torch.equal(model(out[:, :t])[0][:, -1].argmax(-1), out[:, t])


def test_generate_top_k():
    model, idx = loud(GPT(TINY)), batch(TINY, B=200, T=1)[0][:1].expand(200, 1)
    best = model(idx[:1])[0][0, -1].topk(3).indices
    generator = torch.Generator().manual_seed(0)
    drawn = model.generate(idx, max_new_tokens=1, temperature=50.0, top_k=3, generator=generator)[
        :, 1
    ]
    assert set(drawn.tolist()) == set(best.tolist())  # hot: all three are drawn, and nothing else
    greedy = model.generate(idx[:1], max_new_tokens=4, temperature=0)
    assert torch.equal(model.generate(idx[:1], max_new_tokens=4, top_k=1), greedy)
    model.generate(idx[:1], max_new_tokens=1, top_k=10_000)  # more than there are: all of them


def test_generate_beyond_max_seq_len_reads_the_last_tokens():
    model, idx = loud(GPT(TINY)), batch(TINY, B=1, T=14)[0]
    out = model.generate(idx, max_new_tokens=8, temperature=0)
    assert out.shape == (1, 22)
    expected = model(out[:, 21 - TINY.max_seq_len : 21])[0][:, -1].argmax(-1)
    assert torch.equal(out[:, 21], expected)


def test_errors_name_both_numbers():
    model = GPT(TINY)
    with pytest.raises(ValueError, match="17.*16"):
        model(torch.zeros(1, 17, dtype=torch.long))
    assert model(torch.zeros(1, 16, dtype=torch.long))[0].shape == (1, 16, 61)
    with pytest.raises(ValueError, match="tiny.*134m"):
        GPTConfig.preset("huge")
    with pytest.raises(ValueError, match="num_heads 3"):
        GPTConfig(d_model=16, num_heads=3)
    with pytest.raises(ValueError, match="multiple of num_kv_heads.*got 6 and 4"):
        GPTConfig(num_heads=6, num_kv_heads=4)
    for name in ("vocab_size", "num_layers", "d_hidden", "num_kv_heads"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1, got 0"):
            GPTConfig(**{name: 0})


def test_the_module_prints_shape_and_loss():
    run = subprocess.run(
        [sys.executable, "-m", "course_lib.gpt"], capture_output=True, text=True, check=True
    )
    assert "logits (2, 64, 8192)" in run.stdout
    loss = float(run.stdout.split("loss ")[1].split()[0])
    assert abs(loss - math.log(8192)) < 0.2


def test_lesson_05_says_what_its_records_hold():
    record = json.loads((ROOT / "benchmarks/results/norms.json").read_text(encoding="utf-8"))
    page, figures = (ROOT / "book/05_block.md").read_text(encoding="utf-8"), record["figures"]
    small = ROOT / "benchmarks/results/norms_small.json"
    small = json.loads(small.read_text(encoding="utf-8"))["figures"]
    for table in (figures, small):
        for place in ("front", "stream"):
            for warmup in (0, 50):
                losses = table[f"{place}_warmup_{warmup}_nats"]
                alike = table[f"{place}_warmup_{warmup}_tokens_cosine"]
                for x, cosine in zip(losses, alike, strict=True):
                    stays = x > figures["characters_alone_nats"]
                    assert stays == (cosine == 1.0), "above it exactly where tokens are alike"
    assert f"would get {figures['characters_alone_nats']}." in page
    stuck = [x for w in (0, 50) for x in figures[f"stream_warmup_{w}_nats"]]
    learns = [x for w in (0, 50) for x in figures[f"front_warmup_{w}_nats"]]
    assert max(learns) < figures["characters_alone_nats"] < min(stuck), "what the page concludes"
    assert f"post-norm settings end between {min(stuck):.3f} and {max(stuck):.3f}" in page
    assert f"pre-norm settings between {min(learns):.3f} and {max(learns):.3f}" in page
    apart = [x for w in (0, 50) for x in figures[f"front_warmup_{w}_tokens_cosine"]]
    assert f"and {min(apart):.2f} to {max(apart):.2f} in the others" in page
    assert f"the best of the eight settings ends at {min(learns):.2f}" in page
    assert f'reveal("block-post-norm", {min(stuck):.3f}, unit="nats")' in page
    both = [x for w in (0, 50) for x in small[f"front_warmup_{w}_nats"]]
    assert max(both) < figures["characters_alone_nats"], "below it at all sixteen settings"
    assert f"{min(both):.2f}" == f"{min(learns):.2f}" and f"best is {min(both):.2f} from" in page
    runs = [
        (loss, cosine, place)
        for table in (figures, small)
        for place in ("front", "stream")
        for w in (0, 50)
        for loss, cosine in zip(
            table[f"{place}_warmup_{w}_nats"],
            table[f"{place}_warmup_{w}_tokens_cosine"],
            strict=True,
        )
    ]
    apart = [cosine for _, cosine, _ in runs if cosine < 1]
    assert len(runs) - len(apart) == 11 and "All eleven crosses are red" in page
    assert all(place == "stream" for _, cosine, place in runs if cosine == 1)
    assert f"a mean cosine of {min(apart):.2f} to {max(apart):.2f}" in page
    best = min(loss for loss, _, place in runs if place == "stream")
    assert f"post-norm ends at {best:.2f}" in page
