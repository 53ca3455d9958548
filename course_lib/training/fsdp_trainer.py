"""The training loop with everything sharded: weights, gradients and optimizer state (FSDP2).

What it is: `DistributedTrainer` on a model that `fully_shard` has cut into shards: which ranks share
a copy, what is computed in which dtype, which modules are gathered together, and checkpoints that
any number of ranks can read. What it leaves out: how FSDP works inside (mini_fsdp.py, by hand);
tensor and pipeline parallelism.

    torchrun --nproc_per_node=2 -m course_lib.training.fsdp_trainer --model_size medium --max_steps 50

Without torchrun it trains on one process, through the same lines.

Sources: Rajbhandari et al. 2020 ("ZeRO"), Zhao et al. 2023 ("PyTorch FSDP"), the documentation of
torch.distributed.fsdp.fully_shard (FSDP2) and of torch.distributed.checkpoint.
"""

import contextlib
import copy
import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import torch
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    OffloadPolicy,
    fully_shard,
)
from torch.distributed.tensor import DTensor

from course_lib.checkpoints.files import CheckpointError
from course_lib.checkpoints.saved_state import (
    SavedState,
    number_parameters,
    refuse_other_optimizer,
)
from course_lib.checkpoints.sharded import ShardedCheckpoints
from course_lib.fast.rungs import apply_rungs
from course_lib.gpt import GPT, TransformerBlock
from course_lib.ranks.flight_recorder import record_flight
from course_lib.ranks.world import World, run
from course_lib.runs.options import parse
from course_lib.runs.random_states import random_states, restore_random_states
from course_lib.training import ddp_trainer
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.first_weights import allocate_shards, build_without_weights, draw_shards
from course_lib.training.fsdp_config import FSDPConfig


