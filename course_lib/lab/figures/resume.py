"""Python reference of the figure `resume`: a run that is resumed with one part forgotten.

TABLE is measured: `python -m course_lib.lab.figures.resume` trains the tiny preset with
`DistributedTrainer`, resumes it at four steps, each time without one part, and writes the table
here and in `resume.mjs`. The first line is the run that nobody interrupts: the loss of every second
update, in hundredths. Each line below is a resumed run, by step of the resume and forgotten part.
"""

import math
from typing import Any

from course_lib.lab.figures.stored import write
from course_lib.lab.figures.text import fmt

TITLE = "Killed and resumed"
STEPS, EVERY, WARMUP, LR, MIN_LR, BATCH = 56, 2, 10, 3e-3, 1e-4, 8
RESUMES = (8, 20, 32, 44)
MEASURED = ("model", "optimizer", "step", "loader")
NAMES = {
    "nothing": "nothing",
    "model": "the weights",
    "optimizer": "the moments",
    "step": "the step",
    "loader": "the place in the data",
    "random": "the random states",
}
EFFECTS = {
    "nothing": "Every loss is that of the run that went on, to the bit.",
    "model": "The run begins again from nothing.",
    "optimizer": "The first loss is right; the updates after it are not.",
    "step": "The first loss is right; the rate climbs through the warmup again.",
    "loader": "Windows are read twice, others never.",
    "random": "This model draws nothing in training: with dropout the losses would differ.",
}
TABLE = """\
415 392 369 340 314 285 271 241 245 217 212 197 187 184 174 178 174 151 168 157 156 162 152 150 140 152 146 139
426 332 300 266 263 240 232 212 204 195 181 189 181 159 172 164 163 164 155 153 145 159 150 147
314 288 276 237 237 212 208 196 183 183 178 182 175 150 165 156 157 159 149 152 142 155 146 141
314 307 295 268 270 242 232 212 201 195 186 182 179 157 170 161 159 160 152 148 138 157 141 138
307 276 246 239 242 221 212 190 202 186 178 166 174 166 161 164 165 143 158 151 153 158 146 147
422 390 348 310 273 265 245 221 233 216 210 207 194 190 189 195 191 187
212 214 211 198 187 184 186 162 174 161 166 166 156 152 148 159 152 147
212 200 196 188 184 183 183 161 172 165 160 161 151 145 139 162 150 142
223 190 173 178 176 168 169 145 166 153 156 149 156 151 153 156 156 141
429 405 389 375 356 344 321 312 304 297 293 286
174 165 176 168 159 160 153 151 147 159 147 141
174 153 169 157 157 165 156 154 146 168 159 152
171 151 155 162 162 154 157 137 158 142 138 137
424 418 408 401 397 391
152 151 138 158 145 140
152 150 138 158 149 154
162 138 146 146 151 144
"""
DEFAULTS: dict[str, Any] = {"forgotten": "optimizer", "at": 32}
PRESETS: dict[str, dict[str, Any]] = {
    "default": {},
    "exact": {"forgotten": "nothing"},
    "no-model": {"forgotten": "model"},
    "no-optimizer": {"forgotten": "optimizer"},
    "no-step": {"forgotten": "step"},
    "no-loader": {"forgotten": "loader"},
    "no-random": {"forgotten": "random"},
}
CASES: list[dict[str, Any]] = [{"forgotten": f, "at": at} for at in RESUMES for f in NAMES]


def rate(step: int) -> float:
    """The schedule of the run: warmup, then half a cosine."""
    if step < WARMUP:
        return LR * (step + 1) / WARMUP
    done = (step - WARMUP) / (STEPS - WARMUP)
    return MIN_LR + 0.5 * (LR - MIN_LR) * (1 + math.cos(math.pi * done))


