"""Python reference of the figure `reshard`: rows of three tensors, written by R ranks, read by R'.

FSDP2 gives each of R ranks ceil(n / R) rows of n, the last ones what is left. A new rank reads from
a file the rows that both have. Saved "gathered", rank 0 has received all rows and writes one file;
saved as "rank0", its own rows are taken for the whole, and those of the others are in no file.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Saved on R ranks, loaded on R\u2032"
TENSORS = (("embedding.weight", 10, 16), ("q_proj.weight", 6, 16), ("norm.weight", 3, 4))
SAVED = {
    "sharded": "each its shard",
    "gathered": "gathered",
    "rank0": "rank 0\u2019s shard",
}
DEFAULTS: dict[str, Any] = {"R": 2, "R2": 3, "saved": "sharded"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "same": {"R2": 2},
    "grows": {"R2": 4},
    "shrinks": {"R": 4, "R2": 1},
    "gathered": {"R": 4, "saved": "gathered"},
    "rank0": {"saved": "rank0"},
}
CASES: list[dict[str, Any]] = [{"R": R, "R2": R2} for R in range(1, 5) for R2 in range(1, 5)] + [
    {"R": R, "R2": R2, "saved": saved}
    for saved in ("gathered", "rank0")
    for R, R2 in ((1, 2), (2, 1), (3, 4), (4, 3))
]


def rows(n: int, ranks: int) -> list[list[int]]:
    """Begin and end of the rows of each rank."""
    c = -(-n // ranks)
    return [[min(r * c, n), min((r + 1) * c, n)] for r in range(ranks)]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    R, R2, saved = state["R"], state["R2"], state["saved"]
    writers = 1 if saved == "gathered" else R
    files = 1 if saved == "rank0" else writers
    read, missing = [[0] * files for _ in range(R2)], [0] * R2
    sizes, pieces = [0] * files, []
    for t, (_, n, width) in enumerate(TENSORS):
        for r, (begin, end) in enumerate(rows(n, writers)):
            if r < files:
                sizes[r] += (end - begin) * width
            for q, (first, last) in enumerate(rows(n, R2)):
                lo, hi = max(begin, first), min(end, last)
                if hi <= lo:
                    continue
                pieces.append([t, q, r, lo, hi])
                if r < files:
                    read[q][r] += (hi - lo) * width
                else:
                    missing[q] += (hi - lo) * width
    total = sum(n * width for _, n, width in TENSORS)
    own = sum(rows(n, R)[0][1] * width for _, n, width in TENSORS)
    return {
        "pieces": pieces,
        "read": read,
        "missing": missing,
        "sizes": sizes,
        "reads": sum(1 for piece in pieces if piece[2] < files),
        "moved": total - own if saved == "gathered" else 0,
        "total": total,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    files = range(len(result["sizes"]))
    return {
        "caption": f"Bytes that each new rank reads; saved: {SAVED[state['saved']]}",
        "columns": ["new rank", *(f"file {r}" for r in files), "in no file"],
        "rows": [
            [str(q), *read, missing]
            for q, (read, missing) in enumerate(zip(result["read"], result["missing"], strict=True))
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    return (
        f"Saved by {state['R']}, loaded by {state['R2']}, {SAVED[state['saved']]}: "
        f"{result['reads']} reads from {_files(result)} of "
        f"{', '.join(fmt(size) for size in result['sizes'])} bytes. "
        f"{fmt(result['moved'])} bytes moved between ranks to save, "
        f"{fmt(sum(result['missing']))} of {fmt(result['total'])} are in no file."
    )


def _files(result: dict[str, Any]) -> str:
    count = len(result["sizes"])
    return "one file" if count == 1 else f"{count} files"
