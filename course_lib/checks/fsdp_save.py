"""Checks of lesson 24: FSDPTrainer.save_checkpoint.

Oracle: a state whose every number follows from a seed (`probes/known_state.py` puts it
into a trainer on each rank), which has to be in the files, whole, by name, and nowhere on the way.
"""

import dataclasses
from typing import Any

import torch

from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.gpt import GPT, GPTConfig
from course_lib.probes.known_state import (
    SHAPE,
    SmallConfig,
    V,
    digest,
    known_settings,
    known_tensor,
    plain_state,
    random_numbers,
)
from course_lib.ranks.local_ranks import Rank

PROBE = "course_lib.probes.fsdp_checkpoint:"
PARTS = {
    "model": ("MODEL", "the weights", "training begins again from nothing."),
    "optimizer": ("OPTIMIZER", "the optimizer", "the first loss after the resume is still right."),
    "step": ("STEP", "the step", "warmup is run again, and the run ends that many steps later."),
    "tokens_seen": ("TOKENS", "the count of tokens", "the log counts from 0 again."),
    "loader": ("LOADER", "the place in the data", "the run reads again what it has read already."),
    "scaler": ("SCALER", "the loss scale", "fp16 begins at 65,536 again."),
    "ranks": ("RANDOM", "the random states", "dropout and sampling draw other numbers."),
    "config": ("CONFIG", "the settings", "nobody can tell later what made these weights."),
}
PLAIN = {"step": "step", "tokens_seen": "tokens_seen", "loader": "next_window", "scaler": "scale",
         "config": "lr"}  # fmt: skip
SMALL_BYTES = 1000  # sizes of the objects that ranks exchange; one gathered matrix is more


def shapes() -> dict[str, torch.Size]:
    """Shape of every tensor of a checkpoint of the small model, by path."""
    with torch.device("meta"):
        model = GPT(GPTConfig(vocab_size=V, **SHAPE))
    found = {f"model/{name}": w.shape for name, w in model.state_dict().items()}
    for name, w in model.named_parameters():
        moments = {"exp_avg": w.shape, "exp_avg_sq": w.shape, "step": torch.Size([])}
        found |= {f"optimizer/state/{name}/{key}": shape for key, shape in moments.items()}
    return found


def truth(seed: int) -> dict[str, list]:
    """[shape, hash] of each of these tensors in the state of a seed."""
    tied = {"model/head.weight": "model/embedding.weight"}
    paths = {path: tied.get(path, path).replace("/state/", "/") for path in shapes()}
    return {
        path: [list(shape), digest(known_tensor(paths[path], shape, seed))]
        for path, shape in shapes().items()
    }


def plain_truth(seed: int, ranks: int) -> dict[str, Any]:
    """The other values of that state."""
    numbers = [random_numbers(seed, rank) for rank in range(ranks)]
    return plain_state(seed) | {"lr": 1e-3, "ranks": numbers}


def of_first(path: str, seed: int) -> str:
    """The first numbers of a tensor of the state, for a message."""
    values = known_tensor(path, shapes()[path], seed)
    return ", ".join(f"{v:.3f}" for v in values.flatten()[:3].tolist())


def run_probe(subject: Subject, args_by_rank: list[tuple], name: str) -> list[Rank]:
    """What a probe gives on each rank; RANKS-DIFFER where gloo ended a rank over a message."""
    try:
        return subject.run_ranks(args_by_rank, probe=PROBE + name)
    except AnswerError as failure:
        if "ended without a word" not in str(failure):
            raise
        raise Wrong(
            "RANKS-DIFFER",
            "the ranks do not call the same collectives",
            tried=f"{len(args_by_rank)} ranks",
            expected="each collective called by every rank, in the same order",
            got="a message of another size than a rank waited for",
            look="what stands under `if self.world.is_first`.",
        ) from None


def _facts(subject: Subject, draw: Draw, ranks: int, kinds: list[str]) -> list[list[dict]]:
    """By kind of checkpoint, then by rank."""
    cases: list[dict[str, Any]] = [{"checkpoint": kind.partition(",")[0]} for kind in kinds]
    for kind, case in zip(kinds, cases, strict=True):
        unscaled = kind.endswith("fp32")
        case |= {"precision": "fp32", "frozen": True} if unscaled else {"again": ranks == 2}
    found = run_probe(subject, [(draw.seed, cases)] * ranks, "save_cases")
    return [list(case) for case in zip(*(rank.value for rank in found), strict=True)]


def sharded_save(subject: Subject, draw: Draw) -> None:
    """Two ranks, each its part: published when it is there, complete, nothing gathered."""
    (by_rank,) = _facts(subject, draw, 2, ["sharded"])
    _expect_published(by_rank, "sharded")
    _stays_sharded(by_rank)
    _expect_complete(by_rank[0]["file"], draw.seed, 2, "sharded")
    _expect_path(by_rank)
    _expect_again(by_rank, "sharded")


