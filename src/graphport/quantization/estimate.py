"""What a run is likely to take by rates of kernels, the same on every machine: nothing is timed here."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from graphport.core.facts import TensorFact
from graphport.quantization.placement import moves

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.quantization.layer import Layer
    from graphport.quantization.placement import Placement
    from graphport.quantization.targets.target import Rates

_MAP = 4
"""Axes from which on a value has channels and places."""


def nanoseconds(base: Placement, of: Placement, rates: Rates) -> float:
    """Of the nodes that `base` has on integers, and of all conversions, if those of `of` compute on integers.

    Free axes count as 1.

    Args:
        base: where everything is on integers that can be.
        of: the same graph, where more nodes may be real.
        rates: of kernels of the runtime.
    """
    total = 0.0
    for node, layer in base.layers.items():
        is_rounded = node in of.layers
        total += rates.call[is_rounded] + elements(node.output) * _each(layer, rates, is_rounded=is_rounded)
    for node in base.pointwise:
        is_rounded = node in of.pointwise
        total += rates.call[is_rounded] + elements(node.output) * rates.pointwise[is_rounded]
    taken_back = [value for value in of.carried if _is_read_real(value, of)]
    rounded = [value for value in of.points if value not in of.carried]
    return total + sum(_conversion(value, rates) for value in (*taken_back, *rounded))


def elements(value: Value) -> int:
    """How many numbers a value holds; free axes count as 1."""
    shape = value.fact.shape if isinstance(value.fact, TensorFact) else None
    return prod(dim for dim in shape or () if isinstance(dim, int))


def _each(layer: Layer, rates: Rates, *, is_rounded: bool) -> float:
    """Of one result of a layer."""
    is_window = layer.kind != "product" and any(length > 1 for length in layer.shape[2:])
    return (rates.windows if is_window else rates.results)[is_rounded] + rates.products[is_rounded] * layer.depth


def _conversion(value: Value, rates: Rates) -> float:
    """Of rounding a value, or of taking it back."""
    shape = value.fact.shape if isinstance(value.fact, TensorFact) else None
    is_map = shape is not None and len(shape) >= _MAP
    kernels, each = (3, rates.conversion + rates.layout) if is_map else (1, rates.conversion)
    return kernels * rates.call[0] + each * elements(value)


def _is_read_real(value: Value, of: Placement) -> bool:
    """Whether somebody reads real numbers of a value that exists as integers."""
    if value.is_output:
        return True
    return any(
        user not in of.layers and user not in of.pointwise and not (moves(user) and user.output in of.carried)
        for user in value.users
    )
