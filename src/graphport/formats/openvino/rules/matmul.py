"""Products of matrices in OpenVINO."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.openvino.rules.binding import RULES
from graphport.formats.openvino.rules.emitting import emitted_cast, emitted_reshape
from graphport.ir.graph import Node
from graphport.ops.constant_folding import Computed
from graphport.ops.declare import UnsupportedError, lower
from graphport.ops.decompositions.inverse import determinant, inverted
from graphport.ops.definitions.arithmetic import Sub
from graphport.ops.definitions.indexing import Gather, Slice
from graphport.ops.definitions.matmul import Det, MatMul, MatMulInteger
from graphport.ops.definitions.reshape import Concat, Expand, Shape, Transpose
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import (
    as_int64,
    cast,
    dtype_of,
    finite_limits,
    integers,
    sizes,
    transposed,
    vector,
)
from graphport.ops.views.matmul import QLinearMatMulView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.lowering.emitting import Exported


@lower("openvino", "opset1.MatMul", reads_facts_alone=True)
def matmul(b: Builder, x: Value, y: Value, *, transpose_a: bool = False, transpose_b: bool = False) -> Value:
    """Multiply over the last two axes; operands are transposed first if requested (vectors are not)."""
    dtype = x.dtype
    operands = _transposed(b, x) if transpose_a else x, _transposed(b, y) if transpose_b else y
    if dtype is None or not dtype.is_integer or dtype.bits >= _LEAST:
        return b(MatMul, *operands)
    # ONNX has no MatMul of narrow integers; truncating the int32 sums is equivalent.
    return cast(b, b(MatMul, *(cast(b, each, DType.INT32) for each in operands)), dtype)


_LEAST = 32
"""Bits of the narrowest integers that ONNX multiplies matrices of."""


def _transposed(b: Builder, x: Value) -> Value:
    rank = len(b.dims(x))
    return transposed(b, x, [*range(rank - 2), rank - 1, rank - 2]) if rank > 1 else x


def _own_copy(b: Builder, x: Value, transposes: object = 0) -> Value:
    """Return `x`, or a copy if it is a square constant with other consumers that is transposed for this product.

    OpenVINO 2026.4 caches packed weights by address and shape, and confuses both orientations of one constant. The
    elements of a copy are in another order, so it has another address.
    """
    b.looks_around = True
    source = _source_of_transpose(x)
    if source is None and transposes:
        source = x
    storage = None if source is None or not _is_read_untransposed(source) else source.storage
    if storage is None or len(storage.shape) < 2 or storage.shape[-1] != storage.shape[-2]:
        return x
    turned = b.constant(Computed(_swap_last_axes, (storage,), storage.dtype, storage.shape))
    if source is not x:
        return turned
    rank = len(storage.shape)
    return emit(b, "opset1.Transpose", turned, vector(b, [*range(rank - 2), rank - 1, rank - 2]))


def _is_read_untransposed(source: Value) -> bool:
    """Whether a product reads `source` in the orientation that it is stored in."""
    for user, place in source.uses:
        if not isinstance(user, Node):
            continue
        names = _ORIENTATIONS.get(user.op_type)
        if names is not None and place < len(names) and not user.attributes.get(names[place], 0):
            return True
    return False


_ORIENTATIONS = {
    "MatMul": ("", ""),
    "Gemm": ("transA", "transB"),
    "opset1.MatMul": ("transpose_a", "transpose_b"),
}
"""Products, and the attributes that transpose their operands."""


def _swap_last_axes(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.swapaxes(array, -1, -2)


def _source_of_transpose(x: Value) -> Value | None:
    """The constant of which `x` is the transpose in its last two axes."""
    node = x.producer
    if node is None or node.op_type not in _TRANSPOSES or not node.operands[0].is_constant:
        return None
    rank = len(node.operands[0].storage.shape) if node.operands[0].storage is not None else 0
    perm = integers(node.operands[1]) if len(node.operands) > 1 else node.attributes.get("perm")
    swapped = (*range(rank - 2), rank - 1, rank - 2)
    return node.operands[0] if rank > 1 and isinstance(perm, tuple | list) and tuple(perm) == swapped else None


_TRANSPOSES = ("Transpose", "opset1.Transpose")

RULES.having(own=_own_copy).export_rules("""
MatMul -> opset1.MatMul(own(a), own(b))
Gemm
    -> product = opset1.MatMul(own(a, transA), own(b, transB), transpose_a=transA != 0, transpose_b=transB != 0);
       scaled = product if alpha == 1 else opset1.Multiply(product, alpha); c is None or beta == 0: scaled
    -> opset1.Add(scaled, c if beta == 1 else opset1.Multiply(c, beta))