def one_rank(subject: Subject, draw: Draw) -> None:
    """One rank alone saves shards too: they are DTensors, of which it has all."""
    (by_rank,) = _facts(subject, draw, 1, ["sharded"])
    _expect_published(by_rank, "sharded")
    plain = (by_rank[0]["handed"] or {}).get("plain", {})
    if plain:
        raise Wrong(
            "SAVE-GATHERED",
            "on one rank whole tensors are saved in place of shards",
            tried=_describe_case(1, "sharded"),
            expected="DTensors, as on any number of ranks",
            got=f"{len(plain)} whole tensors, such as {next(iter(plain))}"[:90],
            hides="a run that begins on one rank would leave another kind of checkpoint than one on many.",
            look="what depends on the number of ranks: self.config.checkpoint alone decides.",
        )


def full_save(subject: Subject, draw: Draw) -> None:
    """Two ranks, one file: whole tensors on rank 0 and nothing on the other; fp32 has all parts."""
    by_rank, unscaled = _facts(subject, draw, 2, ["full", "full, fp32"])
    _one_file(by_rank)
    _expect_published(by_rank, "full")
    _expect_complete(by_rank[0]["file"], draw.seed, 2, "full")
    _only_first(by_rank)
    _expect_path(by_rank)
    _expect_again(by_rank, "full")
    _expect_published(unscaled, "full, fp32")  # with a scaler that is off, a part as the others
    tried = _describe_case(unscaled, "full, fp32") + "; the last norm is frozen"
    _names(unscaled[0]["file"].get("tensors", {}), tried)


def uneven_ranks(subject: Subject, draw: Draw) -> None:
    """Three ranks, which share out no matrix evenly, both ways."""
    for kind, by_rank in zip(
        ("sharded", "full"), _facts(subject, draw, 3, ["sharded", "full"]), strict=True
    ):
        _expect_published(by_rank, kind)
        _expect_complete(by_rank[0]["file"], draw.seed, 3, kind)


def _describe_case(by_rank: list | int, kind: str) -> str:
    ranks = by_rank if isinstance(by_rank, int) else len(by_rank)
    kind, _, precision = kind.partition(", ")
    more = f", precision {precision}" if precision else ""
    return f'{ranks} ranks, checkpoint="{kind}"{more}, save_checkpoint()'


def _expect_parts(parts: list[str], tried: str) -> None:
    for part, (code, finding, hides) in PARTS.items():
        if part in parts:
            raise Wrong(
                f"SAVE-NO-{code}",
                f"a part is missing: {finding}",
                tried=tried,
                hides=hides,
                expected=f'a part "{part}"',
                got=f"a state without: {', '.join(parts)}",
                look="the parts of DistributedTrainer.save_checkpoint, and their names.",
            )


def _expect_published(by_rank: list[dict], kind: str) -> None:
    """There is a checkpoint that counts, and there was when the save returned."""
    first, tried = by_rank[0], _describe_case(by_rank, kind)
    for facts in by_rank:
        _expect_parts((facts["handed"] or {}).get("lacks", []), tried)
    if not first["published"]:
        raise Wrong(
            "SAVE-UNPUBLISHED",
            "no checkpoint counts afterwards",
            tried=tried,
            expected="the state handed to `self.write_checkpoint`, which publishes it",
            got=f"without a manifest: {', '.join(first['there'])}"[:150]
            if first["there"]
            else "an empty folder",
            hides="a kill in the middle leaves half a checkpoint under a good name.",
            look="who writes the files, and who says that all of them are there.",
        )
    late = [rank for rank, facts in enumerate(by_rank) if not facts["at_once"]]
    named = first["file"]["shards"]
    if late or (named is not None and set(range(len(by_rank))) - set(named)):
        raise Wrong(
            "SAVE-EARLY",
            "published, or returned, before the shards of all ranks are there",
            tried=tried + f", rank {len(by_rank) - 1} writes slowly",
            expected="a checkpoint that names files of every rank when the save returns",
            got=f"none yet, seen from rank {late[0]}"
            if late
            else f"files of rank {', '.join(map(str, named)) or 'none'}",
            hides="what is missing is noticed by nobody until a resume.",
            look="what waits for the other ranks.",
        )


