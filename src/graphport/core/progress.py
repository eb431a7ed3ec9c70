"""Progress of long stages, for registered listeners and the logger `graphport`."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from graphport.core.log import find_logger

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@dataclass(slots=True, eq=False)
class Stage:
    """A stage: `done` of `total` units, if known; `measure` returns the completed amount on request."""

    name: str
    total: int = 0
    unit: str = ""
    done: int = 0
    measure: Callable[[], int] | None = None
    began: float = field(default_factory=time.monotonic)

    def go_on(self, name: str, done: int, total: int) -> None:
        """Set the progress; another name, or a smaller `done`, restarts the elapsed time."""
        if name != self.name or done < self.done:
            self.began = time.monotonic()
        self.name, self.done, self.total = name, done, total


class Listener(Protocol):
    """Receiver of begin and end events of nested stages."""

    def begin(self, stage: Stage) -> None:
        """Begin a stage inside the stages that have not ended."""
        ...

    def end(self, stage: Stage) -> None:
        """End the innermost stage."""
        ...


_LISTENER: ContextVar[Listener | None] = ContextVar("_LISTENER", default=None)


@contextmanager
def register_listener(listener: Listener | None) -> Generator[None]:
    """Register `listener` (or none) for the stages inside the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def stage(name: str, total: int = 0, unit: str = "", measure: Callable[[], int] | None = None) -> Generator[Stage]:
    """Report the block as a stage called `name`; the block updates `done`, or passes `measure`."""
    found = Stage(name, total, unit, measure=measure)
    listener, logger = _LISTENER.get(), find_logger()
    if listener is not None:
        listener.begin(found)
    if logger is not None:
        logger.debug("begin %s", name)
    try:
        yield found
    finally:
        if listener is not None:
            listener.end(found)
        if logger is not None:
            logger.info("%s: %.3f s", found.name, time.monotonic() - found.began)
