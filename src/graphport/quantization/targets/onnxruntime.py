"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

from graphport.quantization.targets.target import Target

ONNXRUNTIME = Target(
    name="onnxruntime",
    formats=("onnx",),
    weighted=frozenset({"Conv", "Gemm", "MatMul"}),
    # QGemm and MatMulIntegerToFloat give reals: what is not rounded adds no noise.
    leaves_float=frozenset({"Gemm", "MatMul"}),
    summing=frozenset({"Conv"}),
    pointwise=frozenset(
        {"Add", "Mul", "AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Concat", "Relu", "Clip"}
    ),
    fused=frozenset({"Relu", "Clip"}),
    per_channel=frozenset({"Conv", "Gemm", "MatMul"}),
    pairs=True,
    is_simulated=False,
    guarded=frozenset({"Conv", "ConvTranspose", "Gemm", "Softmax"}),
)
