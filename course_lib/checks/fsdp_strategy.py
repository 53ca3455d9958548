"""Checks of lesson 23: FSDPTrainer._get_sharding_strategy.

A mesh says its axes, so decisions are compared as values; then the trainer runs with them on four
ranks, and bytes, collectives and the gradient must be those of the strategy.
"""

from course_lib.checks import expect
from course_lib.checks import fsdp_runs as runs
from course_lib.checks.report import Wrong
from course_lib.checks.subject import Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.fsdp import REFUSED

METHOD = "_get_sharding_strategy"
PAIR = "a pair (DeviceMesh, bool)"
# name of a case, its settings, shape and names of its mesh on 4 ranks, reshard_after_forward
ONE, TWO = ("shard",), ("replicate", "shard")
CASES = (
    ("FULL_SHARD", {"sharding": "FULL_SHARD"}, (4,), ONE, True),
    ("SHARD_GRAD_OP", {"sharding": "SHARD_GRAD_OP"}, (4,), ONE, False),
    ("NO_SHARD", {"sharding": "NO_SHARD"}, (4, 1), TWO, False),
    ("HYBRID_SHARD, shard_size 4", {"sharding": "HYBRID_SHARD", "shard_size": 4}, (1, 4), TWO, True),
    ("HYBRID_SHARD, 2 ranks a machine", {"sharding": "HYBRID_SHARD", "machine": 2}, (2, 2), TWO, True),
)  # fmt: skip
MACHINES = (  # two ranks on each, which the settings do not ask for
    ("HYBRID_SHARD, shard_size 4, 2 ranks a machine",
     {"sharding": "HYBRID_SHARD", "shard_size": 4}, (1, 4), TWO, True),
    ("HYBRID_SHARD, shard_size 1, 2 ranks a machine",
     {"sharding": "HYBRID_SHARD", "shard_size": 1}, (4, 1), TWO, True),
    ("NO_SHARD, 2 ranks a machine", {"sharding": "NO_SHARD"}, (4, 1), TWO, False),
    ("FULL_SHARD, 2 ranks a machine", {"sharding": "FULL_SHARD"}, (4,), ONE, True),
    ("SHARD_GRAD_OP, 2 ranks a machine", {"sharding": "SHARD_GRAD_OP"}, (4,), ONE, False),
)  # fmt: skip


def runs_at_all(subject: Subject, draw: Draw) -> None:
    """On one rank: a mesh of it and a bool come back."""
    found = runs.run_decisions(subject, METHOD, [{"sharding": "FULL_SHARD"}])[0]
    _pair(found, "FULL_SHARD, 1 rank")


def one_rank(subject: Subject, draw: Draw) -> None:
    """On one rank every strategy has its axes, each of one rank, and its flag."""
    found = runs.run_decisions(
        subject, METHOD, [{"sharding": case[1]["sharding"]} for case in CASES]
    )
    for (name, settings, _, axes, wanted), one in zip(CASES, found, strict=True):
        name = settings["sharding"]
        mesh, flag = _pair(one, f"{name}, 1 rank")
        _mesh(mesh, name, (1,) * len(axes), axes, 1)
        _flag(name, flag, wanted, 1)


def _pair(found, tried: str) -> tuple[dict, bool]:
    expect.not_none(found, PAIR, tried=tried)
    fine = isinstance(found, list) and len(found) == 2
    if not fine or not isinstance(found[0], dict) or "shape" not in found[0]:
        raise Wrong(
            "TYPE",
            "the answer is not a mesh and a bool",
            tried=tried,
            expected=PAIR,
            got=str(found)[:70],
            look="what stands after `return`.",
        )
    if not isinstance(found[1], bool):
        raise Wrong(
            "TYPE",
            "reshard_after_forward is not a bool",
            tried=tried,
            expected=PAIR,
            got=f"{found[1]!r} as the second",
            look="what stands after `return`.",
        )
    return found[0], found[1]


def each_strategy(subject: Subject, draw: Draw) -> None:
    """On four ranks: every strategy has its mesh, and frees or keeps as its name says."""
    answers = runs.run_decisions(subject, METHOD, [dict(case[1]) for case in CASES], 4)
    pairs = [
        _pair(found, f"{case[0]}, 4 ranks") for case, found in zip(CASES, answers, strict=True)
    ]
    for (name, _, shape, axes, _), (mesh, _) in zip(CASES, pairs, strict=True):
        _mesh(mesh, name, shape, axes, 4)
    flags = [flag for _, flag in pairs]
    if flags[:2] == [False, True]:
        raise Wrong(
            "STRATEGY-SWAPPED",
            "FULL_SHARD and SHARD_GRAD_OP have changed places",
            tried="both, 4 ranks",
            expected="FULL_SHARD: True, SHARD_GRAD_OP: False",
            got="FULL_SHARD: False, SHARD_GRAD_OP: True",
            hides="the losses are the same: only memory and collectives differ.",
            look="which of the two frees a block after its forward pass.",
            preset="timeline:fsdp-kept",
        )
    for (name, _, _, _, wanted), flag in zip(CASES, flags, strict=True):
        _flag(name, flag, wanted, 4)
    cases = [case[1] | {"machine": 2} for case in MACHINES]
    others = [case[1] | {"device": "meta"} for case in CASES]
    found = runs.run_decisions(subject, METHOD, cases + others, 4)
    for case, one, device in zip(MACHINES + CASES, found, ["cpu"] * 5 + ["meta"] * 5, strict=True):
        name = case[0] if device == "cpu" else f"{case[0]}, self.device of type {device}"
        mesh, flag = _pair(one, f"{name}, 4 ranks")
        _mesh(mesh, name, case[2], case[3], 4, device)
        _flag(name, flag, case[4], 4)
    _numbered_devices(subject)


