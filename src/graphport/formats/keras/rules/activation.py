"""Activations of Keras: functions by name, and layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import LAYERS, Layer, checked_axis, layer
from graphport.formats.keras.rules.tensors import binary, reduced
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.activation import (
    Celu,
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    LogSoftmax,
    Mish,
    PRelu,
    Relu,
    Selu,
    Shrink,
    Sigmoid,
    Softmax,
    Softplus,
    Softsign,
    Tanh,
    ThresholdedRelu,
)
from graphport.ops.definitions.arithmetic import Add, Div, Exp, Mul, Neg, Sqrt, Sub
from graphport.ops.definitions.comparison import Greater, Less, LessOrEqual, Where
from graphport.ops.definitions.generate import Range
from graphport.ops.definitions.reduction import CumSum, ReduceLogSumExp, ReduceSum, TopK
from graphport.ops.definitions.reshape import Split
from graphport.ops.lowering.extents import extent
from graphport.ops.lowering.operands import as_scalar, cast, dtype_of, index, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Function: TypeAlias = "Callable[[Builder, Value], Value]"

_MASKED = -1e9
_MASKED_HALF = -3e4


def _linear(b: Builder, x: Value) -> Value:
    del b
    return x


def _op_def(op_def: OpDef, **attributes: Any) -> Function:
    return lambda b, x: b(op_def, x, **attributes)


def _clip(b: Builder, x: Value, low: float | None, high: float | None) -> Value:
    return b(Clip, x, None if low is None else b.like(x, low), None if high is None else b.like(x, high))


def _squareplus(b: Builder, x: Value) -> Value:
    root = b(Sqrt, binary(b, Add, b(Mul, x, x), 4.0))
    return binary(b, Div, b(Add, x, root), 2.0)


def _sparse_plus(b: Builder, x: Value) -> Value:
    one = binary(b, Add, x, 1.0)
    middle = binary(b, Mul, b(Mul, one, one), 0.25)
    upper = b(Where, b(Less, x, 1.0), middle, x)
    return b(Where, b(LessOrEqual, x, -1.0), 0.0, upper)


def glu(b: Builder, x: Value, axis: int = -1) -> Value:
    """The first half along an axis times the sigmoid of the second half."""
    left, right = b.results(Split, 2, x, axis=axis, num_outputs=2)
    return b(Mul, left, b(Sigmoid, right))


def sparsemax(b: Builder, x: Value, axis: int = -1) -> Value:
    """`max(x - t, 0)`, where t is (sum of c - 1) / k over the k elements inside of the support, as Keras 3 computes it.

    c are the running sums of the sorted elements. The projection onto the simplex would have the last c alone.
    """
    rank = len(b.dims(x))
    axis = checked_axis(axis, rank)
    order = (*(each for each in range(rank) if each != axis), axis)
    y = transposed(b, x, order)
    length = extent(b, y, rank - 1)
    largest, _ = b.results(TopK, 2, y, length, axis=-1)
    counts = cast(b, b(Range, index(b, 1), b(Add, as_scalar(b, length), index(b, 1)), index(b, 1)), dtype_of(x))
    sums = b(CumSum, largest, rank - 1)
    is_inside = b(Greater, b(Sub, largest, b(Div, binary(b, Sub, sums, 1.0), counts)), 0.0)
    total = reduced(b, ReduceSum, b(Where, is_inside, sums, 0.0), [rank - 1], keepdims=True)
    support = reduced(b, ReduceSum, cast(b, is_inside, dtype_of(x)), [rank - 1], keepdims=True)
    threshold = b(Div, binary(b, Sub, total, 1.0), support)
    return transposed(b, b(Relu, b(Sub, y, threshold)), np.argsort(order).tolist())


def _softmax(b: Builder, x: Value) -> Value:
    return b(Softmax, x, axis=-1)


ACTIVATIONS: Mapping[str, Function] = MappingProxyType(
    {
        "linear": _linear,
        "relu": _op_def(Relu),
        "relu6": lambda b, x: _clip(b, x, 0.0, 6.0),
        "leaky_relu": _op_def(LeakyRelu, alpha=0.2),
        "elu": _op_def(Elu),
        "selu": _op_def(Selu),
        "celu": _op_def(Celu),
        "softplus": _op_def(Softplus),
        "softsign": _op_def(Softsign),
        "squareplus": _squareplus,
        "soft_shrink": _op_def(Shrink, lambd=0.5, bias=0.5),
        "hard_shrink": _op_def(Shrink, lambd=0.5, bias=0.0),
        "sparse_plus": _sparse_plus,
        "sparse_sigmoid": _op_def(HardSigmoid, alpha=0.5, beta=0.5),
        "silu": lambda b, x: b(Mul, x, b(Sigmoid, x)),
        "swish": lambda b, x: b(Mul, x, b(Sigmoid, x)),
        "gelu": _op_def(Gelu),
        "glu": glu,
        "tanh": _op_def(Tanh),
        "tanh_shrink": lambda b, x: b(Sub, x, b(Tanh, x)),
        "sigmoid": _op_def(Sigmoid),
        "log_sigmoid": lambda b, x: b(Neg, b(Softplus, b(Neg, x))),
        "exponential": _op_def(Exp),
        "hard_sigmoid": _op_def(HardSigmoid, alpha=1 / 6, beta=0.5),
        "hard_silu": _op_def(HardSwish),
        "hard_swish": _op_def(HardSwish),
        "hard_tanh": lambda b, x: _clip(b, x, -1.0, 1.0),
        "mish": _op_def(Mish),
        "softmax": _softmax,
        "log_softmax": _op_def(LogSoftmax),
        "sparsemax": sparsemax,
        "keras2.hard_sigmoid": _op_def(HardSigmoid, alpha=0.2, beta=0.5),
    }
)
"""Activations by name with their default arguments."""
KERAS_2: Mapping[str, str] = MappingProxyType({"hard_sigmoid": "keras2.hard_sigmoid"})
"""Activations that compute something else in Keras 2."""
LAYERS_AS_FUNCTIONS = ("ReLU", "LeakyReLU", "ELU", "Softmax", "ThresholdedReLU")
"""Layers without weights that may be the activation of another layer."""


def activated(at: Layer, x: Value, activation: Any) -> Value:
    """The activation of a layer: a name, or pairs of a layer that is used as a function."""
    return apply_activation(at.b, x, activation, at.dtype)


def apply_activation(b: Builder, x: Value, activation: Any, dtype: DType) -> Value:
    """An activation of `x`.

    Raises:
        UnsupportedError: the activation is unknown.
    """
    if activation is None:
        return x
    if is_sequence(activation):
        options = dict(activation)
        name = str(options.pop("class_name", ""))
        rule = _FUNCTIONS.get(name)
        if rule is None:
            message = f"the activation {name!r}"
            raise UnsupportedError(message)
        known = LAYERS[name].options
        return rule(Layer(b, {"x": [x]}, dtype), **{key: each for key, each in options.items() if key in known})
    function = ACTIVATIONS.get(activation)
    if function is None:
        message = f"the activation {activation!r}"
        raise UnsupportedError(message)
    return function(b, x)


@layer("Activation", mask="keep")
def activation_layer(at: Layer, *, activation: Any = "linear") -> Value:
    """An activation by name."""
    return activated(at, at.x, activation)


@layer("ReLU", mask="keep")
def relu(
    at: Layer,
    *,
    max_value: float | None = None,
    negative_slope: float = 0.0,
    threshold: float = 0.0,
) -> Value:
    """Rectifier with a ceiling, a slope below the threshold, and a threshold."""
    return relu_of(at.b, at.x, max_value, negative_slope, threshold)


def relu_of(b: Builder, x: Value, max_value: float | None, negative_slope: float, threshold: float) -> Value:
    """`x` above the threshold, at most `max_value`, and `negative_slope * (x - threshold)` below."""
    if negative_slope and max_value is None and not threshold:
        return b(LeakyRelu, x, alpha=float(negative_slope))
    if threshold:
        y = b(Where, b(Greater, x, threshold), x, 0.0)
        y = y if max_value is None else _clip(b, y, 0.0, max_value)
    else:
        y = b(Relu, x) if max_value is None else _clip(b, x, 0.0, max_value)
    if not negative_slope:
        return y
    below = b(Relu, binary(b, Add, b(Neg, x), float(threshold)))
    return b(Sub, y, binary(b, Mul, below, float(negative_slope)))


@layer("LeakyReLU", mask="keep")
def leaky_relu(at: Layer, *, negative_slope: float | None = None, alpha: float = 0.3) -> Value:
    """Rectifier with a slope below 0: `negative_slope` in Keras 3, `alpha` in Keras 2."""
    return at.b(LeakyRelu, at.x, alpha=float(alpha if negative_slope is None else negative_slope))


@layer("ELU", mask="keep")
def elu(at: Layer, *, alpha: float = 1.0) -> Value:
    """Exponential linear unit."""
    return at.b(Elu, at.x, alpha=float(alpha))


@layer("ThresholdedReLU", mask="keep")
def thresholded_relu(at: Layer, *, theta: float = 1.0) -> Value:
    """`x` above `theta`, else 0."""
    return at.b(ThresholdedRelu, at.x, alpha=float(theta))


@layer("PReLU", weights="alpha", mask="keep")
def prelu(at: Layer, *, shared_axes: Any = None) -> Value:
    """Rectifier with a trained slope; shared axes have size 1 in the weight."""
    del shared_axes
    return at.b(PRelu, at.x, at.need("alpha"))


@layer("Softmax", call="x mask", mask="keep", takes_mask=True)
def softmax(at: Layer, *, axis: Any = -1) -> Value:
    """Softmax over one axis or several; masked elements are 0."""
    b, x, mask = at.b, at.x, at.get("mask")
    if mask is not None:
        mask = cast(b, mask, DType.BOOL)
        x = b(Where, mask, x, b.like(x, masked_number(dtype_of(x))))
    axes = [axis] if isinstance(axis, int) else list(axis)
    if len(axes) == 1:
        y = b(Softmax, x, axis=axes[0])
    else:
        y = b(Exp, b(Sub, x, reduced(b, ReduceLogSumExp, x, axes, keepdims=True)))
    return y if mask is None else b(Where, mask, y, 0.0)


def masked_number(dtype: DType) -> float:
    """Return the large negative number that Keras writes into masked logits."""
    return _MASKED_HALF if dtype is DType.FLOAT16 else _MASKED


_FUNCTIONS: Mapping[str, Callable[..., Value]] = MappingProxyType(
    {"ReLU": relu, "LeakyReLU": leaky_relu, "ELU": elu, "Softmax": softmax, "ThresholdedReLU": thresholded_relu}
)