def compute(state: dict[str, Any]) -> dict[str, Any]:
    """Numbers of the figure for `state` (keys of DEFAULTS)."""
    forgotten, at = state["forgotten"], state["at"]
    lines = [[int(word) / 100 for word in line.split()] for line in TABLE.splitlines()]
    whole = lines[0]
    resumed = whole[at // EVERY :]
    if forgotten in MEASURED:
        resumed = lines[1 + RESUMES.index(at) * len(MEASURED) + MEASURED.index(forgotten)]
    differences = [a - b for a, b in zip(resumed, whole[at // EVERY :], strict=True)]
    return {
        "steps": [i * EVERY for i in range(STEPS // EVERY)],
        "whole": whole,
        "resumed": resumed,
        "differences": differences,
        "first": differences[0],
        "largest": max(differences, key=abs),
        "rates": [rate(at), rate(0 if forgotten == "step" else at)],
    }


def table(result: dict[str, Any], state: dict[str, Any]) -> dict[str, Any]:
    """Caption, columns and rows; the rows hold text and numbers."""
    first = state["at"] // EVERY
    columns = (result["steps"], result["whole"], result["resumed"], result["differences"])
    rows = zip(*(c[first:] if len(c) > len(result["resumed"]) else c for c in columns), strict=True)
    return {
        "caption": f"Loss after the resume at step {state['at']}; lost: {NAMES[state['forgotten']]}",
        "columns": ["step", "went on", "resumed", "difference"],
        "rows": [[str(step), a, b, round(d, 3)] for step, a, b, d in rows],
    }


def summary(result: dict[str, Any], state: dict[str, Any]) -> str:
    """One sentence with the numbers, the one a screen reader hears."""
    return (
        f"Resumed at step {state['at']}, lost: {NAMES[state['forgotten']]}. The first loss differs "
        f"by {fmt(round(result['first'], 3))} nats, later ones by up to "
        f"{fmt(round(abs(result['largest']), 3))}. The rate of the next update is "
        f"{fmt(result['rates'][1])}, it was to be {fmt(result['rates'][0])}. "
        f"{EFFECTS[state['forgotten']]}"
    )


def train(at: int | None = None, forgotten: str = "nothing", steps: int = STEPS) -> list[float]:
    """The loss of every second update from `at` on; `at` None is the run that nobody interrupts.

    The tiny preset on a language of 64 tokens, each followed by one of four; fp32, seed 0. The
    uninterrupted run leaves a checkpoint at each of RESUMES in memory.
    """
    import numpy as np  # late: showing a figure needs neither
    import torch

    from course_lib.training.ddp_trainer import DistributedTrainer
    from course_lib.training.train_config import TrainConfig

    draw = np.random.default_rng(0)
    followers, tokens = draw.integers(0, 64, (64, 4)), [0]
    while len(tokens) < 2000:
        tokens.append(int(followers[tokens[-1], draw.integers(4)]))
    config = TrainConfig(
        model_size="tiny",
        seq_len=32,
        batch_size=BATCH,
        max_steps=STEPS,
        warmup_steps=WARMUP,
        lr=LR,
        min_lr=MIN_LR,
        precision="fp32",
        device="cpu",
        out="memory:figure",
        keep=len(RESUMES),
        seed=0,
    )
    with torch.random.fork_rng(devices=[]):
        run = DistributedTrainer(config, np.array(tokens, dtype=np.uint16), vocab_size=64)
        fresh = {part: getattr(run, part) for part in ("optimizer", "loader")}
        fresh = {part: held.state_dict() for part, held in fresh.items()} | {"step": 0}
        fresh["model"] = {name: w.clone() for name, w in run.plain_model.state_dict().items()}
        if at is not None:
            path = f"memory:figure/checkpoints/step_{at:08d}.pt"
            state = run.read_checkpoint(path)
            part = {} if forgotten == "nothing" else {forgotten: fresh[forgotten]}
            run.read_checkpoint = lambda path=None: state | part
            run.load_checkpoint()
        losses = []
        for step in range(at or 0, steps):
            if at is None and step in RESUMES:
                run.save_checkpoint()
            losses.append(run.train_step(run.next_batches())["loss"])
    return losses[::EVERY]


def main() -> None:
    """Train once without and sixteen times with a resume, and store each run's line."""
    runs = [train(), *(train(at, part) for at in RESUMES for part in MEASURED)]
    write([" ".join(f"{100 * loss:.0f}" for loss in losses) for losses in runs], __file__)


if __name__ == "__main__":
    main()
