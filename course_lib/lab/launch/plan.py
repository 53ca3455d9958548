"""What will be started: how many ranks, on what, by which command.

What it is: the decision, from what was asked and what the machine has, as a value that can be
shown, stored and tested. What it leaves out: looking at the machine (gpus.py, preflight.py) and
starting anything (start.py).
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from course_lib.lab.launch.script import Refused

MOST_CPU_RANKS, LEAST_CPU_RANKS = 4, 2  # for "auto" without a GPU
RANK_GB = 0.4  # what a rank holds once torch is imported and a small model trains

# Options of torchrun without a value; all others take one, behind "=" or as the next word.
FLAGS = {"standalone", "m", "module", "no-python", "run-path", "virtual-local-rank", "h", "help"}
RENDEZVOUS = ("rdzv-", "master-", "nnodes", "node-rank", "standalone", "local-addr")


@dataclass(frozen=True)
class Asked:
    """The words behind `torchrun`."""

    options: tuple[str, ...]
    """Those before the script, without the number of ranks."""
    script: str
    arguments: tuple[str, ...]
    ranks: str = "1"
    """The value of --nproc_per_node: a number, "auto", "gpu" or "cpu"."""
    module: bool = False

    def option(self, name: str) -> str | None:
        """The value of an option of torchrun, "" for a flag, None when it was not given."""
        return _pairs(self.options).get(name)

    @property
    def brings_rendezvous(self) -> bool:
        """Whether it says itself where the ranks meet."""
        return any(name.startswith(RENDEZVOUS) for name in _pairs(self.options))


@dataclass(frozen=True)
class Plan:
    """A launch that is about to begin."""

    asked: Asked
    ranks: int
    backend: str
    """ "nccl" or "gloo"."""
    place: str
    """ "GPUs 0-3", "GPU 0", or "CPU (no GPU found)"."""
    hide_gpus: bool = False
    notes: tuple[str, ...] = field(default=())
    """Sentences a person should read before the run."""

    @property
    def arguments(self) -> list[str]:
        """What torchrun is given."""
        own = [] if self.asked.brings_rendezvous else ["--standalone"]
        own.append(f"--nproc_per_node={self.ranks}")
        return [*own, *self.asked.options, self.asked.script, *self.asked.arguments]

    @property
    def command(self) -> str:
        """The same as a line for a terminal."""
        head = "CUDA_VISIBLE_DEVICES= " if self.hide_gpus else ""
        return head + shlex.join(["torchrun", *self.arguments])

    def line(self, folder: str) -> str:
        """The one line that says it all."""
        ranks = f"{self.ranks} rank{'s' * (self.ranks > 1)}"
        parts = [ranks, self.backend, self.place]
        if self.backend == "gloo":
            parts.append("correctness is the same, timings are not")
        return " · ".join([*parts, f"log {folder}/"])


def read(words: Sequence[str]) -> Asked:
    """The words behind `torchrun`, understood. Refused when no script is among them."""
    options, ranks, module, rest = [], "1", False, list(words)
    while rest and rest[0].startswith("-"):
        word = rest.pop(0)
        name, equals, value = word.lstrip("-").partition("=")
        name = name.replace("_", "-")
        taken = [word]
        if name not in FLAGS and not equals:
            if not rest:
                raise Refused(f"{word} needs a value, and then the script")
            value = rest.pop(0)
            taken.append(value)
        if name == "nproc-per-node":
            ranks = value
            continue
        module = module or name in ("m", "module")
        options += taken
    if not rest:
        raise Refused("the script is missing: %torchrun --nproc_per_node=2 train.py")
    asked = Asked(tuple(options), rest[0], tuple(rest[1:]), ranks, module)
    if asked.option("nnodes") not in (None, "1", "1:1"):
        raise Refused("this launches the ranks of one machine; for more, start torchrun on each")
    return asked


def decide(
    asked: Asked, *, gpus: int, why_none: str = "", cores: int = 2, free_gb: float | None = None
) -> Plan:
    """The plan for a machine with that many usable GPUs (else `why_none`), cores and free memory.

    NCCL takes one GPU per rank, never two ranks on one: with fewer GPUs than ranks there are fewer
    ranks, and with a single GPU the ranks run on the CPU. Refused when the number makes no sense.
    """
    if _on_cpu(asked):
        gpus, why_none = 0, "as asked"
    wanted = _number(asked.ranks, gpus, cores, why_none)
    hidden = bool(gpus) and (asked.ranks == "cpu" or 1 == gpus < wanted)
    if gpus and not hidden:
        ranks = min(wanted, gpus)
        place = "GPU 0" if ranks == 1 else f"GPUs 0-{ranks - 1}"
        note = f"asked for {wanted} ranks, and there are {gpus} GPUs: {ranks} ranks, one on each"
        return Plan(asked, ranks, "nccl", place, notes=(note,) if ranks < wanted else ())
    notes = []
    if gpus == 1 and asked.ranks != "cpu":
        notes.append(
            f"{wanted} ranks and 1 GPU: NCCL needs a GPU for each, so they run on the CPU. "
            "For timings launch 1 rank"
        )
    if free_gb is not None and wanted * RANK_GB > free_gb:
        notes.append(
            f"{wanted} ranks hold about {wanted * RANK_GB:.1f} GB, and {free_gb:.1f} GB of "
            "memory are free"
        )
    why = "as asked" if asked.ranks == "cpu" else f"{gpus} GPU" if gpus else why_none
    return Plan(asked, wanted, "gloo", f"CPU ({why})", hide_gpus=hidden, notes=tuple(notes))


def _number(text: str, gpus: int, cores: int, why_none: str) -> int:
    """How many ranks that asks for."""
    if text == "gpu" and not gpus:
        raise Refused(f"--nproc_per_node=gpu: {why_none}. Use auto, cpu or a number")
    if text in ("auto", "gpu") and gpus:
        return gpus
    if text in ("auto", "cpu"):
        return min(max(cores, LEAST_CPU_RANKS), MOST_CPU_RANKS)
    if not text.isdecimal() or not int(text):
        raise Refused(f"the number of ranks must be 1 or more, auto, gpu or cpu, got {text!r}")
    return int(text)


def _on_cpu(asked: Asked) -> bool:
    """Whether the script is told to use the CPU, in the way of this course's trainers."""
    words = asked.arguments
    return "--device=cpu" in words or ("--device", "cpu") in zip(words, words[1:], strict=False)


def _pairs(options: Sequence[str]) -> dict[str, str]:
    """Options by name, however they were written."""
    found, rest = {}, list(options)
    while rest:
        name, equals, value = rest.pop(0).lstrip("-").partition("=")
        name = name.replace("_", "-")
        found[name] = value if equals or name in FLAGS else rest.pop(0)
    return found
