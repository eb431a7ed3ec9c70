"""Runtimes in separate processes, because some terminate their process on unexpected input.

The process receives a model, then arrays, and returns arrays and the elapsed seconds, or an error. Starting one takes
longer than running many models, so it is reused.
"""

from __future__ import annotations

import io
import json
import os
import struct
import sys
import time
import weakref
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from graphport.core import child_process
from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops.bind import bind_inputs
from graphport.ops.infer import Inference
from graphport.runtimes.run_limits import current

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from graphport.ir.graph import Graph, Value

    Shapes = dict[str, tuple[int, ...]]

_LOAD, _DROP, _DONE, _FAILED = b"*", b"0", b"+", b"-"
_MOST_IDLE = 2
"""Maximum number of idle processes per runtime, enough for a comparison of two models."""
_SECONDS = struct.Struct("<d")


@dataclass(slots=True)
class Trips:
    """Seconds spent on transferring arrays to processes and back, without computation."""

    seconds: float = 0.0


_TRIPS: ContextVar[Trips | None] = ContextVar("_TRIPS", default=None)


@contextmanager
def trips() -> Generator[Trips]:
    """Overhead of the transfers; subtracted from measured times."""
    found = Trips()
    token = _TRIPS.set(found)
    try:
        yield found
    finally:
        _TRIPS.reset(token)


class _Process:
    """The process of a runtime, with at most one model. It ends with the program or without users."""

    def __init__(self, module: str) -> None:
        self.module, self.program = module, os.getpid()
        self._process = child_process.start_process(module)
        if self._process.stdin is None or self._process.stdout is None:
            message = f"the process of {module} has no pipes"
            raise OSError(message)
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        weakref.finalize(self, child_process.end, self._process)

    @property
    def can_be_asked(self) -> bool:
        """Whether the process runs and was started by this process, not by the parent that it was forked from."""
        return self.program == os.getpid() and self._process.poll() is None

    def ask(self, state: bytes, content: bytes) -> None:
        """Send a request: a state and its data."""
        with suppress(OSError):  # the missing answer reports the failure
            _send(self._stdin, state, content)

    def request(self, state: bytes, content: bytes, runtime: str) -> tuple[bytes, bytes] | None:
        """Send a request and return the reply; `None` where the process has ended.

        Raises:
            RunLimitError: the process was killed at a limit of `run_limits.current`.
        """
        limits = current()
        try:
            with nullcontext() if limits is None else limits.watching(runtime, self._process.kill, self._process.pid):
                self.ask(state, content)
                return _receive(self._stdout)
        except EOFError:
            return None

    def wait(self) -> int:
        """Wait for the end of the process and return its exit status."""
        return self._process.wait()


_IDLE: dict[str, list[_Process]] = {}
"""Processes that wait for a model, by module."""


def _given_back(process: _Process) -> None:
    """Release the model of a process and keep the process for the next one, or end it if enough are kept."""
    idle = _IDLE.setdefault(process.module, [])
    if process.can_be_asked and len(idle) < _MOST_IDLE:
        process.ask(_DROP, b"")
        idle.append(process)


