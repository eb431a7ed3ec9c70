"""Process a large product in parts of its output channels, which limits memory."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage, FileStorage, View
from graphport.ir.graph import Value
from graphport.quantization.insert_qdq import Weight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.quantization.layer import Layer
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"
Result = TypeVar("Result")

MAX_PART_ELEMENTS, _AT_ONCE = 1 << 21, 4
"""Elements of a part, and number of parts processed in parallel."""


def mapped(function: Callable[[slice], Result], slices: Sequence[slice]) -> list[Result]:
    """Map `function` over slices in a thread pool: NumPy releases the interpreter lock."""
    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, slices))


def split_channels(layer: Layer) -> list[slice]:
    """Divide the output channels of `layer` into parts; one part if it is not a product."""
    count = layer.shape[layer.out_axis]
    if layer.kind != "product" or layer.depth * count <= MAX_PART_ELEMENTS:
        return [slice(0, count)]
    step = max(MAX_PART_ELEMENTS // layer.depth, 1)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def along(layer: Layer, part: slice) -> tuple[slice, ...]:
    """Return the index that selects the output channels `part` in a product's weight."""
    return (slice(None), part) if layer.out_axis else (part,)


def layer_in_memory(layer: Layer) -> Layer:
    """Return `layer` with a weight that is an array: some storages convert the whole tensor at every access."""
    if isinstance(layer.weight.storage, ArrayStorage | FileStorage | View):
        return layer
    weight = Value(layer.weight.name, layer.weight.fact)
    weight.storage = ArrayStorage(layer.float_weight())
    return replace(layer, weight=weight)


def layer_channels(layer: Layer, part: slice) -> Layer:
    """Return `layer` with only the selected output channels."""
    weight = _constant(layer.weight.name, layer.float_weight()[along(layer, part)])
    bias = None if layer.bias is None else _constant(layer.bias.name, layer.offsets()[part])
    return replace(layer, weight=weight, bias=bias)


def _constant(name: str, numbers: Array) -> Value:
    stored = ArrayStorage(np.ascontiguousarray(numbers))
    value = Value(name, TensorFact.of(stored))
    value.storage = stored
    return value


def qparams_channels(layer: Layer, qparams: QuantizationParameters, part: slice) -> QuantizationParameters:
    """Return `qparams` of the selected output channels."""
    if not qparams.block and (qparams.scale.ndim != 1 or qparams.axis != layer.out_axis):
        return qparams
    where = along(layer, part) if qparams.block else (part,)
    return replace(qparams, scale=qparams.scale[where], zero_point=qparams.zero_point[where])


def weight_channels(layer: Layer, weight: Weight, part: slice) -> Weight:
    """Return `weight` of the selected output channels."""
    return Weight(
        qparams_channels(layer, weight.qparams, part),
        weight.codes[along(layer, part)],
        None if weight.bias is None else weight.bias[part],
    )
