"""One training step with a switch for every rung of the speed ladder.

What it is: the switches, the shapes that are measured, and `Bench`, whose `step` makes one update
with any set of switches. The switches are settings of the library's own parts. What it leaves out:
timing (climb.py), and what a rung is worth (ladder.py).

In the step, always: batch, forward, backward, clipping to 1, AdamW. Not in it: schedule, validation,
checkpoints, logging.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from course_lib.fast.rungs import apply_rungs
from course_lib.gpt import GPT, GPTConfig
from course_lib.ladder.rung_data import WindowedText
from course_lib.training.precision import autocast, bf16_pays, float32_products, has_bf16_units

LEARNING_RATE, BETAS, DECAY = 1e-3, (0.9, 0.95), 0.1
COMPUTE = {False: torch.float32, True: torch.bfloat16}
PARTS = {"vocabulary": "padded_vocab", "chunked": "chunked_loss"}  # as the trainers call them


@dataclass(frozen=True, kw_only=True)
class Rungs:
    """Which rungs a step stands on; all False is the ground. In the order of the ladder."""

    tokens: bool = False
    """Tokens from a file; False makes them from text in every step, in Python."""
    gather: bool = False
    """A batch by strides from an open file; False takes row by row, the file opened anew."""
    tf32: bool = False
    """float32 products may round their inputs to 19 bits, on a GPU that has units for it."""
    bf16: bool = False
    """bfloat16 autocast; weights and loss stay in float32."""
    attention: bool = False
    """The fused kernel; False holds the matrix of scores."""
    compile: bool = False
    """torch.compile of the model; False runs operation by operation."""
    vocabulary: bool = False
    """The head padded to a multiple of 64 rows; False takes the odd number as it is."""
    update: bool = False
    """Clipping and AdamW over all tensors at once; False goes through them one by one."""
    no_wait: bool = False
    """The loss is read at the end of the run; False reads loss and norm in every step."""
    chunked: bool = False
    """Beside the ladder, it buys memory: head and loss over 1,024 tokens at a time."""
    autotune: bool = False
    """Beside the ladder, CUDA alone: torch.compile's max-autotune, with CUDA graphs."""


TITLES = {
    "tokens": "tokens from a file", "gather": "gather by strides", "tf32": "TF32",
    "bf16": "bfloat16 autocast", "attention": "fused attention", "compile": "torch.compile",
    "vocabulary": "padded vocabulary", "update": "fused update", "no_wait": "no .item() in a step",
    "chunked": "chunked head", "autotune": "max-autotune",
}  # fmt: skip
LADDER = tuple(TITLES)[:-2]
DATA, BESIDE = LADDER[:2], tuple(TITLES)[-2:]


@dataclass(frozen=True, kw_only=True)
class Shape:
    """What is measured, and how often."""

    model: GPTConfig
    """The model on the ground: explicit attention, an odd vocabulary."""
    batch: int
    """B, sequences in a step."""
    seq_len: int
    """T, tokens in a sequence."""
    rounds: int
    """How often each kind of step is timed."""
    in_a_row: int = 1
    """Steps of a kind between two looks at the clock: inside them a GPU's queue may run ahead."""
    compiles: bool = True
    """Whether torch.compile is tried: it takes minutes on a CPU."""
    autotunes: bool = True
    """Whether max-autotune is tried: more than two minutes on an H100 for a model of 134 million."""
    needs_gpu: bool = False
    """Whether a CPU would take hours."""


def _ground(**shape) -> GPTConfig:
    return GPTConfig(fast_attention=False, tie_embeddings=False, **shape)


# An odd vocabulary is what a tokenizer has that was given one token more.
SHAPES = {
    "tiny": Shape(
        model=_ground(
            vocab_size=8193, max_seq_len=64, num_layers=2, num_heads=2, d_model=48, d_hidden=128
        ),
        batch=2,
        seq_len=64,
        rounds=9,
        compiles=False,
    ),
    "cpu": Shape(
        model=_ground(
            vocab_size=8193, max_seq_len=256, num_layers=4, num_heads=4, d_model=256, d_hidden=688
        ),
        batch=2,
        seq_len=256,
        rounds=9,
    ),
    "full": Shape(
        model=_ground(
            vocab_size=32_001,
            max_seq_len=512,
            num_layers=12,
            num_heads=12,
            d_model=768,
            d_hidden=2048,
        ),
        batch=64,
        seq_len=512,
        rounds=9,
        in_a_row=5,
        needs_gpu=True,
    ),
}


def not_here(shape: Shape, device: torch.device) -> dict[str, str]:
    """Rungs that this machine or shape has not, each with the reason."""
    cuda, found = device.type == "cuda", {}
    if not cuda:
        found["tf32"] = "a GPU's units; a CPU has none"
        found["autotune"] = "for GPUs"
    elif torch.cuda.get_device_capability(device) < (8, 0):
        found["tf32"] = f"{torch.cuda.get_device_name(device)} has no units for it"
    if not has_bf16_units(device):
        found["bf16"] = "no units for bfloat16: it would be emulated"
    elif not bf16_pays(device):
        found["bf16"] = "units for bfloat16 that are slower than those for float32"
    if not shape.compiles:
        found["compile"] = found["autotune"] = "left out of this shape"
    elif problem := compiler_problem(device):
        found["compile"] = found["autotune"] = problem
    elif not shape.autotunes:
        found.setdefault("autotune", "left out of this run")
    return found


