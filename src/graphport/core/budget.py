"""Memory limits for data whose size a file determines.

A file of a hundred bytes can request an array of terabytes. Code that allocates memory by a size from a file reserves
it here first. The used amount is counted per command (`fresh`) and limited by `SETTING`.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

SETTING = "GRAPHPORT_MOST_MADE"
"""Environment variable: how many entries the arrays have in all that rules make up for one model."""

MOST_MADE = 1 << 25
"""Limit of generated elements per model, unless `SETTING` overrides it."""

LIMITS = "GRAPHPORT_LIMITS"
"""Environment variable: bounds of readers by their names in SECURITY.md, `nnef.depth=20000,onnx.inlined=1000000`."""

MOST_AT_ONCE = 1 << 22
"""Limit of generated elements per array: 32 MiB of 64-bit numbers."""


_FARTHEST = 1 << 59
"""Entries past all addresses."""


class OverBudgetError(MemoryError):
    """A file requests more than the limit; the message has the amount and the setting."""


@dataclass(slots=True)
class Budget:
    """The remaining amount."""

    entries: int


_BUDGET: ContextVar[Budget | None] = ContextVar("_BUDGET", default=None)


@contextmanager
def fresh() -> Generator[Budget]:
    """Count from zero inside the block, unless the block is nested in another one."""
    current = _BUDGET.get()
    if current is not None:
        yield current
        return
    budget = Budget(max_generated_elements())
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


def max_generated_elements() -> int:
    """The number of entries that may be generated for one model."""
    return _decimal(os.environ.get(SETTING, ""), MOST_MADE)


def reserve(*extents: int, what: str = "elements of a generated constant") -> int:
    """Reserve an array with these dims and return its number of elements.

    Raises:
        OverBudgetError: it exceeds the limit per array or the remaining amount.
    """
    count = prod(max(extent, 0) for extent in extents)
    most = max(MOST_AT_ONCE, max_generated_elements() // 8)
    # NumPy also refuses an array with a dim of size 0 if the product of its other dims exceeds the address space.
    count = count or int(prod(max(extent, 1) for extent in extents) > _FARTHEST) * _FARTHEST
    if count > most:
        message = f"{shown(count)} {what}, the limit is {shown(most)}; set {SETTING} to raise it"
        raise OverBudgetError(message)
    budget = _BUDGET.get()
    if budget is not None:
        budget.entries -= count
        if budget.entries < 0:
            message = (
                f"the limit of {shown(max_generated_elements())} elements of "
                f"generated constants is reached; set {SETTING} to raise it"
            )
            raise OverBudgetError(message)
    return count


def reserve_expanded(count: int, what: str) -> int:
    """Reserve and return `count`, a number of elements that the file stores in compressed form.

    Raises:
        OverBudgetError: it exceeds the limit per model.
    """
    if count > max_generated_elements():
        message = f"{shown(count)} {what}, the limit is {shown(max_generated_elements())}; set {SETTING} to raise it"
        raise OverBudgetError(message)
    return count


def bounded(extents: Iterable[int], what: str = "elements of a generated constant") -> tuple[int, ...]:
    """Return `extents` after `reserve` has accepted an array of this shape."""
    found = tuple(extents)
    reserve(*found, what=what)
    return found


def fits_in_memory(shape: Iterable[int]) -> bool:
    """Whether an array of this shape can be addressed; dims of 0 are ignored, because NumPy checks all others too."""
    return prod(filter(None, shape)) < _FARTHEST


def limit(name: str, default: int) -> int:
    """Return the limit of that name from `LIMITS`, else `default`."""
    for entry in os.environ.get(LIMITS, "").replace(",", " ").split():
        key, _, number = entry.partition("=")
        if key == name:
            return _decimal(number, default)
    return default


def _decimal(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else default


def shown(count: int) -> str:
    """Format a count; 2^63 or more, which may have any number of digits, is `more than 2^63`."""
    return str(count) if count < 1 << 63 else "more than 2^63"
