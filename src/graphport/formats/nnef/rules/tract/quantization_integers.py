"""Sums of products of codes in tract's NNEF: convolutions and matrices of integers, scaled to integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.nnef.rules import convolution
from graphport.formats.nnef.rules.convolution_borders import Sliding, emitted_padding
from graphport.formats.nnef.rules.tract.binding import DIALECT, import_rule
from graphport.formats.nnef.rules.tract.matmul import matrix_equation
from graphport.formats.nnef.rules.tract.types import datum, datum_name
from graphport.ops.constant_folding import folded
from graphport.ops.declare import ShapeError, UnsupportedError, export_rule
from graphport.ops.lowering.op_builder import OpBuilder
from graphport.ops.lowering.windows import window_options
from graphport.ops.views.convolution import ConvIntegerView, QLinearConvView
from graphport.ops.views.matmul import QLinearMatMulView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_MATRIX = 2


# ── reading ──


@import_rule("tract_core_einsum_q")
def einsum_q(
    b: Builder,
    *operands: Value,
    expr: str,
    acc: str,
    output: str = "",
) -> Value:
    """Einsum of quantized tensors: subtract zero points, multiply, sum, requantize."""
    del acc
    *inputs, bias, a0, a_scale, b0, b_scale, c0, c_scale = operands
    if len(inputs) != _MATRIX:
        message = f"{len(inputs)} factors"
        raise UnsupportedError(message)
    text, _, result = expr.replace(" ", "").partition("->")
    letters = [*text.split(","), *[""] * 9][:9]
    equation = f"{letters[0]},{letters[1]}->{result}"
    zeros = [_among(b, zero, letters[3 + 2 * at], letters[at]) for at, zero in enumerate((a0, b0))]
    factors = [_centred(b, x, zero) for x, zero in zip(inputs, zeros, strict=True)]
    total = OpBuilder(b)("Einsum", *factors, equation=equation)
    total = OpBuilder(b)("Add", total, _as_float64(b, _among(b, bias, letters[2], result)))
    scales = [_among(b, x, letters[at], result) for x, at in ((a_scale, 4), (b_scale, 6), (c_scale, 8))]
    return _coded(b, total, (scales[0], scales[1], scales[2]), _among(b, c0, letters[7], result), output)


def _among(b: Builder, x: Value, own: str, letters: str) -> Value:
    """Align a tensor with axes `own` to the axes `letters` by inserting axes of length 1."""
    if not own or own == letters:
        return x
    if [letter for letter in letters if letter in own] != list(own):
        message = f"axes {own} are not in the order {letters}"
        raise UnsupportedError(message)
    missing = [at for at, letter in enumerate(letters) if letter not in own]
    return OpBuilder(b)("Unsqueeze", x, b.constant(np.array(missing, np.int64)))


@import_rule("tract_core_qmatmul")
def qmatmul(
    b: Builder, A: Value, B: Value, bias: Value, *scales: Value, axes: tuple[int, ...] = (), output_type: str = "i32"
) -> Value:
    """Quantized matrix product over the row and column axes `axes`; see `matrix_equation`."""
    return einsum_q(b, A, B, bias, *scales, expr=matrix_equation(b, A, B, axes), acc="i32", output=output_type)


@import_rule("tract_core_qconv")
def qconv(
    b: Builder,
    input: Value,
    filter: Value,
    bias: Value,
    *numbers: Value | None,
    output_dt: str = "i32",
    groups: int = 1,
    **attributes: Any,
) -> Value:
    """Quantized convolution; of `numbers`, those called `a` belong to the filter, `b` to the input."""
    stated = Sliding(**attributes)
    given = [number for number in numbers if number is not None]
    if len(given) != len(numbers) or len(given) != 6:
        message = f"{len(given)} zero points and scales, expected 6"
        raise ShapeError(message, "pass a zero point and a scale for filter, input and output")
    a0, a_scale, b0, b_scale, c0, c_scale = given
    target, space = datum(output_dt) or DType.INT32, len(b.dims(input)) - 2
    zeros = [_stored(b, zero, like) for zero, like in ((a0, filter), (b0, input))]
    if zeros[0] is not None and zeros[1] is not None:
        window = convolution.window_attributes(b, stated, input, filter, groups=groups)
        codes = (zeros[1], zeros[0])
        found = _operator(b, (input, filter, bias), codes, (b_scale, a_scale, c_scale), c0, target, window)
        if found is not None:
            return found
    total = convolution.conv(
        b, stated, _centred(b, input, b0), _centred(b, filter, _led(b, a0, space + 1)), groups=groups
    )
    total = OpBuilder(b)("Add", total, _as_float64(b, _led(b, bias, space)))
    return _coded(b, total, (_led(b, a_scale, space), b_scale, c_scale), c0, output_dt)


def _operator(
    b: Builder,
    tensors: tuple[Value, Value, Value],
    zeros: tuple[Value, Value],
    scales: tuple[Value, Value, Value],
    shift: Value,
    target: DType,
    window: dict[str, Any] | None,
) -> Value | None:
    """Return ONNX's QLinearConv; `None` if there is no equivalent or runtimes lack it."""
    x, w, bias = tensors
    emit = OpBuilder(b)
    maps, numbers = b.dims(w, at_least=1)[0], folded(bias)
    if x.dtype is not DType.UINT8 or not isinstance(maps, int) or numbers is None or window is None:
        return None
    whole = np.broadcast_to(numbers.numpy().reshape(-1), (maps,)).astype(np.int32)
    if target.bits == 8:
        steps = _stored(b, shift, None, target)
        known = [folded(scale) for scale in scales]
        if steps is None or None in known:
            return None
        more = [b.constant(np.ascontiguousarray(whole))] if whole.any() else []
        return emit("QLinearConv", x, scales[0], zeros[0], w, scales[1], zeros[1], scales[2], steps, *more, **window)
    if not all(_is_all(scale, 1) for scale in scales) or not _is_all(shift, 0):
        return None
    total = emit("ConvInteger", x, w, *zeros, **window)
    if not whole.any():
        return total
    column = whole.reshape(-1, *[1] * (len(b.dims(x)) - 2))
    return emit("Add", total, b.constant(np.ascontiguousarray(column)))


