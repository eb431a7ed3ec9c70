"""Where boxes go: layers from top to bottom, few crossings, neighbours below each other.

Layers by the longest path, order by the means of neighbours (Sugiyama, Tagawa and Toda 1981), places by least squares
that keep the order. All of it is linear in boxes and edges, and nothing recurses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GAP = 14.0
"""Between boxes of one layer, and between layers half as much again beside what edges need."""
LAYER_GAP = 26.0
_BEND = 6.0
"""Width that an edge takes where it passes a layer."""
_LONGEST = 24
"""Layers that an edge is led through; a longer one is drawn from end to end."""
_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Edge:
    """From one box to another; `bends` are the entries of layers between that it passes."""

    source: int
    target: int
    bends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes in layers: `layers` has numbers of boxes, and those of bends, which count on behind the boxes.

    `x` is the middle of each entry. Heights follow from the boxes: see `tops`.
    """

    layers: tuple[tuple[int, ...], ...]
    x: tuple[float, ...]
    edges: tuple[Edge, ...]


def layout(widths: Sequence[float], pairs: Iterable[tuple[int, int]]) -> Layout:
    """Places for boxes of these widths, each edge from a box to another one; edges may form cycles."""
    count = len(widths)
    edges = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    ranks = _ranks(count, edges)
    wide = list(widths)
    layer_of = list(ranks)
    led: list[Edge] = []
    links: list[tuple[int, int]] = []
    for source, target in edges:
        # An edge of a cycle goes up; it is led through the same layers.
        low, high = sorted((ranks[source], ranks[target]))
        bends: list[int] = []
        if 1 < high - low <= _LONGEST:
            for rank in range(low + 1, high):
                bends.append(len(wide))
                wide.append(_BEND)
                layer_of.append(rank)
        if high - low <= _LONGEST and high > low:
            first = source if ranks[source] < ranks[target] else target
            chain = [first, *bends, target if first == source else source]
            links += pairwise(chain)
        led.append(Edge(source, target, tuple(bends if ranks[source] < ranks[target] else reversed(bends))))
    above: list[list[int]] = [[] for _ in wide]
    below: list[list[int]] = [[] for _ in wide]
    for one, other in links:
        below[one].append(other)
        above[other].append(one)
    layers: list[list[int]] = [[] for _ in range(max(layer_of, default=-1) + 1)]
    for entry, rank in enumerate(layer_of):
        layers[rank].append(entry)
    _order(layers, above, below)
    x = _positions(layers, wide, above, below, count)
    left = min((x[entry] - wide[entry] / 2 for entry in range(len(wide))), default=0.0)
    return Layout(tuple(map(tuple, layers)), tuple(place - left for place in x), tuple(led))


def tops(found: Layout, heights: Sequence[float]) -> list[float]:
    """Where each layer begins, and behind the last one where it ends."""
    top, stated = 0.0, [0.0]
    for layer in found.layers:
        top += max((heights[entry] for entry in layer if entry < len(heights)), default=0.0) + LAYER_GAP
        stated.append(top)
    stated[-1] -= LAYER_GAP if found.layers else 0.0
    return stated


def _ranks(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """The layer of each box: one below all that it reads, and what reads nothing right above its first reader."""
    after: list[list[int]] = [[] for _ in range(count)]
    missing = [0] * count
    for source, target in edges:
        after[source].append(target)
        missing[target] += 1
    has_sources = [bool(number) for number in missing]
    ranks = [0] * count
    ready = deque(box for box in range(count) if not missing[box])
    done: list[int] = []
    seen = [False] * count
    following = 0
    while len(done) < count:
        if not ready:
            # Boxes of several nodes may read each other in a cycle: the first of them breaks it.
            while seen[following] or missing[following] <= 0:
                following += 1
            missing[following] = 0
            ready.append(following)
        box = ready.popleft()
        if seen[box]:
            continue
        seen[box] = True
        done.append(box)
        for other in after[box]:
            if seen[other]:
                continue
            ranks[other] = max(ranks[other], ranks[box] + 1)
            missing[other] -= 1
            if missing[other] == 0:
                ready.append(other)
    for box in reversed(done):
        below = [ranks[other] for other in after[box] if ranks[other] > ranks[box]]
        if not has_sources[box] and below:
            ranks[box] = min(below) - 1
    return ranks


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    place: dict[int, float] = {}
    for layer in layers:
        place.update((entry, index / max(len(layer), 1)) for index, entry in enumerate(layer))
    for sweep in range(_SWEEPS):
        near = below if sweep % 2 else above
        for layer in reversed(layers) if sweep % 2 else layers:
            if len(layer) < 2:
                continue
            means = {e: sum(place[n] for n in near[e]) / len(near[e]) if near[e] else place[e] for e in layer}
            layer.sort(key=lambda entry: means[entry])
            place.update((entry, index / len(layer)) for index, entry in enumerate(layer))


def _positions(
    layers: Sequence[Sequence[int]], wide: Sequence[float], above: list[list[int]], below: list[list[int]], count: int
) -> list[float]:
    x = [0.0] * len(wide)
    offsets: list[list[float]] = []
    for layer in layers:
        reach, stated = 0.0, list[float]()
        for index, entry in enumerate(layer):
            before = wide[layer[index - 1]] if index else -wide[entry]
            reach += (before + wide[entry]) / 2 + (GAP if index else 0.0)
            stated.append(reach)
        for entry, offset in zip(layer, stated, strict=True):
            x[entry] = offset - reach / 2
        offsets.append(stated)
    # Bends are straightened rather than boxes moved.
    weights = [1.0 if entry < count else 4.0 for entry in range(len(wide))]
    for sweep in range(2 * _SWEEPS + 1):
        near: Callable[[int], list[int]] = (
            (lambda e: above[e] + below[e]) if sweep == 2 * _SWEEPS else (below if sweep % 2 else above).__getitem__
        )
        for number in reversed(range(len(layers))) if sweep % 2 else range(len(layers)):
            layer = layers[number]
            if len(layer) == 1:
                only = layer[0]
                x[only] = sum(x[n] for n in near(only)) / len(near(only)) if near(only) else x[only]
                continue
            wanted = [sum(x[n] for n in near(e)) / len(near(e)) if near(e) else x[e] for e in layer]
            for entry, found in zip(layer, spread(wanted, offsets[number], [weights[e] for e in layer]), strict=True):
                x[entry] = found
    return x


def spread(wanted: Sequence[float], offsets: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The places nearest to `wanted` (least squares) whose distances are at least those of `offsets`.

    `x - offset` must not fall: entries that would are pooled at their mean, which is isotonic regression.
    """
    pools: list[tuple[float, float, int]] = []
    for place, offset, weight in zip(wanted, offsets, weights, strict=True):
        mean, total, size = place - offset, weight, 1
        while pools and pools[-1][0] > mean:
            other, more, entries = pools.pop()
            mean = (mean * total + other * more) / (total + more)
            total, size = total + more, size + entries
        pools.append((mean, total, size))
    flat = [mean for mean, _, size in pools for _ in range(size)]
    return [mean + offset for mean, offset in zip(flat, offsets, strict=True)]
