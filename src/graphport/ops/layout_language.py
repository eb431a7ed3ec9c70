"""The interface by which `graphport.ops.layout` handles the operators of a dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


class Language(Protocol):
    """How a dialect represents Transposes and Reshapes, and which operators are layout-agnostic."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        """Return the permutation of a Transpose node if it is constant; `None` for other nodes."""
        ...

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        """Create a Transpose without operands for `result` in place of the node `like`; it is not inserted."""
        ...

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        """Set the operand and the permutation of a Transpose."""
        ...

    def carried(self, node: Node) -> Sequence[int]:
        """Return the indices of the operands that may be permuted together; empty if the node depends on the order."""
        ...

    def removed_axes(self, node: Node) -> Sequence[int] | None:
        """Return the axes that a reduction removes if they are constant; `None` for other nodes."""
        ...

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        """Adapt the axis attributes of a node to operands whose axis `order[i]` was axis `i`."""
        ...

    def reshape(self, graph: Graph, source: Value, result: Value, like: Node) -> Node:
        """Create a Reshape of `source` to the shape of `result` in place of `like`; it is not inserted."""
        ...

    def shape(self, node: Node) -> tuple[Dim, ...] | None:
        """Return the target shape if the node is a Reshape with a constant shape."""
        ...

    def set_shape(self, graph: Graph, node: Node, shape: Sequence[int]) -> None:
        """Set the target shape of a Reshape; one dim may be -1 (the remaining elements)."""
        ...
