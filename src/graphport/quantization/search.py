"""Choose ranges by the noise that reaches the consumers of a value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.layer import layer_of
from graphport.quantization.parameters import activation_qparams

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Value
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

_PARTS = (0.5, 0.6, 0.7, 0.8, 0.87, 0.93, 1.0, 1.07)
"""Fractions of the present range that are tried."""


def range_search(
    quantization: Quantization,
    *,
    is_symmetric: bool,
    power_of_two: bool = False,
    others: Callable[[Value], list[QuantizationParameters]] | None = None,
) -> Callable[[Value, list[Array], list[Array]], QuantizationParameters | None]:
    """Return a chooser of qparams with the least squared error, weighted per channel by the consumers' weights.

    The error is relative to the float value, so that previous errors count. Candidates are fractions of the present
    range, and `others`.
    """

    def choose_qparams(value: Value, real: list[Array], rounded: list[Array]) -> QuantizationParameters | None:
        present = quantization.all_qparams.get(value)
        if present is None or present.dtype.is_floating or present.scale.ndim:
            return None
        gains = channel_gains(value)
        candidates = [present] + [
            activation_qparams(
                present.min_value * part,
                present.max_value * part,
                present.dtype,
                is_symmetric=is_symmetric,
                power_of_two=power_of_two,
            )
            for part in _PARTS
            if part != 1
        ]
        candidates += [] if others is None else others(value)
        # Several candidates may have equal qparams.
        candidates = list({(float(qparams.scale), int(qparams.zero_point)): qparams for qparams in candidates}.values())
        return min(candidates, key=lambda qparams: _error(qparams, real, rounded, gains))

    return choose_qparams


def channel_gains(value: Value) -> tuple[int, Array] | None:
    """Return the channel axis, and per channel the sum of squares of the consumers' weights; `None` if unknown."""
    found: dict[int, Array] = {}
    for node in value.users:
        layer = layer_of(node)
        if layer is None or layer.input is not value:
            continue
        squares = layer.float_weight() ** 2
        axis = -1 if layer.kind == "product" else 1
        if layer.kind != "transposed" and layer.groups > 1:
            grouped = squares.reshape(layer.groups, -1, *squares.shape[1:])
            gains = grouped.sum(axis=(1, *range(3, grouped.ndim))).reshape(-1)
        else:
            gains = squares.sum(axis=tuple(i for i in range(squares.ndim) if i != layer.in_axis))
        found[axis] = found[axis] + gains if axis in found else gains
    return next(iter(found.items())) if len(found) == 1 else None


def _error(
    qparams: QuantizationParameters, real: list[Array], rounded: list[Array], gains: tuple[int, Array] | None
) -> float:
    total = 0.0
    for x, y in zip(real, rounded, strict=True):
        squares = (qparams.nearest(y) - x) ** 2
        if gains is None:
            total += float(squares.sum())
            continue
        axis, weights = gains
        axis %= squares.ndim
        sums = squares.sum(axis=tuple(i for i in range(squares.ndim) if i != axis))
        total += float(np.dot(sums, weights))
    return total
