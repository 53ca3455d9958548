"""A run as lines of text: live in a terminal, at the end where nobody watches.

In a notebook that nbconvert or nbgrader executes, the output of the ranks comes at the end, rank by
rank, so that two executions of a page give the same page; and never more than NUM_LINES of each.
"""

import sys
import time
from collections.abc import Mapping, Sequence

from course_lib.lab.launch.watch import RankView, Watch

NUM_LINES = 40  # of each rank on a page
BURST = 50  # lines of one rank at once in a terminal
STATUS_S = 10.0  # between two status lines, where they can't replace one another

HEADINGS = ("rank", "state", "step", "loss", "tokens/s", "memory", "last line")


def row(view: RankView) -> tuple[str, ...]:
    """One rank in words and numbers, as HEADINGS names them; "" for what it has not said."""
    step = "" if view.step is None else str(view.step)
    if step and view.total:
        step += f"/{view.total}"
    return (
        str(view.rank),
        view.state,
        step,
        "" if view.loss is None else f"{view.loss:.3f}",
        "" if view.tokens_per_s is None else f"{view.tokens_per_s:,.0f}",
        "" if view.memory_mb is None else f"{view.memory_mb:,.0f} MB",
        view.log.last_line()[:100],
    )


def status(views: Sequence[RankView], seconds: float) -> str:
    """One line on the whole run: "12 s, 2 ranks running, step 12/50, loss 3.412"."""
    parts = [f"{seconds:.0f} s", states(views)]
    steps = [view for view in views if view.step is not None]
    if steps:
        slowest = min(steps, key=lambda view: view.step)
        cells = row(slowest)
        parts.append(f"step {cells[2]}" + (f", loss {cells[3]}" if cells[3] else ""))
        parts += [f"{cells[4]} tokens/s"] * bool(cells[4])
    return ", ".join(parts)


def states(views: Sequence[RankView]) -> str:
    """ "1 rank running, 1 rank in all_reduce"."""
    found = [view.state for view in views]
    counts = [(state, found.count(state)) for state in dict.fromkeys(found)]
    return ", ".join(f"{count} rank{'s' * (count > 1)} {state}" for state, count in counts)


class Terminal:
    """Lines of the ranks as they come, each with its rank, and a status line below."""

    def __init__(self):
        self._live = sys.stdout.isatty()
        self._next, self._skipped = 0.0, {}

    def begin(self, lines: Sequence[str], watch: Watch) -> None:
        """The plan, before anything has started."""
        print(*lines, sep="\n", flush=True)

    def update(self, watch: Watch, new: Mapping[int, list[str]], seconds: float) -> None:
        """What is new."""
        said = [text for view in watch.ranks for text in self._lines(view, new[view.rank])]
        if said:
            print("\r\x1b[K" * self._live + "\n".join(said))
        now = time.monotonic()
        if self._live and (said or now >= self._next):
            print("\r\x1b[K" + status(watch.ranks, seconds)[:100], end="", flush=True)
            self._next = now + 0.25
        elif not self._live and now >= self._next:
            if self._next:
                print(status(watch.ranks, seconds))
            self._next = now + STATUS_S
        sys.stdout.flush()

    def say(self, lines: Sequence[str]) -> None:
        """What the launcher has found out."""
        print("\r\x1b[K" * self._live + "\n".join(lines), flush=True)

    def end(self, lines: Sequence[str], watch: Watch, good: bool) -> None:
        """Print what the ranks have left unfinished, then how the run ended."""
        for view in watch.ranks:
            if view.log.open_line:
                self.say([f"[{view.rank}] {view.log.open_line}"])
        self.say(lines)

    def _lines(self, view: RankView, new: list[str]) -> list[str]:
        mark = f"[{view.rank}] "
        said = [mark + line for line in new[-BURST:]]
        more = view.log.skipped - self._skipped.get(view.rank, 0)
        self._skipped[view.rank] = view.log.skipped
        if len(new) > BURST or more:
            said.insert(0, f"{mark}... more of it in {view.log.file.name} ...")
        return said


class Page:
    """The plan first, everything else at the end: for pages that a program executes."""

    def begin(self, lines: Sequence[str], watch: Watch) -> None:
        """The plan, before anything has started."""
        print(*lines, sep="\n", flush=True)

    def update(self, watch: Watch, new: Mapping[int, list[str]], seconds: float) -> None:
        """Nothing yet."""

    def say(self, lines: Sequence[str]) -> None:
        """What the launcher has found out."""
        print(*lines, sep="\n", flush=True)

    def end(self, lines: Sequence[str], watch: Watch, good: bool) -> None:
        """The output of the ranks, rank by rank; after a failure its cause comes before that."""
        said = [line for view in watch.ranks for line in output(view)]
        print(*([*said, *lines] if good else [*lines, *said]), sep="\n", flush=True)


def output(view: RankView, most: int = NUM_LINES) -> list[str]:
    """The last lines of a rank, each with its number; [] when it wrote nothing."""
    lines = [*view.log.lines, view.log.open_line]
    lines = [line for line in lines if line.strip()]
    head = []
    if len(lines) > most or view.log.skipped:
        head = [f"[{view.rank}] ... more of it in {view.log.file.name} ..."]
    return head + [f"[{view.rank}] {line}" for line in lines[-most:]]
