"""Checks of lesson 12: DistributedTrainer.save_checkpoint and load_checkpoint.

Oracle: a state put together here, part by part, which has to come through unchanged; and the losses
of a run that nobody interrupts. Folders are "memory:..." ones, so nothing is written to a disk.
"""

import contextlib
import dataclasses
import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.resume_ranks import saved_by_all
from course_lib.checks.subject import AnswerError, Module, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite
from course_lib.training.ddp_trainer import DistributedTrainer
from course_lib.training.train_config import TrainConfig

V, FOLDERS = 37, itertools.count()
PARTS = {
    "model": ("MODEL", "the model", "training begins again from nothing."),
    "step": ("STEP", "the step", "warmup is run again, and the run ends that many steps later."),
    "tokens_seen": ("TOKENS", "the count of tokens", "the log counts from 0 again."),
    "loader": ("LOADER", "the place in the data", "the run reads again what it has read already."),
    "scaler": ("SCALER", "the loss scale", "fp16 begins at 65,536 again: updates may overflow and be "
               "skipped."),
    "ranks": ("RANDOM", "the random state", "dropout and sampling draw other numbers."),
}  # fmt: skip
PRESETS = {part: f"resume:no-{part}" for part in ("model", "optimizer", "step", "loader")}
OPTIMIZER = "no error is raised, and the first loss after the resume is still right."


def config_of(out: str, **changes) -> TrainConfig:
    """Settings of a run as small as the presets allow."""
    return TrainConfig(
        **(
            dict(
                model_size="tiny",
                seq_len=8,
                batch_size=2,
                max_steps=12,
                keep=1,
                lr=3e-3,
                warmup_steps=4,
                precision="fp32",
                device="cpu",
                out=out,
            )
            | changes
        )
    )


def folder() -> str:
    """A folder in memory that no other run has."""
    return f"memory:check-{next(FOLDERS)}"


def tokens_of(draw: Draw) -> Tensor:
    """600 tokens."""
    return draw.randint(0, V, (600,)).to(torch.uint16)


def _checkpoint_path(out: str, step: int) -> str:
    return f"{out}/checkpoints/step_{step:08d}.pt"


def known_state(draw: Draw, tokens: Tensor) -> dict:
    """A state like no other; its optimizer has no moments, so that it is all plain values."""
    like = DistributedTrainer(config_of("unused", precision="fp16"), tokens, vocab_size=V)
    model = {n: 0.1 * draw.randn(*w.shape) for n, w in like.plain_model.state_dict().items()}
    model["head.weight"] = model["embedding.weight"]  # one matrix under two names
    return {
        "step": draw.size(5, 6, 7),
        "tokens_seen": draw.size(1234, 2345),
        "model": model,
        "optimizer": like.optimizer.state_dict(),
        "scaler": like.scaler.state_dict() | {"scale": 1024.0, "_growth_tracker": 7},
        "loader": like.loader.state_dict() | {"next_window": draw.size(22, 34)},
        "ranks": [random_states(5)],
        "config": {"model_size": "tiny"},
    }


def random_states(seed: int) -> dict:
    """The random states that a seed leads to, as `random_states` writes them."""
    drawn: Any = np.random.RandomState(seed).get_state()
    name, keys, *rest = drawn
    version, numbers, spare = random.Random(seed).getstate()
    return {
        "python": [version, list(numbers), spare],
        "numpy": [name, keys.tolist(), *rest],
        "torch": torch.Generator().manual_seed(seed).get_state(),
    }


@contextlib.contextmanager
def own_random() -> Iterator[None]:
    """What a load does to Python's and numpy's random states is undone; the suite forks torch's."""
    kept = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(kept[0])
        np.random.set_state(kept[1])


def write_checkpoint(subject: Subject, tokens: Tensor, state: dict) -> str:
    """Path of a checkpoint with that state, written by the library."""
    out = folder()
    trainer = subject.module(config_of(out), tokens, vocab_size=V)
    trainer.method("write_checkpoint", state)
    return _checkpoint_path(out, state["step"])


def losses(trainer: Module, count: int) -> list[float]:
    """Losses of the next `count` steps."""
    return [
        trainer.method("train_step", trainer.method("next_batches"))["loss"] for _ in range(count)
    ]


def text_of(failure: AnswerError) -> str:
    """What the answer raised; the stub's own error goes on."""
    if isinstance(failure.error, NotImplementedError):
        raise failure
    return f"{type(failure.error).__name__}: {failure.error}"


