"""Checks of lesson 21, first part: read_world.

Oracle: arithmetic on rank numbers. Environments are dicts as torchrun would set them, for machines
with any number of GPUs; the last check asks four real ranks.
"""

from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch

from course_lib.checks import expect
from course_lib.checks.report import Wrong
from course_lib.checks.subject import AnswerError, Subject
from course_lib.checks.suite import Draw, Suite
from course_lib.probes.seats import environment, environment_on, launchers

KEYS = ("rank", "local_rank", "world_size", "device")
Seat = tuple[Any, ...]


def _ask(subject: Subject, given: dict[str, str], num_gpus: int, tried: str) -> Seat:
    """The four values in the order of KEYS; `Wrong` for what is no such dict.

    Asked as on a machine without a GPU, so that a verdict is the same on every machine.
    """
    with mock.patch.multiple(torch.cuda, is_available=lambda: False, device_count=lambda: 0):
        out = subject.call(given, num_gpus)
    expect.dict_of(out, KEYS, "WORLD-KEYS", tried=tried)
    seat = tuple(out[key] for key in KEYS)
    _whole_numbers(seat, tried)
    return seat


def _whole_numbers(seat: Seat, tried: str) -> None:
    for key, value in zip(KEYS[:3], seat, strict=False):
        if isinstance(value, str):
            raise Wrong(
                "WORLD-TEXT",
                f"{key} is a text",
                tried=tried,
                expected=f"an int: {value}",
                got=repr(value)[:40],
                fits="a value as it stands in the environment.",
                hides='"0" == 0 is False: on no rank is `rank == 0` true, and nobody saves.',
                look="`int(...)`.",
            )
        if isinstance(value, bool) or not isinstance(value, int):
            raise Wrong(
                "TYPE",
                f"{key} is no int",
                tried=tried,
                expected="three ints and a text",
                got=f"{key}: {type(value).__name__}",
                look="what each key holds.",
            )
    if not isinstance(seat[3], str):
        raise Wrong(
            "TYPE",
            "device is no text",
            tried=tried,
            expected='"cpu" or "cuda:N"',
            got=f"device: {type(seat[3]).__name__}",
            look="the docstring: Returns.",
        )


def _format_seat(seat: Sequence[Any]) -> str:
    return f"rank {seat[0]}, local rank {seat[1]}, world size {seat[2]}, {seat[3]}"


def one_process(subject: Subject, draw: Draw) -> None:
    """Without torchrun there is one process, on the CPU or on the first GPU."""
    for num_gpus, device in ((0, "cpu"), (draw.size(1, 2, 8), "cuda:0")):
        tried = f"an environment without RANK, {num_gpus} GPU{'s' * (num_gpus != 1)}"
        right = (0, 0, 1, device)
        facts = dict(tried=tried, expected=_format_seat(right))
        try:
            seat = _ask(subject, {"HOME": "nowhere"}, num_gpus, tried)
        except AnswerError as failure:
            if not isinstance(failure.error, (KeyError, TypeError, ValueError)):
                raise
            kind = type(failure.error).__name__
            raise Wrong(
                "WORLD-ALONE",
                "it does not run without torchrun",
                **facts,
                got=f"{kind}: {failure.error}"[:70],
                hides="the same script should run as `python train.py`.",
                look="what is taken for a variable that is not there.",
            ) from None
        if seat == right:
            continue
        facts["got"] = _format_seat(seat)
        if seat[:3] == right[:3] and num_gpus:
            raise Wrong(
                "WORLD-ALONE-DEVICE",
                "one process alone takes another device",
                **facts,
                look="the device when there is a GPU.",
            )
        if seat[:3] == right[:3]:
            raise Wrong(
                "WORLD-NO-CPU",
                "without a GPU the device is not the CPU",
                **facts,
                look="what happens to the device when num_gpus is 0.",
            )
        raise Wrong(
            "WORLD-ALONE",
            "a process alone is not rank 0 of 1",
            **facts,
            look="what is taken for a variable that is not there.",
        )


