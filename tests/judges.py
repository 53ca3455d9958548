"""A judge that decides by what is written in the answer, for tests of what stands around judges.

It passes what is written, and obeys words in it: DIE-ONCE, DIE-ALWAYS, LATE-ONCE, LATE-ALWAYS, RANKS,
RAISE, BROKEN, SLEEP, WRONG, PERSON.
"""

import os
import time
from pathlib import Path

from grader.judge.decision import Decision


class Fake:
    """The interface of the real judge. `FAKE_LOG` names a file that is told of every answer."""

    tier = "fake"

    def __init__(self, *, unsafe: bool = False, budget_s: float = 10.0):
        self.log = os.environ.get("FAKE_LOG")

    def grade(self, exercise: str, answer, *, seed: int) -> Decision:
        if self.log:
            with open(self.log, "a") as file:
                file.write(f"{exercise} {seed} {os.getpid()}\n")
        source = answer.source
        if "DIE-ONCE" in source and self.is_first("died"):
            os._exit(1)
        if "DIE-ALWAYS" in source:
            os._exit(1)
        if "LATE-ALWAYS" in source or "LATE-ONCE" in source and self.is_first("late"):
            return Decision("TIMEOUT", "TIMEOUT", "stopped after 10 seconds", ("CLOCK",))
        if "RANKS" in source:
            return Decision("UNGRADABLE", "NO-RANKS", "not here", person="needs 4 ranks")
        if "RAISE" in source:
            raise RuntimeError("the judge is broken")
        if "BROKEN" in source:
            return Decision("ERROR", "CHECK-BROKE", "it broke", person="the check itself failed")
        if "SLEEP" in source:
            time.sleep(0.03)
        if "NotImplementedError" in source:
            return Decision("ERROR", "STUB", "not written yet [STUB]")
        if "WRONG" in source:
            return Decision("WRONG", "SIGN", "the signs <b>are</b> turned [SIGN]", ("SLOW",))
        if "PERSON" in source:
            return Decision("UNGRADABLE", "ODD", "no decision [ODD]", person="odd output")
        return Decision("PASS", "PASS", "all checks passed")

    def is_first(self, what: str) -> bool:
        """Whether that has not happened before, in any process."""
        mark = Path(f"{self.log}.{what}")
        first = not mark.exists()
        mark.touch()
        return first

    def __enter__(self) -> "Fake":
        return self

    def __exit__(self, *_) -> None:
        pass


class Refusing(Fake):
    """A judge on a machine without a sandbox."""

    def __init__(self, *, unsafe: bool = False, budget_s: float = 10.0):
        if not unsafe:
            raise RuntimeError("no sandbox on this machine; see `course doctor --sandbox`")
        super().__init__()


def landlock(*, unsafe: bool = False, budget_s: float = 10.0):
    """The real judge, on a machine that has no namespaces."""
    from grader.judge.judge import Judge
    from grader.judge.zygote_client import ZygoteClient

    return Judge.with_client(ZygoteClient(tiers=("landlock",)), budget_s=budget_s)
