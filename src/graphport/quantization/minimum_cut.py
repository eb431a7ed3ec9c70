"""Minimum cut: the cheapest assignment of items to two classes with costs for edges between different classes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

_SOURCE, _SINK = 0, 1
_LEAST = 1e-12


@dataclass(slots=True, eq=False)
class Cut:
    """A minimum-cut problem.

    `add` adds an item with its cost in each class, `link` a cost if `a` is in the first class and `b` in the second.
    """

    edges: list[list[int]] = field(default_factory=lambda: [[], []])
    heads: list[int] = field(default_factory=list[int])
    room: list[float] = field(default_factory=list[float])

    def add(self, first: float = 0.0, second: float = 0.0) -> int:
        """Add an item with its costs in the first and in the second class."""
        self.edges.append([])
        item = len(self.edges) - 1
        self._edge(item, _SINK, first)
        self._edge(_SOURCE, item, second)
        return item

    def link(self, a: int, b: int, cost: float) -> None:
        """Add a cost for `a` in the first and `b` in the second class; infinity forbids it."""
        self._edge(a, b, cost)

    def _edge(self, a: int, b: int, room: float) -> None:
        for source, head, size in ((a, b, room), (b, a, 0.0)):
            self.edges[source].append(len(self.heads))
            self.heads.append(head)
            self.room.append(size)

    def solve(self) -> set[int]:
        """Return the items of the first class in a cheapest assignment (Dinic's algorithm)."""
        room = list(self.room)
        while (levels := self._levels(room))[_SINK] >= 0:
            positions = [0] * len(self.edges)
            while self._pushed(room, levels, positions):
                pass
        return {item for item, level in enumerate(self._levels(room)) if level >= 0 and item > _SINK}

    def cost(self, first: set[int]) -> float:
        """Return the cost of an assignment with these items in the first class."""
        kept = {_SOURCE, *first}
        pairs = zip(self.heads[1::2], self.heads[::2], self.room[::2], strict=True)
        return sum(room for source, head, room in pairs if source in kept and head not in kept)

    def _levels(self, room: list[float]) -> list[int]:
        levels = [-1] * len(self.edges)
        levels[_SOURCE] = 0
        pending = deque([_SOURCE])
        while pending:
            item = pending.popleft()
            for edge in self.edges[item]:
                head = self.heads[edge]
                if room[edge] > _LEAST and levels[head] < 0:
                    levels[head] = levels[item] + 1
                    pending.append(head)
        return levels

    def _pushed(self, room: list[float], levels: list[int], cursors: list[int]) -> bool:
        """Push flow along one path of the level graph; return whether there was one."""
        path: list[int] = []
        item = _SOURCE
        while item != _SINK:
            while cursors[item] < len(self.edges[item]):
                edge = self.edges[item][cursors[item]]
                if room[edge] > _LEAST and levels[self.heads[edge]] == levels[item] + 1:
                    break
                cursors[item] += 1
            else:
                if not path:
                    return False
                levels[item] = -1
                item = self.heads[path.pop() ^ 1]
                continue
            path.append(edge)
            item = self.heads[edge]
        size = min(room[edge] for edge in path)
        for edge in path:
            room[edge] -= size
            room[edge ^ 1] += size
        return True
