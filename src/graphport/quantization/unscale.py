"""Rescale outlier channels that the consumers' weights compensate, without loss.

If a normalization, or one factor of a gated product, scales a channel by 64 and the consumers' weights are 64 times
smaller there, block-wise quantization of these weights loses the channel. Powers of two are moved back exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.quantization.equalize import divide, regions

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.quantization.equalize import Region

Array: TypeAlias = "np.ndarray[Any, Any]"

_MIN_DEVIATION = 1.5
"""Minimum deviation (log2) of a channel's weights from the median."""


def unscale(graph: Graph) -> int:
    """Divide channels with outlying weight norms by s and multiply the weights by s, in place; return the regions.

    Before  y = f(x) * g;          z = y @ W
    After   y = f(x) * (g / s);    z = y @ (s * W)    with s = 2 ** round(log2(median norm / norm of W's row))
    """
    count = 0
    for region in regions(graph):
        s = _scales(region)
        if s is not None and np.any(s != 1):
            divide(graph, region, s)
            count += 1
    return count


def _scales(region: Region) -> Array | None:
    readers = {layer.node: layer for layer in region.readers}.values()
    if not readers or region.ceiling is not None or any(x.kind != "product" for x in readers):
        return None
    squares = np.zeros(region.channels)
    for layer in readers:
        weight = layer.float_weight()
        # Summed in float64 without a float64 copy.
        own: Array = np.einsum("ij,ij->i" if layer.in_axis == 0 else "ij,ij->j", weight, weight, dtype=np.float64)
        squares += own / max(float(own.sum()), 1e-300)
    is_used = squares > 0
    if not is_used.any():
        return None
    exponents = np.zeros(region.channels)
    exponents[is_used] = np.log2(np.median(squares[is_used]) / squares[is_used]) / 2
    return np.exp2(np.where(np.abs(exponents) >= _MIN_DEVIATION, np.rint(exponents), 0.0)).astype(np.float32)
