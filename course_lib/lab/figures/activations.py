"""Python reference of the figure `activations`: what a GPT keeps for backward, by part, four ways.

Same states, numbers and sentences as `activations.mjs`; plain numbers, no torch. The preset "small"
in float32. Against `course_lib.measure.activations` in tests/test_figure_tables.py.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "What a forward pass keeps"
LAYERS, HEADS, WIDTH, HIDDEN = 6, 6, 384, 1024
WAYS = ("Explicit attention", "Fused attention", "Explicit, products kept", "Blocks recomputed")
PARTS = ("Norms", "Attention", "T × T", "MLP", "Inputs", "Loss")
DEFAULTS: dict[str, Any] = {"T": 256, "B": 8, "V": 8192}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "long": {"T": 2048, "B": 1},
    "logits": {"V": 50304},
    "selective": {"T": 1024, "B": 2},
    "large-batch": {"B": 64},
}
CASES: list[dict[str, Any]] = [
    {"T": T, "B": B, "V": V}
    for T, B in ((64, 1), (128, 32), (512, 4), (1024, 16), (4096, 64))
    for V in (8192, 32000, 128256)
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS): GB by way and part."""
    T, N = state["T"], state["T"] * state["B"]
    wide, hidden, norm = N * WIDTH, N * HIDDEN, 2 * N * WIDTH + N
    square, mask = N * HEADS * T, T * T / 4  # the mask has one byte an entry, a quarter of a number
    loss = wide + N * state["V"]
    norms, mlp = (2 * LAYERS + 1) * norm, LAYERS * (wide + 4 * hidden)
    numbers = [
        [norms, LAYERS * 5 * wide, LAYERS * (square + mask), mlp, 0, loss],
        [norms, LAYERS * (5 * wide + N * HEADS), 0, mlp, 0, loss],
        [
            norm,
            LAYERS * 5 * wide,
            LAYERS * square,
            LAYERS * (wide + 2 * hidden),
            LAYERS * wide,
            loss,
        ],
        [norm, 0, 0, 0, LAYERS * wide, loss],
    ]
    kept = [[4 * x / 1e9 for x in parts] for parts in numbers]
    total = [sum(parts) for parts in kept]
    return {
        "kept": kept,
        "total": total,
        "share": [100 * parts[-1] / all_ for parts, all_ in zip(kept, total, strict=True)],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    return {
        "caption": "GB kept for the backward pass",
        "columns": ["Way", *PARTS, "Together"],
        "rows": [
            [way, *parts, total]
            for way, parts, total in zip(WAYS, result["kept"], result["total"], strict=True)
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    explicit, fused, products, blocks = result["total"]
    return (
        f"{fmt(state['B'])} × {fmt(state['T'])} tokens, V = {fmt(state['V'])}: explicit attention "
        f"keeps {fmt(explicit)} GB, {fmt(result['kept'][0][2])} of them T × T; fused {fmt(fused)} GB; "
        f"with the products kept {fmt(products)} GB; with all blocks recomputed {fmt(blocks)} GB. "
        f"The loss is {fmt(result['share'][1])} percent of the fused bar and "
        f"{fmt(result['share'][3])} percent of the last."
    )
