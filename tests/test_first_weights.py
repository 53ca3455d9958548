"""A sharded model begins with the weights of a whole one, to the bit, and no rank holds it whole."""

import pytest
import torch

from course_lib.gpt import GPT, GPTConfig
from course_lib.measure.held import Held
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.first_weights import allocate_shards, build_without_weights, draw_shards
from tests.fsdp_runs import make, on_ranks, same, settings, values

SHAPE = dict(vocab_size=37, max_seq_len=16, num_layers=2, num_heads=2, d_model=16, d_hidden=24)
CASES = [
    {},
    {"rungs": "padded_vocab,chunked_loss"},
    {"sharding": "SHARD_GRAD_OP", "cpu_offload": True},
    {"sharding": "NO_SHARD"},
    {"precision": "bf16"},
]

pytestmark = pytest.mark.usefixtures("one_thread")


def compare(changes: dict) -> dict:
    """A sharded trainer beside DDP's: values, what is drawn next, and what it took to make it."""
    with Held() as held:
        trainer = make(settings(**changes))
    drawn = torch.rand(3)
    model, other = trainer.plain_model, make(settings(**changes), DistributedTrainer)
    buffers = {name: x.clone() for name, x in model.named_buffers()}
    sizes = [p.numel() for p in model.parameters()]
    return {
        "same": same(trainer.weights(), other.weights()),
        "tables": same(buffers, dict(other.plain_model.named_buffers())),
        "next": torch.equal(drawn, torch.rand(3)),
        "tied": model.head.weight is model.embedding.weight,
        "beyond": held.peak - held.bytes(),
        "whole": 4 * sum(sizes),
        "largest": 4 * max(sizes),
    }


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_shards_begin_as_the_whole_model_does_and_one_matrix_is_held_at_a_time(ranks):
    for rank in values(on_ranks(ranks, lambda: [compare(case) for case in CASES])):
        for case, found in zip(CASES, rank, strict=True):
            kept = {"same": True, "tables": True, "next": True, "tied": True}
            assert found.items() >= kept.items(), case
            assert found["beyond"] < 2.5 * found["largest"] < found["whole"] / 4, case


@pytest.mark.parametrize("tied", [True, False])
def test_without_ranks_it_is_the_model_itself(tied):
    config = GPTConfig(**SHAPE, tie_embeddings=tied)
    torch.manual_seed(3)
    whole, drawn = GPT(config), torch.rand(2)
    torch.manual_seed(3)
    model = build_without_weights(config)
    names = [name for name, p in model.named_parameters() if p.is_meta]
    assert names and all(model.get_parameter(n).dim() >= 2 for n in names)
    frozen = model.blocks[0].mlp.up_proj.weight.requires_grad_(False)
    plain = build_without_weights(config)
    torch.manual_seed(3)
    build_without_weights(config)
    allocate_shards(model, "cpu")
    draw_shards(model, plain)
    assert torch.equal(drawn, torch.rand(2))
    assert same(model.state_dict(), whole.state_dict())
    assert len(list(model.parameters())) == len(list(whole.parameters()))
    assert not model.blocks[0].mlp.up_proj.weight.requires_grad and frozen.is_meta
    assert all(p.is_meta for n, p in plain.named_parameters() if p.dim() >= 2)


def test_a_layer_made_later_keeps_its_weights():
    with pytest.raises(ValueError):
        build_without_weights(GPTConfig(**SHAPE | {"d_model": 15}))
    build_without_weights(GPTConfig(**SHAPE))
    assert not torch.nn.Sequential(torch.nn.Linear(2, 2))[0].weight.is_meta
