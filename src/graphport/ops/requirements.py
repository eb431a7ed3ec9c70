"""What shape rules find that must hold between extents in every run that succeeds.

A rule has its operator's signature, where nothing else has a place, and it asks for equality deep within what many
rules share. So whoever calls a rule collects, and what nobody collects is dropped.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphport.core.dims import Constraint

if TYPE_CHECKING:
    from collections.abc import Generator

    from graphport.core.dims import Dim, Relation

_found: ContextVar[list[Constraint] | None] = ContextVar("requirements", default=None)


def require(left: Dim, relation: Relation, right: Dim) -> None:
    """Note what must hold; of numbers that is plain."""
    found = _found.get()
    if found is not None and left is not right and not (type(left) is int and type(right) is int):
        found.append(Constraint(left, relation, right))


@contextmanager
def collected() -> Generator[list[Constraint]]:
    """Everything that is required meanwhile."""
    found: list[Constraint] = []
    token = _found.set(found)
    try:
        yield found
    finally:
        _found.reset(token)
