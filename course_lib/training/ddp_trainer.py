"""The training loop, on one device or with DDP on many: the same lines.

What it is: optimizer groups, a schedule, the accumulated step, validation, exact resume. What it
leaves out: sharding (fsdp_trainer.py), tensor and pipeline parallelism.

    python -m course_lib.training.ddp_trainer --model_size small --max_steps 50
    torchrun --nproc_per_node=2 -m course_lib.training.ddp_trainer --model_size small --max_steps 50

Sources: Loshchilov and Hutter 2019 (AdamW, cosine schedule), Li et al. 2020 ("PyTorch Distributed",
DDP), Pascanu et al. 2013 (clipping).
"""

import contextlib
import dataclasses
import functools
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from course_lib.checkpoints import single_file, whole
from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.saved_state import (
    plain_names,
    refuse_other_optimizer,
    refuse_other_shapes,
)
from course_lib.checkpoints.sharded import ONE_FOLDER, SAVING, list_records
from course_lib.data.batches import BatchLoader
from course_lib.data.prefetch import CopyStream, Prefetched
from course_lib.data.tokenizer import Tokenizer
from course_lib.fast.rungs import apply_rungs
from course_lib.gpt import GPT
from course_lib.measure.flops import flops_per_token
from course_lib.measure.speed import OwnTime, Speed, peak_megabytes
from course_lib.measure.trace import StepTrace
from course_lib.ranks.flight_recorder import record_flight
from course_lib.ranks.world import World, run
from course_lib.runs.heartbeat import beat
from course_lib.runs.options import parse
from course_lib.runs.random_states import random_states, restore_random_states
from course_lib.runs.run_lock import RunLock
from course_lib.runs.run_log import RunLog
from course_lib.runs.stop_request import SIGNALS, StopRequest
from course_lib.training.divergence import TrainingDiverged, refuse_divergence
from course_lib.training.muon import Muon
from course_lib.training.precision import autocast, compute_dtype, float32_products, takes_tf32
from course_lib.training.run_tokens import run_tokens
from course_lib.training.train_config import TrainConfig

Number = TypeVar("Number", Tensor, float)
# torch 2.13 gave it another name, and warns of the old one
SENDS_BUFFERS = {"forward_sync_buffers", "broadcast_buffers"}
NO_BUFFERS: dict[str, Any] = dict.fromkeys(
    sorted(SENDS_BUFFERS & set(inspect.signature(DistributedDataParallel).parameters))[-1:], False
)
IGNORED = -100  # a target that does not count, in GPT.forward and in F.cross_entropy


