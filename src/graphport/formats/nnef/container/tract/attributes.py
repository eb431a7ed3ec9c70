"""Attributes of operations in tract's flavour: in the form of their parameters, or tensors of what only a run knows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic
from graphport.formats.nnef.container.tract.making import DIALECT, Maker, holds_wires, is_list, items_of, numbers_of
from graphport.formats.nnef.container.types import LOGICAL, SCALAR, STRING, ArrayOf, Primitive, TupleOf, Type
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.nnef.container.syntax import Expression


class Attributes(Maker):
    """Gives values of the text the forms that parameters have."""

    def attribute(self, value: Any, kind: Type, node: Expression) -> Any:
        """`value` in the form of its parameter, or a tensor of what only a run knows."""
        value = self.known(value)
        match kind:
            case ArrayOf(TupleOf() as pair):
                items = items_of(value)
                if not holds_wires(items):
                    return self._tuples(items, pair, node)
                return self.vector([x for each in items for x in items_of(each)])
            case ArrayOf(Primitive() as item):
                if isinstance(value, Value):
                    return value
                items = [self.known(each) for each in items_of(value)]
                if holds_wires(items):
                    return self.vector(items)
                return tuple(self.attribute(each, item, node) for each in items)
            case ArrayOf(ArrayOf() as item):
                return tuple(self.attribute(each, item, node) for each in items_of(value))
            case _:
                return self._number(value, kind, node)

    def _tuples(self, items: Sequence[Any], pair: TupleOf, node: Expression) -> tuple[tuple[Any, ...], ...]:
        rows = [items_of(item) for item in items]
        if any(len(row) != len(pair.items) for row in rows):
            raise self.fault("NNEF0401", f"an item is no tuple of {len(pair.items)}", node)
        return tuple(tuple(self.attribute(x, pair.items[0], node) for x in row) for row in rows)

    def _number(self, value: Any, kind: Type, node: Expression) -> Any:
        if is_list(value) and len(items_of(value)) == 1:
            (value,) = items_of(value)
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
        raise self.fault("NNEF0401", f"{value!r} is no {getattr(kind, 'name', 'attribute')}", node)

    def known(self, value: Any) -> Any:
        """The numbers of a small constant, where an attribute is wanted."""
        if not isinstance(value, Value):
            return value
        known = numbers_of(value)
        return value if known is None else known
