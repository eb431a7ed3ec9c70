"""ncnn: activations at the inputs of layers with weights, symmetric, -127 to 127."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.quantization.targets.target import Target

NCNN = Target(
    name="ncnn",
    formats=("ncnn", "onnx"),
    weighted=frozenset({"Conv", "Gemm"}),
    leaves_float=frozenset({"Conv", "Gemm"}),
    fused=frozenset({"Relu", "Clip", "LeakyRelu", "Sigmoid"}),
    per_channel=frozenset({"Conv", "Gemm"}),
    activation=DType.INT8,
    symmetric=True,
    bias_bits=0,
    inputs_only=True,
    is_beside=True,
)
