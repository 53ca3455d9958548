"""Where every rank stands: asked for with SIGUSR1, grouped, and the odd one out named.

A thread of each rank writes the Python frames of all its threads to stacks0.txt and on, while the
rank may wait in a collective or sleep. A rank whose script takes SIGUSR1 for itself is not asked.
"""

import linecache
import re
import signal
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from course_lib.lab.launch import processes
from course_lib.lab.launch.watch import RankView
from course_lib.runs.heartbeat import append

ANSWER_S = 0.5
FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$')
PACKAGES = re.compile(r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3|<frozen ")
INSIDE = re.compile(r"torch[/\\]distributed[/\\](?:distributed_c10d|_functional_collectives)\.py$")
READS = re.compile(
    r"\.(?:item|cpu|tolist|numpy|to|copy_|nonzero|equal|masked_select)\("
    r"|\b(?:float|int|bool|print)\(|^\s*(?:if|elif|assert)\b"
)
"""Lines at which the host waits for a GPU, as seen on one; only where the ranks have GPUs."""
IN_TORCH = {"synchronize", "_str", "clip_grad_norm_"}
"""Functions of torch that wait for a GPU in the middle."""
GPU = "a wait for its GPU"
HELPERS = {"wrapper", "_wrapper", "_store_based_barrier", "wait", "_wait", "<module>"}


@dataclass(frozen=True)
class Place:
    """Where one rank stands."""

    rank: int
    file: str
    line: int
    function: str
    collective: str = ""
    """The operation of torch.distributed it is in; empty when its frames show none.

    NCCL's come back once they are queued, so with it a rank that waits is mostly seen elsewhere.
    """
    step: int | None = None

    @property
    def text(self) -> str:
        """ "in all_reduce, train.py:14: dist.all_reduce(x)" or "at train.py:12: time.sleep(60)"."""
        what = f"in {self.collective}, " if self.collective else "at "
        source = linecache.getline(self.file, self.line).strip()
        return f"{what}{Path(self.file).name}:{self.line}" + (f": {source[:60]}" if source else "")


def ask(
    folder: Path, ranks: Sequence[RankView], source: str = "", *, on_gpus: bool = False
) -> list[Place]:
    """The places of those ranks, oldest answer half a second; also written to the events."""
    if "SIGUSR1" in source:
        return []
    files = {view.rank: folder / f"stacks{view.rank}.txt" for view in ranks}
    before = {rank: _size(file) for rank, file in files.items()}
    asked = [v for v in ranks if v.pid and processes.send_signal(v.pid, signal.SIGUSR1)]
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline and any(
        _size(files[v.rank]) == before[v.rank] for v in asked
    ):
        time.sleep(0.02)
    time.sleep(0.02)  # a dump is written frame by frame
    places = []
    for view in asked:
        with files[view.rank].open("rb") as stream:
            stream.seek(before[view.rank])
            said = stream.read().decode(errors="replace")
            place = understood(said, view.rank, view.step, on_gpus=on_gpus)
        if place:
            places.append(place)
            append(folder, "stacks", **place.__dict__, text=place.text)
    return places


def understood(
    dump: str, rank: int, step: int | None = None, *, on_gpus: bool = False
) -> Place | None:
    """The place in a dump of faulthandler; None when it shows no frame of the main thread."""
    threads = re.split(r"^(?:Current thread|Thread) .*$", dump, flags=re.MULTILINE)
    frames = [m.groups() for line in threads[-1].splitlines() if (m := FRAME.match(line))]
    if not frames:
        return None
    own = [i for i, (file, _, _) in enumerate(frames) if not PACKAGES.search(file)]
    first = own[0] if own else len(frames) - 1
    inside = [name for file, _, name in frames[:first] if INSIDE.search(file)]
    inside = [name for name in inside if name not in HELPERS] or inside
    file, line, function = frames[first]
    source = linecache.getline(file, int(line))
    # a Work of torch.distributed waits in C++, where no frame shows it; so does a read of a result
    if first == 0 and ".wait(" in source:
        inside = ["wait"]
    elif on_gpus and not inside and _waits_for_gpu(frames[: first + 1]):
        inside = [GPU]
    return Place(rank, file, int(line), function, inside[-1] if inside else "", step)


def _waits_for_gpu(frames: Sequence[tuple[str, str, str]]) -> bool:
    """Whether the uppermost of these frames (file, line, function) reads what a GPU computes."""
    file, line, _ = frames[0]
    source = linecache.getline(file, int(line))
    by_torch = IN_TORCH & {function for _, _, function in frames[:-1]}
    return bool(by_torch or (READS.search(source) and not re.search(r"sleep\(|input\(", source)))


def group_places(places: Sequence[Place]) -> list[list[Place]]:
    """Ranks at the same place together; the largest group first, those who wait before others."""
    groups = defaultdict(list)
    for place in places:
        groups[place.file, place.line, place.collective].append(place)
    return sorted(groups.values(), key=lambda g: (-len(g), not g[0].collective, g[0].rank))


def odd_ones(places: Sequence[Place]) -> list[Place]:
    """Those who keep the others waiting, as far as the stacks tell; [] when all stand together.

    Who is in no collective while others wait in one; else who has made fewer steps; else the
    smallest group, where there is a single smallest.
    """
    groups = group_places(places)
    if len(groups) < 2:
        return []
    elsewhere = [p for p in places if not p.collective]
    if elsewhere and len(elsewhere) < len(places):
        return elsewhere
    steps = {p.step for p in places}
    if None not in steps and len(steps) > 1:
        return [p for p in places if p.step == min(steps)]
    return groups[-1] if len(groups[-1]) < len(groups[-2]) else []


def report(places: Sequence[Place], quiet_s: float) -> list[str]:
    """The sentences about a run in which nothing happens; [] when no rank has answered."""
    if not places:
        return []
    groups, odd = group_places(places), odd_ones(places)
    head = f"no sign of life for {quiet_s:.0f} s. " if quiet_s >= 1 else ""
    lines = [f"{head}Where the ranks are:"]
    lines += [f"  {ranks_text([p.rank for p in group])} {group[0].text}" for group in groups]
    if all(place.collective == GPU for place in places) and not odd:
        lines.append(
            "They wait for their GPUs, which may be slow, or wait for other ranks themselves."
        )
    elif not any(place.collective for place in places):
        lines += [
            "No rank is seen to wait in a collective, so they may only be slow.",
            "On GPUs a wait for other ranks shows only at the next line that needs a result.",
        ]
    elif odd:
        lines.append(f"The others wait for {ranks_text([p.rank for p in odd])}.")
    elif len(groups) > 1:
        lines.append(
            "If this lasts, they wait in different places for one another: look for a "
            "branch, or an order of calls, that only some ranks take."
        )
    return lines


def ranks_text(ranks: Sequence[int]) -> str:
    """ "rank 3", "ranks 0-2" or "ranks 0, 2"."""
    ranks = sorted(set(ranks))
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts = [f"{r[0]}-{r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs]
    return "ranks " + ", ".join(parts)


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0