class Worker:
    """A model in a process of its runtime, which is reused when the worker is released."""

    def __init__(self, runtime: str, module: str, arguments: Sequence[str]) -> None:
        """Load the model that `arguments` name in a process of `module`, which calls `serve`.

        Raises:
            DiagnosticError: RUN0003 with the message of `runtime`, if it does not load the model.
        """
        self._runtime = runtime
        asked, idle = json.dumps(list(arguments)).encode(), _IDLE.get(module, [])
        answer = None
        while answer is None and idle:  # a process that failed on an earlier model is unusable
            with suppress(IndexError):  # another thread was quicker
                self._process = idle.pop()
                answer = self._loaded(asked)
        if answer is None:
            self._process = _Process(module)
            answer = self._loaded(asked)
        weakref.finalize(self, _given_back, self._process)
        self._checked(answer, "RUN0003", f"{runtime} does not load the model")

    def _loaded(self, asked: bytes) -> tuple[bytes, bytes] | None:
        if not self._process.can_be_asked:
            return None
        return self._process.request(_LOAD, asked, self._runtime)

    def run(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the outputs.

        Raises:
            DiagnosticError: RUN0005 with the runtime's message, RUN0013 it was killed at a limit.
        """
        began = time.perf_counter()
        answer = self._checked(self._process.request(_DONE, _packed(arrays), self._runtime), "RUN0005", self._runtime)
        found = _unpacked(answer[_SECONDS.size :])
        lost = _TRIPS.get()
        if lost is not None:
            lost.seconds += time.perf_counter() - began - _SECONDS.unpack_from(answer)[0]
        return found

    def _checked(self, answer: tuple[bytes, bytes] | None, code: str, what: str) -> bytes:
        if answer is None:
            message = f"{what}: its process exited with {self._process.wait()}"
            raise DiagnosticError(Diagnostic(code, message, None, "choose another backend"))
        state, content = answer
        if state == _FAILED:
            raise DiagnosticError(Diagnostic(code, f"{what}: {content.decode()}", None, "choose another backend"))
        return content


class RefusedError(Exception):
    """The runtime cannot load or run the model; its message is reported."""


def serve(load: Callable[..., Callable[[list[Any]], Sequence[Any]]]) -> None:
    """Run the process: load a model, compute outputs, and load the next one, until the input ends.

    Args:
        load: returns a function that computes the outputs of a model from its arguments; both raise `RefusedError`.
    """
    answers = sys.stdout.buffer
    compute: Callable[[list[Any]], Sequence[Any]] | None = None
    while True:
        try:
            state, content = _receive(sys.stdin.buffer)
        except EOFError:
            return
        try:
            if state == _DONE and compute is not None:
                arrays = _unpacked(content)
                began = time.perf_counter()
                made = compute(arrays)
                content = _SECONDS.pack(time.perf_counter() - began) + _packed(made)
                del arrays, made
            else:
                compute = None
                if state == _DROP:
                    continue
                compute, content = load(*json.loads(content)), b""
        except RefusedError as reason:
            _send(answers, _FAILED, str(reason).encode())
        else:
            _send(answers, _DONE, content)


def fixed(graph: Graph) -> Shapes | None:
    """Return the shapes of all inputs; `None` if one is symbolic."""
    found: Shapes = {}
    for value in graph.inputs:
        if not isinstance(value.fact, TensorFact) or not value.fact.is_static:
            return None
        found[value.name] = tuple(dim for dim in value.fact.dims if isinstance(dim, int))
    return found


def bound(graph: Graph, shapes: Shapes) -> Graph:
    """Return a copy for inputs of these shapes.

    Raises:
        DiagnosticError: an operator does not accept them.
    """
    twin, inference = rewrite.copy(graph), Inference()
    bind_inputs(twin, shapes)
    inference.graph(twin)
    if errors := [finding for finding in inference.findings if finding.is_error]:
        raise DiagnosticError(*errors)
    return twin


def returned(graph: Graph, *, every_value: bool) -> list[Value]:
    """Return the distinct outputs, and with `every_value` all other computed values."""
    computed = [value for node in graph for value in node.results] if every_value else []
    return list(dict.fromkeys([*graph.outputs, *computed]))


def _send(stream: IO[bytes], state: bytes, content: bytes) -> None:
    stream.write(state + len(content).to_bytes(8, "little") + content)
    stream.flush()


def _receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """Receive a state and its data.

    Raises:
        EOFError: the stream ends.
    """
    head = stream.read(9)
    length = int.from_bytes(head[1:], "little")
    content = stream.read(length) if len(head) == 9 else b""
    if len(head) < 9 or len(content) < length:
        raise EOFError
    return head[:1], content


def _packed(arrays: Sequence[Any]) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, *arrays)
    return stream.getvalue()


def _unpacked(content: bytes) -> list[Any]:
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return [file[f"arr_{index}"] for index in range(len(file.files))]
