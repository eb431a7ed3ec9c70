"""What branches and loops change in containers and objects, recorded so that it can be undone."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.values import Dict, List, Object, births

Mutable = List | Dict | Object


class Growing(list[Any]):
    """The items of a list inside of a loop of unknown length: they can be appended to, and not read."""

    def _refuse(self, *_: Any) -> Any:
        refuse("TS0009", "a loop of unknown length reads the list that it appends to")

    __getitem__ = __iter__ = __contains__ = _refuse  # pyright: ignore[reportAssignmentType]


class Mutations:
    """What containers and objects were before branches changed them: one record for each open branch."""

    def __init__(self) -> None:
        self._records: list[tuple[int, dict[Mutable, Any]]] = []

    def begin(self) -> None:
        """Start to record changes."""
        self._records.append((births(), {}))

    def touch(self, target: Mutable) -> None:
        """Record a container or object that is about to change."""
        for since, record in self._records:
            if target.born < since and target not in record:
                record[target] = contents(target)

    def end(self) -> dict[Mutable, tuple[Any, Any]]:
        """Undo the changes since `begin`: contents before and after, by container."""
        _, record = self._records.pop()
        found = {target: (before, contents(target)) for target, before in record.items()}
        for target, before in record.items():
            restore(target, before)
        return found


def items_as_they_are(target: List) -> list[Any]:
    """A copy of the items of a list, of one that grows in a loop too."""
    return list[Any].copy(target.items)


def contents(target: Mutable) -> Any:
    """A copy of what a container or object holds."""
    match target:
        case List():
            return (items_as_they_are(target), target.stacked)
        case Dict():
            return dict(target.items)
        case Object():
            return dict(target.attributes)


def restore(target: Mutable, held: Any) -> None:
    """Let a container or object hold `held`, which `contents` gave."""
    match target:
        case List():
            target.items, target.stacked = held
        case Dict():
            target.items = held
        case Object():
            target.attributes = held
