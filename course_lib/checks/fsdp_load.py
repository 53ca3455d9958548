"""Checks of lesson 24: FSDPTrainer.load_checkpoint.

Oracle: a checkpoint that two ranks have written, of a state whose every number follows from a seed.
It has to be in a trainer of another state on 1, 2, 3 and 4 ranks, and nothing else may be.
"""

from collections import Counter
from weakref import WeakKeyDictionary

import torch

from course_lib.checks.fsdp_save import PARTS, PLAIN, run_probe, shapes
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.known_state import (
    digest,
    known_settings,
    known_tensor,
    plain_state,
    random_numbers,
)

OTHER = 100  # between the seed of what was saved and that of the trainer that loads
SENT_BYTES = 1000  # objects that ranks exchange while they load; one matrix is more
Files = dict[str, torch.Tensor]
_written: WeakKeyDictionary[Subject, Files] = WeakKeyDictionary()  # once for all checks of a run


def _load_on_ranks(
    subject: Subject, draw: Draw, ranks: int, cases: list[str], files: Files
) -> list[list[dict]]:
    """What came of it, by case, then by rank."""
    found = run_probe(subject, [(draw.seed, files, cases)] * ranks, "load_cases")
    return [list(case) for case in zip(*(rank.value for rank in found), strict=True)]


def same_ranks(subject: Subject, draw: Draw) -> None:
    """Two ranks: 0 from an empty folder; what two have saved, whatever this run saves itself;
    nothing of what does not fit."""
    files = run_probe(subject, [(draw.seed,)] * 2, "write_files")[0].value
    _written[subject] = files
    cases = ["nothing", "there", "full", "apart", "text", "text fresh", "zero"]
    nothing, there, full, apart, text, fresh, zero = _load_on_ranks(subject, draw, 2, cases, files)
    _expect_beginning(nothing)
    for by_rank, own in (
        (there, ""),
        (full, ' by a run with checkpoint="full"'),
        (apart, ", each on a machine of its own (LOCAL_RANK 0),\nby a run with NO_SHARD"),
    ):
        tried = f"saved on 2 ranks, loaded on 2{own}"
        _expect_accepted(by_rank, tried, "LOAD-REFUSES", "a good checkpoint is refused")
        _returned_parts(by_rank, draw.seed, tried)
        _random(by_rank, draw.seed, tried, "each rank's own, as they were saved")
        _nothing_sent(by_rank, tried)
    _refuses_text(text, draw.seed)
    _leaves_fresh(fresh)
    _restores_step_zero(zero, draw.seed)


def other_ranks(subject: Subject, draw: Draw) -> None:
    """Four ranks, and one, load what two have saved."""
    for ranks, case in ((4, "given"), (1, "fresh")):
        (by_rank,) = _load_on_ranks(subject, draw, ranks, [case], _written[subject])
        tried = f"saved on 2 ranks, loaded on {ranks}" + ", by its path" * (case == "given")
        _expect_accepted(by_rank, tried, "LOAD-WORLD", "another number of ranks cannot read it")
        _returned_parts(by_rank, draw.seed, tried)
        _random(by_rank, draw.seed + OTHER, tried, "left alone: there are others than ranks")
        _nothing_sent(by_rank, tried)


def half_a_save(subject: Subject, draw: Draw) -> None:
    """Three ranks: a later save that was killed does not count."""
    (by_rank,) = _load_on_ranks(subject, draw, 3, ["half"], _written[subject])
    _passes_half_by(by_rank, draw.seed)


def _expect_beginning(by_rank: list[dict]) -> None:
    for facts in by_rank:
        if facts["error"] or facts["returned"] != 0:
            raise Wrong(
                "LOAD-EMPTY",
                "a run without a checkpoint cannot begin",
                expected="0",
                tried="2 ranks, load_checkpoint() where no checkpoint is",
                got=_error(facts) or repr(facts["returned"]),
                look="what `read_checkpoint` returns when there is none.",
            )


def _restores_step_zero(by_rank: list[dict], seed: int) -> None:
    """A checkpoint from before the first update is one too."""
    tried = "saved at step 0, on 2 ranks, loaded on 2"
    _expect_accepted(by_rank, tried, "LOAD-REFUSES", "a good checkpoint is refused")
    seen = plain_state(seed)["tokens_seen"]
    for facts in by_rank:
        if (facts["returned"], facts["step"], facts["tokens_seen"]) != (0, 0, seen):
            raise Wrong(
                "LOAD-STEP-ZERO",
                "a checkpoint of step 0 is taken for none",
                tried=tried,
                expected=f"step 0, tokens_seen {seen}: all of it returns, and 0",
                got=f"returned {facts['returned']}, step {facts['step']}, "
                f"tokens_seen {facts['tokens_seen']}",
                hides="a run that was saved before its first update begins with other weights.",
                look="`if step`, `if not step`: 0 is a step.",
            )
    _tensors(by_rank[0]["tensors"], seed, tried)


