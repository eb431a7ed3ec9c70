"""Quantization in tract's NNEF: integer codes with explicit arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule
from graphport.formats.nnef.rules.tract.blocks import in_blocks
from graphport.formats.nnef.rules.tract.rule_table import fact_like
from graphport.formats.nnef.rules.tract.types import datum_name
from graphport.ops.constant_folding import Computed, folded
from graphport.ops.declare import UnsupportedError
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.views.quantization import DequantizeLinearView, QuantizeLinearView

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _as_broadcastable(b: Builder, value: Value, rank: int, axis: int) -> Value | None:
    """Return a per-tensor or per-axis constant as floats that broadcast to the rank, else `None`."""
    storage = folded(value)
    if storage is None or len(storage.shape) > 1:
        return None
    numbers = storage.numpy().astype(np.float32)
    if numbers.size == 1:
        return b.constant(numbers.reshape(()))
    place = axis % rank
    return b.constant(numbers.reshape(*[1] * place, -1, *[1] * (rank - place - 1)))


@QuantizeLinearView.export_rule(DIALECT)
def export_quantize(b: Builder, op: QuantizeLinearView) -> Any:
    rank = len(b.dims(op.x))
    target = DType.UINT8 if op.y_zero_point is None else op.y_zero_point.dtype
    scale = _as_broadcastable(b, op.y_scale, rank, op.axis)
    zero = None if op.y_zero_point is None else _as_broadcastable(b, op.y_zero_point, rank, op.axis)
    name = None if target is None else datum_name(target)
    if (
        op.block_size
        or scale is None
        or target is None
        or name is None
        or (zero is None and op.y_zero_point is not None)
    ):
        return None
    fact = fact_like(op.x)
    (y,) = b.emit("tract_core_round_even", *b.emit("div", op.x, scale, facts=[fact]), facts=[fact])
    if zero is not None:
        (y,) = b.emit("add", y, zero, facts=[fact])
    limits = np.iinfo(target.numpy)
    (y,) = b.emit("max", y, b.constant(np.float32(limits.min)), facts=[fact])
    (y,) = b.emit("min", y, b.constant(np.float32(limits.max)), facts=[fact])
    return b.emit("tract_core_cast", y, to=name)


def _blocks(op: DequantizeLinearView, rank: int) -> Storage | None:
    """Return the blocked form of a matrix of codes, if tract's format represents it."""
    given = (op.x, op.x_scale, op.x_zero_point)
    stored = [None if each is None or not each.is_constant else each.storage for each in given]
    codes, scales, zeros = stored
    if codes is None or scales is None or (zeros is None and op.x_zero_point is not None):
        return None
    if rank == 2 and op.axis % rank == 0:
        codes, scales, zeros = _transposed(codes), _transposed(scales), None if zeros is None else _transposed(zeros)
    return in_blocks(codes, scales, zeros, 1, op.block_size) if rank == 2 else None


def _transposed(stored: Storage) -> Storage:
    return Computed(np.transpose, (stored,), stored.dtype, stored.shape[::-1])


_HALF_BYTES = frozenset((DType.INT4, DType.UINT4, DType.INT2, DType.UINT2))


def _bytes(b: Builder, x: Value) -> Value | None:
    """Unpack constant codes of less than 8 bits to bytes: tract has no smaller integer types."""
    storage = x.storage if x.is_constant else None
    if storage is None:
        return None
    return b.constant(Computed(_widened, (storage,), DType.INT8, storage.shape), name=x.name)


def _widened(codes: Any) -> Any:
    return codes.astype(np.int8)


def _of_blocks(b: Builder, op: DequantizeLinearView, x: Value) -> Any:
    """Dequantize blocked codes: split the axis into blocks."""
    shape, axis = b.dims(op.x), op.axis % len(b.dims(op.x))
    extents = [extent for extent in shape if isinstance(extent, int)]
    scales = folded(op.x_scale)
    zeros = None if op.x_zero_point is None else folded(op.x_zero_point)
    size = op.block_size
    if len(extents) < len(shape) or scales is None or (zeros is None and op.x_zero_point is not None):
        return None
    if len(scales.shape) != len(extents) or extents[axis] % size or scales.shape[axis] * size != extents[axis]:
        return None
    split = (*extents[:axis], extents[axis] // size, size, *extents[axis + 1 :])
    fact = TensorFact(DType.FLOAT32, split)
    (y,) = b.emit("tract_core_cast", x, facts=[fact_like(op.x, DType.FLOAT32)], to="f32")
    (y,) = b.emit("reshape", y, facts=[fact], shape=split, axis_start=0, axis_count=-1)
    if zeros is not None:
        (y,) = b.emit("sub", y, b.constant(_of_block(zeros, axis)), facts=[fact])
    (y,) = b.emit("mul", y, b.constant(_of_block(scales, axis)), facts=[fact])
    whole = fact_like(op.x, DType.FLOAT32)
    return b.emit("reshape", y, facts=[whole], shape=tuple(extents), axis_start=0, axis_count=-1)


def _of_block(storage: Storage, axis: int) -> Any:
    """Return the parameters of blocks, broadcastable to the split axis."""
    return np.expand_dims(storage.numpy().astype(np.float32), axis + 1)


@DequantizeLinearView.export_rule(DIALECT)
def export_dequantize(b: Builder, op: DequantizeLinearView) -> Any:
    rank = len(b.dims(op.x))
    scale = _as_broadcastable(b, op.x_scale, rank, op.axis)
    zero = None if op.x_zero_point is None else _as_broadcastable(b, op.x_zero_point, rank, op.axis)
    own = op.x.dtype
    if op.block_size and (found := _blocks(op, rank)) is not None:
        blocks = b.constant(found, name=op.x.name)
        # Blocks are along rows; for columns the product uses a transposed matrix.
        return (
            blocks
            if op.axis % rank
            else b.emit("transpose", blocks, facts=[fact_like(op.x, DType.FLOAT32)], axes=(1, 0))
        )
    x = op.x if own is None or own not in _HALF_BYTES else _bytes(b, op.x)
    if op.block_size and x is not None:
        return _of_blocks(b, op, x)
    if (
        x is None
        or scale is None
        or own is None
        or datum_name(own if x is op.x else DType.INT8) is None
        or (zero is None and op.x_zero_point is not None)
    ):
        return None
    fact = fact_like(op.x, DType.FLOAT32)
    (y,) = b.emit("tract_core_cast", x, facts=[fact], to="f32")
    if zero is not None:
        (y,) = b.emit("sub", y, zero, facts=[fact])
    return b.emit("mul", y, scale)


@import_rule("decoded")
def decoded(b: Builder, x: Value, *, scale: float, zero_point: int) -> Value:
    """Dequantize integers."""
    zero = b.like(x, zero_point)
    return OpBuilder(b)("DequantizeLinear", x, b.constant(np.float32(scale)), zero)


@import_rule("encoded")
def encoded(b: Builder, x: Value, *, scale: float, zero_point: int, signed: bool) -> Value:
    """Quantize floats to 8-bit integers; integers of that type are unchanged.

    Raises:
        UnsupportedError: `x` has another integer type.
    """
    zero = b.constant(np.asarray(zero_point, np.int8 if signed else np.uint8))
    own = x.dtype
    if own is not None and own.is_integer:
        if own is not zero.dtype:
            message = f"{own} is not a {zero.dtype}"
            raise UnsupportedError(message)
        return OpBuilder(b)("Identity", x)
    return OpBuilder(b)("QuantizeLinear", x, b.constant(np.float32(scale)), zero)