class DistributedTrainer:
    """Trains a GPT on batches of tokens; every rank builds one and calls the same methods.

    Args: `config`; `tokens`, the training text as 1-D uint16 (array, memmap or TokenStore);
    `vocab_size`; `valid_tokens`, the same for validation; `world`, this process among the others.
    """

    def __init__(
        self,
        config: TrainConfig,
        tokens,
        *,
        vocab_size: int,
        valid_tokens=None,
        world: World | None = None,
    ):
        self.config, self.world = config, world or World()
        self.device, self.step, self.tokens_seen = self.world.device, 0, 0
        self.accumulation = config.accumulation(self.world.world_size)
        self.dtype = compute_dtype(config.precision, self.device)
        self.tf32 = takes_tf32(config.precision, self.device)
        torch.manual_seed(config.seed)  # the same weights on every rank
        self.plain_model = self._build_model(vocab_size)
        self.model: Any = (
            self._wrap_model()
        )  # before the optimizer: sharding puts new parameters in place
        self.optimizer = self._setup_optimizer() if config.optimizer == "adamw" else self._muon()
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)
        self.loader: BatchLoader | Prefetched = self._loader(tokens, config.seed)
        if config.prefetch:
            self.loader = Prefetched(self.loader, pinned=self.device.type == "cuda")
        self.valid_tokens = valid_tokens
        self.stop_request: StopRequest | None = None  # of a program that listens for signals
        self.stopped = ""
        self.copies = CopyStream(self.device)
        self.own_time = OwnTime(self.device, parts=1 + self.accumulation)

    def _setup_optimizer(self) -> torch.optim.AdamW:
        """AdamW over `self.plain_model`, in two groups; rate, betas and decay as in `self.config`.

        The first has the tensors of two and more dimensions and the decay `weight_decay`. The
        second has all others, gains and biases, and the decay 0. Each parameter that takes a
        gradient is in one group, once. The rest are in none. A tied embedding and head are one
        parameter. A group without parameters stays, empty.
        """
        params = [p for p in self.plain_model.parameters() if p.requires_grad]
        groups = [
            {
                "params": [p for p in params if p.dim() >= 2],
                "weight_decay": self.config.weight_decay,
            },
            {"params": [p for p in params if p.dim() < 2], "weight_decay": 0.0},
        ]
        betas = (self.config.beta1, self.config.beta2)
        # fused: all tensors of a group in one kernel, one pass over weights, gradients and state
        return torch.optim.AdamW(groups, lr=self.config.lr, betas=betas, fused=True)

    def _muon(self) -> Muon:
        """Muon and AdamW over `self.plain_model`, with the settings that AdamW alone would get."""
        c = self.config
        return Muon(
            self.plain_model, lr=c.lr, betas=(c.beta1, c.beta2), weight_decay=c.weight_decay
        )

    def get_lr(self, step: int) -> float:
        """The learning rate of update `step`, counted from 0, as `self.config` asks for it.

        Update i of the first `warmup_steps` takes lr * (i + 1) / warmup_steps. Then half a cosine
        leads from lr, at update `warmup_steps`, to `min_lr`, at `max_steps`. From `max_steps` on
        the rate is `min_lr`, even where the warmup is as long as the run or longer. An update is
        one step of the optimizer, however many micro-batches it takes. Only `step` and the settings
        count, so a resumed run goes on with the same rates. If `min_lr` is an int, that int may be returned.
        """
        c = self.config
        if step >= c.max_steps:
            return c.min_lr
        if step < c.warmup_steps:
            return c.lr * (step + 1) / c.warmup_steps
        done = (step - c.warmup_steps) / (c.max_steps - c.warmup_steps)  # 0 up to, not with, 1
        return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * done))

    def train_step(self, batches: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor | float]:
        """One update from this rank's micro-batches: pairs (idx, targets), each (B, T) int64.

        The loss is the mean over all targets that count (not IGNORED), in all micro-batches of all
        ranks together, however unequal they are. Its gradient is clipped to the global norm
        `config.grad_clip`, 0 for no limit. Every group takes the rate `get_lr(step)`. No parameter
        has a gradient before the call. Afterwards every gradient is None or zero, `step` is 1
        higher, and `tokens_seen`, a plain number, is higher by the targets that counted on all
        ranks. `batches` stay as they are. ValueError on every rank when no target counts on any of
        them; nothing has changed then.

        Returns "loss" (nats per token, before the update), "grad_norm" (before clipping) and "lr".
        Each is a float, or a tensor of no dimension that the device may still be computing. A loss
        or norm that is not finite is no error here: it comes back as it is, both counters grow, and
        in float16 the scaler leaves the weights as they were.
        Micro-batches lie in host memory, so counting targets waits for no GPU. Memory: activations
        of one micro-batch at a time. Ranks sum, once an update each, the count (8 bytes, on the
        host), the loss (8 bytes, on the device) and the gradients (4 bytes a parameter).
        """
        counts = [(targets != IGNORED).sum().item() for _, targets in batches]
        num_tokens = self.sum_over_ranks(sum(counts))
        if not num_tokens:
            raise ValueError(f"no target counts on any rank: expected at least one that is not "
                             f"{IGNORED}, look at what masks them")  # fmt: skip
        lr = self.get_lr(self.step)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        loss_sum = torch.zeros((), dtype=torch.float64, device=self.device)
        for count, (idx, targets) in zip(counts, self.micro_batches(batches), strict=True):
            part = self.mean_loss(idx, targets) * (count / num_tokens)
            self.backward(part)  # here, not after the loop: it frees what the forward has kept
            loss_sum += part.detach()
        self.scaler.unscale_(self.optimizer)  # or clipping would compare a scaled norm
        limit = self.config.grad_clip or math.inf
        grad_norm = torch.nn.utils.clip_grad_norm_(self.plain_model.parameters(), limit)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.step += 1
        self.tokens_seen += int(num_tokens)
        return {"loss": self.sum_over_ranks(loss_sum), "grad_norm": grad_norm, "lr": lr}

    def micro_batches(self, batches: list[tuple[Tensor, Tensor]]) -> Iterator:
        """The same pairs in order; DDP all-reduces in the backward pass of the last one alone."""
        for i, batch in enumerate(batches):
            alone = self.world.group is None or i == len(batches) - 1
            with contextlib.nullcontext() if alone else self.model.no_sync():
                yield batch

    def mean_loss(self, idx: Tensor, targets: Tensor) -> Tensor:
        """The model's mean loss in nats over the targets that count, 0 where none does."""
        counts = (targets != IGNORED).any()
        with self.own_time.measure(), self.autocast():
            logits, loss = self.model(*self.copies.copy(idx, targets))
        # the mean of nothing is nan, and nan stays nan under a share of 0
        return loss if counts else 0.0 * logits.sum()

    def backward(self, part: Tensor) -> None:
        """Add the gradient of `part`, this rank's share of the loss, to every `p.grad`."""
        # DDP takes the mean over ranks, and the loss is a sum of their parts
        self.scaler.scale(part * self.world.world_size).backward()

    def autocast(self) -> contextlib.AbstractContextManager:
        """Matrix products in `self.dtype`, weights and their gradients in float32.

        Products of float32 use TF32 in `fit` alone, and where `self.tf32` says so.
        """
        return autocast(self.dtype, self.device)

    def sum_over_ranks(self, value: Number) -> Number:
        """The sum over all ranks, by an all-reduce of 8 bytes that does not wait for the device.

        Of a Python number, summed on the host, a float. Of a tensor of no dimension, wherever it
        lies, such a tensor of float64 on the device; reading it waits.
        """
        if isinstance(value, Tensor):
            return self.world.sum(value.double())
        return self.world.sum_numbers([value])[0]

    @torch.no_grad()
    def evaluate(self) -> float:
        """Mean loss in nats over windows drawn from all of the validation text, the same each time.

        `eval_batches` micro-batches, rounded up to a multiple of the ranks, are shared out among
        them. One all-reduce of 8 bytes.
        """
        loader = self._loader(self.valid_tokens, seed=0)
        self.model.eval()
        total = torch.zeros((), dtype=torch.float64, device=self.device)
        rounds = math.ceil(self.config.eval_batches / self.world.world_size)
        for _ in range(rounds):
            idx, targets = (part.to(self.device) for part in loader.next_batch())
            with self.autocast():
                total += self.plain_model(idx, targets)[1]
        self.model.train()
        return self.world.sum(total).item() / (rounds * self.world.world_size)

    def fit(self) -> dict[str, float]:
        """Train up to `max_steps`, with log, validation and checkpoints; the last row of the log.

        Continues from the newest good checkpoint where `config.resume` says so. Updates are queued
        and the device is waited for only after those that are logged, validated or saved: their loss
        and norm are read. Ends early, with a checkpoint, after the update in which any rank's
        `stop_request` has received a signal; `stopped` is then a line about it, else "". Raises
        TrainingDiverged when loss or norm are no longer numbers, or when float16 has skipped every
        update; no such state is ever saved.
        """
        c = self.config
        if c.resume and self.load_checkpoint() and self.world.is_first:
            print(f"continuing from step {self.step}")
        validates = self.valid_tokens is not None and c.eval_batches > 0
        row, shown, looked_at = {}, {}, self.step
        with (
            float32_products(self.tf32),
            contextlib.closing(self._log()) as log,
            contextlib.closing(self._trace()) as trace,
        ):
            speed = self._speed()
            speed.start(self.tokens_seen)
            while self.step < c.max_steps:
                found = self.train_step(self.next_batches())
                trace.step()
                last, signal = self.step == c.max_steps, self.agree_on_stop()
                ends = last or signal is not None
                logs, saves = self._is_due(c.log_every, ends), self._is_due(c.save_every, ends)
                tests = validates and self._is_due(c.eval_every, last)
                if reads := logs or saves or tests:
                    row = self._read_row(found, looked_at + 1)
                    looked_at, shown = self.step, {"loss": row["loss"]}
                beat(self.step, c.max_steps, tokens=self.tokens_seen, **shown)
                if not reads:
                    continue
                speed.stop(self.tokens_seen)
                if tests:
                    row["valid_loss"] = self.evaluate()
                if logs or tests:
                    row |= self._speed_row(speed)
                    log.write(row)
                if saves:
                    path = self.save_checkpoint()
                if signal and not last:
                    self.stopped = f"stopped at step {self.step} by {signal}; checkpoint {path}"
                    break
                speed.start(self.tokens_seen)
        if self.world.is_first and (line := trace.close()):
            print(line)
        return row

    def agree_on_stop(self) -> str | None:
        """The name of the signal by which this run is to stop, the same on every rank; or None.

        Where `stop_request` is set, on all ranks or none: one all-reduce on the CPU, 8 bytes a signal.
        """
        if self.stop_request is None:
            return None
        received = self.stop_request.received
        counts = self.world.sum_numbers([float(received == s) for s in SIGNALS])
        return next((s.name for s, count in zip(SIGNALS, counts, strict=True) if count), None)

    def next_batches(self) -> list[tuple[Tensor, Tensor]]:
        """This rank's micro-batches for the next update; the loader moves on."""
        with self.own_time.measure():
            return [self.loader.next_batch() for _ in range(self.accumulation)]

    def save_checkpoint(self) -> Path:
        """Write everything that an exact resume needs; returns the path. All ranks must call it.

        Every rank gives a dict of tensors and plain values to `self.write_checkpoint`. Rank 0
        writes it:

            "step", "tokens_seen"    as they are
            "model"                  the state dict of `plain_model`, or that of `model`, whose names
                                     a load unwraps
            "optimizer", "scaler", "loader"    their state dicts
            "ranks"                  the list of every rank's random states, from `world.gather`,
                                     which gives an empty list to the other ranks
            "config"                 the settings as a dict
        """
        return self.write_checkpoint(
            {
                "step": self.step,
                "tokens_seen": self.tokens_seen,
                "model": self.plain_model.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "scaler": self.scaler.state_dict(),
                "loader": self.loader.state_dict(),
                "ranks": self.world.gather(random_states()),  # they differ, all else does not
                "config": dataclasses.asdict(self.config),
            }
        )

    def write_checkpoint(self, state: dict) -> Path:
        """Write `state`, from rank 0, as the run's checkpoint of its step; the path.

        All ranks must call it, and none goes on before the file is there; they wait for up to two
        hours. OSError on every rank when the disk is full; earlier checkpoints are then still there.
        """
        folder, keep = Path(self.config.out) / "checkpoints", self.config.keep
        return self.patient.do_on_first(
            lambda: single_file.save(state, folder, state["step"], keep=keep)
        )

    @functools.cached_property
    def patient(self) -> World:
        """The same ranks where they wait for files, with a limit of its own. All ranks must ask."""
        return self.world.regroup(SAVING)

    def load_checkpoint(self, path: str | Path | None = None) -> int:
        """Continue from what `self.read_checkpoint(path)` finds; returns the step, 0 for none.

        Restores all that `save_checkpoint` writes, with two exceptions: "config" stays this run's,
        and random states, by rank, only where the number of ranks is the same. Names of wrapped
        models are unwrapped. The optimizer's groups, rates included, are the file's. ValueError for
        weights or a loader that do not fit; nothing has been changed then. `read_checkpoint` has
        already refused the file of another optimizer.
        """
        state = self.read_checkpoint(path)
        if state is None:
            return 0
        weights = plain_names(state["model"])
        refuse_other_shapes(weights, self.plain_model.state_dict())
        self.loader.load_state_dict(state["loader"])  # refuses too, so it stands before the rest
        self.plain_model.load_state_dict(weights)
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.step, self.tokens_seen = state["step"], state["tokens_seen"]
        if len(state["ranks"]) == self.world.world_size:  # another number of ranks draws anew
            restore_random_states(state["ranks"][self.world.rank])
        return self.step

    def read_checkpoint(self, path: str | Path | None = None) -> Any:
        """The state in that file, or in the newest good one of the run; None when there is none.

        A dict, in the form that `load_checkpoint` takes; a trainer with files of its own has another.
        Rank 0 decides and reads, and broadcasts the state, all of its bytes, to the others. Tensors
        arrive in main memory or on the rank's device; `load_state_dict` moves them. All ranks must
        call it.

        CheckpointError on every rank for a file that is not good, or that lacks a part. ValueError
        on every rank when it was written with another optimizer, and when one rank does not see the
        checkpoints of the run that rank 0 sees.
        """
        folder, state = Path(self.config.out) / "checkpoints", None
        if path is None:
            self.patient.require_same(lambda: list_records(folder), ONE_FOLDER)

        def read() -> None:
            nonlocal state
            found = (0, whole.load(path)) if path else single_file.load_newest(folder)
            if found is None:
                return
            wanted = {"step", "tokens_seen", "model", "optimizer", "scaler", "loader", "ranks"}
            if missing := wanted - set(found[1]):
                raise CheckpointError(
                    f"expected a training checkpoint, this one lacks {', '.join(sorted(missing))}: "
                    f"for weights alone use trainer.plain_model.load_state_dict(plain_names(state))"
                )
            refuse_other_optimizer(found[1].get("config", {}), self.config.optimizer)
            state = found[1]

        self.patient.do_on_first(read)
        return self.world.broadcast_state(state)

    def optimizer_groups(self) -> list[dict]:
        """The groups in plain values: "names" of parameters, "weight_decay", "lr", "betas"."""
        names = {id(p): name for name, p in self.plain_model.named_parameters()}
        return [
            {
                "names": [names.get(id(p), "not of this model") for p in group["params"]],
                "weight_decay": group["weight_decay"],
                "lr": group["lr"],
                "betas": list(group["betas"]),
            }
            for group in self.optimizer.param_groups
        ]

    def weights(self) -> dict[str, Tensor]:
        """Copies of the parameters by name, on the CPU."""
        return {n: p.detach().cpu().clone() for n, p in self.plain_model.named_parameters()}

    def describe(self) -> str:
        """One line: model, device, precision, tokens per update, optimizer groups."""
        groups = self.optimizer.param_groups
        first, *others, plain = (sum(p.numel() for p in g["params"]) for g in groups)
        decayed = first + sum(others)
        by_muon = f", {first:,} by Muon" * bool(others)
        c, ranks = self.config, self.world.world_size
        batch = c.batch_size * self.accumulation * ranks
        return (
            f"{c.model_size}: {decayed + plain:,} parameters, {decayed:,} of them decayed{by_muon}; {ranks} "
            f"{self.device.type} rank{'s' * (ranks > 1)}, {str(self.dtype)[6:]}"
            f"{' with TF32 products' * self.tf32}; "
            f"{batch} x {c.tokens_per_sequence} = {batch * c.tokens_per_sequence:,} tokens per step"
        )

    @torch.no_grad()
    def sample(self, tokenizer, num_tokens: int, prompt: str = "def ") -> str:
        """What the model makes of the prompt, in `num_tokens` tokens; always the same draw."""
        idx = torch.tensor([tokenizer.encode(prompt)], device=self.device)
        generator = torch.Generator(self.device).manual_seed(0)
        with self.autocast():
            out = self.plain_model.generate(
                idx, max_new_tokens=num_tokens, temperature=0.8, top_k=40, generator=generator
            )
        return tokenizer.decode(out[0].tolist())

    def _build_model(self, vocab_size: int) -> GPT:
        """The model with its first weights, on the host, and on the rungs that are asked for."""
        model = GPT(self.config.model_config(vocab_size))
        return apply_rungs(model, self.config.rung_names, self.device)

    def _wrap_model(self) -> torch.nn.Module:
        """The model on its device, as it is called: compiled where asked for, in DDP on ranks."""
        model: Any = self.plain_model.to(self.device)
        if self.config.compile:
            model = torch.compile(model)
        if self.world.group is None:
            return model
        devices = [self.device] if self.device.type == "cuda" else None
        return DistributedDataParallel(
            model,
            devices,
            process_group=self.world.group,
            gradient_as_bucket_view=True,  # 4 bytes a parameter less: no copy into what is sent
            **NO_BUFFERS,  # the rotary tables: all ranks compute the same, for good
        )

    def _loader(self, tokens, seed: int) -> BatchLoader:
        return BatchLoader(
            tokens,
            batch_size=self.config.batch_size,
            seq_len=self.config.tokens_per_sequence,
            rank=self.world.rank,
            world_size=self.world.world_size,
            seed=seed,
            vocab_size=self.plain_model.config.vocab_size,
        )

    def _log(self) -> RunLog:
        folder = Path(self.config.out) if self.world.is_first else None
        return RunLog(
            folder,
            total=self.config.max_steps,
            done=self.step,
            wandb=self.config.wandb,
            tensorboard=self.config.tensorboard,
            settings=dataclasses.asdict(self.config),
        )

    def _trace(self) -> StepTrace:
        traces = self.world.rank < self.config.trace_ranks
        path = Path(self.config.out) / f"trace_rank{self.world.rank}.json.gz"
        return StepTrace(path, self.config.trace if traces else 0)

    def _speed(self) -> Speed:
        flops = flops_per_token(self.plain_model.config, self.config.tokens_per_sequence)
        return Speed(self.device, self.dtype, flops, self.world.world_size)

    def _is_due(self, every: int, last: bool) -> bool:
        return last or (every > 0 and self.step % every == 0)

    def _read_row(self, found: dict[str, Tensor | float], first: int) -> dict[str, float]:
        """The numbers of the last update, waited for; none was looked at since update `first`."""
        row = {"step": self.step} | {name: float(value) for name, value in found.items()}
        try:
            last = self.step == self.config.max_steps
            refuse_divergence(row, self.scaler, self.optimizer, is_last=last)
        except TrainingDiverged as error:
            good = single_file.steps(Path(self.config.out) / "checkpoints")
            kept = f"the checkpoint of step {good[0]} is good" if good else "there is no checkpoint"
            span = f"step {self.step}" if first == self.step else f"steps {first} to {self.step}"
            raise TrainingDiverged(
                f"{span}: {error}; {kept}. Try a lower --lr (now {self.config.lr:g}), more "
                f"--warmup_steps, or --precision fp32"
            ) from None
        return row | {"tokens": self.tokens_seen}

    def _speed_row(self, speed: Speed) -> dict[str, float]:
        ranks = self.world.gather((peak_megabytes(self.device), self.own_time.seconds()))
        return speed.row(ranks) if ranks else {}  # rank 0 has them, and it writes the log


