"""Canonical operators by name, for rules whose family must not import the families of what they are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder


class OpBuilder:
    """Makes canonical operations with a builder: `say("Add", x, y)`; numbers become int64 constants of rank 0."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._pages = registry.pages()

    def constant(self, data: object) -> Value:
        """A constant where the operations are."""
        return self._builder.constant(data)

    def __call__(self, operator: str, *operands: Value | int | None, **attributes: Attribute) -> Value:
        """The first result of an operation."""
        values = [self._builder.constant(x) if isinstance(x, int) else x for x in operands]
        return self._builder(self._pages[operator], *values, **attributes)
