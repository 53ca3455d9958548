"""Checks of lesson 12: DistributedTrainer.load_checkpoint.

Oracle: a state put together in `resume.py`, which has to be in the trainer after a load; and the
losses of a run that went on.
"""

from torch import Tensor

from course_lib.checks import expect
from course_lib.checks.report import Wrong, vector
from course_lib.checks.resume import (
    OPTIMIZER,
    PARTS,
    PRESETS,
    V,
    are_equal,
    config_of,
    folder,
    format_losses,
    known_state,
    leave_out_gpu,
    losses,
    own_random,
    random_states,
    run,
    show_part,
    text_of,
    tokens_of,
    write_checkpoint,
)
from course_lib.checks.resume_ranks import loaded_by_all
from course_lib.checks.subject import AnswerError, Module, Subject
from course_lib.checks.suite import DYNAMO, Draw, Suite


def _fresh_trainer(subject: Subject, tokens: Tensor, **changes) -> Module:
    return subject.module(config_of(folder(), **changes), tokens, vocab_size=V)


def _held_state(trainer: Module) -> dict:
    """What the trainer holds, by the library's own save."""
    trainer.method("save_checkpoint")
    return leave_out_gpu(trainer.method("read_checkpoint"))


def nothing_there(subject: Subject, draw: Draw) -> None:
    """An empty folder: 0, and training can begin."""
    trainer = _fresh_trainer(subject, tokens_of(draw))
    facts = dict(tried="load_checkpoint() where no checkpoint is", expected="0")
    try:
        out = trainer.method("load_checkpoint")
    except AnswerError as failure:
        raise Wrong(
            "LOAD-EMPTY",
            "a run without a checkpoint cannot begin",
            got=text_of(failure)[:150],
            look="what `read_checkpoint` returns when there is none.",
            **facts,
        ) from None
    if not isinstance(out, (int, float)) or isinstance(out, bool) or out != 0:
        raise Wrong(
            "LOAD-EMPTY",
            "a run without a checkpoint has another step",
            got=f"{out!r}"[:60],
            look="the `return` for the case that nothing is there.",
            **facts,
        )


def parts_return(subject: Subject, draw: Draw) -> None:
    """Each part of the file is in the trainer afterwards; the step is returned."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens)
    path, trainer = (
        write_checkpoint(subject, tokens, known),
        _fresh_trainer(subject, tokens, precision="fp16"),
    )
    tried = f"a checkpoint of step {known['step']}, load_checkpoint(path)"
    with own_random():
        before = _held_state(trainer)
        out = _load_good(trainer, path, tried, known)
        after = _held_state(trainer)
    if out == 0 and all(are_equal(before[part], after[part]) for part in PARTS):
        raise Wrong(
            "LOAD-PATH",
            "the file at the given path is not loaded",
            tried=tried,
            got="0, and a fresh trainer",
            expected=f"{known['step']}, and its state in the trainer",
            fits="the newest of this run's own folder, which is empty.",
            look="what `read_checkpoint` is given, and the condition after it.",
        )
    for part, (code, finding, hides) in PARTS.items():
        if are_equal(after[part], known[part]):
            continue
        untouched = are_equal(after[part], before[part])
        raise Wrong(
            f"LOAD-NO-{code}",
            f"{finding} did not return",
            tried=tried,
            hides=hides,
            expected=show_part(part, known[part]),
            got=show_part(part, after[part]),
            fits="what a trainer has that was never loaded." if untouched else "",
            look=f'what is done with state["{part}"].',
            preset=PRESETS.get(part, ""),
        )
    expect.not_none(out, f"{known['step']}", tried=tried)
    if isinstance(out, bool) or not isinstance(out, int) or out != known["step"]:
        raise Wrong(
            "LOAD-RETURN",
            "the step that is returned differs",
            tried=tried,
            got=f"{out!r}"[:60],
            expected=f"{known['step']}, an int",
            look="the last `return`.",
        )


def step_zero(subject: Subject, draw: Draw) -> None:
    """A checkpoint of step 0 is loaded like any other, in a trainer that has gone on too."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens) | {"step": 0, "tokens_seen": 0}
    path, trainer = write_checkpoint(subject, tokens, known), _fresh_trainer(subject, tokens)
    losses(trainer, 1)
    tried = "a checkpoint of step 0, loaded by a trainer at step 1"
    with own_random():
        out = _load_good(trainer, path, tried, known)
        after = _held_state(trainer)
    parts = [part for part in ("step", "tokens_seen", "model", "loader", "ranks")
             if not are_equal(after[part], known[part])]  # fmt: skip
    if parts or out != 0:
        raise Wrong(
            "LOAD-STEP-ZERO",
            "a checkpoint of step 0 is taken for none",
            tried=tried,
            expected="0, and its state in the trainer",
            got=f"{out!r}; not restored: {', '.join(parts) or 'nothing'}"[:76],
            look="`or`, and `if` on a number: 0 counts as false there.",
        )


