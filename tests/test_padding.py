"""A padded vocabulary changes no loss, no gradient and no weight of a token."""

import pytest
import torch
from torch import nn

from course_lib.fast.padding import PaddedHead, pad_vocabulary
from course_lib.gpt import GPT, GPTConfig

SHAPE = dict(max_seq_len=16, num_layers=2, num_heads=2, d_model=16, d_hidden=24)


def pair(V: int, multiple: int, tied: bool) -> tuple[GPT, GPT]:
    config = GPTConfig(vocab_size=V, tie_embeddings=tied, **SHAPE)
    torch.manual_seed(0)
    plain, padded = GPT(config).double(), GPT(config).double()
    padded.load_state_dict(plain.state_dict())
    return plain, pad_vocabulary(padded, multiple)


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    "V, multiple, rows", [(37, 64, 64), (65, 64, 128), (64, 64, 64), (37, 8, 40)]
)
def test_loss_gradients_and_updates_are_those_of_the_plain_model(V, multiple, rows, tied):
    models = pair(V, multiple, tied)
    assert models[1].head.weight.shape == (rows, 16)
    assert len(list(models[0].parameters())) == len(list(models[1].parameters()))
    optimizers = [torch.optim.AdamW(m.parameters(), lr=1e-2, weight_decay=0.1) for m in models]
    tokens = torch.randint(V, (2, 17))
    for _ in range(3):
        found = []
        for model, optimizer in zip(models, optimizers, strict=True):
            logits, loss = model(tokens[:, :-1], tokens[:, 1:])
            loss.backward()
            grads = {
                n: p.grad[:V] if n.startswith(("head", "emb")) else p.grad.clone()
                for n, p in model.named_parameters()
            }
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            found.append((logits, loss, norm, grads))
            optimizer.zero_grad()
        torch.testing.assert_close(found[1], found[0], rtol=1e-10, atol=1e-12)
    for (name, a), (_, b) in zip(
        models[0].named_parameters(), models[1].named_parameters(), strict=True
    ):
        torch.testing.assert_close(b[: len(a)], a, rtol=1e-9, atol=1e-10, msg=name)
        assert (b[len(a) :] == 0).all(), "rows of no token stay 0"


def test_no_token_beyond_the_vocabulary_is_written():
    _, padded = pair(5, 64, tied=True)
    out = padded.generate(torch.zeros(1, 1, dtype=torch.long), max_new_tokens=12)
    assert out.max() < 5 and padded.embedding.weight is padded.head.weight


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="multiple must be at least 1"):
        PaddedHead(nn.Linear(4, 5, bias=False), 0)
    with pytest.raises(ValueError, match="without a bias"):
        PaddedHead(nn.Linear(4, 5))
