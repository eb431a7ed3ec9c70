"""Minimum operator version that supports a node's types and options, after LiteRT's `op_version.cc` of August 2026."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, cast

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.ir.graph import Node, Value

_ROWS = """
CONV_2D: 8 int16 quantized_bias_type; 6 grouped; 4 int16; 7 1:int4; 3 int8; 5 1:int8 axis; 2 1:int8
DEPTHWISE_CONV_2D: 5 int16; 6 1:int8 float32 axis; 4 1:int8 float32; 3 1:int8; 7 1:int4; 2 dilation_w_factor>1;
    2 dilation_h_factor>1
FULLY_CONNECTED: 14 1:int2; 13 int16 1:int4; 12 float32 1:int8 axis; 11 int16 quantized_bias_type; 7 int16;
    5 keep_num_dims; 10 1:int4; 4 int8; 9 1:int8 asymmetric_quantize_inputs; 3 1:int8; 2 weights_format
TRANSPOSE_CONV: 5 quantized_bias_type; 4 fused_activation_function; 3 operands>3; 2 1:int8
EMBEDDING_LOOKUP: 4 1:int4; 4 axis; 5 1:int2
FAKE_QUANT: 2 narrow_range
GATHER: 7 int4; 6 1:int16; 5 batch_dims; 4 int16; 3 bool; 2 int8
GATHER_ND: 5 bool; 4 1:int16; 3 int16; 2 string
SVDF: 3 int8; 4 1:int8 asymmetric_quantize_inputs; 2 1:int8
SIGN: 2 int32
SIN COS: 2 float16
ADD: 6 float16; 5 int16 plain; 4 int64; 3 int16 free_scales; 2 int8
SUB: 5 int16 free_scales; 4 int64; 3 broadcast rank>4; 2 int8
MUL: 8 float16; 7 int16 plain; 7 uint32; 6 complex64; 5 int64; 4 int16; 3 amplified; 2 int8
DIV: 2 broadcast rank>4
MAXIMUM MINIMUM: 4 int16; 3 broadcast rank>4; 2 int8
MAX_POOL_2D AVERAGE_POOL_2D TANH LOGISTIC MEAN MIRROR_PAD REDUCE_MAX REDUCE_MIN RELU6 RSQRT: 3 int16; 2 int8
RELU: 3 int16; 2 int8; 2 uint8
ABS: 5 int32; 4 int16 plain; 3 int16; 2 int8; 2 uint8
SOFTMAX: 4 float16; 3 int16; 2 int8
TRANSPOSE: 9 float16; 8 rank0>6; 8 bfloat16; 7 int4; 6 rank0>5; 5 int16; 4 rank0>4; 3 bool; 2 int8
SPLIT: 4 1:int16; 3 1:int32; 2 1:int8
SPLIT_V SPACE_TO_DEPTH SUM LOG_SOFTMAX GREATER LESS_EQUAL SQUARED_DIFFERENCE DEPTH_TO_SPACE: 2 int8
LESS GREATER_EQUAL: 3 int16; 2 int8
EQUAL: 5 int16; 3 string; 2 int8
NOT_EQUAL: 4 int16; 3 string; 2 int8
SPARSE_TO_DENSE: 3 2:int8; 3 2:uint8; 2 2:int64
SLICE: 8 float16; 7 int4; 6 uint32; 5 rank0>4; 4 int16; 3 string; 2 int8
STRIDED_SLICE: 8 offset; 7 uint32; 6 ellipsis_mask; 6 new_axis_mask; 5 string; 4 rank0>4; 3 bool; 2 int8
PACK: 4 uint32; 3 int16; 2 int8
UNPACK: 5 float16; 5 bfloat16; 4 int16; 3 bool; 2 int8; 2 uint8
DEQUANTIZE: 8 uint4; 7 int2; 6 int4; 3 int16; 3 float16; 5 int8 axis; 2 int8
QUANTIZE: 5 uint4; 5 out:uint4; 4 int4; 4 out:int4; 3 axis; 2 out:int16
FLOOR_DIV: 3 int16; 3 int8; 2 float32
FLOOR_MOD EXP LOG REDUCE_PROD SQRT: 2 int16; 2 int8
L2_NORMALIZATION: 2 int8
RESIZE_BILINEAR: 4 int16; 3 half_pixel_centers; 2 int8
RESIZE_NEAREST_NEIGHBOR: 4 int16; 3 half_pixel_centers; 3 align_corners; 2 int8
REVERSE_V2: 3 int8; 2 bool
TILE: 3 int8; 2 string
SQUEEZE: 2 string
SPACE_TO_BATCH_ND BATCH_TO_SPACE_ND: 4 int16; 3 rank0<4; 3 rank0>4; 2 int8
FILL: 4 1:float16; 3 1:int8; 3 1:int16; 2 1:bool; 2 1:string
LEAKY_RELU: 2 int16
RANGE: 2 int64
BATCH_MATMUL: 3 int16; 2 int8; 4 1:int8 asymmetric_quantize_inputs
PAD PADV2: 5 bool; 4 rank0>4; 3 int16; 2 int8
CONCATENATION: 6 float16; 5 int4; 4 uint32; 3 int16; 2 int8
RNN UNIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_RNN BIDIRECTIONAL_SEQUENCE_LSTM:
    3 1:int8 asymmetric_quantize_inputs; 2 1:int8
