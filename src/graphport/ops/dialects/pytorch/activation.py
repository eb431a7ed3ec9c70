"""Activations of exported programs whose arguments differ from PNNX's."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.pnnx.activation import logsigmoid, rrelu, softmax
from graphport.ops.dialects.pytorch.overloads import ROWS, aten
from graphport.ops.dialects.torch_functions import axis_of, dtype_of, number, vector
from graphport.ops.dialects.torch_promotion import cast
from graphport.ops.pages.activation import Elu
from graphport.ops.pages.arithmetic import Mul
from graphport.ops.pages.comparison import Equal, Greater, Where
from graphport.ops.pages.reduction import ReduceMax


@aten("aten._safe_softmax")
def safe_softmax(b: Builder, self: Value, dim: Any, dtype: Any = None) -> Value:
    """0 where all that is normalized together is minus infinity."""
    shares = softmax(b, self, dim, dtype)
    x = cast(b, self, dtype_of(shares))
    if not b.dims(x):
        return shares
    largest = b(ReduceMax, x, vector(b, [axis_of(number(dim), len(b.dims(x)))]))
    return b(Where, b(Equal, largest, b.like(x, -np.inf)), b.like(x, 0), shares)


ROWS.lower("""
aten._softmax(self, dim, half_to_float=False, dtype=None)
    -> F.softmax(cast(self, float32) if half_to_float else self, dim=dim, dtype=dtype)
aten._log_softmax(self, dim, half_to_float=False)
    -> F.log_softmax(cast(self, float32) if half_to_float else self, dim=dim)
aten._prelu_kernel(self, weight) -> Where(Greater(self, 0), self, Mul(self, weight))
""")


@aten(
    *("aten.dropout", "aten.feature_dropout", "aten.alpha_dropout", "aten.feature_alpha_dropout"),
)
def dropout(b: Builder, input: Value, p: Any = 0.5, train: Any = False) -> Value:
    """What drops nothing may train."""
    del b
    if number(p) != 0:
        _refuse_training(train)
    return input


@aten("aten.native_dropout")
def native_dropout(b: Builder, input: Value, p: Any = 0.5, train: Any = False) -> Any:
    if number(p) != 0:
        _refuse_training(train)
    return input if b.count == 1 else (input, None)


def _refuse_training(train: Any) -> None:
    if train is not None and number(train):
        message = "a dropout that is training: export the module in eval mode"
        raise UnsupportedError(message)


@aten("aten.elu")
def elu(b: Builder, self: Value, alpha: Any = 1.0, scale: Any = 1.0, input_scale: Any = 1.0) -> Value:
    """`scale x` above 0, `scale alpha (exp(input_scale x) - 1)` below."""
    first, outer, inner = (float(number(each)) for each in (alpha, scale, input_scale))
    x = self if inner == 1 else b(Mul, self, b.like(self, inner))
    y = b(Elu, x, alpha=first)
    if inner != 1:
        y = b(Where, b(Greater, self, b.like(self, 0)), self, y)
    return y if outer == 1 else b(Mul, y, b.like(self, outer))


@aten("aten.rrelu", "aten.rrelu_with_noise", "aten.rrelu_with_noise_functional", by_place=False)
def rrelu_(
    b: Builder, self: Value, noise: Any = None, lower: Any = 0.125, upper: Any = 1 / 3, training: Any = False
) -> Any:
    del noise
    _refuse_training(training)
    y = rrelu(b, self, float(number(lower)), float(number(upper)))
    return y if b.count == 1 else (y, None)


@aten("aten.log_sigmoid_forward")
def log_sigmoid_forward(b: Builder, self: Value) -> Any:
    y = logsigmoid(b, self)
    return y if b.count == 1 else (y, None)
