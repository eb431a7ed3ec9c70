"""Quantization target LiteRT: int8 and int16 kernels; symmetric weights, biases in the scale of the product."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import LAYERS, Target

TFLITE = Target(
    name="tflite",
    formats=("tflite", "onnx"),
    weighted=LAYERS,
    pointwise=frozenset(
        {"Add", "Sub", "Mul", "AveragePool", "GlobalAveragePool", "ReduceMean", "Concat"}
        | {"Max", "Min", "PRelu", "LeakyRelu", "HardSwish", "Relu", "Sigmoid", "Tanh", "Softmax", "Resize"}
        | {"ReduceMax", "ReduceMin"}
    ),
    fused=frozenset({"Relu", "Clip"}),
    # Kernels of data movements keep the scale.
    shared=frozenset({"AveragePool", "Concat", "Max", "Min", "ReduceMax", "ReduceMin", "Resize"}),
    per_channel=LAYERS,
    activation=DType.INT8,
    activations=frozenset({DType.INT8, DType.INT16}),
    # int16 kernels produce int16, which a preceding int8 result does not benefit from: all operands or none.
    wide=DType.INT16,
    weights=frozenset({DType.INT8}),
    has_blocks=False,
    axes=(1, 2),
    is_dynamic=True,
    rounds_rows=True,
    has_whole=True,
    # It has no kernels for HardSigmoid, Clip and Split, a wrong one for ReduceSum, and its AveragePool keeps the scale.
    decomposes=frozenset({"HardSigmoid", "Clip", "Split", "ReduceSum", "AveragePool"}),
    constants=True,
    # int16 kernels have no zero points.
    centred=frozenset({DType.INT16}),
    fixed=(
        *((op, DType.INT8, 1 / 256, -128) for op in ("Sigmoid", "Softmax")),
        *((op, DType.INT16, 1 / 32768, 0) for op in ("Sigmoid", "Softmax", "Tanh")),
        ("Tanh", DType.INT8, 1 / 128, 0),
    ),
    bytes_only=frozenset({"HardSwish"}),
    halves=True,
    short_factors=frozenset({DType.INT16}),
)
