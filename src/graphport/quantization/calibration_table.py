"""Calibration tables next to a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.formats.ncnn import Scales

if TYPE_CHECKING:
    from graphport.quantization.insert_qdq import Quantization


def ncnn_table(quantization: Quantization) -> tuple[Scales, ...]:
    """Return the lines of ncnn's calibration table: first the weights of all layers, then their inputs.

    Units: integers per real unit, the inverse of the scale. Grouped convolutions have one per group.
    """
    weights: list[Scales] = []
    inputs: list[Scales] = []
    for node, layer in quantization.placement.layers.items():
        weight, qparams = quantization.weights.get(node), quantization.qparams_of(layer.input)
        if weight is None or qparams is None:
            continue
        scales = np.broadcast_to(1 / weight.qparams.scale.astype(np.float64).reshape(-1), (layer.channels,))
        if layer.groups > 1:
            scales = scales.reshape(layer.groups, -1)[:, 0]
        name = "_".join(layer.name.split())
        weights.append(Scales(f"{name}_param_0", tuple(float(scale) for scale in scales)))
        inputs.append(Scales(name, (1 / float(qparams.scale),)))
    return (*weights, *inputs)