def _stays_sharded(by_rank: list[dict]) -> None:
    """Nothing was gathered, and each rank hands over what it keeps."""
    tried = _describe_case(by_rank, "sharded")
    total = sum(facts["kept"] for facts in by_rank)
    for rank, facts in enumerate(by_rank):
        handed, sent = (facts["handed"] or {}).get("bytes", 0), facts["gathered"]
        plain = (facts["handed"] or {}).get("plain", {})
        whole = [n for n, shape in plain.items() if shape == list(shapes().get(n, ()))]
        if whole and len(whole) < len(shapes()) // 2:
            raise Wrong(
                "SAVE-GATHERED",
                "some of the tensors are gathered before they are saved",
                tried=tried,
                expected="DTensors, of which each rank has its shard; vectors too",
                got=f"{len(whole)} whole tensors, such as {whole[0]}"[:90],
                hides="each of them is a collective, and is written by one rank for all.",
                look="what becomes of the results of `get_state_dict`.",
                preset="reshard:gathered",
            )
        if sent or handed > 0.9 * total:
            raise Wrong(
                "SAVE-GATHERED",
                "the shards are gathered before they are saved",
                tried=tried,
                expected=f"some {facts['kept']:,} bytes of shards on rank {rank}, none gathered",
                got=f"{handed:,} bytes handed over, {sent:,} gathered",
                hides="a model that needs all ranks to hold it does not fit on one.",
                look="`full_state_dict`, `full_tensor`, and self.config.checkpoint.",
                preset="reshard:gathered",
            )


def _one_file(by_rank: list[dict]) -> None:
    sharded_parts = (by_rank[0]["handed"] or {}).get("sharded", 0)
    if sharded_parts or (by_rank[0]["published"] and not by_rank[0]["one_file"]):
        raise Wrong(
            "SAVE-FULL-SHARDS",
            "shards are saved where one whole file was asked for",
            tried=_describe_case(by_rank, "full"),
            expected="whole tensors, in one .pt file",
            got=f"{sharded_parts} sharded tensors (DTensor)"
            if sharded_parts
            else "a folder of shards",
            hides="rank 0 writes that file, and its shards are not the model.",
            look="self.config.checkpoint.",
        )


def _only_first(by_rank: list[dict]) -> None:
    for rank, facts in enumerate(by_rank[1:], 1):
        held = (facts["handed"] or {}).get("bytes", 0)
        if held > SMALL_BYTES:
            raise Wrong(
                "SAVE-FULL-EVERYWHERE",
                "every rank holds the whole state",
                expected=f"0 bytes on rank {rank}: rank 0 alone writes",
                tried=_describe_case(by_rank, "full"),
                got=f"{held:,} bytes on rank {rank}, where its shards take {facts['kept']:,}",
                hides="8 ranks of a machine then take 8 times its memory.",
                look="`cpu_offload` in StateDictOptions.",
            )


def _expect_path(by_rank: list[dict]) -> None:
    for rank, facts in enumerate(by_rank):
        if facts["returned"] is None:
            raise Wrong(
                "NONE",
                "the answer returned None",
                tried=f"rank {rank} of {len(by_rank)}",
                expected="the path of the checkpoint, on every rank",
                got="None",
                look="the last line: is there a `return`?",
            )


def _expect_again(by_rank: list[dict], kind: str) -> None:
    """A second save at the same step hands over what the trainer holds by then."""
    tried = _describe_case(by_rank, kind) + "; then another state at the same step, and again"
    for rank, facts in enumerate(by_rank):
        calls, other = facts["again"]["calls"], facts["again"]["other"]
        if calls != 1 or other:
            raise Wrong(
                "SAVE-AGAIN",
                "a later save has the state of an earlier one"
                if calls
                else "a second save at the same step is not written",
                tried=tried,
                expected=f"rank {rank}: one call of `self.write_checkpoint`, each part as it is now",
                got=f"{calls} call{'s' * (calls != 1)}"
                + f"; not as it is now: {', '.join(other)}" * bool(other),
                hides="a trainer that went back to this step has no checkpoint of what it holds.",
                look="what is kept from the first call, and when nothing is written.",
            )


def _expect_complete(file: dict, seed: int, ranks: int, kind: str) -> None:
    """Every part is in the file with its value."""
    tried = _describe_case(ranks, kind)
    if "problem" in file:
        raise Wrong(
            "SAVE-PICKLE",
            "the checkpoint cannot be read back",
            tried=tried,
            expected="tensors, numbers, text, and lists or dicts of them",
            got=file["problem"][:150],
            look="a part that lacks `.state_dict()`, or `dataclasses.asdict`.",
        )
    _expect_parts(file["plain"]["lacks"], tried)
    _names(file["tensors"], tried)
    _tensors(file["tensors"], seed, tried)
    _expect_plain_values(file["plain"], seed, ranks, tried)


