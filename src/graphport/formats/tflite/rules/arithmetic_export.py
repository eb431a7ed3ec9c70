"""Export rules of element-wise operators, sums and products to TFLite."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.formats.tflite.rules.emitting import (
    NUMERIC_TYPES,
    array_of,
    cast_to,
    computed_in,
    export_reals,
    is_foldable,
    shaped,
    transposed_constant,
    zeros,
)
from graphport.formats.tflite.rules.rule_table import FLOAT_RULES, RULES
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions import activation, arithmetic, comparison
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.arithmetic.cast import Cast
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.infinities import infinities
from graphport.ops.lowering.operands import dtype_of, float_element
from graphport.ops.shapes import axis_index
from graphport.ops.views.matmul import GemmView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


Exported: TypeAlias = "tuple[Value, ...] | None"
_NAN_SELECTIONS = {"GREATER": "MAXIMUM", "LESS": "MINIMUM"}
"""Operators that return the first operand where this comparison holds, and the second if either is NaN."""


def _emit_numeric(b: Builder, op_type: str, *operands: Value) -> Value:
    return computed_in(b, NUMERIC_TYPES, op_type, *operands)


def _emit_float(b: Builder, op_type: str, *operands: Value) -> Value:
    return computed_in(b, _FLOATS, op_type, *operands)


def _in_types(b: Builder, types: tuple[DType, ...], op_type: str, *operands: Value) -> Value:
    return computed_in(b, frozenset(types), op_type, *operands)


def _chained(b: Builder, op_type: str, *operands: Value) -> Value:
    """Chain a binary operator over any number of operands; a single operand is copied."""
    total = operands[0]
    for each in operands[1:]:
        total = _emit_numeric(b, op_type, total, each)
    return total if len(operands) > 1 else shaped(b, total, b.dims(total))


_FLOATS = frozenset((DType.FLOAT32,))
_TWICE = 2
# Op types with the types of their kernels; other types are computed in the nearest supported type.
RULES.having(in_reals=_emit_float, in_numbers=_emit_numeric, in_types=_in_types, chained=_chained).export_rules("""
Ceil -> in_reals("CEIL", x)
Cos -> in_reals("COS", input)
Exp -> in_reals("EXP", input)
Floor -> in_reals("FLOOR", x)
Log -> in_reals("LOG", input)
Round -> in_reals("ROUND", x)
Sin -> in_reals("SIN", input)
Sqrt -> in_reals("SQRT", x)
Sigmoid -> in_reals("LOGISTIC", x)
Tanh -> in_reals("TANH", input)
HardSwish -> in_reals("HARD_SWISH", x)
PRelu -> in_reals("PRELU", x, slope)
Relu -> in_reals("RELU", x)
Sub -> in_numbers("SUB", a, b)
Neg -> in_numbers("NEG", x)
Sign
    -> dtype(input) is int64: MINIMUM(MAXIMUM(input, -1), 1)
    -> in_types([float32, int32], "SIGN", input)