UNIDIRECTIONAL_SEQUENCE_LSTM: 4 diagonal_recurrent_tensors; 3 2:int8 float32 asymmetric_quantize_inputs;
    2 2:int8 float32
LSTM: 4 2:int8 float32 asymmetric_quantize_inputs; 3 2:int8 float32; 2 kernel_type
ARG_MAX ARG_MIN: 3 bool; 2 int8
SELECT: 4 uint32; 3 rank>4; 2 int8
SELECT_V2: 2 uint32
TOPK_V2: 3 int16; 2 int8
DYNAMIC_UPDATE_SLICE: 6 bfloat16; 5 int4; 4 int16; 3 float16; 2 2:int64
BROADCAST_TO: 3 int8; 3 int16; 2
CAST: 8 int2; 8 out:int2; 8 uint4; 8 out:uint4; 7 bfloat16; 7 out:bfloat16; 6 int4; 5 float64; 5 out:float64; 5 float16;
    5 out:float16; 4 uint16; 4 out:uint16; 3 int8; 3 out:int8; 2 uint32; 2 out:uint32
WHERE: 1 bool; 2
GELU: 3 float16; 2 int8; 2 uint8
"""
"""Versions of each operator with their conditions: the first version whose conditions all hold, 1 if there is none.

Conditions: an element type of operand 0 or of the operand before the colon; `rank` of any operand, `rank0` of the
first; an option that is not 0. `axis` means per-axis scales, `plain` integers without quantization parameters.
"""

_TYPES = frozenset(map(str, DType))


@cache
def _rows() -> dict[str, tuple[tuple[int, tuple[str, ...]], ...]]:
    found: dict[str, tuple[tuple[int, tuple[str, ...]], ...]] = {}
    for line in _ROWS.replace("\n    ", " ").strip().split("\n"):
        words, _, rules = line.partition(": ")
        rows = [row.split() for row in rules.split(";")]
        found |= dict.fromkeys(words.split(), tuple((int(row[0]), tuple(row[1:])) for row in rows))
    return found


def version_of(node: Node) -> int:
    """Return the minimum version of a node's operator."""
    rows = _rows().get(node.op_type, ())
    return next((version for version, claims in rows if all(_meets_condition(node, claim) for claim in claims)), 1)


def _meets_condition(node: Node, claim: str) -> bool:
    place, colon, wanted = claim.rpartition(":")
    if colon or wanted in _TYPES:
        dtype = _dtype(node.output if place == "out" else node.operand(int(place or 0)))
        return dtype is not None and str(dtype) == wanted
    name, sign, limit = claim.partition(">") if ">" in claim else claim.partition("<")
    if not sign:
        return _CLAIMS[claim](node) if claim in _CLAIMS else bool(node.attributes.get(claim))
    count = _COUNTS[name](node) if name in _COUNTS else cast("int", node.attributes.get(name, 0))
    return count > int(limit) if sign == ">" else count < int(limit)


def _is_grouped(node: Node) -> bool:
    shapes = [_shape(value) for value in node.inputs[:2]]
    return all(shapes) and shapes[0][-1] != shapes[1][-1]


def _is_broadcast(node: Node) -> bool:
    return _shape(node.operand(0)) != _shape(node.operand(1))


def _has_axis(node: Node) -> bool:
    quantizations = [*_quantization_list(node, "quantized"), *_quantization_list(node, "quantized_results")]
    return any(each is not None and each[1] != -1 for each in quantizations)


def _is_amplified(node: Node) -> bool:
    """Whether the scale of the product exceeds the scale of the result."""
    quantizations = [*_quantization_list(node, "quantized"), *_quantization_list(node, "quantized_results")]
    if len(quantizations) != 3 or None in quantizations:
        return False
    x, y, z = (each[2][0] for each in quantizations)
    return x * y / z >= 1


_COUNTS: dict[str, Callable[[Node], int]] = {
    "operands": lambda node: len(node.inputs),
    "rank": lambda node: max((len(_shape(value)) for value in node.inputs), default=0),
    "rank0": lambda node: len(_shape(node.operand(0))),
}
_CLAIMS: dict[str, Callable[[Node], bool]] = {
    "grouped": _is_grouped,
    "broadcast": _is_broadcast,
    "axis": _has_axis,
    "amplified": _is_amplified,
    "plain": lambda node: not any(_quantization_list(node, "quantized")),
    # The default: scales that are powers of two.
    "free_scales": lambda node: not node.attributes.get("pot_scale_int16", True),
}


def _quantization_list(node: Node, name: str) -> tuple[Any, ...]:
    entries = node.attributes.get(name)
    return cast("tuple[Any, ...]", entries) if isinstance(entries, tuple) else ()


def _shape(value: Value | None) -> tuple[object, ...]:
    fact = None if value is None else value.fact
    return fact.shape or () if isinstance(fact, TensorFact) else ()


def _dtype(value: Value | None) -> DType | None:
    return value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None
