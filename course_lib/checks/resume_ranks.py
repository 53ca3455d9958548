"""Checks of lesson 12 on two ranks: save_checkpoint and load_checkpoint of a trainer on each.

Files are left out: what a rank hands to `write_checkpoint`, and gets from `read_checkpoint`, is
looked at in its place, so that a rank that stays away is named and nobody waits for it.
"""

import torch

from course_lib.checks.report import Wrong, vector
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw
from course_lib.probes.known_state import random_numbers
from course_lib.probes.trainer import OTHER

PROBE = "course_lib.probes.trainer:"


def saved_by_all(subject: Subject, draw: Draw) -> None:
    """Two ranks: both call the write, and its list has the random states of each, in order."""
    seed = 1 + draw.seed % 1000
    found = [one.value for one in subject.run_ranks([(seed,)] * 2, probe=PROBE + "save")]
    for rank, one in enumerate(found):
        facts = dict(tried=f"2 ranks, save_checkpoint() on both; rank {rank}")
        if one["calls"] != 1:
            raise Wrong(
                "SAVE-ONE-RANK",
                "a rank does not take part in the write",
                expected="one call of `self.write_checkpoint` on every rank",
                got=f"{one['calls']} calls",
                hides="the others go on, and wait in the write for a rank that never comes.",
                look="what stands under a condition on the rank.",
                **facts,
            )
        if not one["returned"]:
            raise Wrong(
                "SAVE-NO-PATH",
                "a rank does not return the path",
                expected="what `self.write_checkpoint` returns, on every rank",
                got="something else",
                look="every `return`.",
                **facts,
            )
        if one["again"] != 1:
            raise Wrong(
                "SAVE-AGAIN",
                "a second save at the same step is not written",
                tried=f"2 ranks, 2 saves at step 0, random states changed between them; rank {rank}",
                expected="one call of `self.write_checkpoint` in the second save too",
                got=f"{one['again']} calls, where a file of that step is in the folder",
                hides="the file has what a trainer held before: other random states, or other weights.",
                look="the condition under which nothing is written.",
            )
    if found[0]["model"]:  # rank 0 writes
        raise Wrong(
            "SAVE-MODEL",
            "in the file the weights are not the trainer's",
            tried="2 ranks, a model in float64, save_checkpoint(); rank 0",
            expected="the state dict of `plain_model`, in float64",
            got=found[0]["model"][:76],
            hides="digits are lost on the way to the disk, and a resume is another run.",
            look='what is done to the tensors behind "model".',
        )
    if found[0]["scaler"] != [found[0]["scaler_right"]]:
        raise Wrong(
            "SAVE-SCALER",
            "in the file the loss scale is not the trainer's",
            tried="2 ranks in float32, whose scaler is on and has a scale of 512",
            expected=f"{found[0]['scaler_right']}"[:76],
            got=f"{found[0]['scaler']}"[1:-1][:76],
            look='what stands behind "scaler", and on what it depends.',
        )
    _expect_saved_random(found[0]["ranks"], seed, "2 ranks with random states of their own")
    tried = "2 ranks, each on a machine of its own (LOCAL_RANK 0), a second save at the same step"
    _expect_saved_random(found[0]["ranks_again"], seed + OTHER, tried)


def _expect_saved_random(got: list[list[int]] | None, seed: int, tried: str) -> None:
    right = [random_numbers(seed, rank) for rank in range(2)]
    if got == right:
        return
    raise Wrong(
        "SAVE-RANKS",
        "the random states in the file are not those of the ranks",
        tried=tried,
        expected=_show_random(right),
        got=_show_random(got),
        fits="the states of rank 0 alone." if got and all(x == right[0] for x in got) else "",
        hides="a resumed run draws the same on every rank, or is not the run that it was.",
        look='what stands behind "ranks": `self.world.gather`.',
    )


def _show_random(ranks: list[list[int]] | None) -> str:
    if not ranks:
        return "no list of random states" if ranks is None else "an empty list"
    return f"{len(ranks)}: " + "; ".join(f"torch seed {numbers[-1]}" for numbers in ranks[:3])


