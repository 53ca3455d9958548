"""Python reference of the figure `number-line`: gradients on the ruler of a number format.

Same states, numbers and sentences as `number-line.mjs`; plain floats, no torch. COUNTS are the
weight gradients of lesson 12's model at its first update, by power of two; `measure` counts again.
A bin holds one power of two; the highest that a format reaches counts as inside.
"""

from typing import Any

from course_lib.lab.figures.text import fmt

TITLE = "Gradients on the ruler of a format"
LOWEST = -30  # the first of COUNTS: gradients from 2^-30 to 2^-29
COUNTS = (1, 0, 3, 3, 13, 11, 23, 45, 90, 180, 394, 749, 1454, 2864, 5270, 7371, 7223, 8803, 13864,
          14736, 9484, 6078, 4475, 2163, 813, 204, 22)  # fmt: skip
FORMATS: dict[str, tuple[str, int, int, int, float]] = {
    # name, log2 of the smallest number, of the smallest normal, of the highest power, largest
    "bf16": ("bfloat16", -133, -126, 127, (2 - 2**-7) * 2.0**127),
    "fp16": ("float16", -24, -14, 15, 65504.0),
    "e5m2": ("fp8 e5m2", -16, -14, 15, 57344.0),
}
DEFAULTS: dict[str, Any] = {"format": "fp16", "tokens": "24", "scale": 0}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "scaled": {"scale": 24},
    "overflow": {"tokens": "8", "scale": 24},
    "bf16": {"format": "bf16"},
    "whole": {"tokens": "8"},
    "e5m2": {"format": "e5m2", "tokens": "8", "scale": 12},
}
CASES: list[dict[str, Any]] = [
    {"format": name, "tokens": tokens, "scale": scale}
    for name in FORMATS
    for tokens, scale in (
        ("8", 0),
        ("16", 0),
        ("16", 12),
        ("24", 24),
        ("8", 36),
        ("8", 40),
        ("24", 40),
    )
]


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS): percents, and where the bars stand."""
    _, low, normal, top, largest = FORMATS[state["format"]]
    shift = state["scale"] - (int(state["tokens"]) - 8)
    parts = {"lost": 0, "subnormal": 0, "normal": 0, "over": 0}
    for i, count in enumerate(COUNTS):
        e = LOWEST + i + shift  # numbers from 2^e to 2^(e + 1); below half the smallest, all are 0
        part = "lost" if e < low - 1 else "subnormal" if e < normal else "normal"
        parts["over" if e > top else part] += count
    percents = {name: 100 * count / sum(COUNTS) for name, count in parts.items()}
    return {**percents, "shift": shift, "first": LOWEST + shift, "largest": largest}


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    _, low, normal, _, largest = FORMATS[state["format"]]
    return {
        "caption": "What becomes of the gradients",
        "columns": ["they", "from", "to", "percent"],
        "rows": [
            ["become 0", 0, 2.0 ** (low - 1), result["lost"]],
            ["keep some digits", 2.0 ** (low - 1), 2.0**normal, result["subnormal"]],
            ["keep all digits", 2.0**normal, largest, result["normal"]],
            ["become infinite", largest, float("inf"), result["over"]],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    text = (
        f"{FORMATS[state['format']][0]}, {fmt(2 ** int(state['tokens']))} tokens in an update, a "
        f"scale of {fmt(2 ** state['scale'])}: {fmt(result['lost'])} percent of the gradients "
        f"become 0, {fmt(result['subnormal'])} keep some digits, {fmt(result['normal'])} keep all. "
    )
    if result["over"]:
        return text + f"{fmt(result['over'])} percent are infinite: the update is left out."
    return text + "None is infinite."


def measure() -> list[int]:
    """COUNTS, counted again: the model of lesson 12 at its first update, the whole loss."""
    import torch

    from course_lib.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    followers = torch.stack([torch.randperm(64)[:4] for _ in range(64)])
    torch.manual_seed(0)
    shape = dict(vocab_size=64, max_seq_len=16, num_layers=2, num_heads=2, d_model=64, d_hidden=128)
    model = GPT(GPTConfig(**shape))
    walk = [torch.randint(64, (16,))]
    for _ in range(16):
        walk.append(followers[walk[-1], torch.randint(4, (16,))])
    window = torch.stack(walk, dim=1)
    model(window[:, :-1], window[:, 1:])[1].backward()
    sizes = torch.cat([p.grad.flatten() for p in model.parameters()]).abs().log2().floor()
    return [int((sizes == LOWEST + i).sum()) for i in range(len(COUNTS))]
