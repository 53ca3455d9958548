"""The subject of a suite when the answer lives in a confined worker.

Same calls, same exceptions as `course_lib.checks.subject.LocalSubject`. Inputs go out and values
come back over a socket; every comparison is made here, on this side's own numbers.
"""

import builtins
import contextlib
import re
import select
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.checks import subject
from course_lib.checks.subject import AnswerError, OutOfTime, _refuse_changed, ranks_stuck
from course_lib.ranks.local_ranks import Rank
from grader.judge import wire
from grader.judge.zygote_client import Worker

NAME = re.compile(r"[\w.*\[\]']{1,120}")  # of a definition, as a witness gives it


class WorkerLost(Exception):
    """The worker cannot be asked any more; `RemoteSubject.lost` says why."""


class RemoteSubject:
    """One answer in one worker.

    `call_s` seconds a call, `budget_s` for all of them. `lost` is "" or why the worker cannot be
    used any more: "timeout", "crashed" or "protocol". `stuck` says that ranks did not come back in
    time. `error` describes the last exception of the answer's own code.
    """

    def __init__(self, worker: Worker, *, budget_s: float, call_s: float):
        self.worker, self.call_s = worker, call_s
        self.deadline = time.monotonic() + budget_s
        self.seconds, self.number = 0.0, 0
        self.lost, self.why = "", ""
        self.stuck = False
        self.error: dict = {}

    def prepare(self, card: dict, context: str) -> str:
        """Have the library's own definition removed, the lesson's imports and the learner's other
        definitions run. Says what is wrong with the course, if anything is."""
        said = self.ask("prepare", card=card)
        with contextlib.suppress(AnswerError):  # what raises there is left out
            self.ask("context", context=context)
        return said

    def start(self, source: str, kind: str = "cell") -> dict:
        """Have the worker run the answer's cell; returns what `worker.AnswerRunner.do_start` does."""
        said = self.ask("start", source=source, kind=kind)
        if not isinstance(said, dict):
            self._give_up("protocol", "no word about the start")
        error = said.get("error")
        return {
            "defined": said.get("defined") is True,
            "reference": said.get("reference") is True,
            "error": None if error is None else _check_error(error),
        }

    def read_witness(self) -> dict[str, list[str]]:
        """{"called": ready-made functions, "replaced": definitions}: the worker's word; {} for none."""
        if self.lost:
            return {}
        try:
            said = self.ask("witness")
        except (Exception, OutOfTime):
            said, self.lost, self.why = {}, "", ""  # the verdict has been found already
        said = said if isinstance(said, dict) else {}
        return {
            kind: [name for name in names if isinstance(name, str) and NAME.fullmatch(name)]
            for kind, names in said.items()
            if isinstance(names, list)
        }

    def call(self, *args, **kwargs) -> Any:
        return self.ask("call", *args, kwargs=kwargs)

    def vjp(self, *args, upstream: Tensor, item: int | None = None) -> list[Tensor | None]:
        return self._check_gradients(self.ask("vjp", *args, upstream=upstream, item=item), args)

    def module(self, *args, seed: int = 0, **kwargs) -> "RemoteModule":
        number = self.ask("module", *args, seed=seed, kwargs=kwargs)
        if type(number) is not int:
            self._give_up("protocol", "a module without a number")
        return RemoteModule(self, number)

    def prepare_ranks(self) -> None:
        """Nothing: the worker is there already."""

    def run_ranks(self, args_by_rank: Sequence[tuple], *, probe: str | None = None) -> list[Rank]:
        """As `LocalSubject.run_ranks`; values and counts are the worker's own report."""
        said = self.ask("ranks", *args_by_rank, seconds=subject.RANKS_S, probe=probe)
        if isinstance(said, str):
            self.stuck = True
            raise ranks_stuck(len(args_by_rank), said[:200])
        if not isinstance(said, list) or len(said) != len(args_by_rank):
            self._give_up("protocol", "results of ranks that are none")
        return [self._check_rank(found) for found in said]

    def probe(self, name: str, *args) -> Any:
        """As `LocalSubject.probe`; the worker is another process already."""
        return self.ask("probe", *args, probe=name)

    def shared_memory(self, *args, **kwargs) -> str:
        """As `LocalSubject.shared_memory`: the worker's own report."""
        said = self.ask("shared_memory", *args, kwargs=kwargs)
        if not isinstance(said, str):
            self._give_up("protocol", "no word about memory")
        return said[:60]

    def _check_rank(self, found: Any) -> Rank:
        value, seen, held = found if isinstance(found, tuple) and len(found) == 3 else (0, 0, 0)
        good = isinstance(seen, list) and all(
            isinstance(e, tuple) and [*map(type, e)] == [str, int] for e in seen
        )
        if not good or type(held) is not int:
            self._give_up("protocol", "a rank's result that is none")
        return Rank(value, seen, held)

    def ask(self, what: str, *args, **fields) -> Any:
        """The worker's result; AnswerError when the answer raised, OutOfTime, or `WorkerLost`."""
        if self.lost:
            raise WorkerLost(self.lost)
        self.number += 1
        began = time.monotonic()
        deadline = min(self.deadline, began + self.call_s)
        try:
            reply = self._exchange_messages(
                {"id": self.number, "do": what, "args": args, **fields}, deadline
            )
        except TimeoutError:
            self.lost = "timeout"
            raise OutOfTime from None
        except wire.ConnectionClosed as problem:
            self._give_up("crashed", str(problem))
        except wire.ProtocolError as problem:
            self._give_up("protocol", str(problem))
        except Exception as problem:  # bytes on which reading them fails in a way of its own
            self._give_up("protocol", f"a reply that cannot be read ({type(problem).__name__})")
        finally:
            self.seconds += time.monotonic() - began
        if "error" in reply:
            self._raise_error(_check_error(reply["error"]))
        if what not in ("vjp", "module_vjp"):
            self._compare_inputs(args, reply.get("args"))
        return reply.get("out")

    def _exchange_messages(self, request: dict, deadline: float) -> dict:
        sock = self.worker.sock
        if select.select([sock], [], [], 0)[0]:
            # either it died, or it answers what was not asked yet
            wire.receive(sock, deadline)
            raise wire.ProtocolError("a reply before the question")
        wire.send(sock, request, deadline, trusted=True)
        reply = wire.receive(sock, deadline)
        if not isinstance(reply, dict) or reply.get("id") != request["id"]:
            raise wire.ProtocolError("a reply to another question")
        return reply

    def _compare_inputs(self, args: tuple, after: Any) -> None:
        """Refuse an answer that changed its inputs: what came back is compared with what was sent."""
        if not isinstance(after, list) or len(after) != len(args):
            self._give_up("protocol", "the inputs did not come back")
        for before, now in zip(args, after, strict=True):
            kind = next((k for k in (Tensor, np.ndarray) if isinstance(before, k)), object)
            if not isinstance(now, kind):
                self._give_up("protocol", "an input did not come back")
        _refuse_changed(args, tuple(after))

    def _raise_error(self, error: dict) -> None:
        kind = getattr(builtins, error["kind"], None)
        known = isinstance(kind, type) and issubclass(kind, BaseException)
        kind = kind if known else Exception
        try:
            raised = kind(error["text"])
        except Exception:  # UnicodeDecodeError and the like want more than a text
            raised = Exception(error["text"])
        try:  # a check may look at where an error was raised; the frames over there do not travel
            raise raised
        except BaseException as here:
            raised = here
        self.error = error
        raise AnswerError(raised)

    def _check_gradients(self, found: Any, args: tuple) -> list[Tensor | None]:
        wanted = sum(isinstance(a, Tensor) and a.is_floating_point() for a in args)
        good = isinstance(found, list) and len(found) == wanted
        if not good or not all(g is None or isinstance(g, Tensor) for g in found):
            self._give_up("protocol", "gradients that are none")
        return found

    def _check_tensors(self, found: Any) -> dict[str, Tensor]:
        if not isinstance(found, dict) or not all(isinstance(v, Tensor) for v in found.values()):
            self._give_up("protocol", "tensors by name that are none")
        return found

    def _give_up(self, lost: str, why: str) -> None:
        self.lost, self.why = lost, why
        raise WorkerLost(f"{lost}: {why}")


