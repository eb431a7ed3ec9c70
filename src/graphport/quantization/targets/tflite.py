"""LiteRT's kernels for signed bytes: weights symmetric, a scale for each channel, biases in steps of the product."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.quantization.targets.target import Target

TFLITE = Target(
    name="tflite",
    formats=("tflite", "onnx"),
    weighted=frozenset({"Conv", "Gemm", "MatMul"}),
    pointwise=frozenset({"Add", "Mul", "AveragePool", "Concat"}),
    fused=frozenset({"Relu", "Clip"}),
    # Their kernels change no scale.
    shared=frozenset({"AveragePool", "Concat"}),
    per_channel=frozenset({"Conv", "Gemm", "MatMul"}),
    activation=DType.INT8,
    activations=frozenset({DType.INT8}),
    weights=frozenset({DType.INT8}),
    has_blocks=False,
    axes=2,
)
