"""Checkpoints that every rank writes its part of, and that any number of ranks reads back.

What it is: one folder per checkpoint, written with torch.distributed.checkpoint (DCP), at once or
behind the training, published whole or not at all; and reading it into shards of any size, or
whole on one process. What it leaves out: what belongs into a checkpoint (fsdp_trainer.py).

    step_00000050/__0_0.distcp, __1_0.distcp ...   the shards of rank 0, of rank 1 ...
    step_00000050/.metadata                        DCP's index: which file has which rows of what
    step_00000050/plain.pt                         what is not a tensor of model or optimizer
    step_00000050/manifest.json                    size and sha256 of each, written last

The order of a save, each step safe against a kill after it:
1. rank 0 makes the folder step_00000050.part and writes plain.pt;
2. every rank writes its shards and waits until they are on the disk; DCP writes its index;
3. every rank hashes its files, rank 0 gathers that and writes the manifest;
4. rank 0 renames the folder: from here on the checkpoint counts;
5. only now are checkpoints beyond the last `keep` deleted, manifests first.
"""

import concurrent.futures
import contextlib
import errno
import functools
import hashlib
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import torch
import torch.distributed.checkpoint as dcp
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException

from course_lib.checkpoints import manifest, single_file
from course_lib.checkpoints.dcp_index import read_index
from course_lib.checkpoints.dcp_writer import CheckpointWriter
from course_lib.checkpoints.files import CheckpointError, write_file
from course_lib.checkpoints.saved_state import (
    SavedState,
    flatten,
    without_tensors,
)
from course_lib.ranks.world import World

PLAIN, DCP_INDEX, TENSORS = "plain.pt", ".metadata", ("model", "optimizer")
SAVING = timedelta(hours=2)  # a save may take longer than a collective of training ever should
ONE_FOLDER = (
    "all machines must see one folder of the run, so pass --out as an absolute path on a disk that "
    "they share"
)


