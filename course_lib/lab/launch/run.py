"""One launch from its plan to its end: started, followed, and ended, whatever happens in between.

What it is: the loop, the interrupt, the wall limit, the look at a run in which nothing happens. What
it leaves out: what is shown (panel.py, plain.py) and why a run failed (cause.py).
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Protocol

from course_lib.lab.home import home
from course_lib.lab.launch import cause, folder, gpus, preflight, stacks
from course_lib.lab.launch.folder import Run
from course_lib.lab.launch.plan import Asked, Plan
from course_lib.lab.launch.start import Agent
from course_lib.lab.launch.watch import Watch
from course_lib.runs.heartbeat import append

TICK_S = 0.1
PROBE_S = 5.0  # without a sign of life, then the ranks are asked where they are, again and again
QUIET_S = 20.0  # then it is said; again after twice the time, if they are somewhere else by then
ENDING_S = 6.0  # for torchrun to end the others once a rank has failed, then they are killed


class View(Protocol):
    """Where a run is shown."""

    def begin(self, lines: Sequence[str], watch: Watch) -> None: ...
    def update(self, watch: Watch, new: Mapping[int, list[str]], seconds: float) -> None: ...
    def say(self, lines: Sequence[str]) -> None: ...
    def end(self, lines: Sequence[str], watch: Watch, good: bool) -> None: ...


class LaunchFailed(RuntimeError):
    """A rank failed, or the limit came; ends the cell. The text is the report, root cause first."""

    def __init__(self, lines: Sequence[str], run: Run):
        super().__init__("\n".join(lines))
        self.run = run

    def _render_traceback_(self) -> list[str]:  # the report is on the page already
        return [f"{str(self).splitlines()[0]} (see above)"]


class LaunchStopped(KeyboardInterrupt):
    """Ended by Ctrl-C, or by the notebook's stop button; no process is left."""

    def _render_traceback_(self) -> list[str]:
        return ["interrupted: no rank is left"]


def launch(
    asked: Asked,
    view: View,
    *,
    names: Mapping | None = None,
    limit_s: float | None = None,
    quiet_s: float = QUIET_S,
) -> Run:
    """Run the script on several ranks, to its end; what is left of it in the run's folder.

    Raises Refused before anything has started, LaunchFailed after a rank has failed or `limit_s`
    seconds have passed, LaunchStopped after an interrupt. In every case no process is left.
    """
    plan, script = preflight.look(asked, names)
    with folder.create_folder() as place:
        return _Launch(plan, script.text, place, view, limit_s, quiet_s).run()


