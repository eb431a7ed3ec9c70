"""Constraints between dims that shape rules derive and that hold in every successful run.

Rules derive constraints deep inside shared functions, without a parameter for them. The caller of a rule collects them
in a context; without a collector they are dropped.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from graphport.core.dims import Constraint

if TYPE_CHECKING:
    from graphport.core.dims import Dim, Relation

_found: ContextVar[list[Constraint] | None] = ContextVar("requirements", default=None)


def require(left: Dim, relation: Relation, right: Dim) -> None:
    """Record a constraint; trivial ones between integers are ignored."""
    found = _found.get()
    if found is not None and left is not right and not (type(left) is int and type(right) is int):
        found.append(Constraint(left, relation, right))


class collected:
    """Collect the constraints required inside the block; a class instead of a generator because it is entered often."""

    __slots__ = ("_token",)

    def __enter__(self) -> list[Constraint]:
        found: list[Constraint] = []
        self._token = _found.set(found)
        return found

    def __exit__(self, *_: object) -> None:
        _found.reset(self._token)
