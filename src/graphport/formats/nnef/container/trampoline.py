"""Recursion without Python's stack: generators that yield the computations they depend on."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Steps: TypeAlias = Generator["Steps[T]", Any, T]
"""A computation that yields the computations whose results it wants to be sent, and returns its own."""


def run(computation: Steps[T]) -> T:
    """Run `computation`; nested computations are kept in a list instead of on the stack.

    An exception ends all of them and is not passed to the waiting ones.
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
