"""Estimate which operators the XNNPACK delegate executes instead of LiteRT's builtin kernels."""

from __future__ import annotations

from collections import Counter
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.container.notes import VERSION
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node

_ROWS = """
float32: ABS BATCH_MATMUL CEIL CONCATENATION COS DEPTH_TO_SPACE ELU EXP FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC
    MAXIMUM MINIMUM NEG PRELU RELU RELU6 RELU_N1_TO_1 RESHAPE ROUND RSQRT SIN SPACE_TO_DEPTH SPLIT SQRT SQUARE
    SQUARED_DIFFERENCE TANH TRANSPOSE TRANSPOSE_CONV
float32 partly: ADD AVERAGE_POOL_2D CONV_2D DEPTHWISE_CONV_2D DIV FULLY_CONNECTED MAX_POOL_2D MEAN MUL PAD QUANTIZE
    REDUCE_MAX REDUCE_MIN RESIZE_BILINEAR SOFTMAX STRIDED_SLICE SUB SUM
int8: ADD BATCH_MATMUL CONCATENATION DEPTH_TO_SPACE ELU LEAKY_RELU LOGISTIC MUL PAD RESHAPE RESIZE_BILINEAR
    SPACE_TO_DEPTH SPLIT SUB TANH TRANSPOSE TRANSPOSE_CONV
int8 partly: CONV_2D DEPTHWISE_CONV_2D DEQUANTIZE FULLY_CONNECTED MAX_POOL_2D MEAN QUANTIZE REDUCE_MAX REDUCE_MIN SUM
uint8: ADD DEPTH_TO_SPACE DEQUANTIZE FULLY_CONNECTED LEAKY_RELU LOGISTIC MUL PAD RESHAPE RESIZE_BILINEAR SPACE_TO_DEPTH
    SPLIT SUB TANH TRANSPOSE TRANSPOSE_CONV
uint8 partly: CONCATENATION CONV_2D DEPTHWISE_CONV_2D MAX_POOL_2D MEAN QUANTIZE REDUCE_MAX REDUCE_MIN SUM
float16: ADD CONCATENATION COS DEQUANTIZE FLOOR GELU LOGISTIC MAXIMUM MINIMUM MUL NEG RESHAPE ROUND SIN SOFTMAX TANH
    TRANSPOSE
float16 partly: PAD STRIDED_SLICE
"""
"""Operators that XNNPACK executed in LiteRT 2.3.0, by the element type of the computation.

`partly` lists operators of which it executed some: depending on the activation (clamps only), on window and padding,
on inserted or removed axes, on beta, or on 2-bit weights.
"""
_INTEGERS = frozenset((DType.INT8, DType.UINT8))


class Kernel(NamedTuple):
    """Operators of one type and version in a file, and whether XNNPACK executes them: `yes`, `partly` or `no`."""

    operator: str
    version: int
    nodes: int
    xnnpack: str


def kernels(graph: Graph) -> list[Kernel]:
    """List the operators of a dialect graph, most frequent first; an operator in a body is counted once."""
    found = Counter((node.op_type, _version(node), _classify_node(node)) for inner in walk(graph) for node in inner)
    return [Kernel(*row[:2], count, row[2]) for row, count in found.most_common()]


@cache
def _rows() -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for line in _ROWS.replace("\n    ", " ").strip().split("\n"):
        version, _, words = line.partition(":")
        kind, _, share = version.partition(" ")
        found |= {(op_type, kind): share or "yes" for op_type in words.split()}
    return found


def _version(node: Node) -> int:
    version = node.notes.get(VERSION) if node.has_notes else None
    return version if isinstance(version, int) else 1


def _classify_node(node: Node) -> str:
    entries = _quantization_list(node.attributes.get("quantized"))
    for place, value in enumerate(node.inputs):
        fact = None if value is None else value.fact
        if value is None or value.is_constant or not isinstance(fact, TensorFact) or fact.dtype is None:
            continue
        if fact.dtype in _INTEGERS and (place >= len(entries) or entries[place] is None):
            # Integers without quantization parameters.
            return "no"
        return _rows().get((node.op_type, str(fact.dtype)), "no")
    return "no"


def _quantization_list(attribute: Any) -> list[Any]:
    return list(cast("tuple[Any, ...]", attribute)) if isinstance(attribute, tuple) else []
