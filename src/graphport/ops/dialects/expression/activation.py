"""Activation functions as expressions; the functions of `ops.arithmetic.expression` are what they are made of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from graphport.ops.pages.activation import (
    Celu,
    Clip,
    Elu,
    Gelu,
    HardSigmoid,
    HardSwish,
    LeakyRelu,
    Mish,
    Relu,
    Selu,
    Sigmoid,
    Softplus,
    Softsign,
    Swish,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def _emitted(b: Builder, word: str, *operands: Value | float) -> Value:
    return b.word(word, *(b.constant(x) if isinstance(x, int | float) else x for x in operands))[0]


@Relu.lift("expression")
def _of_relu(b: Builder, x: Value) -> Value:
    return _emitted(b, "maximum", x, 0)


@LeakyRelu.lift("expression")
def _of_leaky_relu(b: Builder, x: Value, *, alpha: float = 0.01) -> Value:
    return _emitted(b, "add", _emitted(b, "maximum", x, 0), _emitted(b, "mul", _emitted(b, "minimum", x, 0), alpha))


@Elu.lift("expression")
def _of_elu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return _exponential(b, x, alpha)


@Selu.lift("expression")
def _of_selu(b: Builder, x: Value, *, alpha: float = 1.6732631921768188, gamma: float = 1.0507010221481323) -> Value:
    return _emitted(b, "mul", _exponential(b, x, alpha), gamma)


@Celu.lift("expression")
def _of_celu(b: Builder, x: Value, *, alpha: float = 1.0) -> Value | None:
    return _exponential(b, x, alpha, 1 / alpha) if alpha > 0 else None


def _exponential(b: Builder, x: Value, alpha: float, slope: float = 1.0) -> Value:
    low = _emitted(b, "minimum", x, 0)
    grown = _emitted(b, "expm1", low if slope == 1 else _emitted(b, "mul", low, slope))
    return _emitted(b, "add", _emitted(b, "maximum", x, 0), _emitted(b, "mul", grown, alpha))


@Sigmoid.lift("expression")
def _of_sigmoid(b: Builder, x: Value) -> Value:
    return _emitted(b, "reciprocal", _emitted(b, "add", _emitted(b, "exp", _emitted(b, "neg", x)), 1))


@HardSigmoid.lift("expression")
def _of_hard_sigmoid(b: Builder, x: Value, *, alpha: float = 0.2, beta: float = 0.5) -> Value:
    return _between(b, _emitted(b, "add", _emitted(b, "mul", x, alpha), beta))


@HardSwish.lift("expression")
def _of_hard_swish(b: Builder, x: Value) -> Value:
    return _emitted(b, "mul", x, _between(b, _emitted(b, "add", _emitted(b, "div", x, 6), 0.5)))


def _between(b: Builder, x: Value) -> Value:
    return _emitted(b, "minimum", _emitted(b, "maximum", x, 0), 1)


@Swish.lift("expression")
def _of_swish(b: Builder, x: Value, *, alpha: float = 1.0) -> Value:
    return _emitted(b, "mul", x, _of_sigmoid(b, x if alpha == 1 else _emitted(b, "mul", x, alpha)))


@Softplus.lift("expression")
def _of_softplus(b: Builder, x: Value) -> Value:
    return _emitted(b, "logaddexp", x, 0)


@Softsign.lift("expression")
def _of_softsign(b: Builder, input: Value) -> Value:
    return _emitted(b, "div", input, _emitted(b, "add", _emitted(b, "abs", input), 1))


@Mish.lift("expression")
def _of_mish(b: Builder, x: Value) -> Value:
    return _emitted(b, "mul", x, _emitted(b, "tanh", _of_softplus(b, x)))


@Gelu.lift("expression")
def _of_gelu(b: Builder, x: Value, *, approximate: str = "none") -> Value:
    if approximate == "tanh":
        cubic = _emitted(b, "mul", _emitted(b, "mul", _emitted(b, "mul", x, x), x), 0.044715)
        odd = _emitted(b, "tanh", _emitted(b, "mul", _emitted(b, "add", x, cubic), math.sqrt(2 / math.pi)))
    else:
        odd = _emitted(b, "erf", _emitted(b, "mul", x, math.sqrt(0.5)))
    return _emitted(b, "mul", _emitted(b, "mul", x, 0.5), _emitted(b, "add", odd, 1))


@Clip.lift("expression")
def _of_clip(b: Builder, input: Value, low: Value | None = None, high: Value | None = None) -> Value:
    found = input if low is None else _emitted(b, "maximum", input, low)
    return found if high is None else _emitted(b, "minimum", found, high)