def numbers(subject: Subject, draw: Draw) -> None:
    """The numbers are those of the environment that is handed over, and whole."""
    ranks = draw.size(3, 4, 5)
    tried = f'RANK "{ranks - 1}", LOCAL_RANK "{ranks - 1}", WORLD_SIZE "{ranks}", no GPU'
    seat = _ask(subject, environment(ranks - 1, per_machine=ranks), 0, tried)
    right = (ranks - 1, ranks - 1, ranks, "cpu")
    if seat == right:
        return
    facts = dict(tried=tried, expected=_format_seat(right), got=_format_seat(seat))
    if seat[:3] == (0, 0, 1):
        raise Wrong(
            "WORLD-UNREAD",
            "the environment that came in is not read",
            **facts,
            fits="`os.environ` in place of the argument, or defaults alone.",
            look="where the texts come from.",
        )
    if seat[:3] == right[:3]:
        raise Wrong(
            "WORLD-NO-CPU",
            "without a GPU the device is not the CPU",
            **facts,
            look="what happens to the device when num_gpus is 0.",
        )
    _name(seat, right, ranks, 0, facts)


def machines(subject: Subject, draw: Draw) -> None:
    """Two machines: the rank counts over both, the local rank and the device on each."""
    per_machine = draw.size(3, 4, 2)
    num_gpus = per_machine + 1  # enough for each machine, too few for both together
    for rank in (1, per_machine, 2 * per_machine - 1):
        _fits(subject, rank, [per_machine] * 2, num_gpus)


def full_machines(subject: Subject, draw: Draw) -> None:
    """As many GPUs as ranks, one of each, and more than ten; machines that are not alike."""
    many = draw.size(12, 11)
    _fits(subject, 0, [1], 1)
    _fits(subject, 1, [1, 1], 1)
    for rank in (0, many - 1, many + 10):
        _fits(subject, rank, [many, many], many)
    unlike = [3, 2, 4]
    for rank in (2, 3, 4, 5, 8):
        _fits(subject, rank, unlike, draw.size(4, 5))
    _fits(subject, 8, [9], draw.size(10, 12))  # as texts, "9" is more than "10"
    _fits(subject, 1, [2, 2], draw.size(16, 10))


def _fits(subject: Subject, rank: int, by_machine: list[int], num_gpus: int) -> None:
    """The seat of that rank is right; `by_machine`: the ranks of each machine."""
    given = environment_on(rank, by_machine)
    local_rank, here = int(given["LOCAL_RANK"]), int(given["LOCAL_WORLD_SIZE"])
    right = (rank, local_rank, sum(by_machine), f"cuda:{local_rank}")
    tried = (
        f"rank {rank} of {sum(by_machine)}, local rank {local_rank}; machines with "
        f"{' and '.join(map(str, by_machine))} ranks, {num_gpus} GPUs on each"
    )
    try:
        seat = _ask(subject, given, num_gpus, tried)
    except AnswerError as failure:
        if not isinstance(failure.error, ValueError):
            raise
        fits = ""
        if sum(by_machine) > num_gpus:
            fits = "WORLD_SIZE, all ranks of all machines, compared with one's GPUs."
        elif str(num_gpus) < str(here):
            fits = f'a comparison of texts: "{num_gpus}" < "{here}" is true.'
        raise Wrong(
            "WORLD-REFUSES",
            "a launch that fits is refused",
            tried=tried,
            expected=_format_seat(right),
            got=f"ValueError: {failure.error}"[:76],
            fits=fits,
            look="which number is compared with num_gpus, and what when both are the same.",
        ) from None
    if seat != right:
        facts = dict(tried=tried, expected=_format_seat(right), got=_format_seat(seat))
        _name(seat, right, here, num_gpus, facts)