def _is_all(value: Value, number: int) -> bool:
    storage = folded(value)
    return storage is not None and bool((storage.numpy() == number).all())


def _stored(b: Builder, zero: Value, like: Value | None, dtype: DType | None = None) -> Value | None:
    """Return a constant zero point in the 8-bit type of the codes; `None` if it is out of range or not constant."""
    storage = folded(zero)
    target = dtype or (None if like is None else like.dtype)
    if storage is None or target is None or not target.is_integer or target.bits != 8:
        return None
    numbers = storage.numpy()
    limits = np.iinfo(target.numpy)
    if numbers.size and (numbers.min() < limits.min or numbers.max() > limits.max):
        return None
    return b.constant(numbers.astype(target.numpy))


def _led(b: Builder, x: Value, behind: int) -> Value:
    """Append axes of length 1 to per-channel parameters; a scalar is unchanged."""
    dims = b.dims(x)
    if not dims or dims[0] == 1:
        return x
    return OpBuilder(b)("Unsqueeze", x, b.constant(np.arange(1, behind + 1)))


def _as_float64(b: Builder, x: Value) -> Value:
    """Cast integers to float64, in which sums of products are exact."""
    return OpBuilder(b)("Cast", x, to=DType.FLOAT64)


def _centred(b: Builder, x: Value, zero: Value) -> Value:
    return OpBuilder(b)("Sub", _as_float64(b, x), _as_float64(b, zero))


def _coded(b: Builder, total: Value, scales: tuple[Value, Value, Value], zero: Value, output: str) -> Value:
    """Requantize sums with the output scale and zero point, ties to even."""
    emit, dtype = OpBuilder(b), datum(output) or DType.INT32
    a, other, own = (_as_float64(b, scale) for scale in scales)
    y = emit("Add", emit("Round", emit("Mul", total, emit("Div", emit("Mul", a, other), own))), _as_float64(b, zero))
    limits = np.iinfo(dtype.numpy)
    low, high = (b.constant(np.float64(limit)) for limit in (limits.min, limits.max))
    return emit("Cast", emit("Clip", y, low, high), to=dtype)


# ── writing ──


def _zero(b: Builder, value: Value | None) -> Value:
    """Return a zero point as int32; by default 0."""
    if value is None:
        return b.constant(np.int32(0))
    storage = folded(value)
    if storage is not None:
        numbers = storage.numpy().astype(np.int32)
        return b.constant(numbers.reshape(()) if numbers.size == 1 else numbers)
    fact = value.fact.with_dtype(DType.INT32) if isinstance(value.fact, TensorFact) else value.fact
    return b.emit("tract_core_cast", value, facts=[fact], to="i32")[0]


