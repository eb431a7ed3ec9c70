"""Quantization target tract, by its own NNEF operators: four-bit weights in blocks, multiplied compressed."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import Target

TRACT = Target(
    name="tract",
    formats=("nnef",),
    weighted=frozenset({"Gemm", "MatMul"}),
    weights=frozenset({DType.INT4}),
    stored=frozenset({DType.INT4}),
    only_weights=True,
    block=32,
    half_scales=True,
    table=DType.INT4,
    flavour="tract",
)
