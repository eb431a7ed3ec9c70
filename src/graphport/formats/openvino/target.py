"""OpenVINO on its CPU plugin."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import INTEGERS, LAYERS, PRODUCTS, Target

OPENVINO = Target(
    name="openvino",
    formats=("openvino", "onnx"),
    weighted=LAYERS,
    # Kernels accumulate in 32 bits, and what follows is fused into them: a sum with a shortcut is not rounded before.
    leaves_float=LAYERS,
    fused=frozenset({"Relu", "Clip", "LeakyRelu", "PRelu", "Sigmoid", "HardSwish", "Elu"}),
    per_channel=PRODUCTS,
    activations=INTEGERS,
    # Its kernels have no such integers: it computes on reals between what is rounded.
    wide=DType.UINT16,
    mixes=True,
    bias_bits=0,
    pairs=True,
    pairs_by_place=True,
    inputs_only=True,
    for_all=True,
    # With padding, and over three axes, sums for zero points of other groups than the first are taken from elsewhere.
    grouped_axes=2,
    # The bias is added before sums are scaled, where what follows is rounded.
    # Two bits it reads from its own format only.
    stored=frozenset({DType.FLOAT16, DType.BFLOAT16, DType.INT8, DType.INT4}),
    half_kernels="bfloat16, where the processor has AVX512-BF16 or AMX and INFERENCE_PRECISION_HINT is not f32",
    real_biased=frozenset({"ConvTranspose"}),
)
