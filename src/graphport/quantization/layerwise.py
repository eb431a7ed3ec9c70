"""Follow samples through a graph layer by layer, with float and with quantized values.

At each layer both inputs are available, and its weight is adjusted to them before its result is used. So each layer
compensates errors of the previous ones. Values are released after their last use.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.quantization import round as rounding
from graphport.quantization.channel_blocks import (
    along,
    layer_channels,
    layer_in_memory,
    mapped,
    split_channels,
    weight_channels,
)
from graphport.quantization.engine import Subgraph
from graphport.quantization.insert_qdq import Weight
from graphport.quantization.placement import is_float32
from graphport.quantization.refine import refined
from graphport.quantization.sums_of_squares import power
from graphport.quantization.weights import has_pairs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.layer import Layer
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"
Live: TypeAlias = "dict[Value, list[Any]]"
"""Live values, one array per run."""
Elsewhere: TypeAlias = "Callable[[Follower, Layer, list[Array], list[Array]], tuple[Weight, LayerNoise] | None]"
"""Function from follower, layer, and its float and quantized inputs to its weight and noise."""
Choose: TypeAlias = "Callable[[Value, list[Array], list[Array]], QuantizationParameters | None]"
"""Function from a value, its float elements and the elements to quantize, to its qparams."""

_ROWS_PER_COLUMN = 4
_FEWEST_ROWS, _MOST_ROWS = 1024, 8192
_WIDE_ROWS, _ROWS_ROOM = 512, 1 << 24
"""Number of rows that suffice if fewer per-channel rows exceed that many bytes."""
_STEPS = 64
_ROOM = 1 << 23
"""Maximum bytes of rows that are quantized at once if only their noise is needed."""


@dataclass(frozen=True, slots=True)
class LayerNoise:
    """Noise-to-signal ratios of a layer's result: weights rounded to nearest, the selected codes, no earlier noise."""

    nearest: float
    chosen: float
    own: float
    means: str