class RemoteModule:
    """A module that lives in the worker; made by `RemoteSubject.module`."""

    def __init__(self, subject: RemoteSubject, number: int):
        self._subject, self._number = subject, number

    def _ask_subject(self, what: str, *args, **fields) -> Any:
        return self._subject.ask(what, *args, module=self._number, **fields)

    def forward(self, *args) -> Any:
        return self._ask_subject("forward", *args)

    def vjp(
        self, *args, upstream: Tensor, item: int | None = None
    ) -> tuple[list[Tensor | None], dict[str, Tensor]]:
        out = self._ask_subject("module_vjp", *args, upstream=upstream, item=item)
        inputs, named = out if isinstance(out, tuple) and len(out) == 2 else (None, None)
        return self._subject._check_gradients(inputs, args), self._subject._check_tensors(named)

    def saved_bytes(self, *args, training: bool = True) -> int:
        kept = self._ask_subject("saved_bytes", *args, training=training)
        if type(kept) is not int or kept < 0:
            self._subject._give_up("protocol", "a number of bytes that is none")
        return kept

    def to(self, dtype: torch.dtype) -> None:
        self._ask_subject("to", dtype=dtype)

    def method(self, name: str, *args, **kwargs) -> Any:
        return self._ask_subject("method", *args, name=name, kwargs=kwargs)

    def probe(self, name: str, *args) -> Any:
        return self._ask_subject("module_probe", *args, probe=name)

    def state(self) -> dict[str, Tensor]:
        return self._subject._check_tensors(self._ask_subject("state"))

    def load(self, state: dict[str, Tensor]) -> None:
        self._ask_subject("load", state=state)


def _check_error(error: Any) -> dict:
    """The worker's report of an exception, with every field of the right type."""
    error = error if isinstance(error, dict) else {}

    def field(name: str, kind: type, default: Any) -> Any:
        value = error.get(name)
        return value if type(value) is kind else default

    return {
        "kind": field("kind", str, "Exception"),
        "text": field("text", str, "")[:2000],
        "line": field("line", int, None),
        "errno": field("errno", int, None),
    }
