"""Clips of clips."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from graphport.ops.products import entry, producer, sole_reader
from graphport.passes.journal import Journal, apply
from graphport.passes.parts import put

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value


def merge_clips(graph: Graph, journal: Journal) -> None:
    """Let a Clip cut off what the one before it does, too.

    Before  h = Clip(x, 0);  y = Clip(h, max=6)
    After   y = Clip(x, 0, 6)

    Leaves alone: bounds that are computed, intervals that do not overlap, an `h` that somebody else reads. Keeps values
    bit for bit.
    """
    apply(graph, journal, _merge, {"Clip"})


def _merge(node: Node) -> str | None:
    value = node.operand(0)
    inner = producer(value, "Clip")
    if inner is None or value is None or sole_reader(value) is not node:
        return None
    found = [_bound(each, place) for place in (1, 2) for each in (inner, node)]
    bounds = [each for each in found if each is not None]
    if len(bounds) < len(found):
        return None
    low, high = max(bounds[:2], key=_number), min(bounds[2:], key=_number)
    if low[0] > high[0]:
        return None
    return put(node, "Clip", [inner.operand(0), low[1], high[1]], {})


def _bound(node: Node, place: int) -> tuple[float, Value | None] | None:
    """A bound and the operand that says it; infinity where there is none, `None` where it is computed."""
    value = node.operand(place)
    number = (-inf if place == 1 else inf) if value is None else entry(value)
    return None if number is None else (number, value)


def _number(bound: tuple[float, Value | None]) -> float:
    return bound[0]
