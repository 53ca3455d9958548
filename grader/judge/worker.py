"""What runs inside a confined worker: one answer, and a loop that calls it.

Everything here is at the answer's mercy once its first line has run, and nothing here is believed:
replies are values, on which the judge decides. So this file guards against accidents, not attacks.

    prepare   card                    erase the reference; run the lesson's imports
    context   context                 run the learner's other definitions
    start     source, kind            run the answer's cell, find what the exercise names
    call      args, kwargs            answer(*args, **kwargs)
    witness                           ready-made functions called, definitions replaced
    shared_memory  args, kwargs       what it gives back that shares memory, or ""
    ranks     args by rank, probe     answer(*args) on each, or a probe of the library with it
    probe     args, probe             probe(answer, *args)
    vjp       args, upstream, item    gradients of sum(upstream * answer(*args))
    module    args, kwargs, seed      build answer(...), kept under a number
    forward, module_vjp, module_probe, saved_bytes, to, method, state, load      of the module of that number

A reply is {"id", "out", "args"}: the result, and the tensors and arrays of `args` as left; or
{"id", "error"}. Calls are those of `course_lib.checks.subject.LocalSubject`, to the letter.
"""

import errno
import importlib
import math
import os
import socket
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from course_lib.measure.memory import saved_bytes
from course_lib.measure.sharing import find_shared_memory
from course_lib.ranks import local_ranks
from course_lib.runs.plain import is_plain_container
from grader.judge import cell, wire, witness
from grader.judge.erase import ErasureError, erase_definition

ERROR_CHARS = 600
OWN = ("prepare", "context", "start", "witness")  # not questions to the answer
DRIVEN = ("ranks", "probe", "module_probe", "saved_bytes", "shared_memory")
"""Questions whose answer is a fact that the worker's own code takes."""


class AnswerRaised(Exception):
    """The answer's own code raised `error`; any other exception comes from the code around it."""

    def __init__(self, error: BaseException):
        self.error = error


def send_value(sock: socket.socket, value: Any) -> None:
    wire.send(sock, value, math.inf)


def run_worker(sock: socket.socket, without: frozenset[str] = frozenset()) -> None:
    """Serve until the judge hangs up; never returns."""
    try:
        send_value(sock, {"ready": True})
        serve_requests(sock, AnswerRunner(without))
    finally:
        os._exit(0)


def serve_requests(sock: socket.socket, answer: "AnswerRunner") -> None:
    put_back = answer.witness.put_back  # the loop's own, whatever an answer does to the modules
    while True:
        request = wire.receive(sock, math.inf, trusted=True)
        reply = {"id": request["id"]}
        answer.witness.watching = request["do"] not in OWN
        if request["do"] in DRIVEN:
            put_back()
        try:
            args = tuple(request.get("args", ()))
            reply["out"] = getattr(answer, "do_" + request["do"])(args, request)
            reply["args"] = [_detach_input(a) for a in args]
            frame = wire.encode(reply)
        except AnswerRaised as failed:
            frame = wire.encode({"id": request["id"], "error": describe_error(failed.error)})
        except wire.ProtocolError as problem:
            error = describe_error(OSError(errno.EMSGSIZE, str(problem)))
            frame = wire.encode({"id": request["id"], "error": error})
        except BaseException as problem:
            frame = wire.encode({"id": request["id"], "error": describe_error(problem)})
        sock.settimeout(None)
        sock.sendall(frame)