And -> in_types([bool], "LOGICAL_AND", a, b)
Or -> in_types([bool], "LOGICAL_OR", a, b)
Xor -> in_types([bool], "NOT_EQUAL", a, b)
Not -> in_types([bool], "LOGICAL_NOT", x)
Equal -> in_types([float32, int32, int64, bool, string], "EQUAL", a, b)
Less -> in_numbers("LESS", a, b)
Greater -> in_numbers("GREATER", a, b)
LessOrEqual -> in_numbers("LESS_EQUAL", a, b)
GreaterOrEqual -> in_numbers("GREATER_EQUAL", a, b)
Max -> chained("MAXIMUM", *data_0)
Min -> chained("MINIMUM", *data_0)
Sum -> chained("ADD", *data_0)
""")


@arithmetic.Mul.export_rule("tflite")
def export_mul(b: Builder, x: Value, y: Value) -> Exported:
    b.looks_around = True
    maker = x.producer if x is y else None
    if maker is not None and maker.op_type == "SUB" and len(x.uses) == _TWICE and dtype_of(x) is DType.FLOAT32:
        return (emit(b, "SQUARED_DIFFERENCE", *maker.operands),)
    return (computed_in(b, NUMERIC_TYPES, "MUL", x, y),)


_UNSIGNED = frozenset((DType.UINT8, DType.UINT16, DType.UINT32, DType.UINT64, DType.BOOL))
_WITH_ABS = frozenset((DType.FLOAT32, DType.INT32))


@arithmetic.Abs.export_rule("tflite")
def export_abs(b: Builder, x: Value) -> Exported:
    if dtype_of(x) in _UNSIGNED:
        return (shaped(b, x, b.dims(x)),)
    if dtype_of(x) is DType.INT64:
        return (emit(b, "MAXIMUM", x, emit(b, "NEG", x)),)
    return (computed_in(b, _WITH_ABS, "ABS", x),)


RULES.having(count=lambda _b, *x: len(x)).export_rules(
    "Mean -> Mul(total := Sum(*data_0), like(total, 1 / count(*data_0)))"
)


@arithmetic.Mod.export_rule("tflite")
def export_mod(b: Builder, x: Value, y: Value, *, fmod: int = 0) -> Exported:
    """Export Mod; the result has the sign of the dividend with `fmod`, else of the divisor."""
    if dtype_of(x) is DType.UINT64:
        return (b(arithmetic.Sub, x, b(arithmetic.Mul, b(arithmetic.Div, x, y), y)),)
    if not fmod:
        return (computed_in(b, NUMERIC_TYPES, "FLOOR_MOD", x, y),)
    rest = computed_in(b, NUMERIC_TYPES, "FLOOR_MOD", b(arithmetic.Abs, x), b(arithmetic.Abs, y))
    is_negative = computed_in(b, NUMERIC_TYPES, "LESS", x, b.like(x, 0))
    return (emit(b, "SELECT_V2", is_negative, b(arithmetic.Neg, rest), rest),)


_FLOAT32_CASTS = frozenset((DType.INT4, DType.INT2, DType.UINT4))
"""Types that DENSIFY and CAST convert from and to float32 only."""
_SHORT = frozenset((DType.BOOL, DType.INT8, DType.UINT8, DType.INT16, DType.UINT16, DType.UINT32))
_CAST = NUMERIC_TYPES | _FLOAT32_CASTS | _SHORT | {DType.FLOAT16, DType.BFLOAT16, DType.FLOAT64}


@Cast.export_rule("tflite")
def export_cast(b: Builder, input: Value, *, round_mode: str = "up", saturate: int = 1, to: DType) -> Exported:
    del round_mode, saturate
    own = dtype_of(input)
    if DType.UINT64 in (own, to) and own is not to:
        return (cast_to(b, input, to),)
    if own not in _CAST or to not in _CAST:
        message = f"cast from {own} to {to}"
        raise UnsupportedError(message)
    if own is not to and to in _FLOAT32_CASTS and array_of(input) is None:
        input = _wrapped_to(b, input, to)
        own = DType.FLOAT32
    if own is not to and (own in _FLOAT32_CASTS or to in _FLOAT32_CASTS) and DType.FLOAT32 not in (own, to):
        return (emit(b, "CAST", emit(b, "CAST", input, types=(DType.FLOAT32,)), types=(to,)),)
    if dtype_of(input) is DType.FLOAT16 and to is DType.FLOAT32 and is_foldable(input):
        # Delegates support float16 constants of this form.
        return b.emit("DEQUANTIZE", input, facts=[TensorFact(to, b.dims(input))])
    return (emit(b, "CAST", input, types=(to,)),)


def _wrapped_to(b: Builder, x: Value, to: DType) -> Value:
    """Wrap x modulo 2^bits in float32: kernels saturate, ONNX wraps around."""
    least, count = (-(1 << (to.bits - 1)) if to.kind == "i" else 0), 1 << to.bits
    wide = cast_to(b, cast_to(b, x, DType.FLOAT32), DType.INT32)
    shifted = wide if not least else emit(b, "SUB", wide, least)
    wrapped = emit(b, "FLOOR_MOD", shifted, b.constant(count, DType.INT32))
    return cast_to(b, wrapped if not least else emit(b, "ADD", wrapped, least), DType.FLOAT32)


@comparison.Where.export_rule("tflite")
def export_where(b: Builder, condition: Value, x: Value, y: Value) -> Exported:
    b.looks_around = True
    asked = condition.producer
    if asked is not None and asked.op_type in _NAN_SELECTIONS and list(asked.operands) == [x, y]:
        return (emit(b, _NAN_SELECTIONS[asked.op_type], x, y),)
    return (emit(b, "SELECT_V2", condition, x, y),)


FLOAT_RULES.export_rules("""
Swish
    -> alpha == 1: MUL(x, LOGISTIC(x))
    -> MUL(x, LOGISTIC(MUL(x, alpha)))
IsNaN -> NOT_EQUAL(x, x)
LeakyRelu -> LEAKY_RELU(x, alpha=alpha)
Elu
    -> alpha == 1: ELU(x)
    -> ADD(RELU(x), MUL(ELU(MINIMUM(x, 0.0)), alpha))
Celu -> ADD(RELU(x), MUL(ELU(MINIMUM(MUL(x, 1 / alpha), 0.0)), alpha))
ThresholdedRelu -> SELECT_V2(GREATER(x, alpha), x, like(x, 0))
Shrink
    -> dtype(input) is float32:
       SELECT_V2(LESS(input, -lambd), ADD(input, bias),
                 SELECT_V2(GREATER(input, lambd), SUB(input, bias), like(input, 0)))
