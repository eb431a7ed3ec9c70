"""Recursion on the nesting of documents without Python's stack: functions that yield what they need first."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator["Steps[T]", Any, T]
"""A computation that yields the computations whose results it wants to be sent, and returns its own."""


def run(computation: Steps[T]) -> T:
    """The result of `computation`; however deep it goes, the depth is a list's length.

    An exception ends all of it: what waits does not see it.
    """
    running: list[Steps[Any]] = [computation]
    result: Any = None
    try:
        while True:
            try:
                wanted = running[-1].send(result)
            except StopIteration as finished:
                running.pop()
                result = finished.value
                if not running:
                    return result
            else:
                running.append(wanted)
                result = None
    finally:
        while running:
            running.pop().close()
