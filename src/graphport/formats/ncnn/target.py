"""Quantization target ncnn: inputs of layers with weights are quantized symmetrically to -127 to 127."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.formats.ncnn.rules.quantization import GROUPED
from graphport.runtimes.target import PRODUCTS, Target

NCNN = Target(
    name="ncnn",
    formats=("ncnn", "onnx"),
    weighted=PRODUCTS,
    leaves_float=PRODUCTS,
    fused=frozenset({"Relu", "Clip", "LeakyRelu", "Sigmoid"}),
    per_channel=PRODUCTS,
    activation=DType.INT8,
    activations=frozenset({DType.INT8}),
    weights=frozenset({DType.INT8}),
    has_blocks=False,
    symmetric=True,
    bias_bits=0,
    inputs_only=True,
    tries_writer=True,
    is_beside=True,
    axes=(2,),
    product_axes=3,
    by_group=True,
    real_groups=GROUPED,
    # Its int8 kernels take twice the time of float kernels, and divide with four digits only.
    real_depthwise=True,
    is_narrow=True,
)
