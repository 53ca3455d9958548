"""Python reference of the figure `init`: the residual stream by depth, and the first loss.

TABLE is measured, not derived: `python -m course_lib.lab.figures.init` builds the model of
course_lib/gpt.py, rescales its weights, and writes the table here and in `init.mjs`. A line holds
one model (by depth, std, scaled or not): RMS of the stream after 0, STEP, 2 STEP, ... blocks, then
the loss of the first batch.
"""

import math
from typing import Any

from course_lib.lab.figures.stored import write
from course_lib.lab.figures.text import fmt

TITLE = "The residual stream before the first step"
V = 8192
DEPTHS = {6: 1, 12: 2, 48: 6}  # number of blocks: blocks between two stored values
STDS = (0.002, 0.02, 0.06, 0.2, 1)
TABLE = """\
0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.011
0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.011
0.02 0.0205 0.0213 0.0222 0.0233 0.0244 0.0256 9.034
0.02 0.0262 0.0398 0.0575 0.0714 0.0797 0.0911 9.036
0.0599 0.11 0.152 0.189 0.221 0.247 0.276 9.234
0.0599 0.324 0.534 0.685 0.818 0.915 1.02 9.262
0.2 3.95 5.54 6.72 7.8 8.68 9.51 11.51
0.2 13.6 19.2 23.2 27 30 32.8 11.52
0.998 487 694 844 978 1090 1190 42.64
0.998 1680 2400 2920 3390 3770 4120 42.53
0.002 0.002 0.002 0.00201 0.00201 0.00201 0.00201 9.012
0.002 0.00201 0.00201 0.00201 0.00202 0.00202 0.00202 9.012
0.02 0.0207 0.0214 0.0225 0.0236 0.0253 0.0268 9.051
0.02 0.0386 0.0715 0.0946 0.113 0.131 0.153 9.03
0.0601 0.113 0.157 0.197 0.228 0.261 0.293 9.254
0.0601 0.528 0.818 1.06 1.21 1.39 1.56 9.239
0.2 3.85 5.49 6.77 7.76 8.65 9.46 11.45
0.2 18.8 26.9 33.2 38 42.3 46.4 11.5
1 483 682 845 961 1070 1180 42.79
1 2370 3340 4140 4710 5250 5750 42.82
0.002 0.002 0.002 0.002 0.002 0.002 0.002 0.002 0.002 9.012
0.002 0.00201 0.00201 0.00203 0.00204 0.00205 0.00208 0.0021 0.00213 9.012
0.02 0.0204 0.021 0.0217 0.0225 0.0235 0.0249 0.0262 0.0279 9.047
0.02 0.104 0.152 0.2 0.227 0.26 0.285 0.305 0.336 9.044
0.0599 0.106 0.14 0.175 0.201 0.226 0.249 0.27 0.294 9.261
0.0599 1.07 1.55 1.96 2.22 2.46 2.74 2.96 3.19 9.26
0.2 3.31 4.74 5.8 6.67 7.46 8.19 8.84 9.46 11.66
0.2 32.7 46.2 57 65.7 73.2 80.3 86.6 93.1 11.54
0.998 414 589 723 837 942 1030 1120 1190 43.97
0.998 4050 5800 7110 8240 9240 10100 10900 11700 43.33
"""
DEFAULTS: dict[str, Any] = {"std": 0.02, "scaled": True, "depth": 48}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "no-residual-scaling": {"scaled": False},
    "std-too-large": {"std": 0.2},
    "std-one": {"std": 1, "scaled": False},
    "std-too-small": {"std": 0.002},
    "shallow": {"depth": 6, "scaled": False},
}
CASES: list[dict[str, Any]] = [
    {"std": std, "scaled": scaled, "depth": depth}
    for depth in DEPTHS
    for std in STDS
    for scaled in (True, False)
]  # the whole grid, so that a stale table in either file is found


def model_of(state: dict[str, Any]) -> dict[str, Any]:
    """The table's line for `state`: stream RMS at the stored depths, first loss."""
    place = list(DEPTHS).index(state["depth"]) * len(STDS) + STDS.index(state["std"])
    line = TABLE.splitlines()[2 * place + (not state["scaled"])]
    *rms, loss = (float(word) for word in line.split())
    return {"rms": rms, "loss": loss}


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    on, off = (model_of({**state, "scaled": scaled}) for scaled in (True, False))
    now = on if state["scaled"] else off
    step = DEPTHS[state["depth"]]
    return {
        "blocks": [i * step for i in range(len(now["rms"]))],
        "on": on,
        "off": off,
        "ln_v": math.log(V),
        "growth": now["rms"][-1] / now["rms"][0],
        "loss": now["loss"],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    columns = (result["blocks"], result["on"]["rms"], result["off"]["rms"])
    return {
        "caption": f"RMS of the stream, weights of std {state['std']}",
        "columns": ["after block", "scaled", "not scaled"],
        "rows": [
            *(list(row) for row in zip(*columns, strict=True)),
            ["first loss", result["on"]["loss"], result["off"]["loss"]],
        ],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    scaling = "with" if state["scaled"] else "without"
    return (
        f"With std {state['std']}, {state['depth']} blocks, {scaling} residual scaling, "
        f"the stream\u2019s RMS at the last block is {fmt(result['growth'])} times that of the "
        f"embedding. The first loss is {fmt(result['loss'])}; ln V is {fmt(result['ln_v'])}."
    )


def measure(depth: int, grid: list[tuple[float, bool]]) -> list[list[float]]:
    """One row per (std, scaled): stream RMS at the stored depths, then the first loss.

    The model is the tiny preset with `depth` blocks, seed 0; the batch is 4 x 64 random tokens and
    their random successors. About 10 s for the whole grid of 48 blocks on one core.
    """
    import torch  # late: showing a figure needs no torch

    from course_lib.gpt import GPT, GPTConfig

    torch.manual_seed(0)
    model = GPT(GPTConfig.preset("tiny", num_layers=depth, vocab_size=V))
    window = torch.randint(V, (4, 65))
    linear = [m for m in model.modules() if isinstance(m, torch.nn.Linear)]
    factors = {  # the tied head and embedding are one matrix, and one key
        m.weight: math.sqrt(2 * depth) if hasattr(m, "writes_residual") else 1 for m in linear
    }
    drawn = {w: w.detach().clone() for w in factors}
    seen: list[float] = []

    def note(x: Any) -> None:
        seen.append(x.pow(2).mean().sqrt().item())

    model.embedding.register_forward_hook(lambda _module, _args, x: note(x))
    for i, block in enumerate(model.blocks, start=1):
        if i % DEPTHS[depth] == 0:
            block.register_forward_hook(lambda _module, _args, x: note(x))
    rows = []
    with torch.no_grad():
        for std, scaled in grid:
            for weight, factor in factors.items():
                weight.copy_(drawn[weight] * (std / 0.02) * (1 if scaled else factor))
            seen.clear()
            _, loss = model(window[:, :-1], window[:, 1:])
            rows.append([*seen, loss.item()])
    return rows


def main() -> None:
    """Measure every model and store its line: three digits, four for the loss."""
    grid = [(std, scaled) for std in STDS for scaled in (True, False)]
    rows = [row for depth in DEPTHS for row in measure(depth, grid)]
    digits = [[f"{x:.3g}" for x in rms] + [f"{loss:.4g}"] for *rms, loss in rows]
    write([" ".join(f"{float(word):g}" for word in row) for row in digits], __file__)


if __name__ == "__main__":
    main()
