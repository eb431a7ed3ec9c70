"""TensorRT, by explicit quantization: QuantizeLinear and DequantizeLinear in an ONNX file."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.quantization.targets.target import Target

TENSORRT = Target(
    name="tensorrt",
    formats=("onnx",),
    weighted=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}),
    leaves_float=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}),
    pointwise=frozenset({"Add", "AveragePool", "GlobalAveragePool", "Concat"}),
    fused=frozenset({"Relu", "Clip"}),
    shared=frozenset({"Concat"}),
    per_channel=frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"}),
    activation=DType.INT8,
    symmetric=True,
    products=True,
    bias_bits=0,
    inputs_only=True,
)
