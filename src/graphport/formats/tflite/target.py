"""LiteRT's kernels for signed bytes and for 16 bits: weights symmetric, biases in steps of the product."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.runtimes.target import LAYERS, Target

TFLITE = Target(
    name="tflite",
    formats=("tflite", "onnx"),
    weighted=LAYERS,
    pointwise=frozenset(
        {"Add", "Sub", "Mul", "AveragePool", "GlobalAveragePool", "ReduceMean", "Concat", "Max", "Min", "PRelu"}
        | {"LeakyRelu", "HardSwish", "Relu", "Sigmoid", "Tanh", "Softmax", "Resize"}
    ),
    fused=frozenset({"Relu", "Clip"}),
    # Their kernels change no scale.
    shared=frozenset({"AveragePool", "Concat", "Max", "Min", "Resize"}),
    per_channel=LAYERS,
    activation=DType.INT8,
    activations=frozenset({DType.INT8, DType.INT16}),
    # Kernels that read 16 bits give 16 bits, and what one of eight gave gains nothing by them: all have them or none.
    wide=DType.INT16,
    weights=frozenset({DType.INT8}),
    has_blocks=False,
    axes=(1, 2),
    is_dynamic=True,
    rounds_rows=True,
    has_whole=True,
    constants=True,
    # Kernels of 16 bits subtract no zero points.
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
