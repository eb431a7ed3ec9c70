"""What long work is doing and how far it is, for whoever wants to hear of it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Generator


@dataclass(slots=True, eq=False)
class Stage:
    """A piece of work: `done` of `total` units, where that is known; `measure` says how much is done when asked."""

    name: str
    total: int = 0
    unit: str = ""
    done: int = 0
    measure: Callable[[], int] | None = None
    began: float = field(default_factory=time.monotonic)

    def go_on(self, name: str, done: int, total: int) -> None:
        """Tell how far it is; under another name, or where less is done than before, something else has begun."""
        if name != self.name or done < self.done:
            self.began = time.monotonic()
        self.name, self.done, self.total = name, done, total


class Listener(Protocol):
    """Who hears of stages; they are nested."""

    def begin(self, stage: Stage) -> None:
        """A stage begins inside of those that have begun and not ended."""
        ...

    def end(self, stage: Stage) -> None:
        """The innermost stage ends."""
        ...


_LISTENER: ContextVar[Listener | None] = ContextVar("_LISTENER", default=None)


@contextmanager
def heard(listener: Listener | None) -> Generator[None]:
    """Let `listener`, or nobody, hear of the stages inside."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def stage(name: str, total: int = 0, unit: str = "", measure: Callable[[], int] | None = None) -> Generator[Stage]:
    """What happens inside is called `name`; who does it counts `done`, or hands over a `measure`."""
    found = Stage(name, total, unit, measure=measure)
    listener = _LISTENER.get()
    if listener is None:
        yield found
        return
    listener.begin(found)
    try:
        yield found
    finally:
        listener.end(found)
