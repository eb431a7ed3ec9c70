"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.quantization.targets.target import Rates, Target

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
    # Its kernels for bytes take a scale for each block of bytes for one for each channel, and fail.
    block_weights=frozenset({DType.INT4, DType.UINT4, DType.FLOAT8E4M3FN, DType.FLOAT8E5M2}),
    has_zeros=True,
    pairs=True,
    # It computes on reals between them; weights stay bytes.
    wide=DType.UINT16,
    mixes=True,
    is_simulated=False,
    is_dynamic=True,
    table=DType.INT8,
    stored=frozenset({DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT4, DType.INT2}),
    half_kernels="no: on processors it casts float16 to float32 around each node, and has no products of bfloat16",
    guarded=frozenset({"Conv", "ConvTranspose", "Gemm", "Softmax", "AveragePool", "Resize"}),
    # QLinearAveragePool has no dilations, and divides by the size of windows that lie beyond the padding.
    unknown=(
        ("AveragePool", frozenset({"dilations"})),
        ("AveragePool", frozenset({"ceil_mode", "count_include_pad"})),
    ),
    # Fitted to its profiles of residual, depthwise and inverted nets and of a transformer (AVX512-VNNI).
    rates=Rates(
        products=(0.014, 0.0055),
        results=(0.3, 0.1),
        windows=(0.3, 0.9),
        pointwise=(0.25, 0.6),
        conversion=0.8,
        layout=1.2,
        call=(3000.0, 6000.0),
    ),
)
