"""The contents of variables and tables: found by the operators that restore and fill them, never by name alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from graphport.formats.tensorflow.container.records import CALLS, FunctionRef
from graphport.formats.tensorflow.container.tables import HANDLES as TABLE_HANDLES
from graphport.formats.tensorflow.container.tensors import Constant, strings_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.storage import Storage
    from graphport.formats.tensorflow.container.build import Building
    from graphport.formats.tensorflow.container.records import Body, Record, Ref

MAX_STEPS = 1_000_000
"""Nodes that are looked at."""
MAX_DEPTH = 16
_PASSING = frozenset({"Identity", "IdentityN", "ReadVariableOp", "Cast"})
_ASSIGN = frozenset({"AssignVariableOp", "Assign"})
_IMPORT = frozenset({"LookupTableImportV2", "InitializeTableV2", "InitializeTable", "LookupTableInsertV2"})


@dataclass(eq=False, slots=True)
class Scope:
    """A function at one call; its arguments are tensors of the caller."""

    body: Body
    caller: Scope | None = None
    arguments: dict[str, Ref] = field(default_factory=dict[str, "Ref"])


class Initializers:
    """Searches a graph for the operators that fill variables and tables."""

    def __init__(self, building: Building) -> None:
        self.building = building
        self.main = Scope(building.main)
        self._left = MAX_STEPS

    def keys_of_variables(self, restore: str) -> dict[str, str]:
        """The key in the bundle of each variable, by the name of its handle.

        `restore` is the node that restores all variables.
        """
        found: dict[str, str] = {}
        for scope, record in self._executed(restore):
            if record.op_type not in _ASSIGN or len(record.inputs) < 2:
                continue
            handle = self._trace(scope, record.inputs[0])
            value = self._trace(scope, record.inputs[1])
            if handle is None or value is None or value[1].op_type != "RestoreV2":
                continue
            keys = self._strings(value[0], value[1].inputs[1]) if len(value[1].inputs) > 1 else []
            if value[2] < len(keys):
                found[handle[1].name] = keys[value[2]]
        return found

    def tables(self) -> dict[str, tuple[Storage, Storage]]:
        """The keys and values of each table, by the name of its handle."""
        found: dict[str, tuple[Storage, Storage]] = {}
        for record in list(self.main.body.nodes.values()):
            if record.op_type not in CALLS and record.op_type not in _IMPORT:
                continue
            for scope, each in self._within(self.main, record, 0):
                if each.op_type not in _IMPORT or len(each.inputs) < 3:
                    continue
                handle = self._trace(scope, each.inputs[0])
                keys, values = (self._constant(scope, ref) for ref in each.inputs[1:3])
                if (
                    handle is not None
                    and handle[1].op_type in TABLE_HANDLES
                    and keys is not None
                    and values is not None
                ):
                    found.setdefault(handle[1].name, (keys, values))
        return found

    def _executed(self, name: str) -> Iterator[tuple[Scope, Record]]:
        """The operators that run when a node of the main graph runs."""
        seen: set[str] = set()
        stack = [name.partition(":")[0]]
        while stack:
            current = stack.pop()
            record = self.main.body.nodes.get(current)
            if record is None or current in seen:
                continue
            seen.add(current)
            yield from self._within(self.main, record, 0)
            stack += [*record.controls, *(name for name, _ in record.inputs if record.op_type == "Identity")]

    def _within(self, scope: Scope, record: Record, depth: int) -> Iterator[tuple[Scope, Record]]:
        self._left -= 1
        if self._left < 0 or depth > MAX_DEPTH:
            return
        yield scope, record
        if record.op_type not in CALLS:
            return
        function = record.attribute("f", self.building.findings)
        if not isinstance(function, FunctionRef) or function.name not in self.building.library:
            return
        body = self.building.function(function.name, record.name)
        inner = Scope(body, scope, dict(zip(body.arguments, record.inputs, strict=False)))
        for each in body.nodes.values():
            yield from self._within(inner, each, depth + 1)

    def _trace(self, scope: Scope, ref: Ref) -> tuple[Scope, Record, int] | None:
        """The node that computes a tensor, found through copies and calls."""
        for _ in range(MAX_STEPS):
            record = scope.body.nodes.get(ref[0])
            if record is None:
                if scope.caller is None or ref[0] not in scope.arguments:
                    return None
                ref, scope = scope.arguments[ref[0]], scope.caller
            elif record.op_type in _PASSING and len(record.inputs) > ref[1]:
                ref = record.inputs[ref[1]]
            else:
                return scope, record, ref[1]
        return None

    def _message(self, scope: Scope, ref: Ref) -> tuple[Record, Any] | None:
        found = self._trace(scope, ref)
        if found is None or found[1].op_type != "Const" or "value" not in found[1].attribute_messages:
            return None
        return found[1], found[1].attribute_messages["value"].message("tensor")

    def _strings(self, scope: Scope, ref: Ref) -> list[str]:
        found = self._message(scope, ref)
        return [] if found is None else strings_of(found[1])

    def _constant(self, scope: Scope, ref: Ref) -> Storage | None:
        found = self._message(scope, ref)
        if found is None or found[1] is None:
            return None
        return Constant(found[1], self.building.findings, f"node {found[0].name}").storage
