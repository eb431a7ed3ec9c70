"""What a dialect says of orders of axes, for `graphport.ops.layout`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Graph, Node, Value


class Language(Protocol):
    """How a dialect says what is moved, and past what."""

    def order(self, node: Node) -> tuple[int, ...] | None:
        """The order of axes that a node gives, if it is a Transpose by a known one."""
        ...

    def transpose(self, graph: Graph, result: Value, like: Node) -> Node:
        """A Transpose without operands that gives `result`, made for the node `like`; it is in no graph yet."""
        ...

    def set_operands(self, graph: Graph, node: Node, source: Value, order: Sequence[int]) -> None:
        """Let a Transpose read `source` in an order."""
        ...

    def carried(self, node: Node) -> Sequence[int]:
        """The operands whose elements all come in one order, where a node computes the same in any; else none."""
        ...

    def reorder(self, graph: Graph, node: Node, order: Sequence[int]) -> None:
        """Let what a node says of axes be of operands whose axis `order[i]` was their axis `i`."""
        ...

    def reshape(self, graph: Graph, source: Value, result: Value, like: Node) -> Node:
        """A Reshape of `source` to the known extents of `result`, made for the node `like`; it is in no graph yet."""
        ...

    def shape(self, node: Node) -> tuple[Dim, ...] | None:
        """The extents that a node gives what it reads, if it is a Reshape that a constant tells them."""
        ...

    def set_shape(self, graph: Graph, node: Node, shape: Sequence[int]) -> None:
        """Let a Reshape give other extents, one of which may be -1: what is left."""
        ...