class ShardedCheckpoints:
    """The checkpoints of one run. Every rank makes one and calls the same methods.

    `folder` is one that all ranks see. Talks on a gloo group of its own, made on first use: a save
    in the background must not mix its messages with those of training.
    """

    def __init__(self, folder: str | Path, world: World, *, keep: int = 2):
        self.folder, self.world, self.keep = Path(folder), world, keep
        self._behind = concurrent.futures.ThreadPoolExecutor(max_workers=1)
        self._pending: concurrent.futures.Future | None = None

    @functools.cached_property
    def ranks(self) -> World:
        """The ranks on that group. All must ask for it."""
        return self.world.regroup(SAVING)

    def save(self, state: dict, *, wait: bool = True) -> Path:
        """Write `state` as the checkpoint of state["step"]; the path it is published under.

        The tensors in state["model"] and state["optimizer"] are sharded (DTensor) or the same on all
        ranks; each part is written once. The rest, on rank 0, is plain values and small tensors.
        `wait` False returns as soon as the tensors are copied to host memory; then the save before
        this one, this method and `wait` report what went wrong. One save is under way at a time.
        OSError on every rank when any cannot write; earlier checkpoints are then still there.
        """
        self.wait()
        target = self.folder / f"step_{state['step']:08d}"
        part = self.folder / (target.name + manifest.PART)
        self.ranks.do_on_first(lambda: self._begin(part, state))
        writer = CheckpointWriter(part)
        given: dict[str, Any] = {"storage_writer": writer, "process_group": self.ranks.group}
        tensors = flatten({name: state[name] for name in TENSORS})
        if wait:
            self._finish(lambda: dcp.save(tensors, **given), writer, part, target)
        else:
            written: Any = dcp.async_save(tensors, **given)
            self._pending = self._behind.submit(self._finish, written.result, writer, part, target)
        return target

    def wait(self) -> None:
        """Until nothing is being written. OSError when that failed."""
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def open_newest(self, names: list[str], say: Callable = print) -> SavedState | None:
        """The newest good checkpoint of the run, shards or one file; None when there is none at all.

        `names`: as for `open`. A bad one is named through `say` and passed over. CheckpointError
        when all that are there are bad: starting again should be a decision, not an accident.
        ValueError on every rank when one does not see the checkpoints that rank 0 sees.
        """
        self.wait()
        self.ranks.require_same(lambda: list_records(self.folder), ONE_FOLDER)
        paths = self.ranks.broadcast(candidates(self.folder) if self.world.is_first else None)
        for path in paths:
            try:
                return self.open(path, names)
            except CheckpointError as error:
                say(f"{error}")
        if paths:
            raise CheckpointError(
                f"none of the {len(paths)} checkpoints in {self.folder} is good: move them away "
                f"to start again, or pass another folder"
            )
        return None

    def open(self, path: str | Path, names: list[str]) -> SavedState:
        """A folder of shards, or a file of `DistributedTrainer`, whose optimizer counts parameters:
        `names` is theirs in its order. Every file is checked against the manifest, shared out among
        the ranks. CheckpointError on every rank when any finds something wrong.
        """
        path = Path(path)
        opened = self._open_shards if path.is_dir() else SavedState.of_file
        saved, problem = None, None
        try:
            saved = opened(path, names)
        except CheckpointError as error:
            problem = str(error)
        problems = [text for text in self.ranks.gather(problem) if text]
        if problem := self.ranks.broadcast(problems[0] if problems else None):
            raise CheckpointError(problem)
        return saved

    def _open_shards(self, path: Path, names: list[str]) -> SavedState:
        files = sorted(manifest.read(path)["files"].items())
        manifest.compare(path, dict(files[self.world.rank :: self.world.world_size]))
        plain = single_file.load(path / PLAIN)
        return SavedState(path, plain, read_index(path / DCP_INDEX), self._read)

    def _read(self, path: Path, tensors: dict[str, Tensor]) -> None:
        """Fill this rank's parts in place, from the files that have their rows."""
        reader = dcp.FileSystemReader(path)
        try:
            dcp.load(tensors, storage_reader=reader, process_group=self.ranks.group)
        except CheckpointException as error:  # not an Exception: it would pass every `except` by
            raise CheckpointError(f"{path.name} could not be read: {_cause(error)}") from None

    def _begin(self, part: Path, state: dict) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        manifest.sweep(self.folder)
        part.mkdir()
        plain = without_tensors({name: state[name] for name in TENSORS})
        write_file(part / PLAIN, lambda s: torch.save(state | plain, s))

    def _finish(
        self, write: Callable[[], Any], writer: CheckpointWriter, part: Path, target: Path
    ) -> None:
        """Write the shards, and publish them if every rank could."""
        told: dict | OSError
        try:
            write()
            mine = [p.name for p in part.glob(f"__{self.world.rank}_*")]
            told = manifest.describe(part, mine)
        except (Exception, CheckpointException) as error:  # whatever it is, the others wait
            told = writer.failed or _cause(error)
        everyone = self.ranks.gather(told)
        self.ranks.do_on_first(lambda: self._publish(everyone, part, target))

    def _publish(self, told: list[dict | OSError], part: Path, target: Path) -> None:
        try:
            failed = [found for found in told if isinstance(found, OSError)]
            if failed:  # the rank that could not write knows more than those that were told
                raise min(failed, key=lambda error: error.errno == errno.EIO)
            files = manifest.describe(part, [PLAIN, DCP_INDEX])
            for found in told:
                files |= cast(dict, found)
            manifest.publish(
                part, target, files, world_size=self.world.world_size, torch=torch.__version__
            )
        except OSError:
            shutil.rmtree(part, ignore_errors=True)  # a full disk gets its space back
            raise
        for old in manifest.find_published(self.folder, "step_*")[self.keep :]:
            manifest.remove(old)


def candidates(folder: Path) -> list[Path]:
    """Published checkpoints in a run's folder, shards and files, newest first; not yet checked."""
    files = [Path(folder) / f"step_{step:08d}.pt" for step in single_file.steps(folder)]
    found = manifest.find_published(folder, "step_*") + files
    return sorted(found, key=lambda path: path.stem, reverse=True)


def list_records(folder: Path) -> dict[str, str]:
    """The candidates by name, newest first, each with the beginning of its record's sha256.

    The record has the sha256 of what was saved, so two ranks with the same texts see the same
    checkpoints, and nothing large is read. A folder in memory has no records.
    """
    found = {}
    for path in candidates(folder):
        record = path / manifest.NAME if path.is_dir() else path.with_suffix(".json")
        with contextlib.suppress(FileNotFoundError):
            found[path.name] = hashlib.sha256(record.read_bytes()).hexdigest()[:8]
    return found


def _cause(error: BaseException) -> OSError:
    """The first OSError of what DCP collected from all ranks, or its first line as one."""
    inner = [e for e, _ in getattr(error, "failures", {}).values()] or [error]
    for found in inner:
        if isinstance(found, OSError):
            return found
    return OSError(errno.EIO, f"{type(inner[0]).__name__}: {inner[0]}".partition("\n")[0])
