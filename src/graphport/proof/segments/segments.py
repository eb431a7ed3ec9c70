"""Segments: the nodes of both graphs between matched values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphport.ir import subgraph
from graphport.ir.graph import Value

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable, Mapping

    from graphport.proof.segments.matching import Match

MAX_ROUNDS = 8
"""Maximum number of steps in which a segment grows until both graphs compute it from the same matched values."""
MAX_NODES = 400
"""Nodes of one graph that are followed to learn whether one input of a segment is computed from another."""


@dataclass(frozen=True, eq=False)
class Segment:
    """A matched value, and the matched values that both graphs compute it from."""

    output: Match
    inputs: tuple[Match, ...]

    @property
    def name(self) -> str:
        """The name of the node of the first graph that computes the output."""
        return name_of(self.output)


def name_of(match: Match) -> str:
    """The name of the node of the first graph that computes a matched value, or of the value."""
    node = match.a.producer
    return (node.name if node is not None else "") or match.a.name


class _Without:
    """All values of a container but one."""

    def __init__(self, values: Container[Value], left_out: Collection[Value]) -> None:
        self._values, self._left_out = values, left_out

    def __contains__(self, value: object) -> bool:
        return isinstance(value, Value) and value in self._values and value not in self._left_out


class Segmentation:
    """The matched values of two graphs, by value, from which segments are made."""

    def __init__(self, matches: Iterable[Match]) -> None:
        self.by_a: dict[Value, Match] = {}
        self.by_b: dict[Value, Match] = {}
        for each in matches:
            self.by_a[each.a], self.by_b[each.b] = each, each

    def segment(self, output: Match, without: Collection[Match] = ()) -> Segment | None:
        """Return the segment that ends at a match; `None` if both graphs compute it from different matches.

        Args:
            output: the last value.
            without: matched values that do not bound the segment.
        """
        left_out = {output, *without}
        for _ in range(MAX_ROUNDS):
            of_a = self._border(output.a, self.by_a, {each.a for each in left_out})
            of_b = self._border(output.b, self.by_b, {each.b for each in left_out})
            if of_a is None or of_b is None:
                return None
            lacking = {
                each for each in {*of_a} ^ {*of_b} if each.a.producer is not None and each.b.producer is not None
            }
            if not lacking:
                return Segment(output, tuple(dict.fromkeys((*of_a, *of_b))))
            left_out |= lacking
        return None

    def _border(self, value: Value, matches: Mapping[Value, Match], left_out: set[Value]) -> list[Match] | None:
        """Return the nearest matched values before `value`; `None` if it depends on an unmatched input."""
        found = subgraph.border([value], _Without(matches, left_out))
        if any(each not in matches or each in left_out for each in found):
            return None
        return [matches[each] for each in found]

    def grow(self, segment: Segment) -> Segment | None:
        """Return the segment without inputs that depend on its other inputs; `None` if that fails."""
        dependent: set[Match] = set()
        left_out: set[Match] = set()
        current = segment
        for _ in range(MAX_ROUNDS):
            for values in ({each.a: each for each in current.inputs}, {each.b: each for each in current.inputs}):
                found = _dependent(values)
                if found is None:
                    return None
                dependent |= found
            if not dependent - left_out:
                return current
            left_out |= dependent
            larger = self.segment(segment.output, left_out)
            if larger is None:
                return None
            current = larger
        return None


def _dependent(values: Mapping[Value, Match]) -> set[Match] | None:
    """Return the inputs of a segment that are computed from its other inputs; `None` after the time limit."""
    found: set[Match] = set()
    for value, match in values.items():
        others = {other for other in values if other is not value}
        reaches = _depends_on(value, others) if others else False
        if reaches is None:
            return None
        if reaches:
            found.add(match)
    return found


def _depends_on(value: Value, others: Container[Value]) -> bool | None:
    seen: set[Value] = set()
    pending = [value]
    while pending:
        node = pending.pop().producer
        if node is None:
            continue
        for each in subgraph.reads(node):
            if each in others:
                return True
            if each not in seen:
                seen.add(each)
                pending.append(each)
        if len(seen) > MAX_NODES:
            return None
    return False