def groups_return(subject: Subject, draw: Draw) -> None:
    """The optimizer's settings are part of its state, and return with it."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens)
    groups = [
        group | {"lr": 0.125 + i, "weight_decay": 0.25 + i, "betas": (0.5, 0.75)}
        for i, group in enumerate(known["optimizer"]["param_groups"])
    ]
    known = known | {"optimizer": known["optimizer"] | {"param_groups": groups}}
    path, trainer = write_checkpoint(subject, tokens, known), _fresh_trainer(subject, tokens)
    tried = "a checkpoint whose optimizer has other rates, decays and betas"
    with own_random():
        _load_good(trainer, path, tried, known)
    found = trainer.method("optimizer_groups")
    got, right = (
        [[group["lr"], group["weight_decay"], *group["betas"]] for group in each]
        for each in (found, groups)
    )
    if got != right:
        raise Wrong(
            "LOAD-GROUPS",
            "the optimizer's settings did not return",
            tried=tried,
            expected="; ".join(vector(row) for row in right),
            got="; ".join(vector(row) for row in got),
            look='what is done with state["optimizer"]: all but "config" is restored.',
        )


def _load_good(trainer: Module, path: str, tried: str, known: dict):
    """What load_checkpoint returns for a good file."""
    try:
        return trainer.method("load_checkpoint", path)
    except AnswerError as failure:
        raise Wrong(
            "LOAD-ERROR",
            "a good file is refused",
            tried=tried,
            got=text_of(failure)[:150],
            expected=f"{known['step']}, the step",
            look="the part that the message names.",
        ) from None


def resumes(subject: Subject, draw: Draw) -> None:
    """Three losses after a resume are those of the run that went on, bit for bit."""
    tokens, first = tokens_of(draw), draw.size(2, 3, 4)
    expected, path = run(subject, tokens, first)
    trainer = _fresh_trainer(subject, tokens)
    with own_random():
        trainer.method("load_checkpoint", path)
        got = losses(trainer, 3)
    if got == expected:
        return
    facts = dict(
        tried=f"{first} steps, save, a new trainer, load, 3 steps", expected=format_losses(expected)
    )
    if got[0] != expected[0]:
        raise Wrong(
            "LOAD-FIRST-LOSS",
            "the first loss after a resume differs already",
            got=format_losses(got),
            hides="the first loss depends on the weights and the batch alone.",
            look="what happens to the weights after they were restored.",
            **facts,
        )
    raise Wrong(
        "LOAD-NO-OPTIMIZER",
        "the optimizer's state did not return",
        got=format_losses(got),
        fits="the same first loss, then others: moments that begin at 0.",
        hides=OPTIMIZER,
        look='what is done with state["optimizer"].',
        preset="resume:no-optimizer",
        **facts,
    )


def unwraps(subject: Subject, draw: Draw) -> None:
    """Names as DDP, torch.compile, or both, put them into a state dict."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens)
    for prefix in ("module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."):
        wrapped = {prefix + name: value for name, value in known["model"].items()}
        path, trainer = (
            write_checkpoint(subject, tokens, known | {"model": wrapped}),
            _fresh_trainer(subject, tokens),
        )
        facts = dict(
            tried=f"weights called {prefix}norm.weight and so on",
            expected=f"norm.weight {vector(known['model']['norm.weight'], 3)} in the trainer",
            look="`plain_names`, and what it is given.",
        )
        try:
            with own_random():
                trainer.method("load_checkpoint", path)
            gain = trainer.method("weights")["norm.weight"]
        except AnswerError as failure:
            raise Wrong(
                "LOAD-WRAPPED",
                "names of a wrapped model are refused",
                got=text_of(failure)[:150],
                **facts,
            ) from None
        if not are_equal(gain, known["model"]["norm.weight"]):
            raise Wrong(
                "LOAD-WRAPPED",
                "weights of a wrapped model are passed over without a word",
                got=f"norm.weight {vector(gain, 3)}",
                **facts,
            )


