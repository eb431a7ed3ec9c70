"""Nodes in an order that may be edited while somebody walks it: each edit costs the same in a chain of any length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from graphport.ir.carried import Noted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Link(Protocol):
    """What can be in a chain: it knows which one, and its neighbours there."""

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
        """Nodes in order. They may be inserted and removed meanwhile: what comes behind the current node is visited.

        A node that is moved takes the walk with it; who moves nodes walks over a list of them.
        """
        node = self._first
        while node is not None:
            if node.graph is self:
                yield node
            # A node that was removed meanwhile still points to who stood behind it then.
            node = node.next

    def __reversed__(self) -> Iterator[N]:
        """Nodes from the last one on; what is inserted before the current node is visited."""
        node = self._last
        while node is not None:
            if node.graph is self:
                yield node
            node = node.previous

    def __len__(self) -> int:
        return self._length

    @property
    def first(self) -> N | None:
        """The first node."""
        return self._first

    @property
    def last(self) -> N | None:
        """The last node."""
        return self._last

    def move_before(self, place: N, node: N) -> None:
        """Move `node` of this graph right before `place`."""
        self._check(place)
        self._check(node)
        if node is not place:
            self._unlink(node)
            self._chain(node, place.previous, place)

    def reorder(self, order: Sequence[N]) -> None:
        """Put the nodes in this order; `order` names each of them once."""
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
        """Take `node` out of the order, and nothing else."""
        if node.previous is None:
            self._first = node.next
        else:
            node.previous.next = node.next
        if node.next is None:
            self._last = node.previous
        else:
            node.next.previous = node.previous
        # `next` and `previous` stay, so that a walk that stands on this node finds its way back into the list.
        node.graph = None
        self._length -= 1

    def _chain(self, node: N, previous: N | None, following: N | None) -> None:
        """Put `node` between two neighbours, `None` at an end, and nothing else."""
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
