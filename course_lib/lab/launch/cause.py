"""Why a run failed: which rank was first, what happened there, and who merely went down with it.

torchrun names the first process that it saw end, which is often a victim: when one rank hangs, the
others time out; when one is killed, the others lose their connection and may say so sooner. Here a
failure that only another rank's failure explains is never the root while there is another.
"""

import json
import re
import signal
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from course_lib.lab.launch import stacks
from course_lib.lab.launch.stacks import Place, ranks_text
from course_lib.lab.launch.watch import RankView

LISTED = re.compile(r"rank +: (\d+) \(local_rank: \d+\)\s+exitcode +: (-?\d+) \(pid: (\d+)\)")
FORCED = re.compile(r"Unable to shutdown process (\d+)")
SEQUENCE = re.compile(r"WorkNCCL\(SeqNum=(\d+), OpType=(\w+)")
NEVER = float("inf")


@dataclass(frozen=True)
class End:
    """How one rank ended."""

    rank: int
    text: str
    """ "ValueError: ...", "killed by SIGKILL", "exit status 3: last line", or ""."""
    when: float = NEVER
    victim: bool = False
    """Whether another rank's end explains it."""
    fine: bool = False
    """Whether it ended by itself and well."""


@dataclass(frozen=True)
class Cause:
    """What a person should read first."""

    rank: int | None
    """The root; None when torchrun itself failed."""
    text: str
    means: str = ""
    frames: list = field(default_factory=list)
    names: dict = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def lines(self, folder: str, ranks: int) -> list[str]:
        """The report, root cause first."""
        said = [self.text]
        if self.rank is not None:
            said = [f"rank {self.rank} of {ranks} was the first to fail: {self.text}"]
        for file, line, function in _script_frames(self.frames)[-3:]:
            said.append(f"  at     {Path(file).name}:{line} in {function}: {_source(file, line)}")
        if self.names:
            said.append("  with   " + ", ".join(f"{k} = {v}" for k, v in self.names.items()))
        if self.means:
            said.append(f"  means  {self.means}")
        said += [f"  {other}" for other in self.others]
        log = "torchrun.log" if self.rank is None else f"rank{self.rank}.log"
        return [*said, f"  log    {folder}/{log}"]


def find(
    views: Sequence[RankView],
    agent_log: str,
    places: Sequence[Place] = (),
    killed: Collection[int] = (),
    status: int = 1,
) -> Cause:
    """The cause of a run that has ended badly, from what ranks and torchrun have written.

    `places`: where the ranks stood when nothing happened any more, where that was asked; `killed`:
    process ids that the launcher has ended itself;
    `status`: torchrun's exit status.
    """
    if status < 0:
        name = signal.Signals(-status).name
        return Cause(None, f"torchrun was killed by {name}", "its ranks were ended after it.")
    ends = _ends(views, agent_log, killed)
    if all(end.fine for end in ends) or not any(view.pid for view in views):
        words = [line for line in agent_log.splitlines() if line.strip()]
        said = next((x for x in reversed(words) if "rror" in x), words[-1] if words else "no word")
        return Cause(None, f"torchrun ended: {said.strip()[:300]}", translate_message(said))
    root, text, means = _root(ends, places)
    view = views[root]
    error = view.error if not means else None
    means = means or translate_message(text)
    if not means and not view.error:  # native code says its last words to the log alone
        means = translate_message(*list(view.log.lines)[-20:])
    return Cause(
        root,
        text,
        means,
        frames=(error or {}).get("frames", []),
        names=(error or {}).get("names", {}),
        others=tuple(_list_others(ends, root)) + tuple(_list_behind(views)),
    )


def translate_message(*texts: str) -> str:
    """What a message of torch or of the system means, "" when nobody has written that down."""
    entry, match = _find_translation("\n".join(texts))
    return entry["text"].format(**match.groupdict()) if entry else ""


@cache
def translations() -> list[dict]:
    """The table: id, pattern, text, and whether it is a victim's message ("consequence")."""
    return json.loads((Path(__file__).parent / "translations.json").read_text(encoding="utf-8"))


def _find_translation(text: str) -> tuple[dict | None, re.Match | None]:
    for entry in translations():
        if match := re.search(entry["pattern"], text, re.MULTILINE):
            return entry, match
    return None, None


def _is_victims(text: str) -> bool:
    entry, _ = _find_translation(text)
    return bool(entry and entry.get("consequence"))