HardSigmoid -> MINIMUM(RELU(ADD(MUL(x, alpha), beta)), 1.0)
Gelu -> GELU(x, approximate=approximate == "tanh")
""")


@export_reals(comparison.IsInf)
def export_is_inf(b: Builder, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Exported:
    if not detect_negative:
        return (emit(b, "EQUAL", x, float("inf" if detect_positive else "nan")),)
    if not detect_positive:
        return (emit(b, "EQUAL", x, float("-inf")),)
    return (emit(b, "EQUAL", b(arithmetic.Abs, x), float("inf")),)


@export_reals(arithmetic.Reciprocal)
def export_reciprocal(b: Builder, x: Value) -> Exported:
    b.looks_around = True
    root = x.producer
    if root is not None and root.op_type == "SQRT" and dtype_of(x) is DType.FLOAT32 and root.inputs[0] is not None:
        return (emit(b, "RSQRT", root.inputs[0]),)
    return (emit(b, "DIV", b.like(x, 1), x),)


_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def _erf(b: Builder, x: Value) -> Value:
    """Error function within 1.5e-7 by a polynomial (Abramowitz and Stegun, 7.1.26): TFLite has no Erf operator."""
    size = emit(b, "ABS", x)
    t = emit(b, "DIV", b.like(x, 1), emit(b, "ADD", emit(b, "MUL", size, 0.3275911), 1.0))
    total = emit(b, "MUL", t, _ERF[0])
    for factor in _ERF[1:]:
        total = emit(b, "MUL", emit(b, "ADD", total, factor), t)
    bell = emit(b, "EXP", emit(b, "NEG", emit(b, "MUL", x, x)))
    return emit(b, "MUL", emit(b, "SIGN", x), emit(b, "SUB", b.like(x, 1), emit(b, "MUL", total, bell)))


def _leg(b: Builder, x: Value) -> Value:
    """Return sqrt(1 - x^2)."""
    return emit(b, "SQRT", emit(b, "SUB", b.like(x, 1), emit(b, "MUL", x, x)))


def _softplus(b: Builder, x: Value) -> Value:
    """Softplus: max(x, 0) + log(1 + exp(-|x|)), which does not overflow."""
    small = emit(b, "EXP", emit(b, "NEG", emit(b, "ABS", x)))
    return emit(b, "ADD", emit(b, "RELU", x), emit(b, "LOG", emit(b, "ADD", small, 1.0)))


FLOAT_RULES.having(erf=_erf, leg=_leg, softplus=_softplus).export_rules("""
Erf -> dtype(input) is float32: erf(input)
Tan -> dtype(input) is float32: DIV(SIN(input), COS(input))
Atan -> dtype(input) is float32: ATAN2(input, ADD(MUL(input, 0.0), 1.0))
Asin -> dtype(input) is float32: ATAN2(input, leg(input))
Acos -> dtype(input) is float32: ATAN2(leg(input), input)
Acosh -> dtype(input) is float32: LOG(ADD(input, SQRT(ADD(MUL(input, input), -1.0))))
Asinh -> dtype(input) is float32: MUL(SIGN(input), LOG(ADD(ABS(input), SQRT(ADD(MUL(input, input), 1.0)))))
Atanh -> dtype(input) is float32: MUL(LOG(DIV(ADD(input, 1.0), SUB(like(input, 1), input))), 0.5)
Sinh -> dtype(input) is float32: MUL(SUB(EXP(input), EXP(NEG(input))), 0.5)
Cosh -> dtype(input) is float32: MUL(ADD(EXP(input), EXP(NEG(input))), 0.5)
Softplus -> dtype(x) is float32: softplus(x)
Softsign -> dtype(input) is float32: DIV(input, ADD(ABS(input), 1.0))
Mish -> dtype(x) is float32: MUL(x, TANH(softplus(x)))
""")


_CLIPS = {(0.0, 6.0): "RELU6", (-1.0, 1.0): "RELU_N1_TO_1"}


@activation.Clip.export_rule("tflite")
def export_clip(b: Builder, input: Value, min: Value | None = None, max: Value | None = None) -> Exported:
    bounds = float_element(min), float_element(max)
    op_type = _CLIPS.get((bounds[0] or 0.0, bounds[1])) if None not in bounds and bounds[1] is not None else None
    if op_type is not None and dtype_of(input) is DType.FLOAT32:
        return (emit(b, op_type, input),)
    y = input if min is None else computed_in(b, NUMERIC_TYPES, "MAXIMUM", input, min)
    y = y if max is None else computed_in(b, NUMERIC_TYPES, "MINIMUM", y, max)
    return (shaped(b, y, b.dims(y)) if y is input else y,)


def _along(b: Builder, op_type: str, x: Value, axis: int, **options: Any) -> Value:
    """Emit a normalization over the last axis; transpose `axis` to the last position and back."""
    rank = len(b.dims(x))
    axis = axis_index(axis, rank)
    order = [*[i for i in range(rank) if i != axis], axis]
    y = computed_in(b, _FLOATS, op_type, transposed_constant(b, x, order), **options)
    return transposed_constant(b, y, [order.index(i) for i in range(rank)])


RULES.having(along=_along).export_rules("""
Softmax -> along("SOFTMAX", input, axis, beta=1.0)
LogSoftmax -> along("LOG_SOFTMAX", input, axis)
""")


# Products


def _is_stored(value: Value) -> bool:
    """Whether a value is dequantized or cast from constant integers or float16."""
    node = value.producer
    if node is not None and node.op_type == "TRANSPOSE" and is_foldable(node.operand(1)):
        node = node.operands[0].producer
    return node is not None and node.op_type == "DEQUANTIZE" and is_foldable(node.operand(0))


@export_reals(MatMul)
def export_matmul(b: Builder, a: Value, other: Value) -> Exported:
    b.looks_around = True
    if dtype_of(a) is not DType.FLOAT32:
        return None
    ranks = len(b.dims(a)), len(b.dims(other))
    if (is_foldable(other) or _is_stored(other)) and ranks[1] == 2 and ranks[0] >= 2:
        w = transposed_constant(b, other, (1, 0))
        bias = zeros(b, *(n for n in b.dims(other)[1:] if isinstance(n, int)))
        return (emit(b, "FULLY_CONNECTED", a, w, bias, keep_num_dims=ranks[0] > 2),)
    left = a if ranks[0] > 1 else shaped(b, a, (1, *b.dims(a)))
    right = other if ranks[1] > 1 else shaped(b, other, (*b.dims(other), 1))
    y = emit(b, "BATCH_MATMUL", left, right)
    if min(ranks) > 1:
        return (y,)
    dims = b.dims(y)
    dims = (*dims[:-2], *(dims[-2:-1] if ranks[0] > 1 else ()), *(dims[-1:] if ranks[1] > 1 else ()))
    return (shaped(b, y, dims),)


@export_reals(GemmView)
def export_gemm(b: Builder, op: GemmView) -> Exported:
    a = op.a
    if dtype_of(a) is not DType.FLOAT32:
        return None
    a = transposed_constant(b, a, (1, 0)) if op.transA else a
    w = op.b if op.transB else transposed_constant(b, op.b, (1, 0))
    bias = op.c if op.c is not None and op.alpha == op.beta == 1 and b.dims(op.c) == b.dims(w)[:1] else None
    (maps,) = [n for n in b.dims(w)[:1] if isinstance(n, int)] or [0]
    bias_or_zeros = bias if bias is not None else zeros(b, maps)
    y = emit(b, "FULLY_CONNECTED", a, w, bias_or_zeros)
    y = y if op.alpha == 1 else emit(b, "MUL", y, op.alpha)
    if op.c is None or bias is not None:
        return (y,)
    return (emit(b, "ADD", y, op.c if op.beta == 1 else emit(b, "MUL", op.c, op.beta)),)


_DATA_MOVEMENTS = frozenset(
    (
        *("SELECT_V2", "ADD", "CAST", "RESHAPE", "EXPAND_DIMS", "SQUEEZE", "TRANSPOSE", "BROADCAST_TO", "TILE"),
        *("SLICE", "STRIDED_SLICE", "CONCATENATION", "GATHER", "PAD", "PADV2", "MAXIMUM", "MINIMUM"),
    )
)
"""Operators whose results are elements of their operands."""
_SOFTMAX = ("Softmax", "SOFTMAX")


@Add.export_rule("tflite")
def export_add(b: Builder, x: Value, y: Value) -> Exported:
    """Export Add; where an operand is infinite, select infinity, unless only softmax operators use the sum."""
    total = computed_in(b, NUMERIC_TYPES, "ADD", x, y)
    if dtype_of(total) is not DType.FLOAT32 or _only_softmax_reads(b):
        return (total,)
    for operand in (x, y):
        for infinity in infinities(operand, _DATA_MOVEMENTS):
            b.looks_around = True
            is_infinite = emit(b, "EQUAL", operand, b.constant(np.float32(infinity)))
            total = emit(b, "SELECT_V2", is_infinite, b.constant(np.float32(infinity)), total)
    return (total,)


def _only_softmax_reads(b: Builder) -> bool:
    """Whether all consumers are softmax operators, which treat the lowest float like -inf."""
    node = b.before
    if node is None or len(node.results) != 1:
        return False
    return all(getattr(use.user, "op_type", "") in _SOFTMAX for use in node.results[0].uses)