def refuses_whole(subject: Subject, draw: Draw) -> None:
    """A file that does not fit is refused, and the trainer is as before."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens)
    half, short, more = (dict(known["model"]) for _ in range(3))
    half["norm.weight"] = half["norm.weight"][:64]
    del short["blocks.3.mlp.down_proj.weight"]
    more["blocks.4.mlp.down_proj.weight"] = short["blocks.2.mlp.down_proj.weight"]
    moved = known["loader"] | {"num_tokens": 601}
    for what, change in (
        ("a gain of 64 numbers, not 128", {"model": half}),
        ("one matrix missing", {"model": short}),
        ("one matrix more", {"model": more}),
        ("the loader of another text", {"loader": moved}),
    ):
        path, trainer = (
            write_checkpoint(subject, tokens, known | change),
            _fresh_trainer(subject, tokens),
        )
        before, tried, said = _held_state(trainer), f"a checkpoint with {what}", None
        try:
            with own_random():
                trainer.method("load_checkpoint", path)
        except AnswerError as failure:
            said, right = text_of(failure), isinstance(failure.error, ValueError)
        expected = "a ValueError, and the trainer as it was"
        if said is None:
            raise Wrong(
                "LOAD-ACCEPTS",
                "a checkpoint that does not fit is loaded",
                tried=tried,
                expected=expected,
                got="no error",
                look="`refuse_other_shapes`, and `strict=`.",
                hides="what is missing stays as it was drawn.",
            )
        after = _held_state(trainer)
        changed = [
            part for part in PARTS if part != "ranks" and not are_equal(before[part], after[part])
        ]
        if changed:
            raise Wrong(
                "LOAD-HALF",
                "a refused checkpoint has changed the trainer",
                tried=tried,
                expected=expected,
                got=f"{' '.join(said.split())[:60]}...; changed: {', '.join(changed)}",
                look="the order: all that may refuse comes before all that changes.",
            )
        if not right:
            raise Wrong(
                "LOAD-ERROR",
                "refused with another error",
                tried=tried,
                expected=expected,
                got=said[:150],
                look="`refuse_other_shapes` says it in a line.",
            )


def other_ranks(subject: Subject, draw: Draw) -> None:
    """Saved by two ranks, loaded by one: the random states belong to nobody here."""
    tokens = tokens_of(draw)
    known = known_state(draw, tokens) | {"ranks": [random_states(8), random_states(9)]}
    path, trainer = write_checkpoint(subject, tokens, known), _fresh_trainer(subject, tokens)
    tried = "a checkpoint of two ranks, loaded by one"
    with own_random():
        before = _held_state(trainer)["ranks"]
        _load_good(trainer, path, tried, known)
        after = _held_state(trainer)["ranks"]
    if not are_equal(before, after):
        raise Wrong(
            "LOAD-RANKS",
            "random states of another number of ranks are restored",
            tried=tried,
            expected=show_part("ranks", before),
            got=show_part("ranks", after),
            look="how many ranks the file has states of, and how many there are.",
        )


SUITES = (
    Suite(
        "load-checkpoint",
        (
            nothing_there,
            parts_return,
            step_zero,
            resumes,
            groups_return,
            unwraps,
            refuses_whole,
            other_ranks,
            loaded_by_all,
        ),
        tested="every part returns, wrapped names are read, three losses after a resume "
        "are the same to the bit, and a file that does not fit changes nothing.",
        remember="refuse another model or another text first, then change the trainer.",
        next_step="the milestone: kill a run in the middle, and start the same command again.",
        ranks=2,
        limit_s=12.0,
        loads=(DYNAMO,),
    ),
)