def _name(seat: Seat, right: Seat, per_machine: int, num_gpus: int, facts: dict) -> None:
    """Raise with the name of the first value that differs."""
    rank, local_rank, world_size, device = right
    if seat[0] != rank:
        if seat[0] == local_rank:
            raise Wrong(
                "WORLD-LOCAL-RANK",
                "the rank is the local one",
                **facts,
                hides="each machine then has a rank 0 that saves, and half of the data is\n"
                "never read.",
                look="RANK and LOCAL_RANK.",
            )
        raise Wrong("OTHER", "the rank is another one", **facts, look="RANK.")
    if seat[1] != local_rank:
        fits = "RANK, or RANK modulo something." if seat[1] == rank or not num_gpus else ""
        raise Wrong(
            "WORLD-LOCAL",
            "the local rank is another one",
            **facts,
            fits=fits,
            look="LOCAL_RANK: torchrun has counted already.",
        )
    if seat[2] != world_size:
        if seat[2] == num_gpus:
            raise Wrong(
                "WORLD-FROM-GPUS",
                "the world size is the number of GPUs",
                **facts,
                hides="a collective waits for ranks that nobody has started, or some are\n"
                "left out.",
                look="where the world size comes from.",
            )
        if seat[2] == per_machine:
            raise Wrong(
                "WORLD-ONE-MACHINE",
                "the world ends at this machine",
                **facts,
                look="WORLD_SIZE and LOCAL_WORLD_SIZE.",
            )
        raise Wrong("OTHER", "the world size is another one", **facts, look="WORLD_SIZE.")
    if seat[3] == f"cuda:{rank}":
        raise Wrong(
            "WORLD-DEVICE-RANK",
            "the device has the number of the rank",
            **facts,
            hides="on one machine both are equal; on the second there is no such GPU.",
            look="which rank counts GPUs.",
        )
    if seat[3] == "cuda:0" or seat[3] == "cuda":
        raise Wrong(
            "WORLD-ONE-GPU",
            "the device is the same for every rank",
            **facts,
            hides="all ranks of a machine fill the memory of its first GPU.",
            look="the number behind `cuda:`.",
        )
    raise Wrong("WORLD-DEVICE", "the device is another one", **facts, look="the last key.")


def too_many(subject: Subject, draw: Draw) -> None:
    """More ranks than GPUs: ValueError on every rank of the machine, not on some."""
    _refuses(subject, draw.size(4, 5), draw.size(2, 3))
    _refuses(subject, 2, 1)
    _refuses(subject, draw.size(11, 12), 10)


def _refuses(subject: Subject, per_machine: int, num_gpus: int) -> None:
    tried = f"{per_machine} ranks on a machine with {num_gpus} GPU{'s' * (num_gpus > 1)}"
    refused, said = [], []
    for rank in range(per_machine):
        given = environment(rank, per_machine=per_machine)
        try:
            said.append(_ask(subject, given, num_gpus, tried)[3])
        except AnswerError as failure:
            _right_kind(failure, tried)
            refused.append(rank)
            said.append("ValueError")
    if len(refused) == per_machine:
        return
    facts = dict(
        tried=tried,
        expected="ValueError on every rank",
        got="; ".join(f"rank {r}: {s}" for r, s in enumerate(said))[:76],
    )
    if refused:
        raise Wrong(
            "WORLD-SOME-REFUSE",
            "some ranks refuse, and the others go on",
            **facts,
            hides="those that go on wait for those that ended.",
            look="LOCAL_WORLD_SIZE says how many ranks share this machine.",
        )
    if "cpu" in said:
        raise Wrong(
            "WORLD-ON-CPU",
            "ranks without a GPU go to the CPU",
            **facts,
            hides="a run a hundred times slower than asked for, without a word.",
            look="what happens when there are fewer GPUs than ranks.",
        )
    if max(int(s.partition(":")[2] or 0) for s in said) < num_gpus:
        raise Wrong(
            "WORLD-SHARED",
            "several ranks share a GPU",
            **facts,
            hides='NCCL then ends with "Duplicate GPU detected".',
            look="what happens when there are fewer GPUs than ranks.",
        )
    raise Wrong(
        "WORLD-NO-GPU",
        "ranks get a GPU that is not there",
        **facts,
        hides='the error comes later and names no cause: "invalid device ordinal".',
        look="what happens when there are fewer GPUs than ranks.",
    )