def _names(found: dict[str, list], tried: str) -> None:
    """The tensors have the names that `get_state_dict` gives them."""
    wanted, facts = shapes(), dict(tried=tried)
    moments = [path for path in found if path.startswith("optimizer/state/")]
    if not moments:
        raise Wrong(
            "SAVE-NO-MOMENTS",
            "the optimizer's moments are missing",
            got="no tensor of it",
            expected="exp_avg, exp_avg_sq and step of each parameter",
            hides="two thirds of the state; the first loss after a resume is still right.",
            look='what stands behind "optimizer".',
            **facts,
        )
    if moments[0].split("/")[2].isdigit():
        raise Wrong(
            "SAVE-NUMBERS",
            "the optimizer counts its parameters",
            got=moments[0],
            expected="optimizer/state/embedding.weight/exp_avg",
            hides="another grouping numbers them in another way, and nothing tells.",
            look="what `get_state_dict` returns for the optimizer.",
            **facts,
        )
    missing, extra = sorted(wanted.keys() - found.keys()), sorted(found.keys() - wanted.keys())
    if missing and extra:
        raise Wrong(
            "SAVE-NAMES",
            "the names are not those of the plain model",
            got=extra[0],
            expected=missing[0],
            hides="a plain model, or another wrapper, finds nothing.",
            look="the prefix of each key.",
            **facts,
        )
    if missing:
        raise Wrong(
            "SAVE-NAMES",
            f"{len(missing)} of {len(wanted)} tensors are missing",
            got=f"no {missing[0]}",
            expected=f"all {len(wanted)}, {missing[0]} too",
            look="where the list of names comes from.",
            **facts,
        )


def _tensors(found: dict[str, list], seed: int, tried: str) -> None:
    wanted = truth(seed)
    cut = [path for path in wanted if found[path][0] != wanted[path][0]]
    if cut:
        raise Wrong(
            "SAVE-RANK0-SHARD",
            "the shard of one rank is saved as the whole",
            tried=tried,
            expected=f"{cut[0]}: shape {tuple(wanted[cut[0]][0])}",
            got=f"shape {tuple(found[cut[0]][0])}",
            hides="the file is whole, checksums and all; what the other ranks had is gone.",
            look="`to_local`, and what DCP makes of a tensor that is no DTensor.",
            preset="reshard:rank0",
        )
    off = [path for path in wanted if found[path] != wanted[path]]
    if off:
        code, what = ("MODEL", "weights") if off[0].startswith("model") else ("MOMENTS", "moments")
        raise Wrong(
            f"SAVE-{code}",
            f"the {what} in the file are others",
            tried=tried,
            expected=f"{off[0].replace('/state', '')}: {of_first(off[0], seed)} ...",
            got=f"other numbers in {len(off)} of {len(wanted)} tensors",
            look="what happens to the tensors on their way.",
        )


def _expect_plain_values(found: dict[str, Any], seed: int, ranks: int, tried: str) -> None:
    wanted = plain_truth(seed, ranks)
    for part, key in PLAIN.items():
        if found[key] != wanted[key]:
            code, finding, hides = PARTS[part]
            raise Wrong(
                f"SAVE-{code}",
                f"in the file {finding} is not the trainer's",
                tried=tried,
                expected=f"{key} {wanted[key]}",
                got=f"{key} {found[key]}",
                hides=hides,
                look=f'what stands behind "{part}".',
            )
    groups = [known_settings(seed, number) for number in range(len(found["groups"]))]
    if not groups or found["groups"] != groups:
        raise Wrong(
            "SAVE-NO-GROUPS",
            "the settings of the optimizer's groups are missing, or others",
            tried=tried,
            expected=f"lr, weight_decay, betas: {known_settings(seed, 0)}, ...",
            got=str(found["groups"])[:76],
            hides="a resume then has to guess them.",
            look='what stands behind "optimizer".',
        )
    settings = {field.name for field in dataclasses.fields(SmallConfig)}
    if missing := sorted(settings - set(found["settings"])):
        raise Wrong(
            "SAVE-CONFIG",
            "some settings are missing in the file",
            tried=tried,
            expected=f"all {len(settings)} settings, those that are None too",
            got=f"without {', '.join(missing)}"[:76],
            look='what stands behind "config".',
        )
    if found["ranks"] != wanted["ranks"]:
        count = len(found["ranks"] or [])
        raise Wrong(
            "SAVE-RANDOM",
            "the random states are not those of all ranks",
            tried=tried,
            expected=f"{ranks} different ones, torch seeds {[r[-1] for r in wanted['ranks']]}",
            got=f"{count}, torch seeds {[r[-1] for r in found['ranks'] or []]}",
            hides="after a resume all ranks draw the same numbers.",
            look="`self.world.gather`, and who calls it.",
        )


SUITES = (
    Suite(
        "fsdp-save-checkpoint",
        (sharded_save, one_rank, full_save, uneven_ranks),
        tested="every part is in the checkpoint with its value, on one to three ranks; "
        "sharded, no tensor is gathered; full, rank 0 alone holds the whole.",
        remember="no rank has to hold the model for the model to be saved.",
        next_step="`ls -la` in the folder of a checkpoint, and read manifest.json.",
        ranks=3,
        sends_much=True,
        limit_s=12.0,
    ),
)
