"""The process of a runtime: it loads files and runs them on request, until its input ends."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from graphport.core.child_process import LARGE_FILE, allow, return_freed_memory, return_memory_at_once
from graphport.runtimes.wire import message, receive_message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Port(NamedTuple):
    """An input or output as a runtime declares it; `None` is undeclared, and a dim of `None` is symbolic."""

    name: str
    dtype: str | None = None
    shape: tuple[int | None, ...] | None = None


class Loaded(Protocol):
    """A file in its runtime."""

    @property
    def inputs(self) -> Sequence[Port]:
        """The inputs."""
        ...

    @property
    def outputs(self) -> Sequence[Port]:
        """The outputs."""
        ...

    def run(self, inputs: Sequence[Any], states: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Outputs by position, and the states after the run; `states` are those before it."""
        ...


class RefusedError(Exception):
    """The runtime cannot load the file or compute the inputs; the message states the reason."""


class LackingError(RefusedError):
    """The runtime has no kernel for a valid node."""


class Settings(NamedTuple):
    """How a runtime is started for a file."""

    threads: int = 0
    """Number of threads; 0 for as many as the runtime chooses."""
    is_strict: bool = False
    """Compute every operator as the file states it; else everything is as users start the runtime."""


def serve(version: str, load: Callable[[str, Settings], Loaded]) -> None:
    """Serve the requests `load`, `run` and `drop` until the pipe ends.

    Args:
        version: of the runtime.
        load: loads the file at a path; raises `RefusedError`, as does `run` of its result.
    """
    # Output of a library must not mix with the replies.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    loaded: Loaded | None = None
    while True:
        try:
            asked, values = receive_message(_exactly)
        except EOFError:
            # The exit handlers of some libraries take seconds.
            os._exit(0)
        allow(asked["seconds"], asked["bytes"])
        start, found = time.perf_counter(), list[Any]()
        plain: dict[str, Any] = {}
        try:
            match asked["do"]:
                case "load":
                    loaded = None
                    if asked["nbytes"] >= LARGE_FILE:
                        return_memory_at_once()
                    loaded = load(asked["path"], Settings(asked["threads"], asked["is_strict"]))
                    plain = {"version": version, "inputs": loaded.inputs, "outputs": loaded.outputs}
                case "run" if loaded is not None:
                    count, names = asked["inputs"], asked["states"]
                    found, states = loaded.run(values[:count], dict(zip(names, values[count:], strict=True)))
                    plain = {"outputs": len(found), "states": list(states)}
                    found = [*found, *states.values()]
                case _:
                    loaded = None
                    return_freed_memory()
        except RefusedError as reason:
            plain = {"refused": str(reason), "is_lacking": isinstance(reason, LackingError)}
        answers.writelines(message({**plain, "seconds": time.perf_counter() - start}, found))
        answers.flush()
        # The other side needs the memory meanwhile.
        del found, values


def _exactly(count: int) -> bytes:
    content = sys.stdin.buffer.read(count)
    if len(content) < count:
        raise EOFError
    return content
