"""The activations that recurrent layers may use by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from graphport.ops.declare import ShapeError
from graphport.ops.types import Tensor

Activation = Callable[[Tensor], Tensor]


def _sigmoid(x: Tensor) -> Tensor:
    e = np.exp(-np.abs(x))
    return np.where(x < 0, e, 1) / (1 + e)


def _relu(x: Tensor) -> Tensor:
    return np.maximum(x, 0)


def _softsign(x: Tensor) -> Tensor:
    return x / (1 + np.abs(x))


def _softplus(x: Tensor) -> Tensor:
    return np.logaddexp(x, x.dtype.type(0))


def _affine(x: Tensor, alpha: float, beta: float) -> Tensor:
    return alpha * x + beta


def _leaky_relu(x: Tensor, alpha: float, beta: float) -> Tensor:
    del beta
    return np.where(x < 0, alpha * x, x)


def _thresholded_relu(x: Tensor, alpha: float, beta: float) -> Tensor:
    del beta
    return np.where(x > alpha, x, 0)


def _scaled_tanh(x: Tensor, alpha: float, beta: float) -> Tensor:
    return alpha * np.tanh(beta * x)


def _hard_sigmoid(x: Tensor, alpha: float, beta: float) -> Tensor:
    return np.clip(alpha * x + beta, 0, 1)


def _elu(x: Tensor, alpha: float, beta: float) -> Tensor:
    del beta
    return np.where(x < 0, alpha * np.expm1(np.minimum(x, 0)), x)


_PLAIN: dict[str, Activation] = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "relu": _relu,
    "softsign": _softsign,
    "softplus": _softplus,
}

_SCALED: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float | None]] = {
    "affine": (_affine, 1.0, 0.0),
    "leakyrelu": (_leaky_relu, 0.01, None),
    "thresholdedrelu": (_thresholded_relu, 1.0, None),
    "scaledtanh": (_scaled_tanh, 1.0, 1.0),
    "hardsigmoid": (_hard_sigmoid, 0.2, 0.5),
    "elu": (_elu, 1.0, None),
}
"""Activations with parameters: function, default alpha, default beta (None if there is no beta)."""


def check_activations(names: Sequence[str], count: int) -> None:
    """Check that the activation names are known and complete.

    Raises:
        ShapeError: a name is unknown, or one is missing.
    """
    if len(names) < count:
        message = f"activations are {list(names)}"
        raise ShapeError(message, f"expected {count} names, one for each function and direction")
    for name in names:
        if name.lower() not in _PLAIN and name.lower() not in _SCALED:
            message = f"there is no activation {name!r}"
            raise ShapeError(message, f"known: {', '.join((*_PLAIN, *_SCALED))}")


def activations(names: Sequence[str], alpha: Sequence[float] | None, beta: Sequence[float] | None) -> list[Activation]:
    """Return the functions of the given names; parametric ones consume elements of `alpha` and `beta`."""
    alphas, betas = iter(alpha or ()), iter(beta or ())
    return [_activation(name.lower(), alphas, betas) for name in names]


def _activation(name: str, alphas: Iterator[float], betas: Iterator[float]) -> Activation:
    if name in _PLAIN:
        return _PLAIN[name]
    function, default_alpha, default_beta = _SCALED[name]
    alpha = next(alphas, default_alpha)
    beta = 0.0 if default_beta is None else next(betas, default_beta)

    def scaled(x: Tensor) -> Tensor:
        return function(x, alpha, beta)

    return scaled