def _numbered_devices(subject: Subject) -> None:
    """A device may have a number, as on a machine of many GPUs: its type has none."""
    tries = list(zip(CASES[1:4], ("cpu:0", "meta:1", "meta:12"), strict=True))
    cases = [case[1] | {"device": device, "may_raise": True} for case, device in tries]
    found = runs.run_decisions(subject, METHOD, cases, 4)
    for (case, device), one in zip(tries, found, strict=True):
        name, kind = f"{case[0]}, self.device {device}", device.partition(":")[0]
        if isinstance(one, str):
            raise Wrong(
                "STRATEGY-DEVICE",
                "a device that has a number stops it",
                tried=f"{name}, 4 ranks",
                expected=f'a mesh on devices of type "{kind}"',
                got=one,
                fits="the device as it is, or as a text, in place of its type.",
                hides="on one GPU all is well; ranks on a machine of eight have cuda:0 to cuda:7.",
                look="the first argument of `init_device_mesh`.",
            )
        mesh, flag = _pair(one, f"{name}, 4 ranks")
        _mesh(mesh, name, case[2], case[3], 4, kind)
        _flag(name, flag, case[4], 4)


def _flag(name: str, flag: bool, wanted: bool, ranks: int) -> None:
    if flag != wanted:
        raise Wrong(
            "STRATEGY-RESHARD",
            f"{name} {'keeps' if wanted else 'frees'} what it should "
            f"{'free' if wanted else 'keep'}",
            tried=f"{name}, {ranks} rank{'s' * (ranks > 1)}",
            expected=f"reshard_after_forward {wanted}",
            got=str(flag),
            hides="the losses are the same: only memory and collectives differ.",
            look="the second part of the pair.",
        )


def odd_world(subject: Subject, draw: Draw) -> None:
    """Three ranks, which have no half: copies of one part, or one copy of three."""
    odd = [("NO_SHARD", None, (3, 1)), ("HYBRID_SHARD", 1, (3, 1)), ("HYBRID_SHARD", None, (1, 3))]
    cases = [{"sharding": name, "shard_size": size} for name, size, _ in odd]
    answers = runs.run_decisions(subject, METHOD, cases, 3)
    for (name, size, shape), found in zip(odd, answers, strict=True):
        said = f"{name}, shard_size {size}" if size else name
        _mesh(_pair(found, f"{said}, 3 ranks")[0], said, shape, TWO, 3)
    uneven = [
        {"sharding": "HYBRID_SHARD", "shard_size": 2, "may_raise": True},
        {"sharding": "HYBRID_SHARD", "machine": 2, "may_raise": True},
    ]
    for case, found in zip(uneven, runs.run_decisions(subject, METHOD, uneven, 3), strict=True):
        if found != REFUSED:
            said = "shard_size 2" if "shard_size" in case else "2 ranks on this machine"
            raise Wrong(
                "STRATEGY-UNEVEN",
                "copies that do not come out even are not refused",
                tried=f"HYBRID_SHARD, {said}, 3 ranks",
                expected="the ValueError of `self.config.ranks_per_copy`",
                got="a mesh" if not isinstance(found, str) else found,
                hides="the ranks beyond the mesh hold no part and wait, or train alone.",
                look="where the number of parts comes from.",
            )


