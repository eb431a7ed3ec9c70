"""Construction of canonical operators by name, for rules that must not import other operator families."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops import registry

if TYPE_CHECKING:
    from graphport.ir.graph import Attribute, Value
    from graphport.ops.builder import Builder, Operand


class OpBuilder:
    """Creates canonical nodes by name: `emit("Add", x, 1)`; literals as in `Builder.results`."""

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._op_defs = registry.op_defs()

    def constant(self, data: object) -> Value:
        """Create a constant."""
        return self._builder.constant(data)

    def __call__(self, operator: str, *operands: Operand, **attributes: Attribute) -> Value:
        """Create a node and return its first result."""
        return self._builder(self._op_defs[operator], *operands, **attributes)
