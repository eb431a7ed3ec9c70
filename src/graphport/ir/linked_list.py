"""Linked list of nodes that permits edits during iteration; each edit takes constant time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from graphport.ir.notes import Noted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Link(Protocol):
    """An element of a chain, with its neighbours."""

    graph: Any
    previous: Any
    next: Any


N = TypeVar("N", bound=Link)


class Chain(Noted, Generic[N]):
    """Nodes in order."""

    __slots__ = ("_first", "_last", "_length", "name")

    name: str
    _first: N | None
    _last: N | None
    _length: int

    def __iter__(self) -> Iterator[N]:
        """Iterate in order. Nodes may be inserted and removed meanwhile; nodes after the current one are visited.

        Moving a node moves the iteration with it; to move nodes, iterate over a list of them.
        """
        node = self._first
        while node is not None:
            if node.graph is self:
                yield node
            # A removed node keeps its link to its former successor.
            node = node.next

    def __reversed__(self) -> Iterator[N]:
        """Iterate in reverse order; nodes inserted before the current one are visited."""
        node = self._last
        while node is not None:
            if node.graph is self:
                yield node
            node = node.previous

    def __len__(self) -> int:
        return self._length

    @property
    def first_node(self) -> N | None:
        """The first node."""
        return self._first

    @property
    def last_node(self) -> N | None:
        """The last node."""
        return self._last

    # The earlier names.
    first = first_node
    last = last_node

    def move_before(self, place: N, node: N) -> None:
        """Move `node` of this graph right before `place`."""
        self._check(place)
        self._check(node)
        if node is not place:
            self._unlink(node)
            self._chain(node, place.previous, place)

    def reorder(self, order: Sequence[N]) -> None:
        """Reorder the nodes; `order` contains each of them once."""
        if len(order) != self._length or len(set(order)) != self._length:
            message = f"{len(order)} nodes are not the {self._length} of graph {self.name}"
            raise ValueError(message)
        for node in order:
            self._check(node)
        for node in order:
            self._unlink(node)
        for node in order:
            self._chain(node, self._last, None)

    def _check(self, node: N) -> None:
        """Raise `ValueError` where `node` is not in here."""
        if node.graph is not self:
            message = f"{node!r} is not in graph {self.name}"
            raise ValueError(message)

    def _unlink(self, node: N) -> None:
        """Unlink `node` from its neighbours."""
        if node.previous is None:
            self._first = node.next
        else:
            node.previous.next = node.next
        if node.next is None:
            self._last = node.previous
        else:
            node.next.previous = node.previous
        # `next` and `previous` are kept so that an iteration at this node can continue.
        node.graph = None
        self._length -= 1

    def _chain(self, node: N, previous: N | None, following: N | None) -> None:
        """Link `node` between two neighbours, `None` at an end."""
        node.graph = self
        node.previous, node.next = previous, following
        if previous is None:
            self._first = node
        else:
            previous.next = node
        if following is None:
            self._last = node
        else:
            following.previous = node
        self._length += 1