def _error(facts: dict) -> str:
    return f"{facts['error'][0]}: {facts['error'][2]}"[:150] if facts["error"] else ""


def _expect_accepted(by_rank: list[dict], tried: str, code: str, finding: str) -> None:
    for rank, facts in enumerate(by_rank):
        if facts["error"]:
            raise Wrong(
                code,
                finding,
                tried=tried,
                expected="the step, on every rank",
                got=f"rank {rank}: {_error(facts)}",
                look="what is asked of the file that this run need not have.",
            )


def _returned_parts(by_rank: list[dict], seed: int, tried: str) -> None:
    """Counters, loader, scale, then the tensors; then what was returned."""
    _tensors(by_rank[0]["tensors"], seed, tried)
    wanted = plain_state(seed)
    for part, key in PLAIN.items():
        for facts in by_rank if part != "config" else ():  # the settings stay this run's
            if facts[key] != wanted[key]:
                code, finding, hides = PARTS[part]
                raise Wrong(
                    f"LOAD-NO-{code}",
                    f"{finding} did not return",
                    tried=tried,
                    hides=hides,
                    expected=f"{key} {wanted[key]}",
                    got=f"{key} {facts[key]}",
                    look=f'what is done with "{part}".',
                )
    for facts in by_rank:
        _expect_settings(facts, seed, tried)
    if by_rank[0]["returned"] != wanted["step"]:
        raise Wrong(
            "LOAD-RETURN",
            "the step is not what is returned",
            tried=tried,
            expected=str(wanted["step"]),
            got=repr(by_rank[0]["returned"])[:60],
            look="the last line.",
        )


def _expect_settings(facts: dict, seed: int, tried: str) -> None:
    """The groups and the scaler as they were saved, the settings as this run has them."""
    due = [known_settings(seed, number) for number in range(len(facts["groups"]))]
    if facts["groups"] != due:
        raise Wrong(
            "LOAD-NO-GROUPS",
            "the settings of the optimizer's groups did not return",
            tried=tried,
            expected=f"lr, weight_decay, betas: {due[0]}",
            got=str(facts["groups"][0])[:76],
            fits="tensors that were overwritten in place, and nothing beside them.",
            look="what is done with what `fill` returns.",
        )
    if facts["tracker"] != plain_state(seed)["tracker"]:
        raise Wrong(
            "LOAD-NO-SCALER",
            "of the loss scaler only the scale returned",
            tried=tried,
            expected=f"{plain_state(seed)['tracker']} updates since the scale last changed",
            got=str(facts["tracker"]),
            look='what is done with "scaler".',
        )
    if facts["max_steps"] != 60:
        raise Wrong(
            "LOAD-CONFIG",
            "the settings of this run have changed",
            tried=f"{tried}; saved with max_steps 50, this run has 60",
            expected="max_steps 60, and the same settings as before",
            got=str(facts["max_steps"]),
            hides="a resume with other settings trains with the old ones.",
            look='what is done with "config".',
        )


def _leaves_fresh(by_rank: list[dict]) -> None:
    moments = [path for path in by_rank[0]["tensors"] if path.startswith("optimizer/")]
    if moments:
        raise Wrong(
            "LOAD-HALF",
            "a refused checkpoint has changed the trainer",
            tried="2 ranks; this run reads another text, its optimizer has not made a step yet",
            expected="a ValueError, and an optimizer without state",
            got=f"{len(moments)} tensors of state",
            fits="`get_state_dict`, which gives a new optimizer its state and counts a step.",
            look="the order: all that may refuse comes before all that changes.",
        )


def _tensors(found: dict[str, list], seed: int, tried: str) -> None:
    """Weights and moments, whole, by name; else what became of them."""
    paths = {path.replace("/state/", "/"): shape for path, shape in shapes().items()}
    del paths["model/head.weight"]  # the embedding under a second name
    wanted = {p: [list(shape), digest(known_tensor(p, shape, seed))] for p, shape in paths.items()}
    off = [path for path in wanted if found.get(path) != wanted[path]]
    if not off:
        return
    first, part = off[0], off[0].partition("/")[0]
    facts = dict(tried=tried, expected=f"{first}: {_first_numbers(first, paths[first], seed)} ...")
    same_kind = [path for path in wanted if path.startswith(part)]
    if Counter(wanted[p][1] for p in same_kind) == Counter(
        found.get(p, [0, 0])[1] for p in same_kind
    ):
        raise Wrong(
            "LOAD-POSITION",
            "tensors are in one another's place",
            fits="loaded by position in a list, not by name.",
            got=f"{first}: what belongs to another name",
            hides="tensors of one shape change places without an error.",
            look="`zip`, and the order of parameters in the optimizer's groups.",
            **facts,
        )
    stale = {p: digest(known_tensor(p, paths[p], seed + OTHER)) for p in off}
    untouched = [p for p in off if found.get(p, [0, 0])[1] == stale[p]]
    if part == "model":
        raise Wrong(
            "LOAD-NO-MODEL",
            "the weights did not return",
            got=f"{len(off)} tensors differ, {len(untouched)} are as before the load",
            look="`set_state_dict`.",
            **facts,
        )
    raise Wrong(
        "LOAD-NO-MOMENTS",
        "the optimizer's moments did not return",
        got=f"{len(off)} tensors differ, {len(untouched)} are as before the load",
        hides="the first loss after the resume is right; the updates after it are not.",
        look="what `set_state_dict` is given for the optimizer.",
        **facts,
    )