def loaded_by_all(subject: Subject, draw: Draw) -> None:
    """Two ranks: both read, both have the weights, and each has random states of its own."""
    seed = 1 + draw.seed % 1000
    tried = "2 ranks, load_checkpoint() on both"
    try:
        found = [one.value for one in subject.run_ranks([(seed,)] * 2, probe=PROBE + "load")]
    except AnswerError as failure:
        if isinstance(failure.error, NotImplementedError):
            raise
        if "list index out of range" in str(failure.error):
            raise Wrong(
                "LOAD-RANKS",
                "random states are looked for that are not there",
                tried="checkpoints of 2 ranks, of 3 and of 1, loaded by 2",
                expected="states of another number of ranks left alone",
                got=f"{type(failure.error).__name__}: {failure.error}"[:150],
                look="how many ranks the file has states of, and how many there are.",
            ) from None
        raise Wrong(
            "LOAD-ERROR",
            "a good file is refused",
            tried=tried,
            got=f"{type(failure.error).__name__}: {failure.error}"[:150],
            expected="7, the step",
            look="the part that the message names.",
        ) from None
    for rank, one in enumerate(found):
        for case, path in (
            ("same", None),
            ("apart", None),
            ("more", "a path"),
            ("fewer", "a path"),
            ("nothing", None),
        ):
            _expect_asked(one[case]["asked"], path, f"{tried}; rank {rank}")
        _expect_nothing(one["nothing"], f"{tried} where nothing is, at step 3; rank {rank}")
        _expect_loaded(one["same"], found[0]["same"], f"{tried}; rank {rank}")
        apart = f"{tried}, each on a machine of its own; rank {rank}"
        _expect_loaded(one["apart"], found[0]["apart"], apart)
        _expect_exact(one["more"]["differs"], f"{tried}, model and file in float64; rank {rank}")
    for case, ranks in (("same", 2), ("apart", 2), ("more", 3), ("fewer", 1)):
        for rank, one in enumerate(found):
            kept = random_numbers(seed + OTHER, rank)
            right = random_numbers(seed, rank) if ranks == 2 else kept
            where = ", of which each has a machine of its own" * (case == "apart")
            _expect_random(one[case]["random"], right, random_numbers(seed, 0), ranks, rank, where)


def _expect_asked(asked: list, path: str | None, tried: str) -> None:
    if asked == [path]:
        return
    raise Wrong(
        "LOAD-ONE-RANK" if not asked else "LOAD-PATH",
        "a rank does not read" if not asked else "another file is read",
        tried=tried if path is None else f"{tried}, with a path",
        expected=f"one call of `self.read_checkpoint`, path {path!r}",
        got=f"{len(asked)} calls: {', '.join(map(repr, asked))}"[:76],
        hides="all ranks must call it: the others wait for this one." if not asked else "",
        look="what stands above `self.read_checkpoint`, and what it is given.",
    )


def _expect_nothing(found: dict, tried: str) -> None:
    if found["returned"] == 0 and found["step"] == 3:
        return
    raise Wrong(
        "LOAD-EMPTY",
        "where no checkpoint is, another step comes back",
        tried=tried,
        expected="0, and a trainer as it was",
        got=f"{found['returned']!r}, and a trainer at step {found['step']!r}"[:76],
        look="the `return` for the case that nothing is there.",
    )


def _expect_loaded(one: dict, first: dict, tried: str) -> None:
    if one["step"] != 7 or _differ(one["weights"], first["weights"]):
        raise Wrong(
            "LOAD-APART",
            "a rank goes on with something else",
            tried=tried,
            expected=f"step 7, norm.weight {vector(first['weights']['norm.weight'], 3)}",
            got=f"step {one['step']}, norm.weight {vector(one['weights']['norm.weight'], 3)}",
            look="what stands under a condition on the rank.",
        )
    if one["returned"] != 7:
        raise Wrong(
            "LOAD-RETURN",
            "the step that is returned differs",
            tried=tried,
            expected="7 on every rank",
            got=f"{one['returned']!r}"[:60],
            look="every `return`.",
        )
    if not one["config"]:
        raise Wrong(
            "LOAD-CONFIG",
            "the settings of the file replace those of this run",
            tried=tried,
            expected="the settings that the trainer was made with",
            got="others",
            hides="a run that is resumed with a lower rate, to calm it, keeps the old one.",
            look='everything that is done with state["config"].',
        )


def _expect_exact(differs: str, tried: str) -> None:
    if differs:
        raise Wrong(
            "LOAD-MODEL",
            "the weights are not those of the file",
            tried=tried,
            expected="every tensor of the file, to the last of its 64 bits",
            got=f"in the file {differs}"[:76],
            hides="digits are lost on the way back, and a resume is another run.",
            look="what is done to the tensors before `load_state_dict`.",
        )


def _differ(weights: dict, others: dict) -> bool:
    return any(not torch.equal(weight, others[name]) for name, weight in weights.items())


def _expect_random(
    got: list[int], right: list[int], first: list[int], ranks: int, rank: int, where: str
) -> None:
    if got == right:
        return
    facts = dict(
        tried=f"a checkpoint of {ranks} ranks, loaded by 2{where}; rank {rank}",
        expected=f"Python {right[0]}, numpy {right[1]}, torch seed {right[-1]}",
        got=f"Python {got[0]}, numpy {got[1]}, torch seed {got[-1]}",
    )
    if ranks != 2:
        raise Wrong(
            "LOAD-RANKS",
            "random states of another number of ranks are restored",
            look="how many ranks the file has states of, and how many there are.",
            **facts,
        )
    raise Wrong(
        "LOAD-RANDOM-RANK",
        "a rank has not got its own random states",
        fits="those of rank 0." if got == first else "",
        hides="dropout draws the same on every rank: they learn from the same noise.",
        look='which entry of state["ranks"] a rank takes.',
        **facts,
    )
