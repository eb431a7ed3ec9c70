"""Processes of runtimes: started once, used for many runs, killed at the limit of a run, ended with the program."""

from __future__ import annotations

import math
import os
import queue
import selectors
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from graphport.core import child_process
from graphport.runtimes.run_limits import OUT_OF_MEMORY, current, out_of_time
from graphport.runtimes.serve import Port
from graphport.runtimes.wire import message, receive_message

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.proof.runtimes import Runtime
    from graphport.runtimes.run_limits import RunLimits

_LOOK = 0.2
"""Seconds between checks whether the process runs: its children may keep the pipes open."""

_DROP_SECONDS = 10.0
"""Seconds in which a process lets go of its file; after that another one is started for the next file."""

_OUT_OF_PROCESSOR_TIME = -24
"""What `Popen.wait` returns for a process that the system ended at its limit of processor time (SIGXCPU)."""

_GRACE = 0.05
"""Minimum seconds that a thread gets to read the pending output."""


class UnansweredError(Exception):
    """The runtime refused, ended, or took too long; the text contains the reason."""


class LackingError(UnansweredError):
    """The runtime has no kernel for the file, which is a valid result."""


class UnfinishedError(UnansweredError):
    """The runtime was killed at its limit of time or memory: the result is unknown."""


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A file that a runtime has loaded."""

    version: str
    inputs: list[Port]
    outputs: list[Port]
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of a run."""

    outputs: list[Any]
    states: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0


class _Selecting:
    """Reads a pipe with a timeout, by the system's selectors."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream

    def read_into(self, place: memoryview, seconds: float) -> int | None:
        """Return the number of bytes read into `place`, 0 at the end of the pipe; `None` after `seconds`."""
        if self._stream is None:
            return 0
        # `select.select` refuses descriptors from 1024 on.
        with selectors.DefaultSelector() as selector:
            selector.register(self._stream, selectors.EVENT_READ)
            is_ready = bool(selector.select(seconds))
        return os.readv(self._stream.fileno(), [place]) if is_ready else None


class Listening:
    """Reads a pipe with a timeout on systems without selectors for pipes (Windows): a thread reads."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_listening = False

    def read_into(self, place: memoryview, seconds: float) -> int | None:
        """Return the number of bytes read; see `_Selecting.read_into`."""
        if not self._is_listening:
            self._is_listening = True
            threading.Thread(target=self._listen, args=(len(place),), daemon=True).start()
        try:
            heard = self._heard.get(timeout=max(seconds, _GRACE))
        except queue.Empty:
            return None
        self._is_listening = False
        place[: len(heard)] = heard
        return len(heard)

    def _listen(self, most: int) -> None:
        heard = b""
        with suppress(OSError, ValueError):  # it was closed meanwhile
            heard = os.read(self._stream.fileno(), most) if self._stream is not None else b""
        self._heard.put(heard)


_EAR = _Selecting if hasattr(os, "readv") else Listening


