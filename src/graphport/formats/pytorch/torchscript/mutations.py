"""Undo log of mutations of containers and objects in branches and loops."""

from __future__ import annotations

from typing import Any

from graphport.formats.pytorch.torchscript.refusal import refuse
from graphport.formats.pytorch.torchscript.values import Dict, List, Object, next_serial

Mutable = List | Dict | Object


class Growing(list[Any]):
    """Items of a list in a loop with a run-time trip count; append is the only supported operation."""

    def _refuse(self, *_: Any) -> Any:
        refuse("TS0009", "a loop of unknown length reads the list that it appends to")

    __getitem__ = __iter__ = __contains__ = _refuse  # pyright: ignore[reportAssignmentType]


class Mutations:
    """Contents of containers and objects before their mutation, one record for each active branch."""

    def __init__(self) -> None:
        self._records: list[tuple[int, dict[Mutable, Any]]] = []

    def begin(self) -> None:
        """Start a record."""
        self._records.append((next_serial(), {}))

    def touch(self, target: Mutable) -> None:
        """Record the contents of a container or object before a mutation."""
        for since, record in self._records:
            if target.serial < since and target not in record:
                record[target] = contents(target)

    def end(self) -> dict[Mutable, tuple[Any, Any]]:
        """Undo the mutations since `begin`; return the contents before and after by container."""
        _, record = self._records.pop()
        found = {target: (before, contents(target)) for target, before in record.items()}
        for target, before in record.items():
            restore(target, before)
        return found


def copy_items(target: List) -> list[Any]:
    """Copy the items of a list, including a `Growing` one."""
    return list[Any].copy(target.items)


def contents(target: Mutable) -> Any:
    """Copy the contents of a container or object."""
    match target:
        case List():
            return (copy_items(target), target.stacked)
        case Dict():
            return dict(target.items)
        case Object():
            return dict(target.attributes)


def restore(target: Mutable, held: Any) -> None:
    """Set the contents of a container or object to `held`, a result of `contents`."""
    match target:
        case List():
            target.items, target.stacked = held
        case Dict():
            target.items = held
        case Object():
            target.attributes = held
