"""ONNX Runtime on its CPU provider."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import PRODUCTS, Rates, Target

ONNXRUNTIME = Target(
    name="onnxruntime",
    formats=("onnx",),
    weighted=PRODUCTS,
    # QGemm and MatMulIntegerToFloat return floats: without requantization there is no additional noise.
    leaves_float=frozenset({"Gemm", "MatMul"}),
    summing=frozenset({"Conv"}),
    pointwise=frozenset(
        {"Add", "Mul", "AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Concat", "Relu", "Clip"}
    ),
    fused=frozenset({"Relu", "Clip"}),
    absorbed=frozenset({"HardSwish", "HardSigmoid"}),
    per_channel=PRODUCTS,
    # Its kernels for bytes take a scale for each block of bytes for one for each channel, and fail.
    block_weights=frozenset({DType.INT4, DType.UINT4, DType.FLOAT8E4M3FN, DType.FLOAT8E5M2}),
    has_zeros=True,
    pairs=True,
    # Without integer kernels it computes in float between roundings; weights stay 8-bit.
    wide=DType.UINT16,
    mixes=True,
    is_simulated=False,
    is_dynamic=True,
    table=DType.INT8,
    stored=frozenset({DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT4, DType.INT2}),
    half_kernels="no: on CPUs it casts float16 to float32 around each node, and it has no bfloat16 matrix products",
    guarded=frozenset({"Conv", "ConvTranspose", "Gemm", "Softmax", "AveragePool", "Resize"}),
    # QLinearAveragePool has no dilations, and divides by the size of windows that lie beyond the padding.
    unknown=(
        ("AveragePool", frozenset({"dilations"})),
        ("AveragePool", frozenset({"ceil_mode", "count_include_pad"})),
    ),
    # Fitted to its profiles, of runs of 1 and of 16 samples, of a residual and a depthwise net, a transformer of
    # patches, EfficientNet-lite0 and a classifier of lines of text (AVX512-VNNI).
    rates=Rates(
        products=((0.19, 0.017), (0.11, 0.0047)),
        windows=((0.08, 0.018), (0.95, 0.0021)),
        grouped=((0.28, 0.013), (0.13, 0.034)),
        sums=((0.4, 0.0047), (0.5, 0.027)),
        pointwise=(0.18, 0.16),
        conversion=0.12,
        layout=0.2,
        call=(3000.0, 4500.0),
    ),
)
