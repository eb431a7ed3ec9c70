"""Balance the channels of values across layers (cross-layer equalization).

Per-tensor quantization loses most in channels with small ranges. Dividing channel `c` by `s[c]` at the producer and
multiplying the consumers' weights by `s[c]` changes only the ranges. Between them, operators must commute with the
scaling: Relu and similar functions, pooling, addition of a value that is scaled equally.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.passes.substitution import add_constant
from graphport.quantization.layer import Layer, layer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.ir.graph import Graph, Node, Value
    from graphport.quantization.observe import Statistics

Array: TypeAlias = "np.ndarray[Any, Any]"

_UNLIKE = 1.0
"""Standard deviation (log2) of the channels' largest weights from which channels are unbalanced."""
_MAX_SCALE_RATIO = 2.0**12
"""Maximum ratio of two scales of a region, for float32 precision."""


@dataclass(slots=True, eq=False)
class Region:
    """Values that are divided by one vector, with producers and consumers.

    `ceiling` is the least upper bound of a Clip inside, whose effect must not change.
    """

    axis: int
    channels: int
    values: dict[Value, None] = field(default_factory=dict["Value", None])
    makers: list[Node] = field(default_factory=list["Node"])
    readers: list[Layer] = field(default_factory=list[Layer])
    addends: list[tuple[Node, int]] = field(default_factory=list[tuple["Node", int]])
    ceiling: float | None = None


def regions(graph: Graph) -> list[Region]:
    """Return each set of values that can be scaled together."""
    captured = {value for node in graph for value in rewrite.captured(node)}
    done: set[Value] = set()
    found: list[Region] = []
    for node in graph:
        layer = layer_of(node)
        start = layer.input if layer is not None else None
        if layer is None or start is None or start in done:
            continue
        region = _grow_region(start, layer, captured)
        if region is not None:
            found.append(region)
            done.update(region.values)
    return found


def _grow_region(start: Value, layer: Layer, captured: set[Value]) -> Region | None:
    """Grow the region from `start`; `None` if a node at its border cannot absorb the scales."""
    axis = _axis(start, layer)
    channels = _length(start, axis)
    if channels is None:
        return None
    region = Region(axis, channels)
    pending = [start]
    while pending:
        value = pending.pop()
        if value in region.values:
            continue
        if value.is_input or value.is_constant or value.is_output or value in captured or value.producer is None:
            return None
        if _length(value, axis) != channels:
            return None
        region.values[value] = None
        more = _above(region, value.producer)
        below = [_below(region, reader, value) for reader in value.users]
        if more is None or any(values is None for values in below):
            return None
        pending += [*more, *(other for values in below if values for other in values)]
    return region


def _above(region: Region, node: Node) -> list[Value] | None:
    """Return the additional values of the region for producer `node`; `None` if it cannot be included."""
    commuting = _commutes(region, node)
    if commuting is not None:
        return commuting
    layer = layer_of(node)
    makes = layer is not None and _axis(node.output, layer) == region.axis and layer.channels == region.channels
    if (makes and (layer is None or layer.kind != "transposed" or layer.groups == 1)) or _is_scaled(region, node):
        region.makers.append(node)
        return []
    return None


def _below(region: Region, node: Node, value: Value) -> list[Value] | None:
    """Return the additional values of the region for consumer `node`; `None` if it cannot be included."""
    commuting = _commutes(region, node)
    if commuting is not None:
        return commuting if value in commuting else None
    layer = layer_of(node)
    if layer is not None and layer.input is value and _axis(value, layer) == region.axis:
        region.readers.append(layer)
        return []
    return None


def _commutes(region: Region, node: Node) -> list[Value] | None:
    """Return the values of `node` that are scaled together; `None` if it does not commute with scaling."""
    if node.dialect or not node.operands or len(node.results) != 1:
        return None
    first, *others = node.operands
    match node.op_type:
        case op_type if op_type in (op_defs := registry.op_defs()) and op_defs[op_type].homogeneous:
            return None if any(not _per_channel(x, region) for x in others) else [first, node.output]
        case "Clip":
            return [first, node.output] if _bounded(region, node) else None
        case "Flatten" | "Reshape" | "Squeeze":
            return [first, node.output] if _keeps_channels(region, first, node.output) else None
        case "Add" | "Sub":
            return _sum(region, node)
        case "Mul" if len(node.operands) == 2 and not any(value.is_constant for value in node.operands):
            return _gated(node)
        case _:
            return None


def _gated(node: Node) -> list[Value] | None:
    """Return the factor of a gated product that a layer computes, and the product; the gate is not scaled."""
    factors = [value for value in node.operands if value.producer is not None and layer_of(value.producer) is not None]
    is_alike = _shape(node.operands[0]) == _shape(node.operands[1]) is not None
    return [factors[0], node.output] if len(factors) == 1 and is_alike else None


def _sum(region: Region, node: Node) -> list[Value] | None:
    values = [value for value in node.operands if not value.is_constant]
    for index, value in enumerate(node.operands):
        if value.is_constant:
            if not _per_channel(value, region):
                return None
            if (node, index) not in region.addends:
                region.addends.append((node, index))
        elif _shape(value) != _shape(node.output):
            return None
    return [*values, node.output]


