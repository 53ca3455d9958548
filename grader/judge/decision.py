"""What the judge says of one answer."""

from dataclasses import dataclass

VERDICTS = (
    "PASS", "WRONG", "ERROR", "TIMEOUT", "CRASHED", "LIMIT", "DENIED", "UNGRADABLE",
)  # fmt: skip
PASSING = {"NO-RANKS", "JUDGE-FAILED"}
"""Codes of what another machine, or another day, may decide."""
MESSAGE_CHARS = 1200
CLOCK = "CLOCK"
"""The flag of a verdict in which a clock took part: another try could end otherwise."""


def is_undecided(verdict: str, code: str) -> bool:
    """Whether no machine has decided, so that a person does: there are no points, and not 0 points.

    An answer's cell that is gone is among them, since its code may be elsewhere in the notebook.
    """
    return verdict == "UNGRADABLE" or code == "CHECK-BROKE"


@dataclass(frozen=True)
class Decision:
    """The judge's decision on one exercise. Only PASS earns points.

    WRONG: the answer ran and a check refused it. ERROR: its own code raised, or it is not written.
    TIMEOUT, CRASHED, LIMIT, DENIED: its worker was stopped, died, ran out of an allowance, or was
    refused something by the confinement. UNGRADABLE: no decision; `person` says why.
    """

    verdict: str
    code: str
    """Stable message code, such as "RMS-NO-EPS" or "STUB"."""
    message: str
    """Plain text a learner may read: never a hidden input, an expected value or a solution."""
    flags: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    """Why the answer is flagged, a sentence each; for a person, and of no weight."""
    seconds: float = 0.0
    person: str = ""
    """Why a person must look; empty when none must."""

    def __post_init__(self):
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict {self.verdict!r} is none of {', '.join(VERDICTS)}")
        object.__setattr__(self, "message", self.message[:MESSAGE_CHARS])

    @property
    def passed(self) -> bool:
        return self.verdict == "PASS"
