"""Checkpoints that survive a kill: written whole or not at all, checked when they are read.

What it is: two files per checkpoint. `step_00000050.pt` is what `torch.save` writes, so `torch.load`
opens it anywhere. `step_00000050.json` has its size and sha256; it is written last, and a checkpoint
without it does not exist. A folder whose name begins with "memory:" is kept in this process alone,
for checks and experiments. What it leaves out: checkpoints that many ranks write, each its part
(sharded.py).

The order of a save, each step safe against a kill after it:
1. write the tensors under a temporary name, fsync, rename;
2. write the record the same way: from here on the checkpoint counts;
3. fsync the folder, so that the names are on the disk too;
4. only now delete checkpoints beyond the last `keep`, records first.
Where a step is saved again, a record of both files, the old and the new, stands between 1's fsync
and its rename, so that one of them counts whenever the kill comes.
"""

import hashlib
import io
import json
import os
from pathlib import Path

import torch

from course_lib.checkpoints.files import CheckpointError, sync_folder, write_file

MEMORY, MEMORY_FOLDERS = "memory:", 4
_memory: dict[str, dict[str, bytes]] = {}  # folder, then name; the last few folders written to


def save(state: dict, folder: str | Path, step: int, *, keep: int = 2) -> Path:
    """Write `state` as the checkpoint of `step` and drop all but the newest `keep`.

    `state` holds tensors, numbers, strings and lists, tuples or dicts of them: what
    `torch.load(weights_only=True)` reads back. Returns the path of the tensors. OSError when the
    disk is full; the earlier checkpoints are then still there.
    """
    folder = Path(folder)
    if str(folder).startswith(MEMORY):
        return _save_in_memory(state, folder, step, keep)
    folder.mkdir(parents=True, exist_ok=True)
    for part in folder.glob("*.part"):  # of a process that was killed while it wrote
        part.unlink(missing_ok=True)
    path = folder / f"step_{step:08d}.pt"
    fresh = path.with_suffix(".pt.part")
    digest = write_file(fresh, lambda stream: torch.save(state, stream))
    record = {"step": step, "bytes": fresh.stat().st_size, "sha256": digest}
    if path.is_file() and (before := _content(path)) in _read_contents(path):
        _write_record(path, record | {"before": before})
        sync_folder(folder)
    os.replace(fresh, path)
    _write_record(path, record)
    sync_folder(folder)
    for old in steps(folder)[keep:]:
        for suffix in (".json", ".pt"):
            (folder / f"step_{old:08d}{suffix}").unlink(missing_ok=True)
    return path


def steps(folder: str | Path) -> list[int]:
    """Steps that have a complete checkpoint in the folder, newest first; whole is not yet good."""
    if str(folder).startswith(MEMORY):
        return sorted((int(name[5:13]) for name in _memory.get(str(folder), ())), reverse=True)
    found = Path(folder).glob("step_*.json")
    return sorted((int(p.stem[5:]) for p in found if p.stem[5:].isdigit()), reverse=True)


def load(path: str | Path, *, check: bool = True) -> dict:
    """The state in one checkpoint file, its tensors on the CPU. CheckpointError when it is not good.

    A file without a record, such as one from elsewhere, is read unchecked. Never runs code from the
    file: `weights_only` refuses everything but tensors and plain values.
    """
    path = Path(path)
    if path.is_dir():
        raise CheckpointError(
            f"{path.name} is a folder of shards: read it with course_lib.checkpoints.whole.load"
        )
    kept = _memory.get(str(path.parent), {}).get(path.name)
    if kept is None and not path.is_file():
        raise CheckpointError(f"no checkpoint at {path}: pass the path of a .pt file")
    if check and path.with_suffix(".json").is_file():
        _compare(path)
    try:
        source = path if kept is None else io.BytesIO(kept)
        return torch.load(source, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a foreign or damaged file
        first = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise CheckpointError(
            f"{path.name} is not a checkpoint of tensors and plain values ({first}): "
            f"use an earlier one, or save it again with torch.save"
        ) from None


def load_newest(folder: str | Path, say=print) -> tuple[int, dict] | None:
    """(step, state) of the newest good checkpoint, or None when the folder has none at all.

    A bad one is named through `say` and passed over. CheckpointError when all that are there are bad:
    starting again from nothing should be a decision, not an accident.
    """
    candidates = steps(folder)
    for step in candidates:
        try:
            return step, load(Path(folder) / f"step_{step:08d}.pt")
        except CheckpointError as error:
            say(f"{error}")
    if candidates:
        raise CheckpointError(
            f"none of the {len(candidates)} checkpoints in {folder} is good: "
            f"move them away to start again, or pass another folder"
        )
    return None


def _save_in_memory(state: dict, folder: Path, step: int, keep: int) -> Path:
    stream, name = io.BytesIO(), f"step_{step:08d}.pt"
    torch.save(state, stream)
    files = _memory.pop(str(folder), {}) | {name: stream.getvalue()}
    _memory[str(folder)] = {name: files[name] for name in sorted(files)[-keep:]}
    for oldest in list(_memory)[:-MEMORY_FOLDERS]:
        del _memory[oldest]
    return folder / name


def _write_record(path: Path, record: dict) -> None:
    write_file(path.with_suffix(".json"), lambda stream: stream.write(json.dumps(record).encode()))


def _read_contents(path: Path) -> list[dict]:
    """Size and sha256 of each content that the record of `path` admits, the newest first.

    There are two while a step is saved again, and none where there is no record or a damaged one.
    """
    try:
        record = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
        return [
            {"bytes": int(one["bytes"]), "sha256": str(one["sha256"])}
            for one in (record, record.get("before", record))
        ]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return []


def _compare(path: Path) -> None:
    """CheckpointError unless size and sha256 are those of the record."""
    if not (contents := _read_contents(path)):
        raise CheckpointError(f"the record {path.stem}.json is damaged: not used")
    size = path.stat().st_size
    if all(size != one["bytes"] for one in contents):
        raise CheckpointError(
            f"{path.name} has {size:,} bytes where its record says {contents[0]['bytes']:,}: "
            f"it was cut short, not used"
        )
    if _content(path) not in contents:
        raise CheckpointError(f"{path.name} was changed after it was written: not used")


def _content(path: Path) -> dict:
    """Size and sha256 of a file."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
