"""TensorRT with explicit quantization: QuantizeLinear and DequantizeLinear in an ONNX file."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import LAYERS, Target

TENSORRT = Target(
    name="tensorrt",
    formats=("onnx",),
    weighted=LAYERS,
    leaves_float=LAYERS,
    pointwise=frozenset({"Add", "AveragePool", "GlobalAveragePool", "Concat"}),
    fused=frozenset({"Relu", "Clip"}),
    shared=frozenset({"Concat"}),
    per_channel=LAYERS,
    activation=DType.INT8,
    symmetric=True,
    products=True,
    bias_bits=0,
    inputs_only=True,
)
