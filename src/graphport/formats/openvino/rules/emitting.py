"""Builders of OpenVINO operators shared by export rules: reshape, transpose, slice, cast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Attribute, Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.reshape import Reshape
from graphport.ops.lowering.emitting import emit, emits
from graphport.ops.lowering.operands import dtype_of, index, vector

if TYPE_CHECKING:
    from collections.abc import Sequence

_BYTE = 8


def emitted_reshape(b: Builder, x: Value, shape: Sequence[int]) -> Value:
    """Emit a Reshape; one size may be -1; a constant is reshaped in place."""
    constant = b.reshaped(x, shape) if all(n > 0 for n in shape) else None
    if constant is not None:
        return constant
    wanted = vector(b, shape)
    fact = Builder(b.inference, stem=b.stem)(Reshape, x, wanted, allowzero=1).fact
    return b.emit("opset1.Reshape", x, wanted, facts=[fact], special_zero=False)[0]


def emitted_scalar(b: Builder, x: Value) -> Value:
    """Reshape a tensor of one element to rank 0."""
    return emitted_reshape(b, x, ()) if b.dims(x) else x


def emitted_transpose(b: Builder, x: Value, perm: Sequence[int]) -> Value:
    """Emit a Transpose."""
    return x if list(perm) == list(range(len(perm))) else emit(b, "opset1.Transpose", x, vector(b, perm))


def emitted_cast(b: Builder, x: Value, to: DType) -> Value:
    """Emit a cast of `x` to another element type; return `x` if it has that type."""
    if dtype_of(x) is to:
        return x
    fact = x.fact if isinstance(x.fact, TensorFact) else TensorFact(None, None)
    is_exact = to.is_integer and dtype_of(x).is_integer
    facts = [TensorFact(to, fact.shape, fact.elements if is_exact else None)]
    return b.emit("opset1.Convert", x, facts=facts, destination_type=to)[0]


def emitted_gather(b: Builder, x: Value, indices: Value | int | Sequence[int], axis: int = 0) -> Value:
    """Emit Gather; an integer index removes the axis."""
    if not isinstance(indices, Value):
        indices = index(b, indices) if isinstance(indices, int) else vector(b, indices)
    return emit(b, "opset8.Gather", x, indices, index(b, axis))


def emitted_slice(b: Builder, x: Value, start: int, stop: int, axis: int, step: int = 1) -> Value:
    """Emit a slice from `start` to `stop` along an axis."""
    return emit(b, "opset8.Slice", x, *(vector(b, [n]) for n in (start, stop, step, axis)))


def emitted_pad(b: Builder, x: Value, begins: Sequence[int], ends: Sequence[int]) -> Value:
    """Pad `x` with zeros."""
    return emit(b, "opset12.Pad", x, vector(b, begins), vector(b, ends), b.like(x, 0), pad_mode="constant")


def emitted_extent(b: Builder, x: Value, axis: int) -> Value:
    """Emit the length of an axis as a scalar."""
    length = b.dims(x)[axis]
    return index(b, length) if isinstance(length, int) else emitted_gather(b, emit(b, "opset3.ShapeOf", x), axis)


def emitted_range(b: Builder, x: Value, axis: int) -> Value:
    """Emit 0, 1, …, length - 1 for an axis of `x`."""
    length = b.dims(x)[axis]
    if isinstance(length, int):
        return b.constant(np.arange(reserve(length), dtype=np.int64))
    ends = index(b, 0), emitted_extent(b, x, axis), index(b, 1)
    return b.emit("opset4.Range", *ends, facts=[TensorFact(DType.INT64, (length,))], output_type=DType.INT64)[0]


def emitted_top_k(b: Builder, x: Value, count: Value | int, axis: int, mode: str = "max") -> tuple[Value, ...]:
    """Emit TopK: the largest or smallest elements along an axis, ties in order, and their indices."""
    k = index(b, count) if isinstance(count, int) else emitted_scalar(b, count)
    stated: dict[str, Attribute] = {"mode": mode, "sort": "value", "stable": True, "index_element_type": DType.INT64}
    return emits(b, "opset11.TopK", 2, x, k, axis=axis % len(b.dims(x)), **stated)


def wrapping(b: Builder, op_type: str, *operands: Value, **attributes: Any) -> tuple[Value, ...]:
    """Emit an operator; 8-bit integers are computed in int32, because OpenVINO 2026.4 saturates where ONNX wraps."""
    fact = operands[0].fact
    dtype = fact.dtype if isinstance(fact, TensorFact) else None
    if dtype not in (DType.INT8, DType.UINT8):
        return b.emit(op_type, *operands, **attributes)
    wide = emit(b, op_type, *(emitted_cast(b, x, DType.INT32) for x in operands), **attributes)
    facts = [TensorFact(dtype, wide.shape)]
    return b.emit("opset1.Convert", wide, facts=facts, destination_type=dtype)


def renamed(b: Builder, x: Value) -> Value:
    """Return a copy of `x` under a new name: a Convert to its own type, available in every operation set."""
    dtype = x.dtype
    if dtype is None or dtype is DType.STRING or dtype.bits < _BYTE:
        return b.emit("opset16.Identity", x, facts=[x.fact])[0]
    return b.emit("opset1.Convert", x, facts=[x.fact], destination_type=dtype)[0]
