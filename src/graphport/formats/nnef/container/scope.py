"""The names of one body, as far as it has been read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.formats.nnef.container.syntax import (
    Array,
    Call,
    Expression,
    Name,
    Tuple,
)
from graphport.formats.nnef.container.types import (
    Type,
)

if TYPE_CHECKING:
    from graphport.formats.nnef.container.syntax import Assignment


@dataclass(slots=True)
class Scope:
    """The names of one body, as far as its statements have been read."""

    body: tuple[Assignment, ...]
    is_graph: bool
    is_generic: bool = False
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    definitions: dict[str, Name] = field(default_factory=dict[str, Name])
    variables: set[str] = field(default_factory=set[str])
    updated: dict[str, Call] = field(default_factory=dict[str, Call])
    _assigned: dict[str, Name] | None = None

    def assigned(self, name: str) -> Name | None:
        """Return the name node at which the body first assigns `name`, before or after the current statement."""
        if self._assigned is None:
            self._assigned = {}
            for statement in reversed(self.body):
                self._assigned.update(_targets(statement))
        return self._assigned.get(name)


def _targets(statement: Assignment) -> dict[str, Name]:
    """The names on the left side of `statement`."""
    names: dict[str, Name] = {}
    waiting: list[Expression] = [statement.target]
    while waiting:
        node = waiting.pop()
        if isinstance(node, Name):
            names[node.text] = node
        elif isinstance(node, Array | Tuple):
            waiting += node.items
    return names