""")
# Of matrices of at most four rows.
RULES.having(inverted=inverted).lower("opset14.Inverse(x, *, adjoint=False) -> inverted(x, adjoint=adjoint)")


@MatMulInteger.export_rule("openvino")
def export_matmul_integer(
    b: Builder, x: Value, y: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Exported:
    """Export MatMulInteger in float32, which represents sums of a few hundred byte products exactly."""
    left = shifted(b, x, per_row(b, a_zero_point, x))
    right = shifted(b, y, b_zero_point)
    check_exact(b.dims(x)[-1:])
    return (emitted_cast(b, emit(b, "opset1.MatMul", left, right), DType.INT32),)


def check_exact(terms: Sequence[Dim]) -> None:
    """Refuse sums that float32 may round: a product of byte differences takes 17 bits and a sign, float32 has 24.

    Raises:
        UnsupportedError: there are more terms than float32 adds exactly, or their number is not static.
    """
    if not all(isinstance(n, int) for n in terms) or prod(sizes(terms)) > 1 << 8:
        message = "integer dot products too long for exact sums in float32"
        raise UnsupportedError(message)


def per_row(b: Builder, parameter: Value | None, x: Value) -> Value | None:
    """A vector of one number for each row of a matrix, as a column."""
    if parameter is None or len(b.dims(parameter)) != 1 or b.dims(parameter, at_least=1)[0] == 1 or len(b.dims(x)) < 2:
        return parameter
    return emitted_reshape(b, parameter, (-1, 1))


def shifted(b: Builder, x: Value, zero_point: Value | None) -> Value:
    """`x - zero_point` in float32."""
    wide = emitted_cast(b, x, DType.FLOAT32)
    return wide if zero_point is None else emit(b, "opset1.Subtract", wide, emitted_cast(b, zero_point, DType.FLOAT32))


@QLinearMatMulView.export_rule("openvino")
def export_qlinear_matmul(b: Builder, op: QLinearMatMulView) -> Exported:
    if not dtype_of(op.y_zero_point).is_integer:
        return None
    check_exact(b.dims(op.a)[-1:])
    product = emit(
        b, "opset1.MatMul", shifted(b, op.a, per_row(b, op.a_zero_point, op.a)), shifted(b, op.b, op.b_zero_point)
    )
    scales = [emitted_cast(b, scale, DType.FLOAT32) for scale in (op.a_scale, op.b_scale, op.y_scale)]
    rows, columns, results = per_row(b, scales[0], op.a), scales[1], per_row(b, scales[2], op.a)
    if rows is None or results is None:
        return None
    factor = emit(b, "opset1.Divide", emit(b, "opset1.Multiply", rows, columns), results)
    return (
        requantized(
            b, emit(b, "opset1.Multiply", product, factor), per_row(b, op.y_zero_point, op.a) or op.y_zero_point
        ),
    )


def requantized(b: Builder, scaled: Value, zero_point: Value) -> Value:
    """Requantize floats to the type of `zero_point`: round, add the zero point, saturate."""
    least, greatest = finite_limits(dtype_of(zero_point))
    rounded = emit(b, "opset5.Round", scaled, mode="half_to_even")
    moved = emit(b, "opset1.Add", rounded, emitted_cast(b, zero_point, DType.FLOAT32))
    clipped = emit(b, "opset1.Clamp", moved, min=float(least), max=float(greatest))
    return emitted_cast(b, clipped, dtype_of(zero_point))


Det.export_rule("openvino")(determinant)


@lower("openvino", "opset17.GroupedMatMul")
def grouped_matmul(b: Builder, x: Value, weights: Value, offsets: Value | None = None) -> Value:
    """Multiply each group by its own transposed matrix.

    Shapes: x [G, M, K], weights [G, N, K] → [G, M, N]; with offsets [G], x [T, K] → [T, N]: the rows of group g end
    at offset g, and those after the last offset are zeros.

    Source: OpenVINO GroupedMatMul-17.
    """
    transposed_weights = b(Transpose, weights, perm=(0, 2, 1))
    if offsets is None:
        return b(MatMul, x, transposed_weights)
    (groups,) = sizes(b.dims(weights)[:1], "the number of groups")
    ends = as_int64(b, offsets)
    start, axis = vector(b, [0]), vector(b, [0])
    parts: list[Value] = []
    for group in range(groups):
        end = b(Slice, ends, [group], [group + 1], axis)
        own = b(Gather, transposed_weights, group, axis=0)
        parts.append(b(MatMul, b(Slice, x, start, end, axis), own))
        start = end
    left = b(Sub, b(Shape, x, start=0, end=1), start)
    parts.append(b(Expand, b.like(x, 0), b(Concat, left, b(Shape, weights, start=1, end=2), axis=0)))
    return b(Concat, *parts, axis=0)
