"""Arithmetic on object arrays that may contain symbolic dims."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Undecided, decide_less, dim_of, element
from graphport.core.dims import maximum as dim_maximum
from graphport.core.dims import minimum as dim_minimum

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim
    from graphport.ops.types import Tensor


def is_symbolic(*operands: Tensor) -> bool:
    """Whether an operand is an object array of dims (shape inference)."""
    return any(operand.dtype == object for operand in operands)


def maximum(a: Tensor, b: Tensor) -> Tensor:
    """Return the element-wise maximum; NaN propagates."""
    return _elementwise(dim_maximum, a, b) if is_symbolic(a, b) else np.maximum(a, b)


def minimum(a: Tensor, b: Tensor) -> Tensor:
    """Return the element-wise minimum; NaN propagates."""
    return _elementwise(dim_minimum, a, b) if is_symbolic(a, b) else np.minimum(a, b)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """Divide integers with truncation toward zero; a zero divisor gives 0.

    Raises:
        Undecided: the sign of a symbolic quotient is unknown, or a dim is divided by 0.
    """
    if is_symbolic(a, b):
        return _elementwise(_truncated, a, b)
    below = a // b
    if a.dtype.kind == "u":
        return below
    # Floor and truncation differ if the signs differ and the remainder is not 0.
    return below + ((a - below * b != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)


def _truncated(a: Dim, b: Dim) -> Dim:
    negative = [decide_less(dim, 0) for dim in (a, b)]
    if b == 0 or None in negative:
        message = f"the sign of {a} / {b} is undecided before run time"
        raise Undecided(message)
    size = (-a if negative[0] else a) // (-b if negative[1] else b)
    return size if negative[0] == negative[1] else -size


def remainder(a: Tensor, b: Tensor, *, truncated: bool) -> Tensor:
    """Return the remainder with the sign of the divisor, or of the dividend if `truncated`; a zero divisor gives 0.

    Raises:
        Undecided: the sign of a `truncated` symbolic division is unknown, or a dim is divided by 0.
    """
    if is_symbolic(a, b):
        return _elementwise(lambda x, y: x - _truncated(x, y) * y, a, b) if truncated else a % b
    return np.fmod(a, b) if truncated else np.mod(a, b)


def _elementwise(function: Callable[[Dim, Dim], Dim], a: Tensor, b: Tensor) -> Tensor:
    def of_elements(x: object, y: object) -> object:
        return element(function(dim_of(x), dim_of(y)))

    elementwise: Any = np.frompyfunc(of_elements, 2, 1)
    return np.asarray(elementwise(a, b), object)