def leave_out_gpu(state: dict) -> dict:
    """The same state without the GPU's random states, which a kernel has once it has used one: no
    check sets those."""
    match state.get("ranks"):
        case [*ranks] if all(isinstance(one, dict) for one in ranks):
            return state | {"ranks": [{k: v for k, v in r.items() if k != "cuda"} for r in ranks]}
    return state


def are_equal(a: Any, b: Any) -> bool:
    """Equal to the bit, whatever the nesting."""
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return isinstance(a, Tensor) and isinstance(b, Tensor) and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(are_equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(are_equal, a, b))
    return type(a) is type(b) and a == b


def show_part(part: str, value: Any) -> str:
    """A part in a few numbers."""
    try:
        if part == "model":
            gain = value["norm.weight"]
            return f"{len(value)} tensors, norm.weight {vector(gain, 3)}"
        if part == "loader":
            return f"next window {value['next_window']}"
        if part == "scaler":
            return f"scale {value['scale']:,.0f}, {value['_growth_tracker']} good steps"
        if part == "ranks":
            (one,) = value
            seed = int.from_bytes(one["torch"][:8].tolist(), "little")
            return f"Python {one['python'][1][1]}, numpy {one['numpy'][1][1]}, torch seed {seed}"
        return f"{value!r}"[:70]
    except (KeyError, TypeError, IndexError, ValueError):
        return f"{type(value).__name__}: {value!r}"[:70]


def _compare(got: dict, known: dict, tried: str) -> None:
    for part, (code, finding, hides) in PARTS.items():
        if not are_equal(got[part], known[part]):
            raise Wrong(
                f"SAVE-{code}",
                f"in the file {finding} is not the trainer's",
                tried=tried,
                expected=show_part(part, known[part]),
                got=show_part(part, got[part]),
                hides=hides,
                look=f'what stands behind "{part}".',
                preset=PRESETS.get(part, ""),
            )


def _save_and_read(trainer: Module, out: str, step: int, tried: str) -> dict:
    """What the answer's save left behind in the folder `out`, read by the library."""
    try:
        path = trainer.method("save_checkpoint")
        try:
            state = trainer.method("read_checkpoint")
        except AnswerError as failure:
            if "none of the" not in text_of(failure):
                raise
            trainer.method(
                "read_checkpoint", _checkpoint_path(out, step)
            )  # says why it is not good
            raise
    except AnswerError as failure:
        raise _explain_unreadable(text_of(failure), tried) or failure from None
    if state is None:
        raise Wrong(
            "SAVE-NOWHERE",
            "no checkpoint can be read back",
            tried=tried,
            got="nothing there",
            expected="a checkpoint that `read_checkpoint()` finds",
            fits="a state that is put together and not handed on, or written past the trainer.",
            look="`self.write_checkpoint`.",
        )
    expect.not_none(path, "the path of the file", tried=tried)
    return leave_out_gpu(state)


def _explain_unreadable(text: str, tried: str) -> Wrong | None:
    if "not a checkpoint of tensors" in text:
        return Wrong(
            "SAVE-PICKLE",
            "the file holds an object, not its state",
            tried=tried,
            expected="tensors, numbers, text, and lists or dicts of them",
            got=text[:150],
            hides="an object can only be read by running code that the file names.",
            look="a part that lacks `.state_dict()`, or `dataclasses.asdict`.",
        )
    if any(word in text for word in ("OSError", "FileNotFound", "Permission", "does not exist")):
        return Wrong(
            "SAVE-NOWHERE",
            "the file is written past the trainer",
            tried=tried,
            got=text[:150],
            expected="the state handed to `self.write_checkpoint`",
            hides="a kill in the middle of `torch.save` leaves half a file under the right name.",
            look="`torch.save`, `open`, and the folder they are given.",
        )
    lacks = text.partition("lacks ")[2].partition(":")[0].split(", ")
    if text.startswith("KeyError") and "step" in text:  # the name of the file is made of it
        lacks = ["step"]
    for part, (code, finding, hides) in (
        {"optimizer": ("OPTIMIZER", "the optimizer's state", OPTIMIZER)} | PARTS
    ).items():
        if part in lacks:
            return Wrong(
                f"SAVE-NO-{code}",
                f"a part is missing: {finding}",
                tried=tried,
                hides=hides,
                expected=f'a part "{part}"',
                got=f"a file without: {', '.join(lacks)}",
                look="the list of parts in the docstring, and how each is spelled.",
                preset=PRESETS.get(part, ""),
            )
    return None


