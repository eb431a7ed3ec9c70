"""Element-wise operations of Keras 3 and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import e, log, log2, pi
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from graphport.core.dtypes import DType
from graphport.formats.keras.rules.activation import ACTIVATIONS, glu, relu_of, sparsemax
from graphport.formats.keras.rules.operation import axes_of, floating, named_dtype, operation, promoted, tensor
from graphport.formats.keras.rules.tensors import binary, reduced
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import Celu, Clip, Elu, Gelu, LeakyRelu, LogSoftmax, Shrink, Softmax
from graphport.ops.definitions.arithmetic import (
    Abs,
    Acos,
    Acosh,
    Add,
    Asin,
    Asinh,
    Atan,
    Atanh,
    BitwiseAnd,
    BitwiseNot,
    BitwiseOr,
    BitwiseXor,
    Ceil,
    Cos,
    Cosh,
    Div,
    Erf,
    Exp,
    Floor,
    Log,
    Max,
    Min,
    Mod,
    Mul,
    Neg,
    Pow,
    Reciprocal,
    Round,
    Sign,
    Sin,
    Sinh,
    Sqrt,
    Sub,
    Tan,
)
from graphport.ops.definitions.comparison import (
    And,
    Equal,
    Greater,
    GreaterOrEqual,
    IsInf,
    IsNaN,
    Less,
    LessOrEqual,
    Not,
    Or,
    Where,
    Xor,
)
from graphport.ops.definitions.reduction import ReduceMax, ReduceSum
from graphport.ops.definitions.reshape import Identity
from graphport.ops.lowering.operands import cast, dtype_of, ends_of, finite_limits, truncate

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Function: TypeAlias = "Callable[[Builder, Value], Value]"


def _of(op_def: OpDef, **attributes: Any) -> Function:
    return lambda b, x: b(op_def, x, **attributes)


def _scaled(op_def: OpDef, factor: float) -> Function:
    return lambda b, x: binary(b, Mul, b(op_def, x), factor)


_KEEPING: Mapping[str, Function] = MappingProxyType(
    {
        "Abs": _of(Abs),
        "Absolute": _of(Abs),
        "Fabs": _of(Abs),
        "Negative": _of(Neg),
        "Sign": _of(Sign),
        "Square": lambda b, x: b(Mul, x, x),
        "Copy": _of(Identity),
        "StopGradient": _of(Identity),
        "Array": _of(Identity),
        "Conjugate": _of(Identity),
        "Real": _of(Identity),
    }
)
"""Operations that keep the element type."""
_FLOATING: Mapping[str, Function] = MappingProxyType(
    {
        "Arccos": _of(Acos),
        "Arccosh": _of(Acosh),
        "Arcsin": _of(Asin),
        "Arcsinh": _of(Asinh),
        "Arctan": _of(Atan),
        "Arctanh": _of(Atanh),
        "Ceil": _of(Ceil),
        "Cos": _of(Cos),
        "Cosh": _of(Cosh),
        "Exp": _of(Exp),
        "Exp2": lambda b, x: b(Exp, binary(b, Mul, x, log(2))),
        "Expm1": lambda b, x: binary(b, Sub, b(Exp, x), 1.0),
        "Floor": _of(Floor),
        "Log": _of(Log),
        "Log10": _scaled(Log, 1 / log(10)),
        "Log1p": lambda b, x: b(Log, binary(b, Add, x, 1.0)),
        "Log2": _scaled(Log, log2(e)),
        "Reciprocal": _of(Reciprocal),
        "Sin": _of(Sin),
        "Sinh": _of(Sinh),
        "Sqrt": _of(Sqrt),
        "Rsqrt": lambda b, x: b(Reciprocal, b(Sqrt, x)),
        "Tan": _of(Tan),
        "Trunc": truncate,
        "Erf": _of(Erf),
        "Erfc": lambda b, x: b(Sub, b.like(x, 1.0), b(Erf, x)),
        "Deg2rad": lambda b, x: binary(b, Mul, x, pi / 180),
        "Rad2deg": lambda b, x: binary(b, Mul, x, 180 / pi),
        "Cbrt": lambda b, x: b(Mul, b(Sign, x), b(Pow, b(Abs, x), b.like(x, 1 / 3))),
        "Relu": ACTIVATIONS["relu"],
        "Relu6": ACTIVATIONS["relu6"],
        "Sigmoid": ACTIVATIONS["sigmoid"],
        "Tanh": ACTIVATIONS["tanh"],
        "Silu": ACTIVATIONS["silu"],
        "Selu": ACTIVATIONS["selu"],
        "Softplus": ACTIVATIONS["softplus"],
        "Softsign": ACTIVATIONS["softsign"],
        "LogSigmoid": ACTIVATIONS["log_sigmoid"],
        "HardSigmoid": ACTIVATIONS["hard_sigmoid"],
        "HardSilu": ACTIVATIONS["hard_silu"],
        "HardTanh": ACTIVATIONS["hard_tanh"],
        "SparsePlus": ACTIVATIONS["sparse_plus"],
        "SparseSigmoid": ACTIVATIONS["sparse_sigmoid"],
        "TanhShrink": ACTIVATIONS["tanh_shrink"],
    }
)
"""Operations of floats; integers become float32."""


def _register_unary() -> None:
    for name, function in _KEEPING.items():

        @operation(name)
        def keeping(b: Builder, x: Value, *, function: Any = function) -> Value:
            return function(b, x)

    for name, function in _FLOATING.items():

        @operation(name)
        def floats(b: Builder, x: Value, *, function: Any = function) -> Value:
            return function(b, floating(b, x))


_register_unary()


_BINARY: Mapping[str, OpDef] = MappingProxyType(
    {"Add": Add, "Subtract": Sub, "Multiply": Mul, "Maximum": Max, "Minimum": Min, "Fmax": Max, "Fmin": Min}
)
_COMPARISONS: Mapping[str, OpDef] = MappingProxyType(
    {"Equal": Equal, "Greater": Greater, "GreaterEqual": GreaterOrEqual, "Less": Less, "LessEqual": LessOrEqual}
)
_LOGICAL: Mapping[str, OpDef] = MappingProxyType({"LogicalAnd": And, "LogicalOr": Or, "LogicalXor": Xor})
_BITS: Mapping[str, OpDef] = MappingProxyType(
    {"BitwiseAnd": BitwiseAnd, "BitwiseOr": BitwiseOr, "BitwiseXor": BitwiseXor}
)


def _register_binary() -> None:
    for name, op_def in {**_BINARY, **_COMPARISONS}.items():

        @operation(name)
        def promoting(b: Builder, x1: Any, x2: Any, *, op_def: Any = op_def) -> Value:
            return b(op_def, *promoted(b, x1, x2))

    for name, op_def in _LOGICAL.items():

        @operation(name)
        def logical(b: Builder, x1: Any, x2: Any, *, op_def: Any = op_def) -> Value:
            return b(op_def, tensor(b, x1, DType.BOOL), tensor(b, x2, DType.BOOL))

    for name, op_def in _BITS.items():

        @operation(name)
        def bitwise(b: Builder, x: Any, y: Any, *, op_def: Any = op_def) -> Value:
            return b(op_def, *promoted(b, x, y))


_register_binary()


@operation("NotEqual")
def not_equal(b: Builder, x1: Any, x2: Any) -> Value:
    """Whether elements differ."""
    return b(Not, b(Equal, *promoted(b, x1, x2)))


@operation("LogicalNot")
def logical_not(b: Builder, x: Value) -> Value:
    """Negation."""
    return b(Not, cast(b, x, DType.BOOL))


@operation("BitwiseNot", "BitwiseInvert")
def bitwise_not(b: Builder, x: Value) -> Value:
    """All bits inverted."""
    return b(BitwiseNot, x)


@operation("Divide", "TrueDivide")
def divide(b: Builder, x1: Any, x2: Any) -> Value:
    """A quotient of floats."""
    return b(Div, *promoted(b, x1, x2, is_float=True))


@operation("DivideNoNan")
def divide_no_nan(b: Builder, x1: Any, x2: Any) -> Value:
    """A quotient that is 0 where the divisor is."""
    x, y = promoted(b, x1, x2, is_float=True)
    return b(Where, b(Equal, y, 0.0), b.like(y, 0.0), b(Div, x, y))


@operation("FloorDivide")
def floor_divide(b: Builder, x1: Any, x2: Any) -> Value:
    """A quotient rounded down."""
    x, y = promoted(b, x1, x2)
    if dtype_of(x).is_floating:
        return b(Floor, b(Div, x, y))
    return b(Div, b(Sub, x, b(Mod, x, y)), y)


@operation("Mod")
def mod(b: Builder, x1: Any, x2: Any) -> Value:
    """Remainder with the sign of the divisor."""
    x, y = promoted(b, x1, x2)
    if dtype_of(x).is_floating:
        return b(Sub, x, b(Mul, b(Floor, b(Div, x, y)), y))
    return b(Mod, x, y)


@operation("Power")
def power(b: Builder, x1: Any, x2: Any) -> Value:
    """A power."""
    return b(Pow, *promoted(b, x1, x2))


@operation("Arctan2")
def arctan2(b: Builder, x1: Any, x2: Any) -> Value:
    """The angle of the point (x2, x1)."""
    y, x = promoted(b, x1, x2, is_float=True)
    zero = b.like(x, 0.0)
    angle = b(Atan, b(Div, y, x))
    turned = b(Where, b(Less, y, zero), binary(b, Sub, angle, pi), binary(b, Add, angle, pi))
    found = b(Where, b(Less, x, zero), turned, angle)
    upright = binary(b, Mul, b(Sign, y), pi / 2)
    return b(Where, b(Equal, x, zero), upright, found)


@operation("Hypot")
def hypot(b: Builder, x1: Any, x2: Any) -> Value:
    """The length of the vector (x1, x2)."""
    x, y = promoted(b, x1, x2, is_float=True)
    return b(Sqrt, b(Add, b(Mul, x, x), b(Mul, y, y)))


@operation("Logaddexp")
def logaddexp(b: Builder, x1: Any, x2: Any) -> Value:
    """The logarithm of the sum of exponentials."""
    x, y = promoted(b, x1, x2, is_float=True)
    rest = b(Neg, b(Abs, b(Sub, x, y)))
    return b(Add, b(Max, x, y), b(Log, binary(b, Add, b(Exp, rest), 1.0)))


@operation("SquaredDifference")
def squared_difference(b: Builder, x1: Any, x2: Any) -> Value:
    """The square of a difference."""
    gap = b(Sub, *promoted(b, x1, x2))
    return b(Mul, gap, gap)


@operation("AddN")
def add_n(b: Builder, *xs: Any) -> Value:
    """A sum of tensors."""
    found = xs[0]
    for each in xs[1:]:
        found = b(Add, *promoted(b, found, each))
    return found


@operation("Where")
def where(b: Builder, condition: Value, x1: Any = None, x2: Any = None) -> Value:
    """Elements of `x1` where `condition` is true, else of `x2`."""
    if x1 is None or x2 is None:
        message = "indices of true elements, whose number depends on the input"
        raise UnsupportedError(message)
    return b(Where, cast(b, condition, DType.BOOL), *promoted(b, x1, x2))


@operation("Clip")
def clip(b: Builder, x: Value, *, x_min: Any = None, x_max: Any = None) -> Value:
    """Elements between two limits."""
    x, *limits = promoted(b, x, *(each for each in (x_min, x_max) if each is not None))
    low = limits.pop(0) if x_min is not None else None
    return b(Clip, x, low, limits[0] if limits else None)


@operation("Cast", "SaturateCast", "ConvertToTensor")
def cast_to(b: Builder, x: Value, *, dtype: Any = None) -> Value:
    """Cast to `dtype`."""
    return b(Identity, x) if dtype is None else cast(b, x, named_dtype(dtype))


@operation("Round")
def round_to(b: Builder, x: Value, *, decimals: int = 0) -> Value:
    """Round to `decimals` decimals, ties to even."""
    if not dtype_of(x).is_floating:
        return b(Identity, x)
    if not decimals:
        return b(Round, x)
    return binary(b, Div, b(Round, binary(b, Mul, x, 10.0**decimals)), 10.0**decimals)


@operation("Isnan")
def isnan(b: Builder, x: Value) -> Value:
    """Whether elements are NaN."""
    return b(IsNaN, floating(b, x))


@operation("Isinf")
def isinf(b: Builder, x: Value) -> Value:
    """Whether elements are infinite."""
    return b(IsInf, floating(b, x))


@operation("Isfinite")
def isfinite(b: Builder, x: Value) -> Value:
    """Whether elements are finite."""
    x = floating(b, x)
    return b(Not, b(Or, b(IsNaN, x), b(IsInf, x)))


@operation("NanToNum")
def nan_to_num(b: Builder, x: Value, *, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    """Numbers in place of NaN and infinities."""
    if not dtype_of(x).is_floating:
        return b(Identity, x)
    y = b(Where, b(IsNaN, x), nan, x)
    low, high = finite_limits(dtype_of(x))
    high = high if posinf is None else posinf
    low = low if neginf is None else neginf
    below, above = ends_of(dtype_of(x))
    y = b(Where, b(Equal, y, b.like(x, above)), b.like(x, high), y)
    return b(Where, b(Equal, y, b.like(x, below)), b.like(x, low), y)


# Activations with arguments


@operation("LeakyRelu")
def leaky_relu(b: Builder, x: Value, *, negative_slope: float = 0.2) -> Value:
    """Rectifier with a slope below 0."""
    return b(LeakyRelu, floating(b, x), alpha=float(negative_slope))


@operation("ReLU")
def relu(b: Builder, x: Value, *, negative_slope: float = 0.0, max_value: Any = None, threshold: float = 0.0) -> Value:
    """Rectifier with the arguments of `keras.activations.relu`."""
    return relu_of(b, x, max_value, negative_slope, threshold)


@operation("Elu")
def elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    """Exponential linear unit."""
    return b(Elu, floating(b, x), alpha=float(alpha))


@operation("Celu")
def celu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    """Continuous exponential linear unit."""
    return b(Celu, floating(b, x), alpha=float(alpha))


@operation("Gelu")
def gelu(b: Builder, x: Value, *, approximate: bool = True) -> Value:
    """Gaussian error linear unit."""
    return b(Gelu, floating(b, x), approximate="tanh" if approximate else "none")


@operation("Softmax")
def softmax(b: Builder, x: Value, *, axis: Any = -1) -> Value:
    """Softmax over an axis; over several if they are the last ones."""
    x = floating(b, x)
    if isinstance(axis, int):
        return b(Softmax, x, axis=axis)
    axes = axes_of(b, x, axis)
    shares = b(Exp, b(Sub, x, reduced(b, ReduceMax, x, axes, keepdims=True)))
    return b(Div, shares, reduced(b, ReduceSum, shares, axes, keepdims=True))


@operation("LogSoftmax")
def log_softmax(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """The logarithm of softmax."""
    return b(LogSoftmax, floating(b, x), axis=axis)


@operation("Sparsemax")
def sparsemax_of(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """The projection onto the simplex."""
    return sparsemax(b, floating(b, x), axis)


@operation("Glu")
def glu_of(b: Builder, x: Value, *, axis: int = -1) -> Value:
    """The first half times the sigmoid of the second half."""
    return glu(b, floating(b, x), axis)


@operation("HardShrink")
def hard_shrink(b: Builder, x: Value, *, threshold: float = 0.5) -> Value:
    """Elements beyond a threshold, else 0."""
    return b(Shrink, floating(b, x), lambd=float(threshold), bias=0.0)


@operation("SoftShrink")
def soft_shrink(b: Builder, x: Value, *, threshold: float = 0.5) -> Value:
    """Elements beyond a threshold, moved towards 0 by it."""
    return b(Shrink, floating(b, x), lambd=float(threshold), bias=float(threshold))


@operation("Threshold")
def threshold_of(b: Builder, x: Value, *, threshold: float = 0.0, default_value: float = 0.0) -> Value:
    """Elements above a threshold, else a number."""
    return b(Where, b(Greater, x, threshold), x, default_value)


@operation("Squareplus")
def squareplus(builder: Builder, x: Value, *, b: float = 4.0) -> Value:
    """A smooth rectifier: (x + sqrt(x² + b)) / 2."""
    x = floating(builder, x)
    root = builder(Sqrt, binary(builder, Add, builder(Mul, x, x), float(b)))
    return binary(builder, Mul, builder(Add, x, root), 0.5)
