"""What a runtime can do with quantized tensors."""

from __future__ import annotations

from dataclasses import dataclass

from graphport.core.dtypes import DType


@dataclass(frozen=True, slots=True)
class Target:
    """A runtime: which operators it computes on integers, and on which grids.

    Attributes:
        name: what users call it.
        formats: formats that a model for it is written in; the first one by default.
        weighted: operators with a constant weight that have kernels for integers.
        leaves_float: those among them whose kernels give floating results: these are not quantized.
        pointwise: operators without weights that have kernels for integers.
        fused: operators that disappear in the layer before them: the value between is not quantized.
        shared: operators whose operands and results must have one grid, besides those that only move data.
        per_channel: operators whose weight may have a scale for each channel.
        activation: element type of activations.
        symmetric: whether zero is the middle of their range.
        weight: element type of weights.
        products: whether matrix products of two activations are quantized.
        bias_bits: of biases, in steps of the product of scales; 0 where they stay floating.
        pairs: whether products of two neighbours are added in 16 bits by processors without instructions for it.
        power_of_two: whether scales must be powers of two.
        is_simulated: whether it is another runtime than that which measures noise: then every node is computed as it
            stands.
        inputs_only: only what weighted operators read is quantized.
        is_beside: grids are written to a table beside a real model.
        for_all: what weighted operators read rounded, everybody does.
    """

    name: str
    formats: tuple[str, ...]
    weighted: frozenset[str]
    leaves_float: frozenset[str] = frozenset()
    pointwise: frozenset[str] = frozenset()
    fused: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    per_channel: frozenset[str] = frozenset()
    activation: DType = DType.UINT8
    symmetric: bool = False
    weight: DType = DType.INT8
    products: bool = False
    bias_bits: int = 32
    pairs: bool = False
    power_of_two: bool = False
    is_simulated: bool = True
    inputs_only: bool = False
    is_beside: bool = False
    for_all: bool = False
