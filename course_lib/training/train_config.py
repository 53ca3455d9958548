"""Everything that a training run can be told, in one frozen dataclass.

What it is: the settings of `ddp_trainer.py`, with units, and what is wrong with a bad one. What it
leaves out: the shape of the model, which is `GPTConfig`; a preset of it is named here.
"""

from dataclasses import dataclass
from typing import ClassVar

from course_lib.fast.rungs import RUNGS
from course_lib.gpt import PRESETS, GPTConfig
from course_lib.ranks.world import TIMEOUT_S
from course_lib.runs.ranges import (
    COUNT,
    MANY,
    PATH,
    SEED,
    ZERO_OR_MORE,
    Allowed,
    Range,
    Words,
    check_settings,
)
from course_lib.training.precision import DTYPES

PRECISIONS = ("auto", *DTYPES)
DEVICES = ("auto", "cpu", "cuda")
OPTIMIZERS = ("adamw", "muon")
OFF = "0 switches it off"

RANGES = {
    "model_size": tuple(PRESETS),
    "max_steps": COUNT,
    "batch_size": COUNT,
    "grad_accumulation": COUNT,
    "global_batch": COUNT,
    "seq_len": COUNT,
    "optimizer": OPTIMIZERS,
    "lr": Range(0, 100, open=True),
    "min_lr": Range(0, 100),
    "warmup_steps": ZERO_OR_MORE,
    "weight_decay": Range(0, 100, advice=OFF),
    "beta1": Range(0, 1 - 1e-9),
    "beta2": Range(0, 1 - 1e-9),
    "grad_clip": Range(0, MANY, advice=OFF),
    "precision": PRECISIONS,
    "rungs": Words(tuple(RUNGS)),
    "device": DEVICES,
    "timeout": COUNT,
    "data": PATH,
    "cache": PATH,
    "valid_fraction": Range(0, 1, open=True),
    "out": PATH,
    "seed": SEED,
    "log_every": COUNT,
    "eval_every": ZERO_OR_MORE,
    "eval_batches": ZERO_OR_MORE,
    "save_every": ZERO_OR_MORE,
    "keep": COUNT,
    "trace": ZERO_OR_MORE,
    "trace_ranks": COUNT,
    "sample_tokens": ZERO_OR_MORE,
}
"""What each setting may be."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a GPT on one device, or with DDP on many under torchrun.

    Sizes: a step is one update of the weights. It reads batch_size x grad_accumulation sequences of
    seq_len tokens on each rank. ValueError for a setting out of its range, for min_lr above lr, for
    lr * weight_decay of 1 or more, and for a seq_len beyond the preset's longest.
    """

    ranges: ClassVar[Allowed] = RANGES

    model_size: str = "small"
    """Preset of the model: tiny, small, medium, 134m, large or xl."""
    max_steps: int = 50
    """Updates to make, counted from the first start of the run."""
    batch_size: int = 8
    """Sequences in a micro-batch, per rank."""
    grad_accumulation: int = 1
    """Micro-batches per update, per rank."""
    global_batch: int | None = None
    """Sequences per update over all ranks; when given, grad_accumulation follows from it."""
    seq_len: int | None = None
    """Tokens in a sequence; none takes the longest that the preset allows."""
    optimizer: str = "adamw"
    """adamw, or muon: Muon for the matrices inside the blocks, AdamW for all else, at one rate."""
    lr: float = 1e-3
    """Highest learning rate."""
    min_lr: float = 1e-4
    """Learning rate at max_steps and after it."""
    warmup_steps: int = 10
    """Updates in which the rate climbs from lr / warmup_steps to lr."""
    weight_decay: float = 0.1
    """Decay of the matrices; gains and biases are not decayed."""
    beta1: float = 0.9
    """AdamW's memory of gradients."""
    beta2: float = 0.95
    """AdamW's memory of squared gradients."""
    grad_clip: float = 1.0
    """Longest global gradient; a longer one is scaled down to it. 0 switches clipping off."""
    precision: str = "auto"
    """bf16, fp16, fp32 (its matrix products in TF32 on a GPU that has units for it), tf32 (only with
    these units), ieee (float32 in all its bits), or auto: bf16 where it is faster, else fp32."""
    activation_checkpointing: bool = False
    """Recompute each block in the backward pass: less memory, more time."""
    compile: bool = False
    """Compile the model with torch.compile; the first step then takes up to a minute."""
    rungs: str | None = None
    """Parts of the course's own for less time or memory, joined by commas: padded_vocab (the head
    gets a multiple of 64 rows), chunked_loss (head and loss over 1,024 tokens at a time),
    flash_attention (our Triton kernels; tiles in plain torch where they can't run), fused_norm (a
    Triton kernel; needs a GPU), fp8 (needs a GPU of capability 8.9 or later)."""
    device: str = "auto"
    """cpu, cuda, or auto: a GPU where there is one."""
    timeout: int = TIMEOUT_S
    """Seconds until a collective that one rank never joins is an error; a save may take longer."""
    data: str | None = None
    """Folder of text files, or of token shards; none takes the sources of Python's library."""
    cache: str = "runs/data"
    """Folder for the tokens of the text, made on first use."""
    prefetch: bool = False
    """Fetch the next batch in a thread while this one trains, for a GPU into pinned memory."""
    valid_fraction: float = 0.05
    """Share of the text's files that is kept for validation."""
    out: str = "runs/ddp/{model_size}"
    """Folder of this run: checkpoints, log.csv, curves.png. {model_size} stands for that setting, so
    that runs of two models do not meet in one folder."""
    seed: int = 1337
    """Seed of the weights and of the order of the data."""
    log_every: int = 1
    """Updates between two rows of the log; for a row, a save or a validation the device is
    waited for, otherwise not."""
    eval_every: int = 25
    """Updates between two validations; 0 validates at the end only."""
    eval_batches: int = 8
    """Micro-batches of one validation, shared out among the ranks and rounded up to a multiple of
    them; 0 for no validation."""
    save_every: int = 25
    """Updates between two checkpoints; 0 saves at the end only."""
    keep: int = 2
    """Checkpoints to keep, newest first."""
    trace: int = 0
    """Updates to profile, after three others, into a Chrome trace in the folder of the run."""
    trace_ranks: int = 1
    """Ranks that write such a trace, from rank 0 on."""
    resume: bool = True
    """Continue from the newest good checkpoint in the folder of the run."""
    sample_tokens: int = 60
    """Tokens to write at the end, 0 for none."""
    mine: bool = False
    """Run on your own definitions from mine/, where there are any; says which are whose."""
    tensorboard: bool = False
    """Also log for TensorBoard (needs the package tensorboard)."""
    wandb: bool = False
    """Also log for Weights & Biases, offline unless WANDB_MODE says otherwise (needs wandb)."""

    def __post_init__(self):
        check_settings(self, self.ranges)
        object.__setattr__(self, "out", self.out.replace("{model_size}", self.model_size))
        if self.min_lr > self.lr:
            raise ValueError(
                f"expected 0 <= min_lr <= lr, got {self.min_lr}, {self.lr}: lower min_lr or raise lr"
            )
        if self.lr * self.weight_decay >= 1:
            raise ValueError(
                f"lr * weight_decay must be below 1, or an update turns weights round: got "
                f"{self.lr:g} * {self.weight_decay:g}, lower one of them"
            )
        longest = PRESETS[self.model_size]["max_seq_len"]
        if self.seq_len is not None and self.seq_len > longest:
            raise ValueError(
                f"seq_len must be 1 to {longest}, the longest of the preset {self.model_size}, "
                f"got {self.seq_len}"
            )

    @property
    def rung_names(self) -> list[str]:
        """The names in `rungs`, none where it is None."""
        return self.rungs.split(",") if self.rungs else []

    @property
    def tokens_per_sequence(self) -> int:
        """T: seq_len, or the preset's longest."""
        return self.seq_len or PRESETS[self.model_size]["max_seq_len"]

    def accumulation(self, world_size: int) -> int:
        """Micro-batches per update on each of `world_size` ranks; ValueError if none fits."""
        if self.global_batch is None:
            return self.grad_accumulation
        together = self.batch_size * world_size
        if self.global_batch < together or self.global_batch % together:
            raise ValueError(
                f"global_batch must be a multiple of batch_size * ranks = {self.batch_size} * "
                f"{world_size} = {together}, got {self.global_batch}: change one of the three"
            )
        return self.global_batch // together

    def model_config(self, vocab_size: int) -> GPTConfig:
        """The shape of the model for a vocabulary of that size."""
        return GPTConfig.preset(
            self.model_size,
            vocab_size=vocab_size,
            activation_checkpointing=self.activation_checkpointing,
        )
