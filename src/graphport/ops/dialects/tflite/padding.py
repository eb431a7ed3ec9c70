"""Padding in TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.budget import made_up
from graphport.core.dtypes import DType
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.dialects.operands import as_int64, cast, dtype_of, integers, scalar, vector
from graphport.ops.dialects.tflite.binding import Operator, word
from graphport.ops.pages.indexing.gathering import Gather
from graphport.ops.pages.padding import Pad
from graphport.ops.pages.reshape import Reshape, Transpose

if TYPE_CHECKING:
    from graphport.ir.graph import Value

_SYMMETRIC = 1
_PADDED = frozenset((DType.FLOAT32, DType.INT32, DType.INT64, DType.INT8, DType.UINT8, DType.BOOL, DType.FLOAT64))
"""Types that runtimes pad."""


def _pads(op: Operator) -> Value:
    """Begins of all axes, then ends."""
    b, told = op.b, integers(op.raw(1))
    if told is None:
        return b(Reshape, b(Transpose, as_int64(b, op.raw(1)), perm=(1, 0)), vector(b, [-1]))
    if len(told) != 2 * len(op.dims(0)) or min(told, default=0) < 0:
        message = f"padding {list(told)} of {len(op.dims(0))} axes"
        raise ShapeError(message, "it has a begin and an end from 0 for each axis")
    return vector(b, [*told[::2], *told[1::2]])


def _padded(op: Operator, number: Value | None) -> Value:
    b, x, own = op.b, op[0], dtype_of(op[0])
    if own in _PADDED:
        return b(Pad, x, _pads(op), number)
    number = number if number is None else cast(b, number, DType.INT32)
    return cast(b, b(Pad, cast(b, x, DType.INT32), _pads(op), number), own)


@word("PAD", moves=True, layout="rows")
def pad(op: Operator) -> Value:
    """Zeros around; where integers are moved, those that stand for zero."""
    told = op.quantization(0)
    if op.is_raw and told is not None and any(told[3]):
        return _padded(op, scalar(op.b, told[3][0], told[0]))
    return _padded(op, None)


@word("PADV2", moves=(0, 2), layout="rows")
def padv2(op: Operator) -> Value:
    """A number around."""
    return _padded(op, op.b(Reshape, op[2], vector(op.b, [])) if op.dims(2) else op[2])


@word("MIRROR_PAD", moves=True, layout="rows")
def mirror_pad(op: Operator) -> Value:
    """What is inside around, turned around at the border, which is repeated where it is symmetric."""
    b, x = op.b, op[0]
    told = integers(op.raw(1))
    if told is None:
        message = "the padding of a mirror must be constant"
        raise UnsupportedError(message)
    is_symmetric = int(op.option("mode")) == _SYMMETRIC
    if not is_symmetric and dtype_of(x) is DType.FLOAT32:
        return b(Pad, x, _pads(op), mode="reflect")
    for axis, (begin, end) in enumerate(zip(told[::2], told[1::2], strict=True)):
        if not begin and not end:
            continue
        n = b.dims(x)[axis]
        if not isinstance(n, int):
            message = "what is mirrored must be known"
            raise UnsupportedError(message)
        most = n if is_symmetric else n - 1
        if min(begin, end) < 0 or max(begin, end) > most:
            message = f"padding {begin}, {end} of an axis of {n}"
            raise ShapeError(message)
        places = np.pad(np.arange(made_up(n)), (begin, end), "symmetric" if is_symmetric else "reflect")
        x = b(Gather, x, vector(b, places.tolist()), axis=axis)
    return x
