"""What a file may make us take.

A file of a hundred bytes can ask for an array of terabytes. Whatever makes something as large as a file says asks here
first. What is spent is counted for one command (`fresh`) and never more than `SETTING` allows.
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
"""Entries that rules may make up for one model, unless `SETTING` says otherwise."""

LIMITS = "GRAPHPORT_LIMITS"
"""Environment variable: bounds of readers by their names in SECURITY.md, `nnef.depth=20000,onnx.inlined=1000000`."""

MOST_AT_ONCE = 1 << 22
"""Entries of one array that a rule makes up: 32 MiB of 64-bit numbers."""


_FARTHEST = 1 << 59
"""Entries past all addresses."""


class OverBudgetError(MemoryError):
    """A file asks for more than it may; the message names how much and the setting."""


@dataclass(slots=True)
class Budget:
    """What is left to spend."""

    entries: int


_BUDGET: ContextVar[Budget | None] = ContextVar("_BUDGET", default=None)


@contextmanager
def fresh() -> Generator[Budget]:
    """A budget of its own for what happens inside; one that is there already goes on."""
    current = _BUDGET.get()
    if current is not None:
        yield current
        return
    budget = Budget(most_made())
    token = _BUDGET.set(budget)
    try:
        yield budget
    finally:
        _BUDGET.reset(token)


def most_made() -> int:
    """The number of entries that may be made up for one model."""
    return _decimal(os.environ.get(SETTING, ""), MOST_MADE)


def reserve(*extents: int, what: str = "entries of a table") -> int:
    """The number of entries of an array with these extents, which are spent.

    Raises:
        OverBudgetError: it is more than a rule may make up at once, or than is left.
    """
    count = prod(max(extent, 0) for extent in extents)
    most = max(MOST_AT_ONCE, most_made() // 8)
    # Of none, too, no array can be made whose other extents are past all addresses.
    count = count or int(prod(max(extent, 1) for extent in extents) > _FARTHEST) * _FARTHEST
    if count > most:
        message = f"{shown(count)} {what}, at most {shown(most)} are made up; {SETTING} allows more"
        raise OverBudgetError(message)
    budget = _BUDGET.get()
    if budget is not None:
        budget.entries -= count
        if budget.entries < 0:
            message = f"{shown(most_made())} entries of tables were made up already; {SETTING} allows more"
            raise OverBudgetError(message)
    return count


def reserve_expanded(count: int, what: str) -> int:
    """`count`, of numbers that a file says in one and that are to be written one by one.

    Raises:
        OverBudgetError: they are more than may be made up for one model.
    """
    if count > most_made():
        message = f"{shown(count)} {what}, at most {shown(most_made())} are spelt out; {SETTING} allows more"
        raise OverBudgetError(message)
    return count


def bounded(extents: Iterable[int], what: str = "entries of a table") -> tuple[int, ...]:
    """`extents`, of an array that `reserve` allows."""
    found = tuple(extents)
    reserve(*found, what=what)
    return found


def is_held(shape: Iterable[int]) -> bool:
    """Whether memory can hold an array of that shape; of none, too, all other extents are to be below its end."""
    return prod(filter(None, shape)) < _FARTHEST


def limit(name: str, default: int) -> int:
    """The bound of that name: what `LIMITS` says, else `default`."""
    for entry in os.environ.get(LIMITS, "").replace(",", " ").split():
        key, _, number = entry.partition("=")
        if key == name:
            return _decimal(number, default)
    return default


def _decimal(text: str, default: int) -> int:
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else default


def shown(count: int) -> str:
    """A number that a file may make as long as it likes."""
    return str(count) if count < 1 << 63 else "more than 2^63"
