"""Processes of runtimes: started once, asked often, ended with the program or when they do not answer."""

from __future__ import annotations

import os
import queue
import select
import subprocess
import sys
import threading
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import IO, TYPE_CHECKING, Any

from graphport.proof.runtimes.serve import Port
from graphport.proof.wire import message, received

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.proof.runtimes import Runtime

_LOOK = 0.2
"""Seconds between looks whether it still runs: children that it leaves behind may keep its pipes open."""

_GRACE = 0.05
"""Seconds that a thread has at least to read what lies there."""


class UnansweredError(Exception):
    """The runtime refuses, ended, or took too long; its text says which."""


class LackingError(UnansweredError):
    """The runtime has no kernel for what it was given, which is right."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A file that a runtime has loaded."""

    version: str
    inputs: list[Port]
    outputs: list[Port]
    seconds: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a run came to."""

    outputs: list[Any]
    states: dict[str, Any] = field(default_factory=dict[str, Any])
    seconds: float = 0.0


class _Selecting:
    """Hears what comes through a pipe, for a while."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream

    def hear(self, place: memoryview, seconds: float) -> int | None:
        """How many bytes came into `place`, 0 where the pipe has ended; `None` where nothing came in that time."""
        if self._stream is None:
            return 0
        ready, _, _ = select.select([self._stream], [], [], seconds)
        return os.readv(self._stream.fileno(), [place]) if ready else None


class Listening:
    """The same where the system cannot wait for pipes, as Windows cannot: a thread waits."""

    def __init__(self, stream: IO[bytes] | None) -> None:
        self._stream = stream
        self._heard: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._is_listening = False

    def hear(self, place: memoryview, seconds: float) -> int | None:
        """As `_Selecting.hear`."""
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
    """The process of one runtime, with at most one file in it. Asking and hearing the answer are two steps."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self._process = subprocess.Popen(  # noqa: S603  a module of this package
            [sys.executable, "-m", runtime.module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._ear = _EAR(self._process.stdout)
        self.end = weakref.finalize(self, _end, self._process)

    @property
    def is_alive(self) -> bool:
        """Whether it can be asked."""
        return self.end.alive and self._process.poll() is None

    def ask_to_load(self, path: str, threads: int) -> None:
        """Let it load the file at `path`, to compute on so many threads."""
        self._ask({"do": "load", "path": path, "threads": threads})

    def opened(self, limit: float) -> Opened:
        """What it says of the file that it was asked to load.

        Raises:
            UnansweredError: it does not load it, or not within `limit` seconds.
        """
        plain, _ = self._answer(limit)
        inputs, outputs = ([_port(*each) for each in plain[side]] for side in ("inputs", "outputs"))
        return Opened(plain["version"], inputs, outputs, plain["seconds"])

    def ask_to_run(self, inputs: Sequence[Any], states: dict[str, Any]) -> None:
        """Let it compute its file, by position, beginning with these states by name."""
        plain = {"do": "run", "inputs": len(inputs), "states": list(states)}
        self._ask(plain, [*inputs, *states.values()])

    def answer(self, limit: float) -> Answer:
        """What the run gave.

        Raises:
            UnansweredError: there is no result, or none within `limit` seconds.
        """
        plain, values = self._answer(limit)
        count = plain["outputs"]
        states = dict(zip(plain["states"], values[count:], strict=True))
        return Answer(values[:count], states, plain["seconds"])

    def drop(self) -> None:
        """Let go of the file; the process stays."""
        if self.is_alive:
            self._ask({"do": "drop"})
            with suppress(UnansweredError):
                self._answer(10.0)

    def _ask(self, plain: dict[str, Any], values: Sequence[Any] = ()) -> None:
        stream = self._process.stdin
        if stream is None:
            text = f"the process of {self.runtime.title} has no input"
            raise OSError(text)
        # What became of it is told by the answer that does not come; ours is closed where that was told before.
        with suppress(OSError, ValueError):
            stream.writelines(message(plain, values))
            stream.flush()

    def _answer(self, limit: float) -> tuple[dict[str, Any], list[Any]]:
        until = time.monotonic() + limit
        if not self.end.alive:
            raise UnansweredError(f"its process ended with {self._process.poll()} before")
        try:
            plain, values = received(lambda count: self._read(count, until))
        except EOFError:
            code = self._process.wait()
            self.end()
            raise UnansweredError(f"its process ended with {code}") from None
        except TimeoutError:
            self._process.kill()
            self.end()
            raise UnansweredError(f"it gave no answer within {limit:.0f} s") from None
        if "refused" in plain:
            raise (LackingError if plain["is_lacking"] else UnansweredError)(plain["refused"])
        return plain, values

    def _read(self, count: int, until: float) -> bytearray:
        found = bytearray(count)
        left_over = memoryview(found)
        while left_over:
            has_ended = self._process.poll() is not None
            left = until - time.monotonic()
            length = self._ear.hear(left_over, max(min(left, 0 if has_ended else _LOOK), 0))
            if length is None and not has_ended and left > 0:
                continue
            if length is None and not has_ended:
                raise TimeoutError
            if not length:
                raise EOFError
            left_over = left_over[length:]
        return found


def _port(name: str, dtype: str | None, shape: list[int | None] | None) -> Port:
    return Port(name, dtype, None if shape is None else tuple(shape))


def _end(process: subprocess.Popen[bytes]) -> None:
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


class Pool:
    """Processes that wait for a file, by runtime and side: starting one takes longer than many a proof."""

    def __init__(self) -> None:
        self._idle: dict[tuple[str, str], Process] = {}

    def start(self, runtime: Runtime, side: str) -> None:
        """Let a process begin to load its runtime, while we have other work."""
        key = runtime.name, side
        if key not in self._idle or not self._idle[key].is_alive:
            self._idle[key] = Process(runtime)

    def take(self, runtime: Runtime, side: str) -> Process:
        """A process for a side of a proof; `give_back` takes it back."""
        found = self._idle.pop((runtime.name, side), None)
        return found if found is not None and found.is_alive else Process(runtime)

    def give_back(self, process: Process, side: str) -> None:
        """Keep a process that can be asked again, and end another."""
        process.drop()
        key = process.runtime.name, side
        if process.is_alive and key not in self._idle:
            self._idle[key] = process
        else:
            process.end()


@cache
def pool() -> Pool:
    """The processes of this program."""
    return Pool()
