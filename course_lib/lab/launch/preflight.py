"""Everything that is looked at before a launch: under a second, and nothing has started yet.

What it is: the machine and the script, asked for what would make the launch fail or surprise. What
it leaves out: what to make of the answers (plan.py).
"""

import os
import socket
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import psutil

from course_lib.lab.launch import folder, gpus, plan, processes, script
from course_lib.lab.launch.plan import Asked, Plan
from course_lib.lab.launch.script import Refused, Script
from course_lib.runs.machine import usable_cores


def look(asked: Asked, names: Mapping | None = None) -> tuple[Plan, Script]:
    """The plan for this launch on this machine, with what a person should know, and the script.

    `names` is the notebook's namespace: a name that the script lacks and the notebook has is said
    so. Refused when the launch could only fail.
    """
    found = script.read(asked.script, module=asked.module)
    _refuse_taken_port(asked)
    left = _end_leftovers()
    there, why_none = gpus.usable()
    chosen = plan.decide(
        asked,
        gpus=len(there),
        why_none=why_none,
        cores=usable_cores(),
        free_gb=psutil.virtual_memory().available / 1e9,
    )
    notes = [*chosen.notes, *_missing_names(found, names or {}), *left]
    if chosen.backend == "nccl":
        notes += _tell_holders(there[: chosen.ranks])
    return replace(chosen, notes=tuple(notes)), found


def _missing_names(found: Script, names: Mapping) -> list[str]:
    """One sentence on names that the script uses and nowhere defines."""
    missing = script.find_undefined_names(found)
    here = [name for name in missing if name in names]
    said = []
    if here:
        said.append(
            f"{found.name} uses {_join_names(here)}, which this notebook has and the ranks do not: "
            f"define {'it' if len(here) == 1 else 'them'} in the script, or import there"
        )
    if others := [name for name in missing if name not in names]:
        said.append(
            f"{found.name} uses {_join_names(others)} and nowhere defines "
            f"{'it' if len(others) == 1 else 'them'}"
        )
    return said


def _tell_holders(there: list[gpus.Gpu]) -> list[str]:
    """Who else uses the GPUs that will be used, a sentence for each that is."""
    said = []
    for number, gpu in enumerate(there):
        if gpu.is_used:
            who = [
                ("this notebook" if pid == os.getpid() else f"{processes.name_of(pid)} ({pid})")
                for pid in gpu.holders
            ]
            by = ", ".join(who[:4]) or "somebody who cannot be seen from here"
            said.append(f"GPU {number}: {gpu.text()}, held by {by}")
    return said


def _end_leftovers() -> list[str]:
    """End the processes of runs whose launcher is gone; a sentence when there were some."""
    killed = 0
    for place in processes.runs_with_processes():
        if place != os.environ.get("COURSE_RUN") and not folder.is_going_on(Path(place)):
            killed += processes.sweep(place)
    return [f"ended {killed} processes that an earlier run had left"] if killed else []


def _refuse_taken_port(asked: Asked) -> None:
    """A port that was asked for must be free; without one torchrun finds a free one itself."""
    text = asked.option("master-port")
    if text is None or asked.option("standalone") is not None:
        return
    if not text.isdecimal() or not 0 < int(text) < 65536:
        raise Refused(
            f"--master-port must be 1 to 65535, got {text!r}; without it a free one is used"
        )
    if asked.option("node-rank") not in (None, "0"):
        return  # it is a port of another machine
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", int(text)))
        except OSError:
            raise Refused(
                f"port {text} is taken{_port_holder(int(text))}. Without --master-port torchrun "
                "finds a free one"
            ) from None


def _port_holder(port: int) -> str:
    """ " by jupyter-lab (1234)", as far as that can be seen."""
    try:
        found = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS tells it to root alone
        return ""
    for connection in found:
        listens = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        if listens and connection.pid:
            return f" by {processes.name_of(connection.pid)} ({connection.pid})"
    return ""


def _join_names(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names[:6]) + (", ..." if len(names) > 6 else "")
