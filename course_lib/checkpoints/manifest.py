"""A folder that is published whole or not at all, and shows when a file in it is not the same.

What it is: `manifest.json`, with the size and sha256 of every other file, written last; and the
rename that gives a finished folder its name. What it leaves out: who writes the files.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from course_lib.checkpoints.files import CheckpointError, sync_folder, write_file

NAME = "manifest.json"
PART, OLD = ".part", ".old"  # a folder that is being written; one that is being replaced


def describe(folder: Path, names: Iterable[str]) -> dict[str, dict]:
    """{"bytes", "sha256"} of each of these files, by name. Reads them once."""
    found = {}
    for name in names:
        with (folder / name).open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        found[name] = {"bytes": (folder / name).stat().st_size, "sha256": digest}
    return found


def publish(part: Path, target: Path, files: dict[str, dict], **facts) -> None:
    """Write the manifest of the finished folder `part`, and rename it to `target`.

    `files` is what `describe` returned for all of them, and `facts` plain values to keep with it.
    A kill at any moment leaves `target` as it was or as it will be; where it is replaced, the old
    one may be left as `target`.old, which `find_published` finds. OSError when the disk is full.
    """
    record = json.dumps(facts | {"files": files}, indent=1).encode()
    write_file(part / NAME, lambda stream: stream.write(record))
    sync_folder(part)
    old = target.with_name(target.name + OLD)
    if target.exists():  # a folder cannot be renamed over another
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
    part.rename(target)
    sync_folder(target.parent)
    shutil.rmtree(old, ignore_errors=True)


def find_published(folder: Path, pattern: str) -> list[Path]:
    """The published folders whose name matches, the last name first; whole is not yet good."""
    found = [p.parent for p in Path(folder).glob(f"{pattern}/{NAME}") if p.parent.suffix != PART]
    return sorted(found, key=lambda p: (p.stem, p.suffix != OLD), reverse=True)


def sweep(folder: Path) -> None:
    """Remove what writers that were killed have left: *.part, and *.old beside its replacement."""
    for path in Path(folder).glob(f"*{PART}"):
        shutil.rmtree(path, ignore_errors=True)
    for path in Path(folder).glob(f"*{OLD}"):
        if path.with_suffix("").exists():
            shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """Unpublish a folder and delete it: without a manifest it counts no more, however far it gets."""
    (path / NAME).unlink(missing_ok=True)
    shutil.rmtree(path, ignore_errors=True)


def read(path: Path) -> dict:
    """The manifest of a published folder. CheckpointError when there is none, or it is damaged."""
    if not (path / NAME).is_file():
        raise CheckpointError(
            f"no sharded checkpoint at {path}: pass a folder that holds {NAME}, or a .pt file"
        )
    try:
        found = json.loads((path / NAME).read_text(encoding="utf-8"))
        whole = all(entry.keys() >= {"bytes", "sha256"} for entry in found["files"].values())
    except (ValueError, KeyError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise CheckpointError(f"{path.name}/{NAME} is damaged: not used")
    return found


def compare(path: Path, files: dict[str, dict]) -> None:
    """CheckpointError unless each of these files is there with the size and sha256 given for it."""
    for name, entry in files.items():
        if not (path / name).is_file():
            raise CheckpointError(f"{path.name}/{name} is missing: not used")
        size = os.path.getsize(path / name)
        if size != entry["bytes"]:
            raise CheckpointError(
                f"{path.name}/{name} has {size:,} bytes where the manifest says "
                f"{entry['bytes']:,}: it was cut short, not used"
            )
        if describe(path, [name])[name]["sha256"] != entry["sha256"]:
            raise CheckpointError(f"{path.name}/{name} was changed after it was written: not used")