def _is_scaled(region: Region, node: Node) -> bool:
    """Whether a Mul or normalization has a constant per channel that can absorb the scale."""
    if node.dialect:
        return False
    scale, bias = node.operand(1), node.operand(2)
    if node.op_type == "Mul" and len(node.operands) == 2:
        return any(_per_channel(x, region) and _size(x) == region.channels for x in node.operands if x.is_constant)
    if node.op_type in ("LayerNormalization", "RMSNormalization"):
        last = region.axis == len(_shape(node.output) or ()) - 1
        whole = node.attributes.get("axis", -1) in (-1, region.axis) and len(node.results) == 1
        parameters = [x for x in (scale, bias) if x is not None]
        return last and whole and all(x.is_constant and _size(x) == region.channels for x in parameters)
    return False


def _bounded(region: Region, node: Node) -> bool:
    low, high = node.operand(1), node.operand(2)
    numbers = [None if x is None or x.storage is None else float(x.storage.numpy().reshape(-1)[0]) for x in (low, high)]
    if low is not None and numbers[0] != 0:
        return False
    if high is not None:
        if numbers[1] is None or numbers[1] <= 0:
            return False
        region.ceiling = numbers[1] if region.ceiling is None else min(region.ceiling, numbers[1])
    return True


def _keeps_channels(region: Region, value: Value, result: Value) -> bool:
    """Whether only axes of size 1 are inserted or removed."""
    shape, other = _shape(value), _shape(result)
    if shape is None or other is None or region.axis != 1 or len(shape) < 2 or len(other) < 2:
        return False
    return all(dim == 1 for dim in (*shape[2:], *other[2:])) and shape[:2] == other[:2]


def _axis(value: Value, layer: Layer) -> int:
    shape = _shape(value)
    return 1 if layer.kind != "product" else len(shape or ()) - 1


def _shape(value: Value) -> tuple[Any, ...] | None:
    fact = value.fact
    return fact.shape if isinstance(fact, TensorFact) and fact.dtype is DType.FLOAT32 else None


def _length(value: Value, axis: int) -> int | None:
    shape = _shape(value)
    if shape is None or not 0 < axis < len(shape) or not isinstance(shape[axis], int):
        return None
    return shape[axis]


def _size(value: Value) -> int:
    return value.storage.count if value.storage is not None else 0


def _per_channel(value: Value, region: Region) -> bool:
    """Whether a constant has one element, or one per channel of the region."""
    if value.storage is None or not value.is_constant or value.storage.dtype is not DType.FLOAT32:
        return False
    rank = max(len(_shape(other) or ()) for other in region.values)
    shape = (1,) * (rank - len(value.storage.shape)) + value.storage.shape
    return all(n == 1 or (i == region.axis and n == region.channels) for i, n in enumerate(shape))


# Scales


def scales(region: Region, states: Mapping[Value, Statistics], strength: float) -> Array | None:
    """Return the scales of the channels of `region`; `None` without statistics.

    a / p ** (1 - strength)  with the largest magnitude `a` of a channel, observed in the value where it is largest
    relative to the others, and the largest product `p` of `a` and a weight of the consumers. The result does not depend
    on earlier scaling.
    """
    found = [states[value] for value in region.values if value in states]
    magnitudes = [
        np.maximum(-s.lows, s.highs) for s in found if s.axis == region.axis and s.lows.size == region.channels
    ]
    if not magnitudes or not region.readers:
        return None
    parts = [a / max(float(a.max(initial=0.0)), 1e-30) for a in magnitudes]
    a = np.max(parts, axis=0).astype(np.float64)
    part = np.max([_channel_products(layer, a) for layer in region.readers], axis=0).astype(np.float64)
    # A channel that is always zero, or that has no consumer, is not scaled.
    is_used = (a > 1e-8) & (part > 1e-8)
    if not is_used.any():
        return None
    s = np.where(is_used, np.maximum(a, 1e-8) / np.maximum(part, 1e-8) ** (1 - strength), 1.0)
    if region.ceiling is None:
        middle = float(np.exp(np.mean(np.log(s[is_used]))))
        return np.where(is_used, np.clip(s / middle, 1 / _MAX_SCALE_RATIO, _MAX_SCALE_RATIO), 1.0).astype(np.float32)
    return _under_ceiling(region.ceiling, s, np.max(magnitudes, axis=0), is_used)


def _under_ceiling(ceiling: float, s: Array, seen: Array, is_used: Array) -> Array:
    """Limit the divisors `s` so that channel maxima `seen` below the Clip bound `ceiling` remain below it."""
    least = np.minimum(seen.astype(np.float64) / ceiling, 1.0)
    top = float(np.max(s[is_used]))
    return np.where(is_used, np.clip(s / top, np.maximum(least, 1 / _MAX_SCALE_RATIO), 1.0), 1.0).astype(np.float32)