def names_parts(subject: Subject, draw: Draw) -> None:
    """After a step, a checkpoint with every part can be read back."""
    out = folder()
    trainer = subject.module(config_of(out), tokens_of(draw), vocab_size=V)
    losses(trainer, 1)
    tried = "one step in float32, save_checkpoint(), read_checkpoint()"
    got = _save_and_read(trainer, out, 1, tried)
    for part in ("model", "optimizer", "scaler", "loader"):
        if not isinstance(got[part], dict):
            raise Wrong(
                "SAVE-STATE-DICT",
                f'what stands behind "{part}" is no state dict',
                tried=tried,
                expected="a dict, that of `state_dict()`, also where it is empty",
                got=f"{got[part]!r}"[:60],
                hides="a load asks for the part whatever the settings are.",
                look=f'what stands behind "{part}".',
            )


def holds_values(subject: Subject, draw: Draw) -> None:
    """Each part holds what the trainer holds."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens)
    path, out = write_checkpoint(subject, tokens, known), folder()
    trainer = subject.module(config_of(out, precision="fp16"), tokens, vocab_size=V)
    tried = f"a trainer at step {known['step']}, save_checkpoint()"
    with own_random():
        trainer.method("load_checkpoint", path)
        got = _save_and_read(trainer, out, known["step"], tried)
    _compare(got, known, tried)
    config = got.get("config")
    if not isinstance(config, dict) or config.get("lr") != 3e-3:
        raise Wrong(
            "SAVE-NO-CONFIG",
            "the settings are not in the file",
            tried=tried,
            expected='"config": a dict with model_size, lr and the others',
            got=f"{config!r}"[:70],
            hides="nobody can tell later what made these weights.",
            look="`dataclasses.asdict`.",
        )
    right = dataclasses.asdict(config_of(out, precision="fp16"))
    missing = [name for name in right if name not in config]
    other = [
        name for name in right if name in config and not _is_setting(config[name], right[name])
    ]
    if missing or other:
        name = (missing or other)[0]
        raise Wrong(
            "SAVE-CONFIG-PART",
            "settings are missing" if missing else "settings are others",
            tried=tried,
            expected=f"all {len(right)} settings, {name} {right[name]!r} too",
            got=f"without {', '.join(missing)}"[:76]
            if missing
            else f"{name} {config[name]!r}"[:76],
            fits="those alone that are no default." if "seed" in missing else "",
            hides="a default may be another one by the time that the file is read.",
            look="`dataclasses.asdict`.",
        )


def _is_setting(found: Any, right: Any) -> bool:
    return list(found) == list(right) if isinstance(right, tuple) else bool(found == right)


def saves_again(subject: Subject, draw: Draw) -> None:
    """Step 0 can be saved; a second save changes nothing, and a later one has the later state."""
    tokens, out = tokens_of(draw), folder()
    trainer = subject.module(config_of(out, keep=4), tokens, vocab_size=V)
    tried = "a new trainer, save_checkpoint() twice, before any step"
    first, second = (_save_and_read(trainer, out, 0, tried) for _ in range(2))
    _expect_same(second, first, tried)
    losses(trainer, 1)
    tried = "a save at step 0, a step, another save"
    later = _save_and_read(trainer, out, 1, tried)
    if later["step"] != 1 or later["tokens_seen"] == first["tokens_seen"]:
        raise _earlier_state(
            tried,
            "step 1, and the tokens of one step more",
            f"step {later['step']}, tokens_seen {later['tokens_seen']}",
        )
    weights = trainer.method("weights")
    for part, got, wanted in (
        ("model", {n: later["model"][n] for n in weights}, weights),
        ("loader", later["loader"] == first["loader"], False),
    ):
        if not are_equal(got, wanted):
            raise _earlier_state(tried, f'"{part}" as it is after the step', "as it was before")

    _saves_another(subject, tokens, known_state(draw, tokens))


def _saves_another(subject: Subject, tokens: Tensor, known: dict) -> None:
    """A save after another state has been loaded has each part of that one, random states too.

    So has a second save of the same step, whatever part has changed, and one by another trainer.
    """
    groups = known["optimizer"]["param_groups"]
    other = known | {
        "step": known["step"] + 1,
        "tokens_seen": known["tokens_seen"] + 100,
        "model": {name: 2 * weight for name, weight in known["model"].items()},
        "optimizer": {"state": {}, "param_groups": [group | {"lr": 0.5} for group in groups]},
        "scaler": known["scaler"] | {"scale": 2048.0, "_growth_tracker": 8},
        "loader": known["loader"] | {"next_window": 56 - known["loader"]["next_window"]},
        "ranks": [random_states(6)],
    }
    out, loaded = folder(), "the state of another trainer loaded"
    first, second = (
        subject.module(config_of(out, precision="fp16", keep=4), tokens, vocab_size=V)
        for _ in range(2)
    )
    plan = [(first, known, ""), (first, other, f"a save, {loaded}, another save")]
    again = "a save, a load that changes {} alone, a second save at the same step"
    for part in ("ranks", "loader", "model", "scaler", "tokens_seen", "optimizer"):
        plan += [(first, plan[-1][1] | {part: known[part]}, again.format(f'"{part}"'))]
    plan += [
        (second, other, f"a new trainer in the folder of a save, {loaded}, a save at that step")
    ]
    parts = [*PARTS, "optimizer"]
    with own_random():
        for trainer, state, tried in plan:
            trainer.method("load_checkpoint", write_checkpoint(subject, tokens, state))
            got = _save_and_read(trainer, out, state["step"], tried)
            if not tried:  # a part that no save has right is for `resumes` to tell
                parts = [part for part in parts if are_equal(got[part], state[part])]
            for part in parts:
                if not are_equal(got[part], state[part]):
                    wanted = f'"{part}" of that state: {show_part(part, state[part])}'
                    raise _earlier_state(tried, wanted, show_part(part, got[part]))


def _earlier_state(tried: str, expected: str, got: str) -> Wrong:
    return Wrong(
        "SAVE-AGAIN",
        "a later save has the state of an earlier one",
        tried=tried,
        expected=expected,
        got=got,
        look="what is kept from the first save, and what may keep a save from being written.",
    )


def _expect_same(got: dict, right: dict, tried: str) -> None:
    for part in PARTS:
        if not are_equal(got[part], right[part]):
            raise Wrong(
                "SAVE-DISTURBS",
                "saving changes what is saved",
                tried=tried,
                expected=f'"{part}" the same both times',
                got="others the second time",
                look="everything that `save_checkpoint` assigns, calls or draws.",
            )


def run(subject: Subject, tokens: Tensor, first: int) -> tuple[list[float], str]:
    """Losses of `first` steps, then a save, then 3 steps; where the save is."""
    out = folder()
    trainer = subject.module(config_of(out), tokens, vocab_size=V)
    losses(trainer, first)
    trainer.method("save_checkpoint")
    return losses(trainer, 3), _checkpoint_path(out, first)


def resumes(subject: Subject, draw: Draw) -> None:
    """Three losses after a resume are those of the run that went on, bit for bit."""
    tokens, first = tokens_of(draw), draw.size(2, 3, 4)
    whole = subject.module(config_of(folder()), tokens, vocab_size=V)
    expected = losses(whole, first + 3)[first:]
    after, path = run(subject, tokens, first)
    facts = dict(
        tried=f"{first} steps, save, a new trainer, load, 3 steps", expected=format_losses(expected)
    )
    if after != expected:
        raise Wrong(
            "SAVE-DISTURBS",
            "saving changes the run that goes on",
            got=format_losses(after),
            look="everything that `save_checkpoint` assigns or calls.",
            **(facts | {"tried": f"{first} steps, save, 3 steps"}),
        )
    fresh = subject.module(config_of(folder()), tokens, vocab_size=V)
    try:
        with own_random():
            fresh.method("load_checkpoint", path)
        got = losses(fresh, 3)
    except AnswerError as failure:
        raise Wrong(
            "SAVE-OPTIMIZER",
            "the optimizer refuses its part",
            got=text_of(failure)[:150],
            look='what stands behind "optimizer".',
            **facts,
        ) from None
    if got != expected:
        raise Wrong(
            "SAVE-OPTIMIZER",
            "the losses after a resume differ",
            got=format_losses(got),
            fits="an optimizer that came back without its moments.",
            hides=OPTIMIZER,
            look='what stands behind "optimizer".',
            preset="resume:no-optimizer",
            **facts,
        )


def format_losses(losses: list[float]) -> str:
    """Losses with more digits than float32 holds."""
    return "losses " + ", ".join(f"{loss:.10f}" for loss in losses)


SUITES = (
    Suite(
        "save-checkpoint",
        (names_parts, holds_values, saves_again, resumes, saved_by_all),
        tested="every part is in the file with the value it had, those of both ranks, "
        "loading it runs no code of the file's, and a run that resumes gives the same "
        "losses to the bit.",
        remember="weights are a third of a training state: AdamW's moments are the other two.",
        next_step="`single_file.load(path)` on your file, and look at each part.",
        ranks=2,
        limit_s=12.0,
        loads=(DYNAMO,),
    ),
)
