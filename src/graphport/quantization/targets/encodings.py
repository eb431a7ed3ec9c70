"""Tools that quantize a float model themselves, with qparams from a separate file."""

from __future__ import annotations

from dataclasses import replace

from graphport.core.dtypes import DType
from graphport.quantization.targets.tensorrt import TENSORRT
from graphport.runtimes.target import LAYERS, Target

TENSORRT_CACHE = replace(
    TENSORRT,
    name="tensorrt-cache",
    # Without QDQ nodes, all values between layers have a scale.
    inputs_only=False,
    leaves_float=frozenset(),
    has_blocks=False,
    activations=frozenset({DType.INT8}),
    weights=frozenset({DType.INT8}),
    encodings="tensorrt",
)
QNN = Target(
    name="qnn",
    formats=("onnx",),
    weighted=LAYERS,
    pointwise=frozenset({"Add", "Mul", "AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Concat"}),
    fused=frozenset({"Relu", "Clip"}),
    per_channel=LAYERS,
    activations=frozenset({DType.UINT8, DType.UINT16}),
    wide=DType.UINT16,
    mixes=True,
    weights=frozenset({DType.INT8, DType.INT4}),
    has_blocks=False,
    bias_bits=0,
    is_whole=True,
    encodings="qnn",
)
RKNN = replace(
    QNN,
    name="rknn",
    activation=DType.INT8,
    activations=frozenset({DType.INT8}),
    weights=frozenset({DType.INT8}),
    wide=None,
    mixes=False,
    encodings="rknn",
)
MNN = replace(RKNN, name="mnn", pointwise=frozenset({"Add"}), is_whole=False, symmetric=True, encodings="mnn")
