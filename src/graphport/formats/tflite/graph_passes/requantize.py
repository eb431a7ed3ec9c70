"""Requantize integers without floats in between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from graphport.core.dtypes import DType
from graphport.formats.tflite.graph_passes.integers import quantization_of, stored_integers, stored_quantization

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

_TYPES = {
    **dict.fromkeys((DType.INT8, DType.UINT8), (DType.INT8, DType.UINT8)),
    DType.INT16: (DType.INT8, DType.INT16),
}
"""Element types between which LiteRT requantizes."""


def requantize(graph: Graph) -> None:
    """Replace DEQUANTIZE before QUANTIZE.

    Before  y = QUANTIZE(DEQUANTIZE(x int8) float32)
    After   y = QUANTIZE(x int8)
    """
    for node in list(graph):
        if node.dialect == "tflite" and node.op_type == "QUANTIZE":
            _requantize_node(graph, node)
    for node in reversed(list(graph)):
        is_real = node.dialect == "tflite" and node.op_type == "DEQUANTIZE"
        if is_real and not node.output.uses and not node.output.is_output:
            graph.remove(node)


def _requantize_node(graph: Graph, node: Node) -> None:
    source, result = stored_quantization(node.operands[0]), quantization_of(node, "quantized_results")
    if source is None or result is None or result[1] >= 0 or result[0] not in _TYPES.get(source[0], ()):
        return
    stored = stored_integers(graph, node, node.operands[0])
    if source != result:
        node.set_input(0, stored)
        node.set_attribute("quantized", cast("Any", (source,)))
    elif not node.output.is_output:
        node.output.replace_uses(stored)
        graph.remove(node)