def _scale(b: Builder, value: Value) -> Value:
    storage = folded(value)
    if storage is None or storage.count != 1 or not storage.shape:
        return value
    return b.constant(storage.numpy().astype(np.float32).reshape(()))


def _convolved(
    b: Builder,
    op: ConvIntegerView | QLinearConvView,
    bias: Value | None,
    zeros: tuple[Value | None, Value | None, Value | None],
    scales: tuple[Value, Value, Value],
    dtype: DType,
) -> Any:
    name = datum_name(dtype)
    padded = emitted_padding(b.dims(op.x)[2:], b.dims(op.w)[2:], **window_options(op))
    if padded is None or name is None:
        return None
    padding, slid = padded
    return b.emit(
        "tract_core_qconv",
        op.x,
        op.w,
        b.constant(np.int32(0)) if bias is None else bias,
        _zero(b, zeros[1]),
        _scale(b, scales[1]),
        _zero(b, zeros[0]),
        _scale(b, scales[0]),
        _zero(b, zeros[2]),
        _scale(b, scales[2]),
        border="constant",
        padding=padding,
        stride=slid.strides,
        dilation=slid.dilations,
        groups=op.group,
        output_dt=name,
    )


@QLinearConvView.export_rule(DIALECT)
def export_qlinear_conv(b: Builder, op: QLinearConvView) -> Any:
    zeros, scales = (op.x_zero_point, op.w_zero_point, op.y_zero_point), (op.x_scale, op.w_scale, op.y_scale)
    return _convolved(b, op, op.b, zeros, scales, _type(op.y_zero_point))


@ConvIntegerView.export_rule(DIALECT)
def export_conv_integer(b: Builder, op: ConvIntegerView) -> Any:
    one = b.constant(np.float32(1))
    return _convolved(b, op, None, (op.x_zero_point, op.w_zero_point, None), (one, one, one), DType.INT32)


def _type(value: Value) -> DType:
    dtype = value.dtype
    if dtype is None or not dtype.is_integer:
        message = "quantized data of a non-integer type"
        raise UnsupportedError(message)
    return dtype


def _multiplied(
    b: Builder,
    x: Value,
    y: Value,
    zeros: Sequence[Value | None],
    scales: Sequence[Value],
    dtype: DType,
) -> Any:
    """Emit a quantized product with the semantics of `numpy.matmul`: broadcasting leading axes, vectors allowed."""
    ranks = [len(b.dims(each)) for each in (x, y)]
    name, front = datum_name(dtype), max(max(ranks) - _MATRIX, 0)
    if 0 in ranks or name is None or front > len(_LETTERS) - 4:
        return None
    batch = _LETTERS[:front]
    one = (batch[front - ranks[0] + 2 :] + "zy") if ranks[0] > 1 else "y"
    other = (batch[front - ranks[1] + 2 :] + "yx") if ranks[1] > 1 else "y"
    result = batch + ("z" if ranks[0] > 1 else "") + ("x" if ranks[1] > 1 else "")
    texts = [one, other, ""]
    operands: list[Value] = [x, y, b.constant(np.int32(0))]
    for zero, scale, letter in zip(zeros, scales, "zxz", strict=True):
        for each in (_zero(b, zero), _scale(b, scale)):
            rank = len(b.dims(each))
            if rank > 1 or (rank and letter not in result):
                return None
            texts.append(letter if rank else "")
            operands.append(each)
    return b.emit("tract_core_einsum_q", *operands, expr=f"{','.join(texts)}->{result}", acc="i32", output=name)


@QLinearMatMulView.export_rule(DIALECT)
def export_qlinear_matmul(b: Builder, op: QLinearMatMulView) -> Any:
    zeros, scales = (op.a_zero_point, op.b_zero_point, op.y_zero_point), (op.a_scale, op.b_scale, op.y_scale)
    return _multiplied(b, op.a, op.b, zeros, scales, _type(op.y_zero_point))


@export_rule(DIALECT, "MatMulInteger")
def export_matmul_integer(
    b: Builder, a: Value, other: Value, a_zero_point: Value | None = None, b_zero_point: Value | None = None
) -> Any:
    one = b.constant(np.float32(1))
    return _multiplied(b, a, other, (a_zero_point, b_zero_point, None), (one, one, one), DType.INT32)
