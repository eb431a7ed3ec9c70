"""Some results of a large product: what is done to each weight alone takes memory for a part of them at a time."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Value
from graphport.quantization.insert_qdq import Weight

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.quantization.layer import Layer
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"
Result = TypeVar("Result")

MOST, _AT_ONCE = 1 << 21, 4
"""Entries of a part, and parts that are worked on at the same time."""


def mapped(function: Callable[[slice], Result], slices: Sequence[slice]) -> list[Result]:
    """What `function` gives for each part, some of them at once: NumPy lets other threads go on while it computes."""
    with ThreadPoolExecutor(min(_AT_ONCE, os.cpu_count() or 1)) as pool:
        return list(pool.map(function, slices))


def parts_of(layer: Layer) -> list[slice]:
    """The results of `layer`, as many at a time as fit; all where it is no product."""
    count = layer.shape[layer.out_axis]
    if layer.kind != "product" or layer.depth * count <= MOST:
        return [slice(0, count)]
    step = max(MOST // layer.depth, 1)
    return [slice(start, min(start + step, count)) for start in range(0, count, step)]


def along(layer: Layer, part: slice) -> tuple[slice, ...]:
    """Where these results are in the weight of a product."""
    return (slice(None), part) if layer.out_axis else (part,)


def part_of(layer: Layer, part: slice) -> Layer:
    """`layer` with these results alone."""
    weight = _constant(layer.weight.name, layer.numbers()[along(layer, part)])
    bias = None if layer.bias is None else _constant(layer.bias.name, layer.offsets()[part])
    return replace(layer, weight=weight, bias=bias)


def _constant(name: str, numbers: Array) -> Value:
    stored = ArrayStorage(np.ascontiguousarray(numbers))
    value = Value(name, TensorFact.of(stored))
    value.storage = stored
    return value


def part_of_qparams(layer: Layer, qparams: QuantizationParameters, part: slice) -> QuantizationParameters:
    """What `qparams` has for these results."""
    if not qparams.block and (qparams.scale.ndim != 1 or qparams.axis != layer.out_axis):
        return qparams
    where = along(layer, part) if qparams.block else (part,)
    return replace(qparams, scale=qparams.scale[where], zero_point=qparams.zero_point[where])


def part_of_weight(layer: Layer, weight: Weight, part: slice) -> Weight:
    """What `weight` has for these results."""
    return Weight(
        part_of_qparams(layer, weight.qparams, part),
        weight.codes[along(layer, part)],
        None if weight.bias is None else weight.bias[part],
    )