def _first_numbers(path: str, shape: torch.Size, seed: int) -> str:
    return ", ".join(f"{v:.3f}" for v in known_tensor(path, shape, seed).flatten()[:3].tolist())


def _random(by_rank: list[dict], seed: int, tried: str, expected: str) -> None:
    for rank, facts in enumerate(by_rank):
        wanted = random_numbers(seed, rank)
        if facts["ranks"] != [wanted]:
            raise Wrong(
                "LOAD-RANDOM",
                "the random states of a rank are not those it should have",
                tried=tried,
                expected=f"{expected}; rank {rank}: {_say_random(wanted)}",
                got=_say_random(facts["ranks"][0]),
                hides="dropout draws other numbers, or the same ones on every rank.",
                look='which of plain["ranks"] is restored, and when.',
            )


def _say_random(numbers: list[int]) -> str:
    python, numpy, draws, seed = numbers
    return f"torch seed {seed}, checksums {python:x}, {numpy:x}, {draws:x}"


def _nothing_sent(by_rank: list[dict], tried: str) -> None:
    sent = max(facts["sent"] for facts in by_rank)
    if sent > SENT_BYTES:
        raise Wrong(
            "LOAD-SENDS",
            "tensors travel between the ranks",
            tried=tried,
            expected="each rank reads its own rows from the files",
            got=f"{sent:,} bytes gathered or broadcast",
            hides="rank 0 then needs memory for the whole state.",
            look="`full_state_dict`, `broadcast_from_rank0`.",
            preset="reshard:gathered",
        )


def _passes_half_by(by_rank: list[dict], seed: int) -> None:
    step = plain_state(seed)["step"]
    tried = f"3 ranks; step {step} is published, of step {step + 1} half the bytes are there"
    facts = by_rank[0]
    if facts["error"] or facts["returned"] == step + 1 or facts["step"] == step + 1:
        raise Wrong(
            "LOAD-HALF-SAVE",
            "half a save is taken for a checkpoint",
            tried=tried,
            expected=f"step {step}: what has no manifest does not count",
            got=_error(facts) or f"step {facts['step']}",
            look="who chooses the folder.",
        )
    _returned_parts(by_rank, seed, tried)


def _refuses_text(by_rank: list[dict], seed: int) -> None:
    before, tried = plain_state(seed + OTHER), "2 ranks; this run reads another text"
    said, expected = by_rank[0], "a ValueError, and the trainer as it was"
    if not said["error"]:
        raise Wrong(
            "LOAD-ACCEPTS",
            "a loader that does not fit is passed over",
            tried=tried,
            expected=expected,
            got="no error",
            look='what is done with "loader".',
        )
    weights = digest(known_tensor("model/norm.weight", shapes()["model/norm.weight"], seed + OTHER))
    keys = ("step", "tokens_seen", "next_window", "scale", "tracker")
    changed = [key for key in keys if said[key] != before[key]]
    changed += ["model"] * (said["tensors"]["model/norm.weight"][1] != weights)
    groups = [known_settings(seed + OTHER, n) for n in range(len(said["groups"]))]
    changed += ["optimizer groups"] * (said["groups"] != groups)
    random = [[random_numbers(seed + OTHER, rank)] for rank in range(len(by_rank))]
    changed += ["random states"] * ([facts["ranks"] for facts in by_rank] != random)
    if changed:
        raise Wrong(
            "LOAD-HALF",
            "a refused checkpoint has changed the trainer",
            tried=tried,
            expected=expected,
            got=f"changed: {', '.join(changed)}",
            look="the order: all that may refuse comes before all that changes.",
        )
    if not said["error"][1]:
        raise Wrong(
            "LOAD-ERROR",
            "refused with another error",
            tried=tried,
            expected=expected,
            got=_error(said),
            look="`self.loader.load_state_dict`.",
        )


SUITES = (
    Suite(
        "fsdp-load-resharded",
        (same_ranks, other_ranks, half_a_save),
        tested="what two ranks saved is bit for bit in one, two, three and four, no tensor "
        "went from rank to rank, and half a save was passed by.",
        remember="the files say which rows they hold; a reader asks for its own.",
        next_step="save on two ranks, and load with the plain trainer of lesson 12.",
        ranks=4,
        sends_much=True,
        limit_s=12.0,
    ),
)