def describe_error(error: BaseException) -> dict:
    """An exception in words: the nearest built-in type, its text, the last line of the answer."""
    kinds = [c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"]
    try:
        text = str(error)[:ERROR_CHARS]
    except BaseException:
        text = ""
    line, trace = None, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == cell.ANSWER:
            line = trace.tb_lineno
        trace = trace.tb_next
    if isinstance(error, SyntaxError) and error.filename == cell.ANSWER:
        line = error.lineno
    number = error.errno if isinstance(error, OSError) else None
    return {
        "kind": kinds[0] if kinds else "Exception",
        "text": text,
        "line": line,
        "errno": number,
    }


class AnswerRunner:
    """The learner's function or class, and the modules built from it."""

    def __init__(self, without: frozenset[str]):
        self.without = without
        self.answer: Callable = lambda *args, **kwargs: None
        self.modules: list[Any] = []
        self.witness = witness.Witness((__name__, local_ranks.__name__))
        self.card: dict = {}
        self.scope: dict = {}

    def do_prepare(self, args: tuple, request: dict) -> str:
        """Erase the reference, run imports; returns "" or what is wrong with the course.

        Nothing of the learner's has run yet: this one reply is the course's own word.
        """
        self.card = request["card"]
        if self.card["erase"] and "erasure" not in self.without:
            try:
                erase_definition(self.card["target"], self.card["blank"])
            except ErasureError as problem:
                return str(problem)
        self.witness.watch_calls(self.card["ready_made"])
        self.scope = cell.prepare_scope(self.card)
        return ""

    def do_context(self, args: tuple, request: dict) -> None:
        cell.run_context(self.scope, self.card, request["context"])

    def do_start(self, args: tuple, request: dict) -> dict:
        """Run the cell; {"defined": bool, "reference": bool, "error": what it raised or None}."""
        name, (module, _, _) = self.card["name"], self.card["target"].partition(":")
        error = cell.run_answer(self.scope, request["source"], request["kind"], name)
        self.answer = self.scope.get(name)
        return {
            "defined": self.answer is not None,
            "reference": self.answer is getattr(importlib.import_module(module), name, self),
            "error": describe_error(error) if error is not None else None,
        }

    def do_witness(self, args: tuple, request: dict) -> dict[str, list[str]]:
        return self.witness.read()

    def do_call(self, args: tuple, request: dict) -> Any:
        return _run_answer(self.answer, args, request["kwargs"])

    def do_shared_memory(self, args: tuple, request: dict) -> str:
        return find_shared_memory(args, _run_answer(self.answer, args, request["kwargs"]))

    def do_ranks(self, args: tuple, request: dict) -> list[tuple] | str:
        """By rank (value, collectives, bytes held); or a sentence when the ranks wait for ever."""
        probe, function = request["probe"], self.answer
        if probe is not None:
            function = local_ranks.bind_probe(function, probe)
        function = self.witness.watch_rank(function)
        try:
            ranks = local_ranks.run(
                function, args, seconds=request["seconds"], fork=True, again=True
            )
        except local_ranks.RankFailed as failure:
            raise AnswerRaised(failure.rebuild_exception()) from None
        except local_ranks.RanksStuck as stuck:
            return str(stuck)
        return [(rank.value, rank.collectives, rank.held_bytes) for rank in ranks]

    def do_probe(self, args: tuple, request: dict) -> Any:
        return _run_answer(local_ranks.bind_probe(self.answer, request["probe"]), args, {})

    def do_vjp(self, args: tuple, request: dict) -> list[Tensor | None]:
        return _compute_vjp(self.answer, args, request["upstream"], request["item"])

    def do_module(self, args: tuple, request: dict) -> int:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(request["seed"])
            self.modules.append(_run_answer(self.answer, args, request["kwargs"]))
        return len(self.modules) - 1

    def do_forward(self, args: tuple, request: dict) -> Any:
        with torch.no_grad():
            return _run_answer(self.modules[request["module"]], args, {})

    def do_module_vjp(self, args: tuple, request: dict) -> tuple:
        module = self.modules[request["module"]]
        module.zero_grad(set_to_none=True)
        inputs = _compute_vjp(module, args, request["upstream"], request["item"])
        named = {n: p.grad for n, p in module.named_parameters() if p.grad is not None}
        return inputs, named

    def do_saved_bytes(self, args: tuple, request: dict) -> int:
        module = self.modules[request["module"]]
        module.train(request["training"])
        try:
            return saved_bytes(lambda: _run_answer(module, args, {}))
        finally:
            module.train()

    def do_to(self, args: tuple, request: dict) -> None:
        self.modules[request["module"]].to(request["dtype"])

    def do_method(self, args: tuple, request: dict) -> Any:
        method = getattr(self.modules[request["module"]], request["name"])
        return _run_answer(method, args, request["kwargs"])

    def do_module_probe(self, args: tuple, request: dict) -> Any:
        module = self.modules[request["module"]]
        return _run_answer(local_ranks.bind_probe(module, request["probe"]), args, {})

    def do_state(self, args: tuple, request: dict) -> dict[str, Tensor]:
        return dict(self.modules[request["module"]].state_dict())

    def do_load(self, args: tuple, request: dict) -> None:
        self.modules[request["module"]].load_state_dict(request["state"])


def _detach_input(value: Any) -> Any:
    """An input as the answer left it, which the judge compares with what it sent."""
    if isinstance(value, Tensor):
        return value.detach()
    return value if isinstance(value, np.ndarray) or is_plain_container(value) else None


def _run_answer(function: Callable, args: tuple, kwargs: dict) -> Any:
    try:
        return function(*args, **kwargs)
    except BaseException as error:
        raise AnswerRaised(error) from None


def _compute_vjp(function: Callable, args: tuple, upstream: Tensor, item: int | None) -> list:
    given = tuple(
        a.requires_grad_() if isinstance(a, Tensor) and a.is_floating_point() else a for a in args
    )
    try:
        out = function(*given)
        out = out if item is None else out[item]
        if isinstance(out, Tensor) and out.requires_grad:
            (out * upstream).sum().backward()
    except BaseException as error:
        raise AnswerRaised(error) from None
    return [a.grad for a in given if isinstance(a, Tensor) and a.is_floating_point()]