class _Launch:
    def __init__(
        self,
        plan: Plan,
        source: str,
        place: Path,
        view: View,
        limit_s: float | None,
        quiet_s: float,
    ):
        self.plan, self.source, self.place, self.view = plan, source, place, view
        self.limit_s, self.quiet_s = limit_s, quiet_s
        self.watch = Watch(place, plan.ranks)
        self.places: list[stacks.Place] = []
        self.next_ask = self.next_report = 0.0
        self.reported: list[stacks.Place] = []
        self.ending: float | None = None
        self.killed: set[int] = set()
        self.began = time.monotonic()

    def run(self) -> Run:
        notes = [f"note: {note}" for note in self.plan.notes]
        self.view.begin([self.plan.line(self._name()), self.plan.command, *notes], self.watch)
        used = [gpu.used_gb for gpu in gpus.gauges()]
        agent = Agent(self.plan, self.place)
        try:
            folder.write_json(self.place / "plan.json", self._plan_json(agent))
            outcome, lines = self._follow(agent)
        except KeyboardInterrupt:
            outcome, lines = "stopped", [self._stop(agent) + _describe_memory(used)]
        finally:  # an error of ours must not leave a rank either
            agent.sweep(self.watch.pids())
            agent.close()
        return self._finish(outcome, lines)

    def _follow(self, agent: Agent) -> tuple[str, list[str]]:
        """Until torchrun has ended or the limit has come; (outcome, report)."""
        while (status := agent.wait(TICK_S)) is None:
            self._look_again()
            self._hurry_up(agent)
            if self.limit_s is not None and self._seconds() > self.limit_s:
                self._ask_stacks()
                said = stacks.report(self.places, self.watch.quiet_s())
                text = f"the limit of {self.limit_s:g} s has come; {self._stop(agent)}"
                return "limit", [text, *said]
        agent.sweep(self.watch.pids())  # a rank that torchrun has given up, a rank's own children
        self._look_again()
        if status == 0:
            return "done", [self._done_line()]
        words = (self.place / "torchrun.log").read_text(encoding="utf-8", errors="replace")
        self.cause = cause.find(
            self.watch.ranks, words[-1_000_000:], self.places, self.killed, status
        )
        return "failed", self.cause.lines(self._name(), self.plan.ranks)

    def _look_again(self) -> None:
        """Take in what is new, show it, and ask where the ranks are if there is nothing new."""
        new = self.watch.read()
        self._look_for_a_hang(self.watch.quiet_s())
        self.view.update(self.watch, new, self._seconds())

    def _look_for_a_hang(self, quiet_s: float) -> None:
        """A rank may be importing, compiling, or waiting for ever: it says where it is."""
        pause = min(PROBE_S, self.quiet_s)
        if quiet_s < pause or self.ending is not None:
            self.next_ask, self.next_report, self.reported = pause, self.quiet_s, []
            return
        if quiet_s >= self.next_ask:
            self.next_ask = quiet_s + pause
            self._ask_stacks()
        if quiet_s >= self.next_report and self.places != self.reported:
            self.next_report, self.reported = 2 * quiet_s, self.places
            self.view.say(stacks.report(self.places, quiet_s))

    def _ask_stacks(self) -> None:
        """Where the ranks are, for the panel, and for the cause if this ends badly."""
        found = stacks.ask(
            self.place, self.watch.alive(), self.source, on_gpus=self.plan.backend == "nccl"
        )
        self.places = found or self.places
        for place in self.places:
            waits = place.collective and self.watch.ranks[place.rank].state == "running"
            if waits:
                self.watch.ranks[place.rank].state = f"in {place.collective}"

    def _hurry_up(self, agent: Agent) -> None:
        """torchrun gives ranks half a minute to end after a failure: a rank that hangs needs less."""
        if self.plan.asked.option("max-restarts") not in (None, "0"):
            return  # torchrun will start them again
        if self.ending is None and self.watch.has_failed():
            self.ending = time.monotonic()
        elif self.ending is not None and time.monotonic() > self.ending + ENDING_S:
            self.killed |= agent.end_ranks(self.watch.pids())
            self.ending = time.monotonic()

    def _stop(self, agent: Agent) -> str:
        """End everything; one sentence on how that went. A second interrupt makes it short."""
        self.watch.read()
        before, began = len(self.watch.alive()), time.monotonic()
        try:
            killed = agent.stop(self.watch.pids())
        except KeyboardInterrupt:
            killed = agent.sweep(self.watch.pids())
        self.watch.read()
        for view in self.watch.ranks:
            view.state = "failed" if view.error else "stopped"
        hard = f", {killed} processes by force" if killed else ""
        return (
            f"stopped {before} of {self.plan.ranks} ranks in {time.monotonic() - began:.1f} s{hard}"
        )

    def _finish(self, outcome: str, lines: list[str]) -> Run:
        """Write down and show how it ended."""
        for view in self.watch.ranks:
            if outcome == "done":
                view.state = "done"
            elif outcome == "failed":
                view.state = "failed" if view.rank == self.cause.rank else "stopped"
        append(self.place, "end", outcome=outcome)
        folder.write_json(self.place / "summary.json", self._summary(outcome, lines))
        if outcome == "failed":
            folder.write_json(self.place / "error.json", asdict(self.cause))
        self.view.end(lines, self.watch, outcome == "done")
        run = Run(self.place)
        if outcome == "stopped":
            raise LaunchStopped from None
        if outcome != "done":
            raise LaunchFailed(lines, run) from None
        return run

    def _done_line(self) -> str:
        rows = [view for view in self.watch.ranks if view.step is not None]
        parts = [
            f"{self.plan.ranks} rank{'s' * (self.plan.ranks > 1)} done in {self._seconds():.1f} s"
        ]
        if rows:
            parts.append(f"step {rows[0].step}")
            if isinstance(rows[0].loss, float):  # a script may tell its steps alone
                parts.append(f"loss {rows[0].loss:.4f}")
        return ", ".join(parts)

    def _plan_json(self, agent: Agent) -> dict:
        plan = self.plan
        return {
            "command": plan.command,
            "script": plan.asked.script,
            "ranks": plan.ranks,
            "arguments": list(plan.asked.arguments),
            "backend": plan.backend,
            "place": plan.place,
            "notes": list(plan.notes),
            "torchrun_pid": agent.pid,
            "started": time.time(),
        }

    def _summary(self, outcome: str, lines: list[str]) -> dict:
        views = self.watch.ranks
        return {
            "outcome": outcome,
            "seconds": round(self._seconds(), 2),
            "text": "\n".join(lines),
            "ranks": [
                {
                    "rank": v.rank,
                    "state": v.state,
                    "step": v.step,
                    "loss": v.loss,
                    "tokens_per_s": v.tokens_per_s,
                    "memory_mb": v.memory_mb,
                }
                for v in views
            ],
        }

    def _seconds(self) -> float:
        return time.monotonic() - self.began

    def _name(self) -> str:
        """The run's folder as a person would write it."""
        inside = self.place.is_relative_to(home())
        return str(self.place.relative_to(home()) if inside else self.place)


def _describe_memory(used: list[float | None]) -> str:
    """Whether the GPUs hold no more than before; "" where nobody knows."""
    now = [gpu.used_gb for gpu in gpus.gauges()]
    pairs = [(a, b) for a, b in zip(used, now, strict=False) if None not in (a, b)]
    if not pairs:
        return ""
    free = all(b <= a + 0.1 for a, b in pairs)
    return "; GPU memory free again" if free else "; GPU memory is not free yet"
