"""Python reference of the figure `pages`: which pages of a mapped file a batch touches.

A file of 240 pages of 4,096 bytes, 2,048 tokens of uint16 each. A batch is 8 windows of T + 1
tokens. Starts come from the Park-Miller generator, whose products stay exact in JavaScript.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Pages that a batch touches"
PAGES, PAGE_BYTES, PAGE_TOKENS, B = 240, 4096, 2048, 8
NUM_TOKENS = PAGES * PAGE_TOKENS
BATCHES = 60
ORDERS = {"random": "at random", "in-order": "one after the other"}
DEFAULTS: dict[str, Any] = {"T": 256, "batch": 1, "order": "random"}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "warm": {"batch": 60},
    "short": {"T": 16},
    "long": {"T": 4096},
    "in-order": {"order": "in-order", "batch": 60},
}
CASES: list[dict[str, Any]] = [
    {"T": T, "batch": batch, "order": order}
    for T in (16, 64, 256, 1024, 4096)
    for batch in (1, 17)
    for order in ORDERS
]


def starts_of(T: int, order: str) -> list[list[int]]:
    """Starts of the windows of each batch."""
    if order == "in-order":
        return [[(k * B + i) * T % (NUM_TOKENS - T) for i in range(B)] for k in range(BATCHES)]
    found, x = [], 2026
    for _ in range(BATCHES * B):
        x = x * 16807 % 2147483647
        found.append(x % (NUM_TOKENS - T))
    return [found[k * B : (k + 1) * B] for k in range(BATCHES)]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    T, batch = state["T"], state["batch"]
    now: list[int] = []
    new = 0
    seen: set[int] = set()
    curve = [0]
    for number, starts in enumerate(starts_of(T, state["order"]), start=1):
        touched = {p for s in starts for p in range(s // PAGE_TOKENS, (s + T) // PAGE_TOKENS + 1)}
        if number == batch:
            now, new = sorted(touched), len(touched - seen)
        seen |= touched
        curve.append(len(seen))
        if number == batch:
            cached = sorted(seen)
    return {
        "now": now,
        "cached": cached,
        "curve": curve,
        "used": 2 * B * (T + 1),
        "touched": PAGE_BYTES * len(now),
        "read": PAGE_BYTES * new,
        "share": curve[batch] / PAGES,
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    pages = (len(result["now"]), result["read"] // PAGE_BYTES, len(result["cached"]), PAGES)
    names = ("touched by this batch", "read from the disk for it", "in memory by now", "whole file")
    return {
        "caption": f"Batch {state['batch']}: 8 windows of {state['T']} tokens and one",
        "columns": ["what", "pages", "bytes"],
        "rows": [[n, p, p * PAGE_BYTES] for n, p in zip(names, pages, strict=True)]
        + [["used by the batch", "", result["used"]]],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    return (
        f"Batch {state['batch']}, windows {ORDERS[state['order']]}: it uses "
        f"{fmt(result['used'])} bytes on {len(result['now'])} pages, "
        f"{fmt(result['touched'])} bytes, of which {fmt(result['read'])} come from the disk. "
        f"By now {len(result['cached'])} of {PAGES} pages are in memory."
    )
