"""Attributes of operations in tract's flavour: in the form of their parameters, or tensors of what only a run knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic
from graphport.formats.nnef.container.tract.node_builder import (
    DIALECT,
    GraphBuilder,
    as_list,
    holds_wires,
    is_list,
    small_constant_elements,
)
from graphport.formats.nnef.container.types import LOGICAL, SCALAR, STRING, ArrayOf, Primitive, TupleOf, Type
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.syntax import Expression


class Attributes(GraphBuilder):
    """Converts evaluated arguments to attributes."""

    def attribute(self, value: Any, kind: Type, node: Expression) -> Any:
        """Convert `value` to the type of its parameter; values known only at run time are tensors."""
        value = self.fold_constant(value)
        match kind:
            case ArrayOf(TupleOf() as pair):
                items = as_list(value)
                if not holds_wires(items):
                    return self._tuples(items, pair, node)
                return self.vector([x for each in items for x in as_list(each)])
            case ArrayOf(Primitive() as item):
                if isinstance(value, Value):
                    return value
                items = [self.fold_constant(each) for each in as_list(value)]
                if holds_wires(items):
                    return self.vector(items)
                return tuple(self.attribute(each, item, node) for each in items)
            case ArrayOf(ArrayOf() as item):
                return tuple(self.attribute(each, item, node) for each in as_list(value))
            case _:
                return self._scalar_attribute(value, kind, node)

    def _tuples(self, items: Sequence[Any], pair: TupleOf, node: Expression) -> tuple[tuple[Any, ...], ...]:
        rows = [as_list(item) for item in items]
        if any(len(row) != len(pair.items) for row in rows):
            raise self.fault("NNEF0401", f"an item is not a tuple of {len(pair.items)} items", node)
        return tuple(tuple(self.attribute(x, pair.items[0], node) for x in row) for row in rows)

    def _scalar_attribute(self, value: Any, kind: Type, node: Expression) -> Any:
        if is_list(value) and len(as_list(value)) == 1:
            (value,) = as_list(value)
        if isinstance(value, Value):
            return value
        if isinstance(value, Symbolic):
            return self.tensor(value)
        try:
            if kind is STRING:
                return str(value)
            if kind is LOGICAL:
                return bool(value)
            if kind is SCALAR:
                return float(value)
            if value == int(value) and (self._dialect == DIALECT or not isinstance(value, float)):
                return int(value)
        except (TypeError, ValueError, OverflowError):
            pass
        raise self.fault("NNEF0401", f"{value!r} is not of type {getattr(kind, 'name', 'attribute')}", node)

    def fold_constant(self, value: Any) -> Any:
        """Return the elements of a small constant used as an attribute."""
        if not isinstance(value, Value):
            return value
        known = small_constant_elements(value)
        return value if known is None else known
