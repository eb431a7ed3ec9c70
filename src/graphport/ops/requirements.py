"""What shape rules find that must hold between extents in every run that succeeds.

A rule has its operator's signature, where nothing else has a place, and it asks for equality deep within what many
rules share. So whoever calls a rule collects, and what nobody collects is dropped.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphport.core.dims import Constraint

if TYPE_CHECKING:
    from graphport.core.dims import Dim, Relation

_found: ContextVar[list[Constraint] | None] = ContextVar("requirements", default=None)


def require(left: Dim, relation: Relation, right: Dim) -> None:
    """Note what must hold; of numbers that is plain."""
    found = _found.get()
    if found is not None and left is not right and not (type(left) is int and type(right) is int):
        found.append(Constraint(left, relation, right))


class collected:
    """A block, and a list of everything that is required in it; entered for every node, so it is no generator."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[Constraint]:
        found: list[Constraint] = []
        self._token = _found.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _found.reset(self._token)
