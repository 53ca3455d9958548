"""Where the norms of a block are, and which learning rates it then trains at.

    python -m benchmarks.norms              # 24 short runs, three minutes on a free core
    python -m benchmarks.norms --std 0.02   # two of the places from smaller weights, 16 runs
    python -m benchmarks.norms --seeds 8    # one rate, small weights, eight seeds: 48 runs, eight minutes
    python -m benchmarks.norms --steps 3 --dry-run

Loss of a small model on characters of Python source, by place of the norms and learning rate, with
and without warmup, and how alike the tokens of a text are on top of its last block afterwards. Each
place gets the same first weights, the same batches and the same rates. The weights of a Linear
begin with std 1/sqrt(fan in), which is 0.02 in a model of width 2,500, so that a branch begins with
a third of its input's size or more. With --std they begin with that std, and the record is another.
"""

import argparse
import json

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.record import record
from course_lib.data.corpus import Corpus
from course_lib.gpt import GPT, GPTConfig, TransformerBlock

RATES = (3e-4, 1e-3, 3e-3, 1e-2)
WARMUPS = (0, 50)
BLOCKS, BATCH, SEQ_LEN, WIDTH, LAST = 12, 8, 64, 64, 20


class Post(TransformerBlock):
    """The norm on the stream, after each sum (Vaswani et al. 2017)."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = self.attention_norm(x + self.attention(x, cos, sin))
        return self.mlp_norm(x + self.mlp(x))


class Behind(TransformerBlock):
    """The norm behind the branch, before the sum (OLMo 2)."""

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attention_norm(self.attention(x, cos, sin))
        return x + self.mlp_norm(self.mlp(x))


PLACES = {"front": TransformerBlock, "stream": Post, "behind": Behind}
SMALL_PLACES = ("stream", "front")  # the places that --std compares


def build_model(place: str, std: float | None = None, seed: int = 0) -> GPT:
    """A model of BLOCKS blocks with its norms there; `std` is that of its Linears."""
    config = GPTConfig(vocab_size=128, max_seq_len=SEQ_LEN, num_layers=BLOCKS, num_heads=4,
                       d_model=WIDTH, d_hidden=168, tie_embeddings=False)  # fmt: skip
    torch.manual_seed(seed)
    model = GPT(config)
    for name, weight in model.named_parameters():
        if weight.dim() == 2 and name != "head.weight":  # its std stays 0.02: first loss near ln V
            small = weight.shape[1] ** -0.5 if std is None else std
            nn.init.normal_(weight, std=1 if "embedding" in name else small)
    for at, block in enumerate(model.blocks):
        model.blocks[at] = PLACES[place](config)
        model.blocks[at].load_state_dict(block.state_dict())
    return model


def train(model: GPT, data: Tensor, rate: float, warmup: int, steps: int, seed: int = 1) -> float:
    """Mean loss of the last updates, in nats per character."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95))
    generator, losses = torch.Generator().manual_seed(seed), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / warmup) if warmup else rate
        starts = torch.randint(len(data) - SEQ_LEN, (BATCH, 1), generator=generator)
        window = data[starts + torch.arange(SEQ_LEN + 1)]
        loss = model(window[:, :-1], window[:, 1:])[1]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return sum(losses[-LAST:]) / len(losses[-LAST:])


@torch.no_grad()
def compare_tokens(model: GPT, data: Tensor) -> list[float]:
    """Mean cosine between two tokens of one text after each block, on BATCH stretches of `data`."""
    seen: list[Tensor] = []
    hooks = [
        block.register_forward_hook(lambda block, args, out: seen.append(out))
        for block in model.blocks
    ]
    model(data[: BATCH * SEQ_LEN].view(BATCH, SEQ_LEN))
    for hook in hooks:
        hook.remove()
    unit = F.normalize(torch.stack(seen), dim=-1)
    return ((unit.sum(2).pow(2).sum(-1) / SEQ_LEN - 1) / (SEQ_LEN - 1)).mean(1).tolist()


def train_each(
    data: Tensor,
    place: str,
    warmup: int,
    std: float | None,
    steps: int,
    runs: list[tuple[float, int]],
) -> dict[str, list[float]]:
    """Loss and likeness after one run for each rate and seed (of weights and batches)."""
    losses, alike = [], []
    for rate, seed in runs:
        model = build_model(place, std, seed)
        losses.append(round(train(model, data, rate, warmup, steps, seed + 1), 3))
        alike.append(round(compare_tokens(model, data)[-1], 2))
    print(place, warmup, losses, alike, flush=True)
    return {
        f"{place}_warmup_{warmup}_nats": losses,
        f"{place}_warmup_{warmup}_tokens_cosine": alike,
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.norms")
    parser.add_argument("--steps", type=int, default=150, help="updates of a run [150]")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--std", type=float, help="std of the first weights [1/sqrt(fan in)]")
    which.add_argument("--seeds", type=int, help="so many seeds, at one rate from small weights")
    parser.add_argument("--dry-run", action="store_true", help="print, record nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    text = Corpus.default().text()[:1_000_000].encode("ascii", "replace")
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    if args.seeds:
        rate, std = 3e-3, 0.02
        figures: dict = {"rate": rate, "std": std, "seeds": args.seeds, "steps": args.steps}
        for place in SMALL_PLACES:
            for warmup in (0, 50, 100):
                runs = [(rate, seed) for seed in range(args.seeds)]
                figures |= train_each(data, place, warmup, std, args.steps, runs)
        print(figures if args.dry_run else f"wrote {record('norms_seeds', figures)}")
        return
    counts = torch.bincount(data, minlength=128)
    share = counts[counts > 0] / len(data)
    figures = {"characters_alone_nats": round(-(share * share.log()).sum().item(), 3)}
    for place in PLACES if args.std is None else SMALL_PLACES:
        for warmup in WARMUPS:
            runs = [(rate, 0) for rate in RATES]
            figures |= train_each(data, place, warmup, args.std, args.steps, runs)
    figures |= {
        "rates": RATES,
        "blocks": BLOCKS,
        "steps": args.steps,
        "batch": BATCH,
        "seq_len": SEQ_LEN,
        "width": WIDTH,
    }
    if args.std is not None:
        figures["std"] = args.std
    if not args.dry_run:
        print(f"wrote {record('norms' if args.std is None else 'norms_small', figures)}")
    else:
        print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