def left_over(subject: Subject, draw: Draw) -> None:
    """Without RANK nothing was launched, whatever other names an earlier shell or job has left."""
    names = {name: text for name, text in environment(2, per_machine=4).items() if name != "RANK"}
    for num_gpus in (0, draw.size(8, 4), 1):
        tried = f"LOCAL_RANK 2, WORLD_SIZE and LOCAL_WORLD_SIZE 4, no RANK; GPUs: {num_gpus}"
        right = (0, 0, 1, "cuda:0" if num_gpus else "cpu")
        try:
            said = _format_seat(_ask(subject, names, num_gpus, tried))
        except AnswerError as failure:
            said = f"{type(failure.error).__name__}: {failure.error}"[:76]
        if said != _format_seat(right):
            raise Wrong(
                "WORLD-LEFT-OVER",
                "names that are left over make a world of their own",
                tried=tried,
                expected=_format_seat(right),
                got=said,
                fits="each name looked up by itself.",
                hides="a process alone that waits for ranks that nobody has started.",
                look="what is done with the other names when RANK is not there.",
            )


def other_launchers(subject: Subject, draw: Draw) -> None:
    """Names of other launchers and of jobs count for nothing, without RANK and beside it."""
    names = launchers(draw.size(3, 2, 5), 1, draw.size(8, 6, 12), 2)
    for num_gpus in (0, draw.size(8, 4), 1):
        alone = (0, 0, 1, "cuda:0" if num_gpus else "cpu")
        for who, given in names.items():
            _other_names(subject, who, given, "no RANK", num_gpus, alone)
        _other_names(subject, "all launchers", _join(names), "no RANK", num_gpus, alone)
    per_machine = draw.size(4, 3)
    seat = environment(per_machine + 2, per_machine=per_machine, machines=3)
    right = (per_machine + 2, 2, 3 * per_machine, "cuda:2")
    for who, given in [*names.items(), ("all launchers", _join(names))]:
        given = {name: text for name, text in given.items() if name not in seat} | seat
        beside = f"RANK {right[0]}, LOCAL_RANK 2, WORLD_SIZE {right[2]}"
        _other_names(subject, who, given, beside, per_machine, right)


def _join(names: dict[str, dict[str, str]]) -> dict[str, str]:
    return {name: text for one in names.values() for name, text in one.items()}


def _other_names(
    subject: Subject, who: str, given: dict[str, str], beside: str, num_gpus: int, right: Seat
) -> None:
    shown = ", ".join(f"{name} {text}" for name, text in list(given.items())[:2])
    tried = f"names of {who}: {shown} ...; {beside}; GPUs: {num_gpus}"
    try:
        said = _format_seat(_ask(subject, given, num_gpus, tried))
    except AnswerError as failure:
        said = f"{type(failure.error).__name__}: {failure.error}"[:76]
    if said != _format_seat(right):
        raise Wrong(
            "WORLD-LAUNCHER",
            "names count that torchrun does not set",
            tried=tried,
            expected=_format_seat(right),
            got=said,
            hides="a shell inside a job has its names; a script that is started there alone waits\n"
            "for ranks that nobody has started.",
            look="every name that is looked up: the docstring has four.",
        )


def _right_kind(failure: AnswerError, tried: str) -> None:
    if isinstance(failure.error, NotImplementedError) or isinstance(failure.error, ValueError):
        return
    raise Wrong(
        "WORLD-ERROR",
        "it stops with another error",
        tried=tried,
        expected="ValueError",
        got=f"{type(failure.error).__name__}: {failure.error}"[:76],
        look="the end of the docstring.",
    ) from None


