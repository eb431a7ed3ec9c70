"""Integer convolutions with unrounded sums."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value
from graphport.passes.substitution import add_constant

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.quantization.parameters import QuantizationParameters

Array: TypeAlias = "np.ndarray[Any, Any]"

_MIDDLE = 128
"""Offset between int8 and uint8 codes."""


def emit_sums(graph: Graph, node: Node, qparams: QuantizationParameters, codes: Array, offsets: Array | None) -> None:
    """Convert a convolution of quantized operands to ConvInteger with a dequantized sum.

    Before  y = Conv(DQ(x, s, z), DQ(w, t), b)
    After   y = DQ(ConvInteger(x, w + 128, z, 128), s * t) + b

    ONNX Runtime's kernel for unsigned weights takes a third of the time of that for signed ones.

    Args:
        graph: where the operands of `node` are quantized; changed.
        node: the convolution.
        qparams: of its weight.
        codes: of its weight.
        offsets: the float bias.

    Does not apply to operands other than uint8 and int8, or to block-wise weights.
    """
    source = _rounded(node.operand(0))
    if source is None or qparams.dtype is not DType.INT8 or qparams.block or qparams.scale.ndim > 1:
        return
    x, scale, zero_point = source.inputs
    if x is None or scale is None or scale.storage is None or scale.storage.count != 1 or not _is_unsigned(x):
        return
    result, channels = node.output, codes.shape[0]
    steps = qparams.scale.astype(np.float64) * float(scale.storage.numpy().reshape(-1)[0])
    sums = Value(graph.fresh(f"{result.name}_sums"), TensorFact(DType.INT32, getattr(result.fact, "shape", None)))
    real = Value(graph.fresh(f"{result.name}_real"), result.fact)
    step = add_constant(graph, np.broadcast_to(steps, (channels,)).astype(np.float32), f"{result.name}_step")
    unsigned = add_constant(graph, (codes.astype(np.int16) + _MIDDLE).astype(np.uint8), f"{result.name}_codes")
    middle = add_constant(graph, np.asarray(_MIDDLE, np.uint8), f"{result.name}_middle")
    made = [Node("ConvInteger", [x, unsigned, zero_point, middle], [sums], node.attributes, name=node.name)]
    made.append(Node("DequantizeLinear", [sums, step], [real], {"axis": 1}))
    if offsets is not None and np.any(offsets):
        bias = offsets.astype(np.float32).reshape(-1, *[1] * (codes.ndim - 2))
        value = add_constant(graph, bias, f"{result.name}_bias")
        moved = Value(graph.fresh(f"{result.name}_moved"), result.fact)
        made.append(Node("Add", [real, value], [moved]))
    for new in made:
        graph.insert_before(node, new)
    rewrite.replace(result, made[-1].output, keep=made)


def _rounded(value: Value | None) -> Node | None:
    """Return the DequantizeLinear with a zero point that computes `value`; `None` for other producers."""
    node = None if value is None else value.producer
    return node if node is not None and node.op == "DequantizeLinear" and len(node.inputs) == 3 else None


def _is_unsigned(value: Value) -> bool:
    return value.dtype is DType.UINT8
