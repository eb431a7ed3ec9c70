"""Matrix products of TFLite, and integer products with the rounding of LiteRT's reference kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.tflite.rules.binding import Operator, import_rule
from graphport.formats.tflite.rules.integer_kernels import SIGNED, KernelOperands, integer_kernel
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.decompositions.inverse import determinant
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.matmul import Det, Gemm, MatMul, MatMulInteger
from graphport.ops.lowering.operands import dtype_of, reshaped, sizes, transposed

if TYPE_CHECKING:
    from graphport.formats.tflite.rules.fixed_point import Numbers
    from graphport.ir.graph import Value


@import_rule("FULLY_CONNECTED")
def fully_connected(op: Operator) -> Value:
    """FULLY_CONNECTED: x times transposed filters [maps, k]; x is reshaped to [-1, k] unless `keep_num_dims` is set."""
    op.has_long_factor = True
    b, x = op.b, op[0]
    if op.option("weights_format"):
        message = "weights_format is SHUFFLED4x16INT8, expected DEFAULT"
        raise UnsupportedError(message)
    if len(op.dims(1)) != 2:
        message = f"filters of rank {len(op.dims(1))}"
        raise ShapeError(message, "expected [maps, k]")
    rank = len(b.dims(x))
    is_hybrid = op.quantization(0) is None
    bias = op.bias(2)
    if op.option("keep_num_dims", default=False) and rank != 2:
        y = b(MatMul, x, op.weight(1, (1, 0), is_symmetric=is_hybrid))
        return y if bias is None else b(Add, y, bias)
    if rank != 2 or op.dims(0)[1] != op.dims(1)[1]:
        (columns,) = sizes(op.dims(1, 2)[1:], "the columns of the filters")
        x = reshaped(b, x, (-1, columns)) if columns else x
    return b(Gemm, x, op.weight(1, (0, 1), is_symmetric=is_hybrid), bias, transB=1)


@import_rule("BATCH_MATMUL")
def batch_matmul(op: Operator) -> Value:
    """BATCH_MATMUL: matrix product with optional transposition of either operand."""
    op.has_long_factor = True
    operands: list[Value] = []
    for index, name in enumerate(("adj_x", "adj_y")):
        rank = len(op.dims(index))
        is_transposed = bool(op.option(name, default=False))
        order = (*range(rank - 2), rank - 1, rank - 2) if is_transposed else tuple(range(rank))
        if op.quantization(index) is None and op.raw(index).storage is None:
            operands.append(transposed(op.b, op[index], order))
        else:
            operands.append(op.weight(index, order))
    # Integers without quantization parameters are multiplied as stored.
    op_def = MatMulInteger if dtype_of(operands[0]) is DType.INT8 else MatMul
    return op.b(op_def, *operands)


Det.export_rule("tflite")(determinant)


@integer_kernel("FULLY_CONNECTED", SIGNED)
def fully_connected_of_integers(given: KernelOperands) -> Numbers:
    """FULLY_CONNECTED of stored integers: integer sums of products, rescaled with one rounding."""
    x, w = given.centred(0), given.stored(1) - np.asarray(given.quantization(1)[3], np.int64).reshape(-1, 1)
    keeps = bool(given.option("keep_num_dims", default=False))
    shape = (*x.shape[:-1], w.shape[0]) if keeps else (-1, w.shape[0])
    sums = np.rint(x.reshape(-1, w.shape[1]).astype(np.float64) @ w.T.astype(np.float64)).astype(np.int64)
    if given.has(2):
        sums = sums + given.stored(2)
    return given.clamped(given.rescale_sums(sums, given.factor(0, 1), 2, is_long=True)).reshape(shape)


@integer_kernel("BATCH_MATMUL", SIGNED, numbers=(0, 1))
def batch_matmul_of_integers(given: KernelOperands) -> Numbers:
    """BATCH_MATMUL of stored integers: integer sums of products, rescaled to the result."""
    operands: list[Numbers] = []
    for index, name in enumerate(("adj_x", "adj_y")):
        x = given.centred(index).astype(np.float64)
        operands.append(np.swapaxes(x, -1, -2) if given.option(name, default=False) else x)
    sums = np.rint(np.matmul(*operands)).astype(np.int64)
    return given.clamped(given.rescale_sums(sums, given.factor(0, 1), 2))
