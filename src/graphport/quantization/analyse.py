"""Explain the quantization noise of layers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.quantization.engine import decibels
from graphport.quantization.report import LayerReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Node, Value
    from graphport.quantization.insert_qdq import Quantization
    from graphport.quantization.layerwise import LayerNoise
    from graphport.quantization.observe import Statistics
    from graphport.quantization.parameters import QuantizationParameters

_OUTLYING = 16.0
"""Ratio of range limit to root mean square from which a range has outliers."""
_UNLIKE = 16.0
"""Ratio of the largest to the median channel range from which channels are unbalanced."""
_CLIPPED = 1e-3
_FEW = 8


def layer_reports(
    quantization: Quantization,
    states: Mapping[Value, Statistics],
    noise: Mapping[Node, LayerNoise],
    accumulated: Mapping[Value, float],
) -> tuple[LayerReport, ...]:
    """Return a report of each layer with weights, quantized or not."""
    placement = quantization.placement
    found: list[LayerReport] = []
    for node, layer in (placement.layers | quantization.alone).items():
        root = None if node in quantization.alone else placement.points.get(layer.input)
        state = None if root is None else states.get(root)
        qparams = None if node in quantization.alone else quantization.qparams_of(layer.input)
        weight = quantization.weights.get(node)
        known = noise.get(node)
        chosen = accumulated.get(node.output, None if known is None else known.chosen)
        found.append(
            LayerReport(
                layer.name,
                node.op,
                is_quantized=True,
                own_db=None if known is None else decibels(known.own),
                accumulated_db=None if chosen is None else decibels(chosen),
                means="" if known is None else known.means,
                reasons=() if state is None or qparams is None else reasons(state, qparams),
                input_range=None if qparams is None else (qparams.min_value, qparams.max_value),
                input_seen=None if state is None else (state.minimum, state.maximum),
                weight_bytes=0 if weight is None else weight.qparams.dtype.size(weight.codes.size),
            )
        )
    found += [
        LayerReport(
            node.name or node.output.name,
            node.op,
            is_quantized=True,
            means="nearest",
            weight_bytes=sum(value.storage.count for value in node.operands[1:3] if value.storage is not None),
        )
        for node in placement.recurrent
    ]
    found += [
        LayerReport(node.name or node.output.name, node.op, is_quantized=False, reasons=(reason,))
        for node, reason in placement.floating.items()
    ]
    return tuple(found)


def reasons(state: Statistics, qparams: QuantizationParameters) -> tuple[str, ...]:
    """Return causes of a value's quantization noise: outliers, unequal channels, saturation, few samples."""
    found: list[str] = []
    low, high = qparams.min_value, qparams.max_value
    largest = max(high, -low, 1e-30)
    effective = (state.squares / max(state.elements, 1)) ** 0.5
    if largest > _OUTLYING * max(effective, 1e-30):
        found.append(f"outliers: the range is {largest / max(effective, 1e-30):.0f} times the effective value")
    magnitudes = np.maximum(-state.lows, state.highs)
    if magnitudes.size > 1:
        middle = float(np.median(magnitudes))
        if float(magnitudes.max()) > _UNLIKE * max(middle, 1e-30):
            found.append(
                "unequal channels: the largest magnitude is "
                f"{magnitudes.max() / max(middle, 1e-30):.0f} times the median"
            )
    histogram = state.histogram
    # Elements less than half a step beyond the range are rounded, not clipped.
    reach = max(histogram.width, float(qparams.scale) / 2)
    outside = (histogram.centers < low - reach) | (histogram.centers > high + reach)
    clipped = float(histogram.counts[outside].sum()) / max(float(histogram.counts.sum()), 1.0)
    if clipped > _CLIPPED:
        found.append(f"saturated: {100 * clipped:.2f} % of the elements are outside of the range")
    if state.samples < _FEW:
        found.append(f"few samples: {state.samples}")
    return tuple(found)