@dataclass(slots=True, eq=False)
class Follower:
    """State of following samples through `graph`.

    `adjusts` and `corrects`: whether weights and biases change at all; `refines`: whether codes are searched for;
    `choose` may change qparams.
    """

    graph: Graph
    quantization: Quantization
    adjusts: bool = True
    corrects: bool = True
    fits: bool = True
    descends: bool = True
    refines: bool = False
    reach: str = "full"
    choose: Choose | None = None
    threads: int = 0
    noise: dict[Node, LayerNoise] = field(default_factory=dict["Node", LayerNoise])
    accumulated: dict[Value, float] = field(default_factory=dict["Value", float])
    on_progress: Callable[[int, int], None] | None = None
    fitting: int | None = None
    """Number of first runs that layers are adjusted to; all if `None`."""
    elsewhere: Elsewhere | None = None
    """Adjusts layers outside of this process, if it supports them."""

    def run(self, runs: Sequence[Mapping[str, Array]], wanted: Collection[Value] = ()) -> tuple[Live, Live]:
        """Follow the inputs of one or more runs; the quantization is adjusted in place.

        Returns the `wanted` values, float and quantized.
        """
        real: Live = {value: [inputs[value.name] for inputs in runs] for value in self.graph.inputs}
        rounded = dict(real)
        for value in self.graph.inputs:
            self._round(value, real, rounded)
        pieces = self._segments()
        last = _last_reads(pieces) | dict.fromkeys(wanted, len(pieces))
        for number, nodes in enumerate(pieces):
            wanted = [value for node in nodes for value in node.results if last.get(value, -1) > number]
            self._step(nodes, wanted, real, rounded)
            for value in [value for value in real if last.get(value, -1) <= number]:
                del real[value]
                rounded.pop(value, None)
            if self.on_progress is not None:
                self.on_progress(number + 1, len(pieces))
        return real, rounded

    def _segments(self) -> list[list[Node]]:
        """Split the nodes before each layer and after each quantized value."""
        placement, layers = self.quantization.placement, self._layers
        pieces: list[list[Node]] = [[]]
        for node in self.graph:
            if node in layers and pieces[-1]:
                pieces.append([])
            pieces[-1].append(node)
            if any(value in placement.points for value in node.results):
                pieces.append([])
        return [piece for piece in pieces if piece]

    @property
    def _layers(self) -> dict[Node, Layer]:
        return self.quantization.placement.layers | self.quantization.alone

    def _step(self, nodes: list[Node], wanted: list[Value], real: Live, rounded: Live) -> None:
        placement = self.quantization.placement
        layer = self._layers.get(nodes[0])
        points = [value for node in nodes for value in node.results if value in placement.points]
        results = list(dict.fromkeys([*wanted, *points]))
        if not results and layer is not None:
            # The last layer has no consumer, but a weight.
            self._adjust_layer(layer, real[layer.input], self._inputs_of(layer, rounded))
        if not results:
            return
        given = [] if layer is None else [layer.weight, *([] if layer.bias is None else [layer.bias])]
        piece = Subgraph(nodes, results, given, threads=self.threads)
        constants = {value: value.storage.numpy() for value in given if value.storage is not None}
        exact = _runs(piece, real, constants)
        source = dict(rounded)
        if layer is not None:
            source[layer.input] = self._inputs_of(layer, rounded)
            # A converted weight takes memory of its own, and adjusting the layer converts it again.
            constants.pop(layer.weight, None)
            constants |= self._adjust_layer(layer, real[layer.input], source[layer.input])
            if layer.weight not in constants and layer.weight.storage is not None:
                constants[layer.weight] = layer.weight.storage.numpy()
        found = _runs(piece, source, constants)
        real.update(exact)
        rounded.update(found)
        for value in points:
            self._round(value, real, rounded)

    def _inputs_of(self, layer: Layer, rounded: Live) -> list[Array]:
        value = layer.input
        qparams = self.quantization.qparams_of(value)
        if value in self.quantization.placement.carried or qparams is None or layer.node in self.quantization.alone:
            return rounded[value]
        return [qparams.nearest(x) for x in rounded[value]]

    def _round(self, value: Value, real: Live, rounded: Live) -> None:
        placement = self.quantization.placement
        root = placement.points.get(value)
        if root is None or value not in real or not is_float32(value):
            return
        if self.choose is not None and root is value and value not in self.quantization.fixed:
            chosen = self.choose(value, real[value], rounded[value])
            if chosen is not None:
                self.quantization.all_qparams[value] = chosen
        qparams = self.quantization.all_qparams.get(root)
        if qparams is None:
            return
        nearest = [qparams.nearest(x) for x in rounded[value]]
        self.accumulated[value] = ratio(real[value], nearest)
        if value in placement.carried:
            rounded[value] = nearest

    def _adjust_layer(self, layer: Layer, real: list[Array], rounded: list[Array]) -> dict[Value, Any]:
        """Return the constants of a layer for the quantized run, adjusted to its input."""
        known = None if self.elsewhere is None else self.elsewhere(self, layer, *self._limit_runs(real, rounded))
        if known is not None:
            self.quantization.weights[layer.node], self.noise[layer.node] = known
        given = self.quantization.weights.get(layer.node)
        if given is None:
            return {}
        weight = given
        if not self.adjusts and not self.corrects and layer.kind == "product":
            own = _weight_noise(layer, weight)
            self.noise[layer.node] = LayerNoise(own, own, own, "nearest")
        elif known is None and layer.kind != "transposed" and all(x.size for x in real):
            layer = layer_in_memory(layer)
            rows = self.rows_of(layer, *self._limit_runs(real, rounded))
            weight, self.noise[layer.node] = self.best_of_rows(layer, given, rows, self.second_of(layer, rows))
            self.quantization.weights[layer.node] = weight
        constants: dict[Value, Any] = {layer.weight: weight.qparams.values(weight.codes)}
        if layer.bias is not None and weight.bias is not None and layer.bias.storage is not None:
            constants[layer.bias] = weight.bias.reshape(layer.bias.storage.shape)
        return constants

    def _limit_runs(self, *inputs: list[Array]) -> list[list[Array]]:
        return [each[: self.fitting] for each in inputs]

    def best_of_rows(
        self, layer: Layer, given: Weight, rows: rounding.Rows, second: Array | rounding.WideMoments | None
    ) -> tuple[Weight, LayerNoise]:
        """Select the best rounding of a layer's weight; of a large product by blocks of output channels."""
        parts = split_channels(layer)
        second = second if given.qparams.dtype.is_integer else None
        if len(parts) < 2:
            return self._best(layer, given, rows, second)
        codes = np.empty_like(given.codes)
        bias = None if layer.bias is None else np.empty(layer.channels, np.float32)

        def adjust_channels(at: slice) -> LayerNoise:
            weight, noise = self._best(layer_channels(layer, at), weight_channels(layer, given, at), rows, second)
            codes[along(layer, at)] = weight.codes
            if bias is not None:
                bias[at] = weight.bias
            return noise

        noises = mapped(adjust_channels, parts)
        return Weight(given.qparams, codes, bias), mean_noise(noises)

    def second_of(self, layer: Layer, rows: rounding.Rows) -> Array | rounding.WideMoments | None:
        """Return the second moments for rounding: centered if a bias absorbs the means."""
        if not self.adjusts:
            return None
        rows, _ = rows.split()
        can_correct = self.corrects and layer.bias is not None
        return rounding.seconds_of(rows.quantized - (rows.quantized.mean(axis=1, keepdims=True) if can_correct else 0))

    def _best(
        self, layer: Layer, given: Weight, rows: rounding.Rows, second: Array | rounding.WideMoments | None
    ) -> tuple[Weight, LayerNoise]:
        """Select the best of several roundings on held-out rows."""
        matrix, bias = layer.matrix(layer.float_weight()), layer.offsets()
        fit, check = rows.split()
        start = layer.matrix(given.qparams.values(given.codes))
        can_correct = self.corrects and layer.bias is not None
        base = bias if given.bias is None else given.bias
        ways: list[tuple[str, Array, Array]] = [("nearest", start, base)]
        if can_correct:
            ways.append(("nearest, corrected", start, rounding.offsets(layer, matrix, start, fit)))
        if second is not None:
            ways += self._rounded(layer, given, matrix, fit, second, can_correct=can_correct)
        expected = check.real @ matrix.swapaxes(1, 2)
        errors = [rounding.error(expected, bias, way[1], way[2], check.quantized) for way in ways]
        best = int(np.argmin(errors))
        means, numbers, offsets = ways[best]
        chosen = Weight(
            given.qparams, given.qparams.codes(layer.unmatrix(numbers)), None if layer.bias is None else offsets
        )
        own = self._rounding_noise(layer, rows.real, matrix, numbers)
        return chosen, LayerNoise(errors[0], errors[best], own, means)

    def rows_of(self, layer: Layer, real: list[Array], rounded: list[Array]) -> rounding.Rows:
        """Return rows of the multiplied value, at most as many as the weight is fitted to."""
        least = _WIDE_ROWS if 4 * _FEWEST_ROWS * layer.groups * layer.depth > _ROWS_ROOM else _FEWEST_ROWS
        wanted = min(max(least, _ROWS_PER_COLUMN * layer.depth), _MOST_ROWS)
        chosen = [_row_subset(layer.count(x.shape), -(-wanted // len(real))) for x in real]
        return rounding.Rows(_joined_rows(layer, real, chosen), _joined_rows(layer, rounded, chosen))

    def _rounding_noise(self, layer: Layer, rows: Array, matrix: Array, numbers: Array) -> float:
        """Return a layer's noise with weight codes `numbers` and its input rounded once, without earlier errors."""
        qparams = None if layer.node in self.quantization.alone else self.quantization.qparams_of(layer.input)
        parts = np.array_split(rows, min(max(rows.nbytes // _ROOM, 1), rows.shape[1]), axis=1)
        nearest = parts if qparams is None else (qparams.nearest(adjust_channels) for adjust_channels in parts)
        return ratio((x @ matrix.swapaxes(1, 2) for x in parts), (x @ numbers.swapaxes(1, 2) for x in nearest))

    def _rounded(
        self,
        layer: Layer,
        given: Weight,
        matrix: Array,
        rows: rounding.Rows,
        second: Array | rounding.WideMoments,
        *,
        can_correct: bool,
    ) -> list[tuple[str, Array, Array]]:
        codes = rounding.Codes.of(
            layer, given.qparams, given.codes, has_pairs=self.reach == "pairs" and has_pairs(layer)
        )
        aims = {"second order": matrix}
        fitted = rounding.fit_weight(matrix, rows, second) if can_correct and self.fits else matrix
        if fitted is not matrix:
            aims["second order, fitted"] = fitted
        # Output channels are independent: all targets are rounded at once.
        aim = np.concatenate([*aims.values()], axis=1)
        made = rounding.second_order(codes.repeated(len(aims)), aim, second)
        if self.descends:
            made = rounding.descend(made, aim, second, _STEPS)
        if self.refines and not isinstance(second, rounding.WideMoments):
            made = refined(made, aim, second)
        found: list[tuple[str, Array, Array]] = []
        for index, means in enumerate(aims):
            real = made.select_set(index, len(aims)).dequantized
            offsets = rounding.offsets(layer, matrix, real, rows) if can_correct else layer.offsets()
            found.append((means, real, offsets))
        return found


def _weight_noise(layer: Layer, weight: Weight) -> float:
    """Return the noise-to-signal ratio of a weight, which is that of the result for inputs without correlation."""
    numbers, parts = layer.float_weight(), split_channels(layer)
    noise = signal = 0.0
    for part in parts:
        rounded, given = weight_channels(layer, weight, part), numbers[along(layer, part)]
        noise += power(rounded.qparams.values(rounded.codes) - given)
        signal += power(given)
    return noise / max(signal, 1e-30)


def mean_noise(noises: Sequence[LayerNoise]) -> LayerNoise:
    """Return the noise of a layer from its parts, with the most frequent rounding."""
    means = [noise.means for noise in noises]
    numbers = ((noise.nearest, noise.chosen, noise.own) for noise in noises)
    nearest, chosen, own = (sum(each) / len(noises) for each in zip(*numbers, strict=True))
    return LayerNoise(nearest, chosen, own, max(means, key=means.count))


def _runs(piece: Subgraph, live: Live, constants: Mapping[Value, Any]) -> Live:
    found: Live = {}
    for index in range(len(next(iter(live.values()), [None]))):
        for value, array in piece.run(
            {**{value: arrays[index] for value, arrays in live.items()}, **constants}
        ).items():
            found.setdefault(value, []).append(array)
    return found


def ratio(real: Iterable[Array], rounded: Iterable[Array]) -> float:
    """Return the noise-to-signal ratio."""
    noise = signal = 0.0
    for x, y in zip(real, rounded, strict=True):
        noise += power(y - x)
        signal += power(x)
    return noise / max(signal, 1e-30)


def _joined_rows(layer: Layer, inputs: Sequence[Array], chosen: Sequence[Array]) -> Array:
    """Return the selected rows of all runs, [groups, n, depth]; memory holds only one further run."""
    first = layer.rows(inputs[0], chosen[0])
    if len(inputs) == 1:
        return first
    found = np.empty((len(first), sum(map(len, chosen)), first.shape[2]), first.dtype)
    found[:, : len(chosen[0])] = first
    at = len(chosen[0])
    for x, some in zip(inputs[1:], chosen[1:], strict=True):
        found[:, at : at + len(some)] = layer.rows(x, some)
        at += len(some)
    return found


def _row_subset(count: int, wanted: int) -> Array:
    if count <= wanted:
        return np.arange(count)
    return np.sort(np.random.default_rng(0).choice(count, wanted, replace=False))


def _last_reads(pieces: Iterable[list[Node]]) -> dict[Value, int]:
    """Return the index of the last segment that uses each value."""
    last: dict[Value, int] = {}
    for number, nodes in enumerate(pieces):
        for node in nodes:
            for value in [*node.operands, *rewrite.captured(node)]:
                last[value] = number
    return last


def bytes_per_sample(graph: Graph) -> int:
    """Estimate the bytes of activations that a run of one sample holds at once."""
    nodes = list(graph)
    last = _last_reads([[node] for node in nodes])
    held = {value: bytes_of(value) for value in graph.inputs}
    most = now = sum(held.values())
    for number, node in enumerate(nodes):
        for value in node.results:
            held[value] = bytes_of(value)
            now += held[value]
        most = max(most, now)
        for value in [value for value in held if last.get(value, -1) <= number]:
            now -= held.pop(value)
    return max(most, 1)


def bytes_of(value: Value) -> int:
    """Estimate the bytes of `value` for one sample: open axes count as 1."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None:
        return 0
    dims = [dim if isinstance(dim, int) else 1 for dim in fact.shape]
    return prod(dims) * max(fact.dtype.bits // 8, 1)