def real_ranks(subject: Subject, draw: Draw) -> None:
    """Four processes, told that they are two machines, find each other by what the answer says."""
    tried = "4 processes as 2 machines x 2 ranks, no GPU"
    found = subject.run_ranks([(2,)] * 4, probe="course_lib.probes.seats:meet")
    said = [tuple(member.value["said"].get(key) for key in KEYS) for member in found]
    right = [(rank, rank % 2, 4, "cpu") for rank in range(4)]
    met = [member.value["met"] for member in found]
    if any(member.value["changed"] for member in found):
        raise Wrong(
            "INPLACE",
            "the environment that came in was changed",
            tried=tried,
            expected="the same names and texts after the call as before it",
            got="others",
            hides="os.environ is shared by all that runs in the process; torch reads it too.",
            look="`pop`, `setdefault`, and assignments to the environment.",
        )
    if said == right and met == [[0, 1, 2, 3]] * 4:
        return
    wrong = next((rank for rank in range(4) if said[rank] != right[rank]), 0)
    raise Wrong(
        "WORLD-MEET",
        "the ranks do not find each other",
        tried=tried,
        expected=f"process {wrong}: {_format_seat(right[wrong])}; all four in one group",
        got=f"process {wrong}: {_format_seat(said[wrong])}; group {met[wrong]}",
        fits="something that is kept from call to call, or read elsewhere.",
        look="what is used besides the two arguments.",
    )


def arguments_alone(subject: Subject, draw: Draw) -> None:
    """In a process that is itself rank 5 of 6 on 8 GPUs, the two arguments alone are read."""
    cases = [
        ({}, 0, (0, 0, 1, "cpu")),
        ({}, 2, (0, 0, 1, "cuda:0")),
        ({"HOME": "nowhere"}, 0, (0, 0, 1, "cpu")),
        (environment(1, per_machine=2), 0, (1, 1, 2, "cpu")),
        (environment(1, per_machine=2), 2, (1, 1, 2, "cuda:1")),
        (environment(1, per_machine=2), 1, None),
        (None, 3, (5, 2, 6, "cuda:2")),
    ]
    *said, first = subject.probe(
        "course_lib.probes.seats:ask_launched", [(given, gpus) for given, gpus, _ in cases]
    )
    for (given, num_gpus, right), out in zip(cases, said, strict=True):
        of = "os.environ" if given is None else "rank 1 of 2" if "RANK" in given else "no RANK"
        tried = f"a process that is rank 5 of 6 and has 8 GPUs; asked: {of}, GPUs: {num_gpus}"
        refused = isinstance(out, str) and out.startswith("ValueError")
        if not refused:
            expect.dict_of(out, KEYS, "WORLD-KEYS", tried=tried)
            _whole_numbers(tuple(out[key] for key in KEYS), tried)
        if refused != (right is None) or not refused and tuple(out[k] for k in KEYS) != right:
            raise Wrong(
                "WORLD-ELSEWHERE",
                "something else than the two arguments is read",
                tried=tried,
                expected=_format_seat(right) if right else "ValueError: 2 ranks, 1 GPU",
                got=out[:76] if refused else _format_seat([out[key] for key in KEYS]),
                fits="`or`, or a default, that takes the process's own for what is empty or 0.",
                look="`os.environ` and `torch.cuda` in the function.",
            )
    if first != said[0]:
        raise Wrong(
            "RESULT-CHANGES",
            "a result changes when the answer is called again",
            tried="seven calls, one after the other",
            expected="a dict of its own for each call",
            got="the first dict holds other values after the last call",
            look="a dict outside the function, or in a default argument.",
        )


SUITES = (
    Suite(
        "init-distributed",
        (
            one_process,
            numbers,
            machines,
            full_machines,
            too_many,
            left_over,
            other_launchers,
            real_ranks,
            arguments_alone,
        ),
        tested="one script runs alone and on many machines, with GPUs or without; ranks that "
        "are too many stop together.",
        remember="RANK says whose data and who saves, LOCAL_RANK says which GPU.",
        next_step="`torchrun -m course_lib.training.ddp_trainer --mine`: the trainer asks your function.",
        ranks=4,
        limit_s=12.0,
    ),
)
