"""Layered graph layout: layers from top to bottom, few crossings, neighbours aligned.

Layers by the longest path, order by the barycentre of neighbours (Sugiyama, Tagawa and Toda 1981), coordinates by
order-preserving least squares. The time is linear in boxes and edges; no function recurses.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

GAP = 14.0
"""Horizontal distance between boxes of a layer."""
LAYER_GAP = 26.0
_BEND_WIDTH = 6.0
"""Width that an edge occupies in a layer that it crosses."""
_MAX_ROUTED_LAYERS = 24
"""Longest edge, in layers, that is routed through the layers; a longer edge is a straight line."""
_NUM_SWEEPS = 6


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two boxes; `bends` are the layer entries that it passes through."""

    source: int
    target: int
    bends: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Boxes in layers. `layers` contains indices of boxes and of bends; bend indices follow the box indices.

    `x` is the horizontal centre of each entry. `tops` computes vertical positions from box heights.
    """

    layers: tuple[tuple[int, ...], ...]
    x: tuple[float, ...]
    edges: tuple[Edge, ...]


def layout(widths: Sequence[float], pairs: Iterable[tuple[int, int]]) -> Layout:
    """Compute a layout of boxes with the given widths and edges (source, target). Edges may form cycles."""
    count = len(widths)
    edges = [pair for pair in dict.fromkeys(pairs) if pair[0] != pair[1]]
    ranks = _assign_layers(count, edges)
    wide = list(widths)
    layer_of = list(ranks)
    led: list[Edge] = []
    links: list[tuple[int, int]] = []
    for source, target in edges:
        # An edge that closes a cycle points upwards; it is routed through the same layers.
        low, high = sorted((ranks[source], ranks[target]))
        bends: list[int] = []
        if 1 < high - low <= _MAX_ROUTED_LAYERS:
            for rank in range(low + 1, high):
                bends.append(len(wide))
                wide.append(_BEND_WIDTH)
                layer_of.append(rank)
        if high - low <= _MAX_ROUTED_LAYERS and high > low:
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
    _order_layers(layers, above, below)
    x = _positions(layers, wide, above, below, count)
    left = min((x[entry] - wide[entry] / 2 for entry in range(len(wide))), default=0.0)
    return Layout(tuple(map(tuple, layers)), tuple(place - left for place in x), tuple(led))


def tops(found: Layout, heights: Sequence[float]) -> list[float]:
    """Return the top of each layer, and the bottom of the last one."""
    top, stated = 0.0, [0.0]
    for layer in found.layers:
        top += max((heights[entry] for entry in layer if entry < len(heights)), default=0.0) + LAYER_GAP
        stated.append(top)
    stated[-1] -= LAYER_GAP if found.layers else 0.0
    return stated


def _assign_layers(count: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: one below its operands; sources go right above their first consumer."""
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
            # Boxes of several nodes may depend on each other in a cycle: the first unvisited one breaks it.
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


def _order_layers(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    place: dict[int, float] = {}
    for layer in layers:
        place.update((entry, index / max(len(layer), 1)) for index, entry in enumerate(layer))
    for sweep in range(_NUM_SWEEPS):
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
    # Bends get a larger weight: edges are straightened in preference to moving boxes.
    weights = [1.0 if entry < count else 4.0 for entry in range(len(wide))]
    for sweep in range(2 * _NUM_SWEEPS + 1):
        near: Callable[[int], list[int]] = (
            (lambda e: above[e] + below[e]) if sweep == 2 * _NUM_SWEEPS else (below if sweep % 2 else above).__getitem__
        )
        for number in reversed(range(len(layers))) if sweep % 2 else range(len(layers)):
            layer = layers[number]
            if len(layer) == 1:
                only = layer[0]
                x[only] = sum(x[n] for n in near(only)) / len(near(only)) if near(only) else x[only]
                continue
            wanted = [sum(x[n] for n in near(e)) / len(near(e)) if near(e) else x[e] for e in layer]
            for entry, found in zip(
                layer, isotonic_positions(wanted, offsets[number], [weights[e] for e in layer]), strict=True
            ):
                x[entry] = found
    return x


def isotonic_positions(wanted: Sequence[float], offsets: Sequence[float], weights: Sequence[float]) -> list[float]:
    """Return the positions nearest to `wanted` (least squares) whose distances are at least those of `offsets`.

    `x - offset` must not decrease: decreasing entries are pooled at their mean (isotonic regression).
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