def _channel_products(layer: Layer, a: Array) -> Array:
    """Return for each input channel the largest relative weight in its row, times `a`."""
    weight = np.abs(_multiplied(layer, layer.float_weight(), a))
    others = tuple(i for i in range(weight.ndim) if i != layer.out_axis)
    part = weight / np.maximum(weight.max(axis=others, keepdims=True), 1e-30)
    if layer.groups == 1 or layer.kind == "transposed":
        return part.max(axis=tuple(i for i in range(part.ndim) if i != layer.in_axis))
    grouped = part.reshape(layer.groups, -1, *part.shape[1:])
    return grouped.max(axis=(1, *range(3, grouped.ndim))).reshape(-1)


def divide(graph: Graph, region: Region, s: Array) -> None:
    """Divide the values of `region` by `s` at the producers and multiply by `s` at the consumers.

    Before  y = f(x @ W + b);  z = y @ V
    After   y = f(x @ (W / s) + b / s);  z = y @ (s * V)
    """
    for node in dict.fromkeys(region.makers):
        layer = layer_of(node)
        if layer is not None:
            _scale_constant(graph, node, 1, 1 / s, layer.out_axis)
            if node.operand(2) is not None:
                _scale_constant(graph, node, 2, 1 / s, -1)
        else:
            for index, value in enumerate(node.inputs):
                if value is not None and value.is_constant:
                    _scale_along(graph, node, index, 1 / s, region)
    for node, index in region.addends:
        _scale_along(graph, node, index, 1 / s, region)
    for layer in {layer.node: layer for layer in region.readers}.values():
        _scale_reader(graph, layer, s)


def _scale_reader(graph: Graph, layer: Layer, s: Array) -> None:
    _replace(graph, layer.node, 1, _multiplied(layer, _current(layer.node, 1), s))


def _multiplied(layer: Layer, weight: Array, s: Array) -> Array:
    """Return `weight` with scaled input channels."""
    if layer.kind == "convolution" and layer.groups > 1:
        rows = layer.shape[0] // layer.groups
        wide = np.repeat(s.reshape(layer.groups, -1), rows, axis=0)
        return weight * wide.reshape(*wide.shape, *[1] * (weight.ndim - 2))
    return weight * s.reshape(-1, *[1] * (weight.ndim - layer.in_axis - 1))


def _scale_constant(graph: Graph, node: Node, index: int, factor: Array, axis: int) -> None:
    numbers = _current(node, index)
    axis %= numbers.ndim
    _replace(graph, node, index, numbers * factor.reshape(-1, *[1] * (numbers.ndim - axis - 1)))


def _scale_along(graph: Graph, node: Node, index: int, factor: Array, region: Region) -> None:
    """Scale a constant that broadcasts over the values of `region`."""
    numbers = _current(node, index)
    rank = len(_shape(node.output) or ())
    _replace(graph, node, index, numbers * factor.reshape(-1, *[1] * (rank - region.axis - 1)))


def _current(node: Node, index: int) -> Array:
    value = node.inputs[index]
    if value is None or value.storage is None:
        message = f"operand {index} of {node!r} has no stored elements"
        raise ValueError(message)
    return np.asarray(value.storage.numpy(), np.float32)


def _replace(graph: Graph, node: Node, index: int, numbers: Array) -> None:
    old = node.inputs[index]
    array = np.ascontiguousarray(numbers, np.float32)
    node.set_input(index, add_constant(graph, array, "constant" if old is None else old.name))
    if old is not None and not old.uses:
        graph.remove_constant(old)


def equalize(graph: Graph, states: Mapping[str, Statistics], strength: float) -> int:
    """Balance every region of `graph` in place; return the number of regions.

    Args:
        graph: canonical.
        states: statistics of values by name, with per-channel ranges.
        strength: 1 equalizes activations, 0 the consumers' weights.
    """
    count = 0
    by_value = {value: states[value.name] for value in graph.values() if value.name in states}
    for region in regions(graph):
        s = scales(region, by_value, strength)
        if s is not None and float(s.max() / s.min()) > 1.01:
            divide(graph, region, s)
            count += 1
    return count


def are_channels_unlike(layers: Iterable[Layer]) -> bool:
    """Whether the largest weights of the channels of a layer are unbalanced."""
    for layer in layers:
        numbers = np.abs(layer.float_weight())
        most = numbers.reshape(len(numbers), -1).max(axis=1, initial=0)
        if np.count_nonzero(most) > 1 and float(np.std(np.log2(most[most > 0]))) > _UNLIKE:
            return True
    return False


def channel_axes(graph: Graph, values: Iterable[Value]) -> dict[Value, int | None]:
    """Return the channel axis of each of `values` that a layer uses, directly or through data movement."""
    axes: dict[Value, int] = {}
    for region in regions(graph):
        axes.update(dict.fromkeys(region.values, region.axis))
    for node in graph:
        layer = layer_of(node)
        if layer is not None:
            axes.setdefault(layer.input, _axis(layer.input, layer))
    return {value: axes.get(value) for value in values}