def main(world: World, config: TrainConfig, kind: type[DistributedTrainer] | None = None) -> None:
    """Train as `config` says, on its text, with a trainer of that kind, and write a sample.

    ValueError for fp16 on a CPU.
    """
    if config.precision == "fp16" and world.device.type == "cpu":  # it works, far too slowly
        raise ValueError("fp16 trains on GPUs: on this CPU pass --precision bf16 or fp32")
    lock = RunLock(config.out)
    world.do_on_first(lock.take)
    try:
        if config.resume:  # on a first start too: better now than after the first failure
            world.require_same(lock.read, ONE_FOLDER)
        _train(world, config, kind or DistributedTrainer)
    finally:
        lock.release()


def _train(world: World, config: TrainConfig, kind: type[DistributedTrainer]) -> None:
    tokenizer = Tokenizer.course()
    tokens, valid_tokens = run_tokens(world, config, tokenizer)
    trainer = kind(
        config, tokens, vocab_size=tokenizer.vocab_size, valid_tokens=valid_tokens, world=world
    )
    if world.is_first:
        print(trainer.describe())
    try:
        with StopRequest() as trainer.stop_request:
            row = trainer.fit()
    except TrainingDiverged as error:
        raise SystemExit(f"stopped: {error}") from None
    except OSError as error:
        raise SystemExit(
            f"stopped after step {trainer.step}, could not write below {config.out} ({error}): "
            f"earlier checkpoints are there; free some space and start the same command again"
        ) from None
    if trainer.stopped:
        if world.is_first:
            resume = "" if config.resume else " without --no-resume"
            print(f"{trainer.stopped}; start the same command{resume} to go on")
        return
    if world.is_first:
        loss = f"loss {row['loss']:.4f}" if row else "nothing left to do"
        print(f"step {trainer.step}: {loss}; log, curves and checkpoints in {config.out}")
    if config.sample_tokens:  # on every rank: a sharded model answers all of them or none
        text = trainer.sample(tokenizer, config.sample_tokens)
        if world.is_first:
            print(text)


if __name__ == "__main__":
    # `python -m` runs this file as a second module called __main__; go on in the importable one
    from course_lib import install_mine
    from course_lib.training import ddp_trainer

    chosen = parse(TrainConfig, prog="python -m course_lib.training.ddp_trainer")
    if chosen.mine:
        install_mine()
    record_flight(Path(chosen.out) / "flight_recorder", chosen.device)
    run(lambda world: ddp_trainer.main(world, chosen), chosen.device, chosen.timeout)