class FSDPTrainer(DistributedTrainer):
    """Trains a GPT of which each rank keeps a part; every rank builds one and calls the same methods.

    Args: as for `DistributedTrainer`, with an `FSDPConfig`. Without a `world`, or with one that has
    no group, that of the default group is taken, which is made where there is none.

    A rank need not hold the whole model to begin: the first weights are drawn matrix by matrix in
    host memory, the same on every rank, and each keeps its part. `config.sharding` says what is
    whole later.
    """

    config: FSDPConfig

    def __init__(
        self,
        config: FSDPConfig,
        tokens,
        *,
        vocab_size: int,
        valid_tokens=None,
        world: World | None = None,
    ):
        if world is None or world.group is None:
            world = World.of_group(config.device)
        config = config.with_sizes(world.device.type)
        super().__init__(
            config, tokens, vocab_size=vocab_size, valid_tokens=valid_tokens, world=world
        )
        self.checkpoints = ShardedCheckpoints(
            Path(config.out) / "checkpoints", world, keep=config.keep
        )

    def _get_sharding_strategy(self) -> tuple[DeviceMesh, bool]:
        """(mesh, reshard_after_forward) for `fully_shard`, as `config.sharding` asks.

        The mesh spans all R = `self.world.world_size` ranks in order, on devices of type
        `self.device.type`. Along its axis "shard", ranks hold different parts of one copy of the
        model. Along its axis "replicate", they hold the same part, and its gradient is all-reduced.
        If `reshard_after_forward` is True, a block's gathered weights are freed after its forward
        pass and gathered again for its backward pass.

        FULL_SHARD: R parts, one axis; freed. (ZeRO stage 3)
        SHARD_GRAD_OP: R parts, one axis; kept until backward has used them. (ZeRO stage 2)
        HYBRID_SHARD: S = config.ranks_per_copy(R) parts, R / S copies; freed. The two axes are
        "replicate", then "shard", so that neighbors, on one machine, share a copy.
        NO_SHARD: one part, R copies, the same two axes; kept, there is nothing to free. (as DDP)
        Any other name raises KeyError or ValueError.

        Collectives: neither tensors nor objects travel between ranks. All ranks must call it, since
        two axes make groups of ranks.
        """
        ranks, size = self.world.world_size, self.config.ranks_per_copy(self.world.world_size)
        one_copy = (ranks,), ("shard",)
        copies = (ranks // size, size), ("replicate", "shard")
        (shape, names), reshard = {
            "FULL_SHARD": (one_copy, True),
            "SHARD_GRAD_OP": (one_copy, False),
            "HYBRID_SHARD": (copies, True),
            "NO_SHARD": (copies, False),
        }[self.config.sharding]
        return init_device_mesh(self.device.type, shape, mesh_dim_names=names), reshard

    def _get_mixed_precision_policy(self) -> MixedPrecisionPolicy:
        """What FSDP2 casts when blocks compute in `self.dtype`: float32, bfloat16 or float16.

        With float32 nothing is cast. Otherwise weights are gathered and used in that dtype, which
        halves the bytes of an all-gather; shards and optimizer state stay float32. Gradients are
        always reduced in float32: in bfloat16, a sum keeps 8 bits and may lose an addend 256 times
        smaller. Inputs of modules are not cast, because a block also gets the tables of rotary
        angles, which GPT keeps in float32. Outputs are not cast.
        """
        low = None if self.dtype == torch.float32 else self.dtype
        return MixedPrecisionPolicy(
            param_dtype=low, reduce_dtype=torch.float32, cast_forward_inputs=False
        )

    def _get_fsdp_policy(self) -> list[nn.Module]:
        """A list of the modules that become units of FSDP, in the order for `fully_shard`.

        A unit's weights are gathered in one collective, used, and freed together. So the memory
        above the shards is that of the largest units, not of the model. The units are every
        TransformerBlock in `plain_model`, also one that sits in a wrapper or outside `blocks`, each
        once, in order, and then `plain_model` itself; nothing else. The model comes last because a
        call takes every parameter that no earlier call has taken: embedding, last norm and head.
        """
        blocks = [m for m in self.plain_model.modules() if isinstance(m, TransformerBlock)]
        return [*blocks, self.plain_model]

    def save_checkpoint(self) -> Path:
        """Write everything that a resume on any number of ranks needs; the path. All ranks call it.

        Every rank calls `self.write_checkpoint`, also at a step that has been saved before, with a
        dict of the parts that DistributedTrainer saves:
        - "step", "tokens_seen": `self.step`, `self.tokens_seen`;
        - "model", "optimizer": the two results of torch's `get_state_dict` for `plain_model` and
          the optimizer, where optimizer state goes by the name of the parameter;
        - "scaler", "loader": the state dicts of `self.scaler` and `self.loader`;
        - "ranks": the list of `random_states()` of all ranks, by `world.gather`;
        - "config": the settings as a plain dict.

        With `config.checkpoint` "sharded", "model" and "optimizer" hold this rank's shards as
        DTensors, also for small tensors, and no tensor is gathered. With "full", they hold whole
        tensors in host memory on rank 0, and nothing on the others.

        Collectives: "full" gathers 12 bytes a parameter, tensor by tensor. Both modes gather the
        random states, some 10 KB a rank.
        """
        full = self.config.checkpoint == "full"
        options = StateDictOptions(full_state_dict=full, cpu_offload=full)
        model, optimizer = get_state_dict(self.plain_model, self.optimizer, options=options)
        return self.write_checkpoint(
            {
                "step": self.step,
                "tokens_seen": self.tokens_seen,
                "model": model,
                "optimizer": optimizer,
                "scaler": self.scaler.state_dict(),
                "loader": self.loader.state_dict(),
                "ranks": self.world.gather(random_states()),
                "config": dataclasses.asdict(self.config),
            }
        )

    def load_checkpoint(self, path: str | Path | None = None) -> int:
        """Continue from what `self.read_checkpoint(path)` finds; the step, 0 for none.

        It finds None or a `SavedState`, saved with any number of ranks and any strategy. Its
        `plain` has all parts of a checkpoint but the tensors. Its
        `fill({"model": ..., "optimizer": ...})` takes the two results of `get_state_dict` here,
        called without options, overwrites their tensors with this rank's parts of what was saved,
        and returns both, ready for `set_state_dict`. No tensor travels between ranks.

        All that `save_checkpoint` writes is restored, but "config" stays this run's, and random
        states, by rank, only if the number of ranks is the same. ValueError for a loader that does
        not fit; nothing has been changed then.
        """
        saved = self.read_checkpoint(path)
        if saved is None:
            return 0
        plain = saved.plain
        self.loader.load_state_dict(plain["loader"])  # refuses another text, so it comes first
        model, optimizer = get_state_dict(self.plain_model, self.optimizer)
        state = saved.fill({"model": model, "optimizer": optimizer})
        set_state_dict(
            self.plain_model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.scaler.load_state_dict(plain["scaler"])
        self.step, self.tokens_seen = plain["step"], plain["tokens_seen"]
        if len(plain["ranks"]) == self.world.world_size:  # another number of ranks draws anew
            restore_random_states(plain["ranks"][self.world.rank])
        return self.step

    def write_checkpoint(self, state: dict) -> Path:
        """Write `state`: shards from every rank, or one file from rank 0; the path.

        With `config.async_save` it returns when the shards are copied, not when they are written;
        OSError of a write behind the training comes with the next save, or at the end of `fit`.
        """
        if self.config.checkpoint == "sharded":
            return self.checkpoints.save(state, wait=not self.config.async_save)
        if self.world.is_first:  # in the form that DistributedTrainer reads
            state = state | {"optimizer": number_parameters(state["optimizer"])}
        return super().write_checkpoint(state)

    @property
    def patient(self) -> World:
        """The group on which the ranks wait for shards, too."""
        return self.checkpoints.ranks

    def read_checkpoint(self, path: str | Path | None = None) -> SavedState | None:
        """That checkpoint, or the newest good one of the run, checked; None when there is none.

        A folder of shards, or a file of either trainer. CheckpointError on every rank for one that
        is not good, lacks a part, or is of another model.
        """
        names = [name for group in self.optimizer_groups() for name in group["names"]]
        if path is not None:
            saved = self.checkpoints.open(path, names)
        else:
            say = print if self.world.is_first else lambda text: None
            saved = self.checkpoints.open_newest(names, say)
        if saved is not None:
            self.refuse_unfit(saved)
        return saved

    def refuse_unfit(self, saved: SavedState) -> None:
        """CheckpointError unless it is a training checkpoint of a model of these shapes; ValueError
        for one of another optimizer."""
        wanted = {"step", "tokens_seen", "model", "optimizer", "scaler", "loader", "ranks"}
        if missing := wanted - saved.plain.keys():
            raise CheckpointError(
                f"expected a training checkpoint, {saved.path} lacks {', '.join(sorted(missing))}"
            )
        refuse_other_optimizer(saved.plain.get("config", {}), self.config.optimizer)
        saved.refuse_other(self.plain_model.state_dict())

    def fit(self) -> dict[str, float]:
        """As `DistributedTrainer.fit`; returns when the last checkpoint is on the disk."""
        try:
            return super().fit()
        finally:
            self.checkpoints.wait()

    @torch.no_grad()
    def evaluate(self) -> float:
        """As `DistributedTrainer.evaluate`; the weights it has gathered are freed again."""
        loss = super().evaluate()
        self._free()  # no backward pass comes that would
        return loss

    @torch.no_grad()
    def sample(self, tokenizer, num_tokens: int, prompt: str = "def ") -> str:
        """As `DistributedTrainer.sample`, on every rank.

        The weights stay gathered from token to token: one all-gather of the model in all, and the
        memory of one whole copy in `self.dtype`.
        """
        self.model.set_reshard_after_forward(False)
        text = super().sample(tokenizer, num_tokens, prompt)
        self.model.set_reshard_after_forward(self.reshards)
        self.model.set_reshard_after_forward(False, recurse=False)
        self._free()
        return text

    def weights(self) -> dict[str, Tensor]:
        """Copies of the whole parameters by name, on the CPU. All ranks must call it.

        Collectives: an all-gather of each parameter, 4 bytes a parameter in all.
        """
        return {n: full_tensor(p).cpu().clone() for n, p in self.plain_model.named_parameters()}

    def describe(self) -> str:
        """A second line: how the model is spread."""
        shape = " x ".join(map(str, self.mesh.shape))
        kept = sum(cast(DTensor, p).to_local().numel() for p in self.plain_model.parameters())
        where = ", in host memory" if self.config.cpu_offload else ""
        return (
            f"{super().describe()}\n{self.config.sharding} on a mesh of {shape}: rank 0 keeps "
            f"{kept:,} parameters, {16 * kept / 1e6:,.0f} MB with gradients and optimizer "
            f"state{where}; {self.config.checkpoint} checkpoints"
        )

    def _build_model(self, vocab_size: int) -> GPT:
        """The model without its matrices, which `_wrap_model` draws when they are cut into shards."""
        self._plain = build_without_weights(self.config.model_config(vocab_size))
        return apply_rungs(copy.deepcopy(self._plain), self.config.rung_names, self.device)

    def _wrap_model(self) -> nn.Module:
        """The same model, sharded in place: its parameters become DTensors and keep their names."""
        self.mesh, self.reshards = self._get_sharding_strategy()
        policy, offload = self._get_mixed_precision_policy(), self._offload()
        units = self._get_fsdp_policy()
        for module in units:
            root = module is self.plain_model
            if self.config.compile and not root:
                # the computation alone: the hooks that gather and free stay outside the graph
                module.forward = torch.compile(module.forward)
            # the root ends the forward pass and begins the backward pass: freeing between is waste
            fully_shard(
                module,
                mesh=self.mesh,
                reshard_after_forward=self.reshards and not root,
                mp_policy=policy,
                offload_policy=offload,
            )
        if self.config.prefetch_units:
            self._prefetch(units)
        allocate_shards(self.plain_model, "cpu" if self.config.cpu_offload else self.device)
        draw_shards(self.plain_model, self._plain)
        del self._plain  # its rotary tables are a second copy
        return self.plain_model

    def _prefetch(self, units: list[nn.Module]) -> None:
        """Let each unit ask for the weights of the next `prefetch_units` before it computes."""
        *blocks, root = cast(list[FSDPModule], units)
        for order, ask in (
            ([root, *blocks], "set_modules_to_forward_prefetch"),
            ([root, *blocks[::-1]], "set_modules_to_backward_prefetch"),
        ):
            for i, unit in enumerate(order, 1):
                getattr(unit, ask)(order[i : i + self.config.prefetch_units])

    def _offload(self) -> OffloadPolicy:
        """Host memory for what is sharded, pinned where there is a GPU to copy to; or none."""
        if not self.config.cpu_offload:
            return OffloadPolicy()
        return CPUOffloadPolicy(pin_memory=self.device.type == "cuda")

    def train_step(self, batches: list[tuple[Tensor, Tensor]]) -> dict[str, Tensor | float]:
        """As `DistributedTrainer.train_step`; each rank returns the norm of the whole gradient.

        Collectives beside those of the units: all-reduces of 8 bytes, one on the host and one on the
        device, and of 4 bytes for the norm. With `config.cpu_offload` each update waits for the GPU:
        the gradients it needs have to be in host memory.
        """
        found = super().train_step(batches)
        return {name: full_tensor(x) if isinstance(x, Tensor) else x for name, x in found.items()}

    def micro_batches(self, batches: list[tuple[Tensor, Tensor]]) -> Iterator:
        """The same pairs in order; gradients are reduced in the backward pass of the last one alone.

        Until then each rank adds up whole gradients, 4 bytes for each of its copy's parameters. A
        strategy that keeps weights gathered keeps them over all micro-batches: one gather an update.
        """
        for i, batch in enumerate(batches):
            last = i == len(batches) - 1
            self.model.set_requires_gradient_sync(last)
            self.model.set_reshard_after_backward(last or self.reshards)
            yield batch

    def autocast(self) -> contextlib.AbstractContextManager:
        """Nothing: the policy has cast the weights already, and activations follow them."""
        return contextlib.nullcontext()

    def _free(self) -> None:
        """Free every gathered weight; the shards stay."""
        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()


def full_tensor(x: Tensor) -> Tensor:
    """All of a sharded tensor, from an all-gather; another tensor as it is. Detached."""
    x = x.detach()
    return x.full_tensor() if isinstance(x, DTensor) else x


if __name__ == "__main__":
    # `python -m` runs this file as a second module called __main__; go on in the importable one
    from course_lib import install_mine
    from course_lib.training import fsdp_trainer

    chosen = parse(FSDPConfig, prog="python -m course_lib.training.fsdp_trainer")
    if chosen.mine:
        install_mine()
    record_flight(Path(chosen.out) / "flight_recorder", chosen.device)
    run(
        lambda world: ddp_trainer.main(world, chosen, fsdp_trainer.FSDPTrainer),
        chosen.device,
        chosen.timeout,
    )