class Process:
    """The process of one runtime, with at most one loaded file. Requests and responses are separate calls."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._process = child_process.start_process(runtime.module, runtime.interpreter)
        self._ear = _EAR(self._process.stdout)
        self._until = self._seconds = math.inf
        self._is_late = False
        self._limits: RunLimits | None = None
        self._nbytes = 0
        self.end = weakref.finalize(self, child_process.end, self._process)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the process accepts requests."""
        return self.end.alive and self._process.poll() is None

    def ask_to_load(self, path: str, threads: int, *, is_strict: bool = False, nbytes: int = 0) -> None:
        """Start to load the file at `path`, to compute on `threads` threads; see `serve.Settings`.

        `nbytes` is the size of the file and its sidecar files, if it may be large.
        """
        self._ask({"do": "load", "path": path, "threads": threads, "is_strict": is_strict, "nbytes": nbytes})

    def finish_loading(self) -> LoadedFile:
        """Return the runtime's report of loading the requested file.

        Raises:
            UnfinishedError: it was killed at the limit of the request (`run_limits.current`).
            UnansweredError: it does not load the file.
        """
        plain, _ = self._answer()
        inputs, outputs = ([_port(*each) for each in plain[side]] for side in ("inputs", "outputs"))
        return LoadedFile(plain["version"], inputs, outputs, plain["seconds"])

    def ask_to_run(self, inputs: Sequence[Any], states: dict[str, Any]) -> None:
        """Start to run the file on inputs by position, with initial states by name."""
        plain = {"do": "run", "inputs": len(inputs), "states": list(states)}
        self._ask(plain, [*inputs, *states.values()])

    def answer(self) -> Answer:
        """Return the result of the run.

        Raises:
            UnfinishedError: it was killed at its limit.
            UnansweredError: there is no result.
        """
        plain, values = self._answer()
        count = plain["outputs"]
        states = dict(zip(plain["states"], values[count:], strict=True))
        return Answer(values[:count], states, plain["seconds"])

    def drop(self) -> None:
        """Release the file; the process continues."""
        if self.is_alive:
            self._ask({"do": "drop"})
            self._until = min(self._until, time.monotonic() + _DROP_SECONDS)
            with suppress(UnansweredError):
                self._answer()

    def _ask(self, plain: dict[str, Any], values: Sequence[Any] = ()) -> None:
        stream = self._process.stdin
        if stream is None:
            text = f"the process of {self.runtime.title} has no input"
            raise OSError(text)
        self._limits = limits = current()
        if limits is not None and limits.reason is not None and plain["do"] != "drop":
            raise UnfinishedError(limits.reason)
        self._seconds = math.inf if limits is None else limits.remaining_seconds
        self._until = time.monotonic() + self._seconds
        allowed = 0 if limits is None else limits.nbytes
        self._nbytes = allowed and child_process.resident_bytes(self._process.pid) + allowed
        bounds = {"seconds": 0.0 if limits is None else limits.remaining_seconds, "bytes": allowed}
        # `_answer` reports a process that has ended; if it did so before, its pipe is closed.
        with suppress(OSError, ValueError):
            self._write(stream, message({**plain, **bounds}, values))

    def _write(self, stream: IO[bytes], pieces: Iterable[bytes | memoryview]) -> None:
        """Write a message; a process that is stopped or does not read it is killed at the limit."""
        timer = None if math.isinf(self._seconds) else threading.Timer(self._seconds, self._kill_late)
        if timer is not None:
            timer.daemon = True
            timer.start()
        try:
            stream.writelines(pieces)
            stream.flush()
        finally:
            if timer is not None:
                timer.cancel()

    def _unfinished(self, reason: str) -> UnfinishedError:
        if self._limits is not None:
            self._limits.exceeded(self.runtime.title, reason)
        return UnfinishedError(reason)

    def _kill_late(self) -> None:
        self._is_late = True
        self._process.kill()

    def _answer(self) -> tuple[dict[str, Any], list[Any]]:
        if not self.end.alive:
            raise UnansweredError(f"its process ended with {self._process.poll()} before")
        try:
            plain, values = receive_message(self._read)
        except EOFError:
            code = self._process.wait()
            self.end()
            if self._is_late or code == _OUT_OF_PROCESSOR_TIME:
                raise self._unfinished(out_of_time(self._seconds)) from None
            if code == child_process.OUT_OF_MEMORY:
                raise self._unfinished(OUT_OF_MEMORY) from None
            raise UnansweredError(f"its process ended with {code}") from None
        except (TimeoutError, MemoryError) as error:
            child_process.kill(self._process)
            self.end()
            is_late = isinstance(error, TimeoutError)
            raise self._unfinished(out_of_time(self._seconds) if is_late else OUT_OF_MEMORY) from None
        if "refused" in plain:
            raise (LackingError if plain["is_lacking"] else UnansweredError)(plain["refused"])
        return plain, values

    def _read(self, count: int) -> bytearray:
        found = bytearray(count)
        left_over = memoryview(found)
        while left_over:
            has_ended = self._process.poll() is not None
            left = self._until - time.monotonic()
            # Read a complete result even after the limit: this process may have been busy.
            length = self._ear.read_into(left_over, 0 if has_ended else max(min(left, _LOOK), _GRACE))
            if length is None and not has_ended:
                self._check(left)
                continue
            if not length:
                raise EOFError
            left_over = left_over[length:]
        return found

    def _check(self, left: float) -> None:
        """Raise TimeoutError if `left` seconds are not positive, MemoryError above the memory limit."""
        if left <= 0:
            raise TimeoutError
        if self._nbytes and child_process.resident_bytes(self._process.pid) > self._nbytes:
            raise MemoryError


def _port(name: str, dtype: str | None, shape: list[int | None] | None) -> Port:
    return Port(name, dtype, None if shape is None else tuple(shape))


class Pool:
    """Processes that wait for a file, by runtime and side: starting one takes longer than many a proof."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], Process] = {}

    def prestart(self, runtime: Runtime, side: str) -> None:
        """Start a process that loads its runtime in the background."""
        key = runtime.name, side
        if key not in self._idle or not self._idle[key].is_alive:
            self._idle[key] = Process(runtime)

    def acquire(self, runtime: Runtime, side: str) -> Process:
        """A process for a side of a proof; `give_back` takes it back."""
        found = self._idle.pop((runtime.name, side), None)
        return found if found is not None and found.is_alive else Process(runtime)

    def give_back(self, process: Process, side: str) -> None:
        """Keep a process that accepts requests, and end any other."""
        process.drop()
        key = process.runtime.name, side
        if process.is_alive and key not in self._idle:
            self._idle[key] = process
        else:
            process.end()


@cache
def pool() -> Pool:
    """Return the process pool of this program."""
    return Pool()
