"""The index of a sharded checkpoint, read without running what a stranger put into it.

What it is: DCP's `.metadata`, a pickle, opened by an unpickler that knows DCP's own classes and
refuses all others, and looked through: DCP reads the parts of a tensor with weights_only, and
unpickles whole what its index calls an object. What it leaves out: the shards.
"""

import enum
import pickle
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from course_lib.checkpoints.files import CheckpointError

METADATA, FILES = "torch.distributed.checkpoint.metadata", "torch.distributed.checkpoint.filesystem"
KNOWN = {
    *((METADATA, name) for name in (
        "Metadata", "MetadataIndex", "TensorStorageMetadata", "TensorProperties",
        "ChunkStorageMetadata", "BytesStorageMetadata", "StorageMeta", "_MEM_FORMAT_ENCODING",
    )),
    (FILES, "_StorageInfo"),
    ("torch", "Size"),
    ("torch.serialization", "_get_layout"),
    *((module, name) for module in ("pathlib", "pathlib._local")
      for name in ("Path", "PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")),
}  # fmt: skip


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str):
        if (module, name) == ("builtins", "getattr"):  # how Python before 3.11.4 stores an enum
            return _member
        dtype = module == "torch" and isinstance(getattr(torch, name, None), torch.dtype)
        if not dtype and (module, name) not in KNOWN:
            raise CheckpointError(f"the index asks for {module}.{name}, which no index needs")
        return super().find_class(module, name)


def _member(kind: type, name: str) -> enum.Enum:
    """`getattr(kind, name)` for the members of an enum, and for nothing else."""
    if not isinstance(kind, enum.EnumMeta) or name not in kind.__members__:
        raise CheckpointError(f"the index asks for {name} of {kind}, which no index needs")
    return kind[name]


def read_index(path: Path) -> dict[str, Tensor]:
    """Every tensor of the checkpoint by its path, without its numbers (on the meta device).

    CheckpointError for anything but the index of a checkpoint of tensors that DCP writes, all of
    them in files beside it. Once this has returned, DCP may open the file.
    """
    try:
        with path.open("rb") as stream:
            index = _Unpickler(stream).load()
        for name, entry in index.state_dict_metadata.items():
            if type(entry) is not TensorStorageMetadata:
                raise CheckpointError(f"the index has an object at {name}, which no index needs")
        for part in index.storage_data.values():
            if Path(part.relative_path).name != part.relative_path:
                raise CheckpointError(
                    f"the index asks for the file {part.relative_path}, which no index needs"
                )
        return {
            name: torch.empty(entry.size, dtype=entry.properties.dtype, device="meta")
            for name, entry in index.state_dict_metadata.items()
        }
    except CheckpointError as error:
        raise CheckpointError(f"{path.parent.name}/{path.name}: {error}: not used") from None
    except Exception as error:  # a damaged pickle raises many kinds
        raise CheckpointError(
            f"{path.parent.name}/{path.name} is no index of a sharded checkpoint "
            f"({type(error).__name__}): not used"
        ) from None
