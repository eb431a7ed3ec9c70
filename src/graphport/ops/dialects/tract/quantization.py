"""Quantization in tract's NNEF, spelled out: codes are integers, and what they stand for is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import UnsupportedError, lift
from graphport.ops.dialects.nnef import convolution
from graphport.ops.dialects.op_builder import OpBuilder
from graphport.ops.dialects.tract.binding import DIALECT, dtype_of, word
from graphport.ops.dialects.tract.blocks import in_blocks
from graphport.ops.dialects.tract.rows import fact_like
from graphport.ops.dialects.tract.types import datum, datum_name

if TYPE_CHECKING:
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _spread(b: Builder, value: Value, rank: int, axis: int) -> Value | None:
    """A constant of one number, or one for each entry of an axis, as real numbers of a rank; `None` of any other."""
    if value.storage is None or not value.is_constant or len(value.storage.shape) > 1:
        return None
    numbers = value.storage.numpy().astype(np.float32)
    if numbers.size == 1:
        return b.constant(numbers.reshape(()))
    place = axis % rank
    return b.constant(numbers.reshape(*[1] * place, -1, *[1] * (rank - place - 1)))


@lift(DIALECT, "QuantizeLinear")
def lift_quantize(
    b: Builder,
    x: Value,
    y_scale: Value,
    y_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    **rest: Any,
) -> Any:
    rank = len(b.dims(x))
    target = DType.UINT8 if y_zero_point is None else dtype_of(y_zero_point)
    scale = _spread(b, y_scale, rank, axis)
    zero = None if y_zero_point is None else _spread(b, y_zero_point, rank, axis)
    name = None if target is None else datum_name(target)
    if block_size or scale is None or target is None or name is None or (zero is None and y_zero_point is not None):
        return None
    fact = fact_like(x)
    (y,) = b.word("tract_core_round_even", *b.word("div", x, scale, facts=[fact]), facts=[fact])
    if zero is not None:
        (y,) = b.word("add", y, zero, facts=[fact])
    limits = np.iinfo(target.numpy)
    (y,) = b.word("max", y, b.constant(np.float32(limits.min)), facts=[fact])
    (y,) = b.word("min", y, b.constant(np.float32(limits.max)), facts=[fact])
    return b.word("tract_core_cast", y, facts=[TensorFact(target, fact.shape)], to=name)


def _blocks(x: Value, scale: Value, zero: Value | None, axis: int, size: int) -> Storage | None:
    stored = [None if each is None or not each.is_constant else each.storage for each in (x, scale, zero)]
    codes, scales, zeros = stored
    if codes is None or scales is None or (zeros is None and zero is not None):
        return None
    return in_blocks(codes, scales, zeros, axis, size)


@lift(DIALECT, "DequantizeLinear")
def lift_dequantize(
    b: Builder,
    x: Value,
    x_scale: Value,
    x_zero_point: Value | None = None,
    *,
    axis: int = 1,
    block_size: int = 0,
    **rest: Any,
) -> Any:
    rank = len(b.dims(x))
    scale = _spread(b, x_scale, rank, axis)
    zero = None if x_zero_point is None else _spread(b, x_zero_point, rank, axis)
    own = dtype_of(x)
    if block_size and (found := _blocks(x, x_scale, x_zero_point, axis, block_size)) is not None:
        return b.constant(found, name=x.name)
    if (
        block_size
        or scale is None
        or own is None
        or datum_name(own) is None
        or (zero is None and x_zero_point is not None)
    ):
        return None
    fact = fact_like(x, DType.FLOAT32)
    (y,) = b.word("tract_core_cast", x, facts=[fact], to="f32")
    if zero is not None:
        (y,) = b.word("sub", y, zero, facts=[fact])
    return b.word("mul", y, scale, facts=[fact])


@word("tract_core_einsum_q")
def einsum_q(
    b: Builder,
    *operands: Value,
    expr: str,
    acc: str,
    output: str = "",
) -> Value:
    """A sum of products of codes, with what a zero of each is left out; codes of another scale come out of it."""
    del acc
    *inputs, bias, a0, a_scale, b0, b_scale, c0, c_scale = operands
    if len(inputs) != 2:
        message = f"{len(inputs)} factors"
        raise UnsupportedError(message)
    emit = OpBuilder(b)
    text, _, result = expr.replace(" ", "").partition("->")
    equation = f"{','.join(text.split(',')[:2])}->{result}"
    factors = [_centred(b, x, zero) for x, zero in zip(inputs, (a0, b0), strict=True)]
    total = emit("Einsum", *factors, equation=equation)
    return _coded(b, emit("Add", total, _wide(b, bias)), (a_scale, b_scale, c_scale), c0, output)


@word("tract_core_qconv")
def qconv(
    b: Builder,
    input: Value,
    filter: Value,
    bias: Value,
    *scales: Value,
    output_dt: str = "i32",
    **attributes: Any,
) -> Value:
    """A convolution of codes; `a` is the filter, and `b` the input."""
    a0, a_scale, b0, b_scale, c0, c_scale = scales
    total = convolution.conv(b, _centred(b, input, b0), _centred(b, filter, a0), **attributes)
    count = b.dims(bias)
    if count and count[0] != 1:
        bias = OpBuilder(b)("Unsqueeze", bias, b.constant(np.arange(1, len(b.dims(input)) - 1)))
    return _coded(b, OpBuilder(b)("Add", total, _wide(b, bias)), (a_scale, b_scale, c_scale), c0, output_dt)


def _wide(b: Builder, x: Value) -> Value:
    """Integers as doubles, which hold sums of their products exactly."""
    return OpBuilder(b)("Cast", x, to=DType.FLOAT64)


def _centred(b: Builder, x: Value, zero: Value) -> Value:
    return OpBuilder(b)("Sub", _wide(b, x), _wide(b, zero))


def _coded(b: Builder, total: Value, scales: tuple[Value, Value, Value], zero: Value, output: str) -> Value:
    """Sums as codes of their own scale and zero, halves to even."""
    emit, dtype = OpBuilder(b), datum(output) or DType.INT32
    a, other, own = (_wide(b, scale) for scale in scales)
    y = emit("Add", emit("Round", emit("Mul", total, emit("Div", emit("Mul", a, other), own))), _wide(b, zero))
    limits = np.iinfo(dtype.numpy)
    low, high = (b.constant(np.float64(limit)) for limit in (limits.min, limits.max))
    return emit("Cast", emit("Clip", y, low, high), to=dtype)
