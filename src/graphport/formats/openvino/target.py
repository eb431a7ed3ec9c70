"""OpenVINO on its CPU plugin."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import INTEGERS, LAYERS, PRODUCTS, Target

OPENVINO = Target(
    name="openvino",
    formats=("openvino", "onnx"),
    weighted=LAYERS,
    # Kernels accumulate in 32 bits and fuse the following operators: a residual sum is not rounded before the addition.
    leaves_float=LAYERS,
    fused=frozenset({"Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "HardSwish", "Elu"}),
    per_channel=PRODUCTS,
    activations=INTEGERS,
    # No kernels for these integers: OpenVINO computes in float between roundings.
    wide=DType.UINT16,
    mixes=True,
    bias_bits=0,
    pairs=True,
    pairs_by_place=True,
    inputs_only=True,
    for_all=True,
    # With padding and three spatial axes, the kernel reads zero-point sums of groups after the first from wrong
    # addresses.
    grouped_axes=2,
    # The bias is added before scaling if the result is requantized. Two-bit weights are read from OpenVINO's own format
    # only.
    stored=frozenset({DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT4}),
    half_kernels="bfloat16, if the CPU has AVX512-BF16 or AMX and INFERENCE_PRECISION_HINT is not f32",
    real_biased=frozenset({"ConvTranspose"}),
)
