"""NNEF's `graph.quant`: a quantization for every tensor that is named, one for the tensor."""

from __future__ import annotations

from graphport.runtimes.target import INTEGERS, LAYERS, Target

NNEF = Target(
    name="nnef",
    formats=("nnef", "onnx"),
    weighted=LAYERS,
    pointwise=frozenset({"Add", "Mul", "AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Concat"}),
    fused=frozenset({"Relu", "Clip"}),
    per_channel=LAYERS,
    activations=INTEGERS,
    weights=INTEGERS,
    has_blocks=False,
    bias_bits=0,
    is_whole=True,
)
