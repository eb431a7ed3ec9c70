"""Arithmetic on arrays whose elements may be dims that are not known yet, beyond what NumPy does with objects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dims import Undecided, decide_less, dim_of, element, maximum, minimum

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim
    from graphport.ops.types import Tensor


def is_symbolic(*operands: Tensor) -> bool:
    """Whether shape inference asks, with arrays of dims."""
    return any(operand.dtype == object for operand in operands)


def larger(a: Tensor, b: Tensor) -> Tensor:
    """The larger one, element by element; NaN where one is."""
    return _each(maximum, a, b) if is_symbolic(a, b) else np.maximum(a, b)


def smaller(a: Tensor, b: Tensor) -> Tensor:
    """The smaller one, element by element; NaN where one is."""
    return _each(minimum, a, b) if is_symbolic(a, b) else np.minimum(a, b)


def quotient(a: Tensor, b: Tensor) -> Tensor:
    """Integers divided, truncated toward zero; 0 where the divisor is.

    Raises:
        Undecided: the quotient of dims has a sign that only a run can tell, or a dim is divided by 0.
    """
    if is_symbolic(a, b):
        return _each(_truncated, a, b)
    below = a // b
    if a.dtype.kind == "u":
        return below
    # Floor and truncation differ where the signs do and something is left.
    return below + ((a - below * b != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(a.dtype)


def _truncated(a: Dim, b: Dim) -> Dim:
    negative = [decide_less(dim, 0) for dim in (a, b)]
    if b == 0 or None in negative:
        message = f"whether {a} / {b} is negative is known at run time only"
        raise Undecided(message)
    size = (-a if negative[0] else a) // (-b if negative[1] else b)
    return size if negative[0] == negative[1] else -size


def remainder(a: Tensor, b: Tensor, *, truncated: bool) -> Tensor:
    """What a division leaves: with the sign of the divisor, or if `truncated` that of the dividend; 0 of a divisor 0.

    Raises:
        Undecided: a `truncated` division of dims has a sign that only a run can tell, or a dim is divided by 0.
    """
    if is_symbolic(a, b):
        return _each(lambda x, y: x - _truncated(x, y) * y, a, b) if truncated else a % b
    return np.fmod(a, b) if truncated else np.mod(a, b)


def _each(function: Callable[[Dim, Dim], Dim], a: Tensor, b: Tensor) -> Tensor:
    def of_elements(x: object, y: object) -> object:
        return element(function(dim_of(x), dim_of(y)))

    elementwise: Any = np.frompyfunc(of_elements, 2, 1)
    return np.asarray(elementwise(a, b), object)
