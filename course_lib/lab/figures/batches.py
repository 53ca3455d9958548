"""Python reference of the figure `batches`: windows of a text, their targets, and what they cost.

Eighteen tokens, one a letter, "to be or not to be". Three windows are shown; the number of calls is
for a batch of B. A loop slices, casts and wraps each row, for idx and for targets, and stacks
twice: 6 B + 2 calls. The gather makes 8, whatever B is.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Windows and targets"
TEXT = "to_be_or_not_to_be"
GATHER_CALLS = 8
CODES = {
    "right": "one token later",
    "no-shift": "the same tokens",
    "rolled": "idx rolled by one",
}
DEFAULTS: dict[str, Any] = {"T": 4, "start": 5, "code": "right", "B": 64}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "last": {"start": 13},
    "no-shift": {"code": "no-shift"},
    "rolled": {"code": "rolled"},
    "large": {"B": 256, "T": 5},
}
CASES: list[dict[str, Any]] = [
    {"T": T, "start": start, "code": code, "B": B}
    for T, start, B in ((2, 0, 4), (3, 9, 16), (4, 13, 64), (5, 12, 256), (5, 4, 4))
    for code in CODES
] + [{"start": start} for start in range(6)]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    T, B = state["T"], state["B"]
    windows = len(TEXT) - T
    starts = [1, min(state["start"], windows - 1), 12]
    idx = [TEXT[s : s + T] for s in starts]
    following = [TEXT[s + 1 : s + T + 1] for s in starts]
    targets = {
        "right": following,
        "no-shift": idx,
        "rolled": [row[1:] + row[0] for row in idx],
    }[state["code"]]
    wrong = [
        [want != got for want, got in zip(*rows, strict=True)]
        for rows in zip(following, targets, strict=True)
    ]
    return {
        "starts": starts,
        "windows": windows,
        "idx": idx,
        "targets": targets,
        "wrong": wrong,
        "num_wrong": sum(map(sum, wrong)),
        "loop_calls": 6 * B + 2,
        "gather_calls": GATHER_CALLS,
        "index_bytes": 8 * B * (T + 1),
        "view_bytes": 0,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    rows = zip(result["starts"], result["idx"], result["targets"], result["wrong"], strict=True)
    return {
        "caption": f"Targets: {CODES[state['code']]}",
        "columns": ["window", "start", "idx", "targets", "not the next token"],
        "rows": [[str(i), s, x, y, sum(w)] for i, (s, x, y, w) in enumerate(rows)],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    T, B = state["T"], state["B"]
    return (
        f"A window of T = {T} takes {T + 1} tokens, so {len(TEXT)} tokens hold "
        f"{result['windows']} windows. Of the {3 * T} targets shown, "
        f"{result['num_wrong']} are not the next token. For {fmt(B)} windows the loop makes "
        f"{fmt(result['loop_calls'])} calls, the gather {GATHER_CALLS}."
    )
