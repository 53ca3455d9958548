"""A checkpoint of either format, whole, on this process alone.

What it is: `load`, which looks whether a path is a file (single_file.py) or a folder of
shards (sharded.py) and reads it; nothing else decides that for a whole state. What it leaves out:
reading a part on each of many ranks (`sharded.ShardedCheckpoints.open`).

`python -m course_lib.checkpoints.whole FOLDER FILE.pt` makes one file of a folder.
"""

import sys
import warnings
from collections.abc import Iterable
from pathlib import Path

import torch
import torch.distributed.checkpoint as dcp

from course_lib.checkpoints import manifest, single_file
from course_lib.checkpoints.dcp_index import read_index
from course_lib.checkpoints.files import CheckpointError, write_file
from course_lib.checkpoints.saved_state import number_parameters, unflatten
from course_lib.checkpoints.sharded import DCP_INDEX, PLAIN


def load(path: str | Path) -> dict:
    """The state in a checkpoint file or a folder of shards, its tensors on the CPU.

    A file without a record is read unchecked, all else is checked. CheckpointError when it is not
    good. No collective; nothing in the checkpoint is run.
    """
    return whole_state(path) if Path(path).is_dir() else single_file.load(path)


def whole_state(path: str | Path) -> dict:
    """The state in a folder of shards, whole, on this process alone: what a .pt file would hold.

    No collective; 12 bytes of host memory a parameter. CheckpointError when a file is not good.
    """
    path = Path(path)
    manifest.compare(path, manifest.read(path)["files"])
    tensors = {
        name: torch.empty_like(like, device="cpu")
        for name, like in read_index(path / DCP_INDEX).items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "torch.distributed is disabled")  # as it should be
        dcp.load(tensors, storage_reader=dcp.FileSystemReader(path), no_dist=True)
    state = unflatten(single_file.load(path / PLAIN), tensors)
    return state | {"optimizer": number_parameters(state["optimizer"])}


def main(argv: Iterable[str]) -> None:
    """Make one file of a folder of shards."""
    source, target = map(Path, argv)
    try:
        state = whole_state(source)
    except CheckpointError as error:
        raise SystemExit(f"error: {error}") from None
    write_file(target, lambda stream: torch.save(state, stream))
    print(f"{target}: step {state['step']}, {target.stat().st_size / 1e6:,.0f} MB")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: python -m course_lib.checkpoints.whole FOLDER FILE.pt")
    main(sys.argv[1:])