def compiler_problem(device: torch.device) -> str:
    """Why torch.compile does not work here, from a try on eight numbers; empty where it does."""
    try:
        torch.compile(lambda x: x * 2 + 1)(torch.ones(8, device=device))
    except Exception as problem:  # whatever is missing: a compiler, Triton, a header
        return f"torch.compile: {first_line(problem)}"
    return ""


def first_line(problem: BaseException) -> str:
    """What a problem says, in a line."""
    lines = str(problem).strip().splitlines() or [""]
    return f"{type(problem).__name__}: {lines[0]}"[:160]


class Bench:
    """One text, one set of weights per vocabulary, and a step on any rungs.

    Models that differ in a switch share their weights: the time of a step does not depend on them,
    and a GPU need not hold twenty models. `restart` gives all of them their first values back.

    `wrap` makes what a step calls out of the model, compiled or not, such as a copy under DDP. DDP
    hangs on the weights, which the models share: give such a bench steps on the same rungs alone.
    """

    def __init__(
        self,
        shape: Shape,
        device: torch.device,
        folder,
        *,
        seed: int = 0,
        wrap: Callable[[nn.Module], nn.Module] = lambda model: model,
    ):
        self.shape, self.device, self.wrap = shape, device, wrap
        self.text = WindowedText.default(folder, seq_len=shape.seq_len)
        self.models: dict[tuple, GPT] = {}
        self.called: dict[tuple, Any] = {}
        self.optimizers: dict[tuple, torch.optim.AdamW] = {}
        torch.manual_seed(seed)
        self.first = {k: v.clone() for k, v in self._weights(Rungs()).state_dict().items()}

    def step(self, rungs: Rungs, number: int) -> Tensor | float:
        """One update on batch `number`; the loss before it, in nats, as a number or a tensor."""
        model, optimizer = self._model(rungs), self._optimizer(rungs)
        params = optimizer.param_groups[0]["params"]
        idx, targets = self.text.batch(
            number, self.shape.batch, file=rungs.tokens, gathered=rungs.gather
        )
        with float32_products(rungs.tf32):
            loss = self._loss(model, rungs, idx.to(self.device), targets.to(self.device))
            loss.backward()
        norm = nn.utils.clip_grad_norm_(params, 1.0, foreach=None if rungs.update else False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rungs.no_wait:
            return loss.detach().clone()  # a CUDA graph would write the next one over it
        norm.item()  # waits until the device has done the step
        return loss.item()

    def wait(self) -> None:
        """Until the device has done all that it was given."""
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def _loss(self, model: nn.Module, rungs: Rungs, idx: Tensor, targets: Tensor) -> Tensor:
        with autocast(COMPUTE[rungs.bf16], self.device):
            return model(idx, targets)[1]

    def restart(self, rungs: Rungs) -> None:
        """First weights, the same whatever the padding, and optimizers without memory."""
        with torch.no_grad():
            for name, param in self._weights(rungs).named_parameters():
                param.zero_()  # padded rows too, should a step have put NaN there
                param[: len(self.first[name])].copy_(self.first[name])
        for optimizer in self.optimizers.values():
            optimizer.state.clear()
            optimizer.zero_grad(set_to_none=True)

    def _weights(self, rungs: Rungs) -> GPT:
        """The model that holds the weights of this vocabulary."""
        return self._plain_model(dataclasses.replace(Rungs(), vocabulary=rungs.vocabulary))

    def _plain_model(self, rungs: Rungs) -> GPT:
        key = (rungs.vocabulary, rungs.attention, rungs.chunked)
        if key not in self.models:
            config = dataclasses.replace(self.shape.model, fast_attention=rungs.attention)
            parts = [part for rung, part in PARTS.items() if getattr(rungs, rung)]
            with torch.device(self.device):
                model = apply_rungs(GPT(config), parts, self.device)
            if rungs.attention or rungs.chunked:  # weights of the first model, not a copy of them
                shared = self._weights(rungs).state_dict(keep_vars=True)
                model.load_state_dict(shared, assign=True)
            self.models[key] = model
        return self.models[key]

    def _model(self, rungs: Rungs) -> nn.Module:
        """What a step calls: compiled where the rungs say so, and wrapped."""
        model: Any = self._plain_model(rungs)
        key = (id(model), rungs.compile, rungs.autotune)
        if key not in self.called:
            if rungs.compile:
                model = torch.compile(model, mode="max-autotune" if rungs.autotune else None)
            self.called[key] = self.wrap(model)
        return self.called[key]

    def _optimizer(self, rungs: Rungs) -> torch.optim.AdamW:
        key = (rungs.vocabulary, rungs.update)
        if key not in self.optimizers:
            how = {"fused": True} if rungs.update else {"foreach": False, "fused": False}
            params = list(self._weights(rungs).parameters())
            self.optimizers[key] = torch.optim.AdamW(
                params, lr=LEARNING_RATE, betas=BETAS, weight_decay=DECAY, **how
            )
        return self.optimizers[key]
