"""Estimate run time from kernel rates, independent of the machine: nothing is timed."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.quantization.placement import moves

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Node, Value
    from graphport.quantization.layer import Layer
    from graphport.quantization.placement import Placement
    from graphport.runtimes.target import Rates

_MAP = 4
"""Rank from which a value has channels and spatial axes."""
_SAMPLES = 16
"""Number of samples in a run, which share the call overhead."""
_REAL = 4


def nanoseconds(base: Placement, of: Placement, rates: Rates, sizes: Mapping[str, int] | None = None) -> float:
    """Estimate nanoseconds per sample of the nodes of `base` and all conversions, if the nodes of `of` are integer.

    Args:
        base: the placement with all possible integer nodes.
        of: a placement of the graph with more float nodes.
        rates: kernel rates of the runtime.
        sizes: see `elements`.
    """
    total = 0.0
    for node in (*base.layers, *base.pointwise):
        is_rounded = node in of.layers or node in of.pointwise
        is_summed = node in of.summing
        total += kernel_time(node, base.layers.get(node), rates, sizes, is_rounded=is_rounded, is_summed=is_summed)
    taken_back = [value for value in of.carried if _is_read_real(value, of)]
    rounded = [value for value in of.points if value not in of.carried]
    return total + sum(conversion_time(value, rates, sizes) for value in (*taken_back, *rounded))


def elements(value: Value, sizes: Mapping[str, int] | None = None) -> int:
    """Return the number of elements of a value; open axes count as 1, unless `sizes` has the value's bytes.

    Bytes are counted as float32: only float32 values are quantized.
    """
    known = sizes.get(value.name) if sizes else None
    if known is not None:
        return known // _REAL
    shape = value.shape
    return prod(dim for dim in shape or () if isinstance(dim, int))


def kernel_time(
    node: Node,
    layer: Layer | None,
    rates: Rates,
    sizes: Mapping[str, int] | None = None,
    *,
    is_rounded: bool,
    is_summed: bool = False,
) -> float:
    """Return nanoseconds of a node per sample as an integer or float kernel; `layer` describes its weights.

    With `is_summed` the kernel returns integer sums, which are dequantized.
    """
    each = rates.pointwise[is_rounded] if layer is None else _time_per_result(layer, rates, is_rounded=is_rounded)
    if is_summed and layer is not None:
        result, product = rates.sums[_is_over_windows(layer)]
        each = result + product * layer.depth
    return rates.call[is_rounded] / _SAMPLES + elements(node.output, sizes) * each


def conversion_time(value: Value, rates: Rates, sizes: Mapping[str, int] | None = None) -> float:
    """Return nanoseconds of quantizing or dequantizing a value, per sample."""
    shape = value.shape
    is_map = shape is not None and len(shape) >= _MAP
    kernels, each = (3, rates.conversion + rates.layout) if is_map else (1, rates.conversion)
    return kernels * rates.call[0] / _SAMPLES + each * elements(value, sizes)


def _time_per_result(layer: Layer, rates: Rates, *, is_rounded: bool) -> float:
    """Return nanoseconds per result element of a layer: a constant plus the time of its multiplications."""
    kind = rates.products
    if layer.kind != "product" and layer.groups > 1:
        kind = rates.grouped
    elif _is_over_windows(layer):
        kind = rates.windows
    result, product = kind[is_rounded]
    return result + product * layer.depth


def _is_over_windows(layer: Layer) -> bool:
    return layer.kind != "product" and any(length > 1 for length in layer.shape[2:])


def _is_read_real(value: Value, of: Placement) -> bool:
    """Whether a quantized value must be dequantized: it is an output, or a consumer is a float node."""
    if value.is_output:
        return True
    return any(
        user not in of.layers and user not in of.pointwise and not (moves(user) and user.output in of.carried)
        for user in value.users
    )
