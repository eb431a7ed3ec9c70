"""The least version of an operator that can say what a node says, after LiteRT's `op_version.cc`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from graphport.ir.graph import Node, Value

_ALWAYS_1 = frozenset(
    {"HARD_SWISH", "NEG", "ELU", "RELU_N1_TO_1", "RELU_0_TO_1", "FLOOR", "ROUND", "CEIL", "PRELU", "SQUARE", "CUMSUM"}
    | {"IF", "WHILE", "SCATTER_ND", "RESHAPE", "EXPAND_DIMS", "SHAPE", "RANK", "RANGE"}
)
"""Operators of which there is one version, whatever the element type."""
_WORDS_16 = MappingProxyType(
    {"CONV_2D": 4, "DEPTHWISE_CONV_2D": 5, "FULLY_CONNECTED": 7, "ADD": 4, "MUL": 4, "PAD": 4, "SLICE": 4}
    | {"TRANSPOSE": 5, "GATHER": 4, "QUANTIZE": 2, "DEQUANTIZE": 3}
)
"""Versions for words of 16 bits; 3 for the others."""
_WORDS_8 = MappingProxyType({"CONV_2D": 3, "DEPTHWISE_CONV_2D": 3, "FULLY_CONNECTED": 4, "QUANTIZE": 1})
"""Versions for signed bytes; 2 for the others."""
_LARGE = 4
_RANKS = MappingProxyType({"SLICE": 5, "TRANSPOSE": 4, "STRIDED_SLICE": 4, "SUB": 3, "DIV": 2, "MAXIMUM": 3})
"""Versions for more than four axes."""
_RESIZED = frozenset(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"))


def version_of(node: Node) -> int:
    """The version of a node's operator."""
    word = node.word
    if word in _ALWAYS_1 or word.startswith("custom."):
        return 1
    found = 2 if word == "BROADCAST_TO" else 1
    dtype, rank = _dtype(node.operand(0)), max((_rank(value) for value in node.operands), default=0)
    if dtype is DType.INT8:
        found = max(found, _WORDS_8.get(word, 2))
    if dtype is DType.INT16 or (word == "QUANTIZE" and node.results and _dtype(node.output) is DType.INT16):
        found = max(found, _WORDS_16.get(word, 3))
    if rank > _LARGE and word in _RANKS:
        found = max(found, _RANKS[word])
    return max(found, _special(node, dtype, rank))


def _special(node: Node, dtype: DType | None, rank: int) -> int:
    match node.word:
        case "TRANSPOSE" if rank > _LARGE + 1:
            return 6
        case "FULLY_CONNECTED" if node.attributes.get("keep_num_dims"):
            return 5
        case "FULLY_CONNECTED" if len(node.inputs) < 3:
            return 6
        case "TRANSPOSE_CONV" if len(node.inputs) > 3:
            return 3
        case "DEQUANTIZE" if dtype is DType.FLOAT16:
            return 3
        case "DEQUANTIZE" if dtype in (DType.INT4, DType.INT2):
            return 6 if dtype is DType.INT4 else 7
        case "DEQUANTIZE" if _is_by_axis(node, "quantized"):
            return 5
        case "CONV_2D" if _groups(node):
            return 6
        case word if word in _RESIZED and (node.attributes.get("half_pixel_centers")):
            return 3
        case _:
            return 1


def _groups(node: Node) -> bool:
    shapes = [_shape(value) for value in node.inputs[:2]]
    return all(shapes) and shapes[0][-1] != shapes[1][-1]


def _shape(value: Value | None) -> tuple[object, ...]:
    fact = None if value is None else value.fact
    return fact.shape or () if isinstance(fact, TensorFact) else ()


def _is_by_axis(node: Node, name: str) -> bool:
    told = node.attributes.get(name)
    return isinstance(told, tuple) and any(isinstance(each, tuple) and each[1] != -1 for each in told)


def _dtype(value: Value | None) -> DType | None:
    return value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None


def _rank(value: Value) -> int:
    return len(_shape(value))