def _ends(views: Sequence[RankView], agent_log: str, killed: Collection[int]) -> list[End]:
    codes = {int(rank): (int(code), int(pid)) for rank, code, pid in LISTED.findall(agent_log)}
    forced = {int(pid) for pid in FORCED.findall(agent_log)} | set(killed)
    return [_end(view, *codes.get(view.rank, (0, 0)), forced) for view in views]


def _end(view: RankView, code: int, pid: int, forced: set[int]) -> End:
    """How that rank ended, from its exit status and what it has written."""
    when = view.died or NEVER
    if view.error:
        text = f"{view.error['type']}: {view.error['text']}".strip().rstrip(":")
        return End(view.rank, text, view.error["t"], _is_victims(text))
    if code == 0:
        return End(view.rank, "", when, fine=True)
    if code == -signal.SIGTERM or pid in forced:
        return End(view.rank, "stopped by torchrun", when, victim=True)
    if code < 0:
        return End(view.rank, f"killed by {signal.Signals(-code).name}", when)
    last = view.log.last_line()
    return End(
        view.rank, f"exit status {code}" + (f": {last}" if last else ""), when, _is_victims(last)
    )


def _root(ends: Sequence[End], places: Sequence[Place]) -> tuple[int, str, str]:
    """(rank, what happened, what it means where that is not in the message)."""
    own = [end for end in ends if not end.victim and not end.fine]
    if own:
        first = min(own, key=lambda end: end.when)
        return first.rank, first.text, ""
    places = [place for place in places if not ends[place.rank].fine]  # the others left theirs
    if odd := stacks.odd_ones(places):
        first = odd[0]
        return (
            first.rank,
            f"it did not come, it stood {first.text}",
            _describe_victims(ends, first.rank),
        )
    groups = stacks.group_places(places)
    if len(groups) > 1:
        where = "; ".join(f"{ranks_text([p.rank for p in g])} {g[0].text}" for g in groups)
        return (
            groups[-1][0].rank,
            where,
            (
                "the ranks are in different collectives: look for a "
                "branch, or an order of calls, that only some take."
            ),
        )
    gone = [end for end in ends if end.fine and end.when < NEVER]
    if gone:
        first = min(gone, key=lambda end: end.when)
        means = (
            f"{_describe_victims(ends, first.rank)} Look for a collective that this rank does not make, "
            "or a loop that is shorter on it."
        )
        return first.rank, "it ended, without an error, while others still needed it", means
    silent = [end for end in ends if end.text == "stopped by torchrun"]
    if silent and len(silent) < len(ends):
        return silent[0].rank, "it never came to a collective that the others were in", ""
    first = min(ends, key=lambda end: end.when)
    return first.rank, first.text, ""


def _describe_victims(ends: Sequence[End], root: int) -> str:
    victims = [end.rank for end in ends if end.victim and end.rank != root]
    return f"{ranks_text(victims)} waited for it, in vain." if victims else ""


def _list_others(ends: Sequence[End], root: int) -> list[str]:
    """The rest in as few lines as say it: victims together, failures of their own one by one."""
    rest = [end for end in ends if end.rank != root and not end.fine]
    victims = [end.rank for end in rest if end.victim]
    lines = [f"also   rank {e.rank}: {e.text[:160]}" for e in rest if not e.victim]
    if victims:
        lines.append(f"also   {ranks_text(victims)} stopped because rank {root} did")
    return lines


def _list_behind(views: Sequence[RankView]) -> list[str]:
    """NCCL numbers its collectives: who is behind when its watchdog ends them."""
    found = {}
    for view in views:
        if match := SEQUENCE.search("\n".join(view.log.lines)):
            found[view.rank] = (int(match[1]), match[2].lower())
    if len({number for number, _ in found.values()}) < 2:
        return []
    least, most = min(found.values()), max(found.values())
    late = [rank for rank, (number, _) in found.items() if number == least[0]]
    return [
        f"behind {ranks_text(late)}: in {least[1]}, number {least[0]}, while others are in "
        f"{most[1]}, number {most[0]}"
    ]


def _script_frames(frames: list) -> list:
    own = [f for f in frames if not stacks.PACKAGES.search(f[0])]
    return own or frames


def _source(file: str, line: int) -> str:
    import linecache

    return linecache.getline(file, line).strip()[:80]