def _mesh(
    mesh: dict, name: str, shape: tuple, axes: tuple, ranks: int, device: str = "cpu"
) -> None:
    got = (tuple(mesh["shape"]), tuple(mesh["names"] or ()))
    if got == (shape, axes) and mesh["ranks"] == list(range(ranks)):
        if mesh["device"] == device:
            _nothing_sent(mesh["sent"], f"{name}, {ranks} ranks")
            return
        raise Wrong(
            "STRATEGY-DEVICE",
            "the mesh is on devices of another type",
            tried=f"{name}, {ranks} ranks",
            expected=f'"{device}", as self.device.type says',
            got=f'"{mesh["device"]}"',
            hides="a script that was tried on a CPU then fails on GPUs, or the other way round.",
            look="the first argument of `init_device_mesh`.",
        )
    facts = dict(tried=f"{name}, {ranks} ranks", expected=_words(shape, axes), got=_words(*got))
    if got[0] == shape and not got[1]:
        raise Wrong(
            "STRATEGY-NAMES",
            "the axes of the mesh have no names",
            **facts,
            look="`mesh_dim_names` of `init_device_mesh`.",
        )
    if len(shape) == 2 and got in (
        (shape[::-1], axes),
        (shape[::-1], axes[::-1]),
        (shape, axes[::-1]),
    ):
        raise Wrong(
            "STRATEGY-AXES",
            "the two axes have changed places",
            **facts,
            fits="parts and copies exchanged.",
            hides="a copy is then spread over machines, and the gathers take the slow link.",
            look="the docstring: which axis comes first, and what it counts.",
        )
    if name.startswith("NO_SHARD"):
        raise Wrong(
            "STRATEGY-NO-SHARD",
            "NO_SHARD cuts the model",
            **facts,
            hides="the losses are those of DDP; the collectives are not.",
            look="how many parts a copy has, and how many copies there are.",
        )
    if len(got[0]) != len(shape):
        word = "two axes" if len(got[0]) == 2 else f"{len(got[0])} axis"
        raise Wrong(
            "STRATEGY-MESH",
            f"{name.partition(',')[0]} has a mesh of {word}",
            **facts,
            fits="the mesh of another strategy.",
            look="how many axes the docstring names.",
        )
    raise Wrong(
        "STRATEGY-SIZE",
        "the mesh has other sizes",
        **facts,
        look="`self.config.ranks_per_copy(...)`, and the order of the ranks.",
    )


def _nothing_sent(sent: list[str], tried: str) -> None:
    if sent:
        raise Wrong(
            "STRATEGY-SENDS",
            "the ranks send one another something for a mesh",
            tried=tried,
            expected="no collective that carries data: each rank has the same settings",
            got=", ".join(sent[:4]),
            fits="a value or an object of one rank that is told to the others.",
            look="what is called beside `init_device_mesh`.",
        )


def _words(shape: tuple, axes: tuple) -> str:
    names = axes or ("no name",) * len(shape)
    return "mesh " + " x ".join(f"{n} ({name})" for n, name in zip(shape, names, strict=False))


def unknown_name(subject: Subject, draw: Draw) -> None:
    """A name that nobody knows is refused, however near it is to a known one."""
    names = ("FULL_SHARDS", "full_shard", "HYBRID", " NO_SHARD", "_HYBRID_SHARD_ZERO2", "")
    answers = runs.run_decisions(subject, METHOD, [{"sharding": name} for name in names])
    for name, found in zip(names, answers, strict=True):
        facts = dict(tried=f"sharding {name!r}", expected=REFUSED)
        if not isinstance(found, str):
            raise Wrong(
                "STRATEGY-UNKNOWN",
                "an unknown strategy is taken for a known one",
                **facts,
                got=f"a mesh, and reshard_after_forward {found[1] if found else None}",
                hides="a new or misspelt name trains as something else, without a word.",
                look="the last `else`, the default of a lookup, a part of the name compared.",
            )
        if found != REFUSED:
            raise Wrong(
                "STRATEGY-ERROR",
                "an unknown strategy stops with another error",
                **facts,
                got=found,
                look="what is raised when no name fits.",
            )


def trains(subject: Subject, draw: Draw) -> None:
    """Ranks train with it: parts held, collectives and the gradient are the strategy's."""
    _trains(subject, draw, [{"sharding": "FULL_SHARD"}, {"sharding": "SHARD_GRAD_OP"}], 2)
    _trains(subject, draw, [{"sharding": "HYBRID_SHARD", "shard_size": 2}], 4)


def _trains(subject: Subject, draw: Draw, cases: list[dict], ranks: int) -> None:
    cases = [case | {"seed": draw.seed} for case in cases]
    for case, by_rank in zip(cases, runs.run_steps(subject, draw, cases, ranks), strict=True):
        one, tried = by_rank[0], f"{case['sharding']}, {ranks} ranks"
        copies = ranks // case.get("shard_size", ranks)
        held, due = sum(rank["weights"] for rank in by_rank), 4 * copies * one["whole"]
        if not 0.99 * due <= held <= 1.03 * due:  # rows go out whole, so some ranks have a few more
            raise Wrong(
                "OTHER",
                "the ranks hold another part of the model",
                tried=tried,
                expected=f"{due:,} bytes of weights on all ranks",
                got=f"{held:,}",
                look="the mesh, and what it is given to.",
            )
        units = len(one["units"])
        again = 0 if case["sharding"] == "SHARD_GRAD_OP" else units - 1  # the root stays gathered
        runs.expect_sends(
            one,
            tried,
            allgather=units + again,
            reduce_scatter=units,
            allreduce=units * (copies > 1),
        )
        runs.same_gradient(by_rank, draw, tried, copies)


SUITES = (
    Suite(
        "sharding-strategy",
        (runs_at_all, each_strategy, one_rank, odd_world, unknown_name, trains),
        tested="four names stand for a mesh and a flag, and train as they say on real ranks.",
        remember="the mesh says who shares a copy, the flag whether a block is gathered twice.",
        next_step="on paper: the collectives of HYBRID_SHARD on 8 machines of 8 GPUs.",
        ranks=4,
        sends_much=True,
        limit_s=12.0,
    ),
)
