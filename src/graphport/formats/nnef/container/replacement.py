"""Replacement of a node by operations that every NNEF reader supports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.nnef.container.build import DIALECT
from graphport.ir.graph import Node, Value

if TYPE_CHECKING:
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute, Graph


class Replacement:
    """Builder of the operations that replace one node."""

    def __init__(self, graph: Graph, node: Node, *, is_shared: bool = False) -> None:
        self._graph = graph
        self.node = node
        self.is_shared = is_shared
        """Whether tract must be able to read the text, so that costlier replacements are used."""

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.node.operands[0]

    def float_attribute(self, name: str) -> float:
        """Return a numeric attribute."""
        return cast("float", self.node.attributes[name])

    def integers_attribute(self, name: str) -> tuple[int, ...]:
        """Return an attribute that is an array of integers."""
        return cast("tuple[int, ...]", self.node.attributes[name])

    def shape(self) -> tuple[object, ...] | None:
        """The shape of the first operand, if its rank is known."""
        return self.x.shape

    def dtype(self) -> DType | None:
        """The element type of the first operand."""
        return self.x.dtype

    def literal(self, number: float) -> Value:
        """Add a number that is written as a literal at its use."""
        storage = storage_of(np.asarray(number, np.float32))
        value = self._graph.add_constant("number", TensorFact.of(storage), storage)
        value.is_literal = True
        return value

    def stored(self, storage: Storage, *, is_literal: bool = False) -> Value:
        """Add a constant; with `is_literal` it is written as a literal at its use, else as a variable."""
        value = self._graph.add_constant(self._graph.fresh("weights"), TensorFact.of(storage), storage)
        value.is_literal = is_literal
        return value

    def tensor(self, array: Any) -> Value:
        """Add a constant that is written as a variable."""
        storage = storage_of(np.ascontiguousarray(array))
        return self._graph.add_constant(self._graph.fresh("weights"), TensorFact.of(storage), storage)

    def emit(self, op_type: str, *operands: Value | float, fact: Fact | None = None, **attributes: Attribute) -> Value:
        """Append an operation and return its result; by default its fact is that of the node's result."""
        values = [self.literal(each) if isinstance(each, int | float) else each for each in operands]
        own = fact or self.node.results[0].fact
        result = Value(self._graph.fresh(self.node.results[0].name), own)
        node = Node(op_type, values, [result], attributes, dialect=DIALECT, origin=self.node.origin)
        self._graph.insert_before(self.node, node)
        return result
