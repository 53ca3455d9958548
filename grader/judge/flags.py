"""What each flag on an answer means. The most serious come first; none of them takes points."""

FLAGS = {
    "TOUCHED": "its code, or a cell that it uses, changes torch, another library, or the course's "
    "code that measures for the check",
    "READY-MADE": "it passes and calls a function that is an answer by itself, torch's or the "
    "library's own",
    "SAME": "it is nearly the answer of the notebooks that are named, or the published solution",
    "CLOCK": "it ran into a limit on time twice, the second time with the machine to itself; the next "
    "run tries it again",
    "TAMPERED": "a check or its settings were changed, which had no effect",
    "ALONE": "it passed only with the course's earlier answers in place of the learner's",
    "DUP": "a cell was split or copied, and its parts were joined",
    "MATCHED": "the answer was found by the name it defines, because its cell had lost its id",
}

TOLD = {"TAMPERED", "ALONE", "DUP", "MATCHED"}
"""Flags that learners read in their feedback; the others are for a person who asks first."""


def sort_key(flag: str) -> tuple[int, str]:
    """For `sorted`: the most serious flag first, and before all of them one that has no entry."""
    return (list(FLAGS).index(flag) if flag in FLAGS else -1, flag)
