"""Special functions that NumPy lacks, and the precision that pages compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphport.ops.types import Tensor


def widened(x: Tensor) -> Tensor:
    """`x` as float32 where it is narrower: half types hold too few digits for what stands between two roundings."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


_RUN = 8
"""So many numbers are added one after another before their sum is added to others: as NumPy's own sums are made."""


def narrow_sum(x: Tensor) -> Tensor:
    """The sum along the last axis, kept with length 1, rounded to the type of `x` after every addition.

    Runs are added up first, then their sums, so that a long axis costs few digits.  Shapes: x [*s, n] → [*s, 1].
    """
    while x.shape[-1] > 1:
        missing = -x.shape[-1] % _RUN
        runs = np.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, missing)]).reshape(*x.shape[:-1], -1, _RUN)
        total = runs[..., 0]
        for place in range(1, _RUN):
            total = (widened(total) + widened(runs[..., place])).astype(x.dtype)
        x = total
    return x


def shares(x: Tensor) -> Tensor:
    """Exponentials along the last axis, scaled to sum 1; half types are rounded after each of the four steps.

    Those are the steps that the specification takes Softmax apart into. NumPy adds float16 as float32; bfloat16, whose
    digits are fewer, shows whether it is added as itself, which the standard's own implementation does.

    Shapes: x [*s, n] with n > 0 → [*s, n].
    """
    wide = widened(x)
    shifted = wide - np.max(wide, -1, keepdims=True)
    if wide is x:
        powers = np.exp(shifted)
        return powers / np.sum(powers, -1, keepdims=True)
    powers = np.exp(widened(shifted.astype(x.dtype))).astype(x.dtype)
    total = np.sum(powers, -1, keepdims=True) if x.dtype == np.float16 else narrow_sum(powers)
    return (widened(powers) / widened(total)).astype(x.dtype)


def logistic(x: Tensor) -> Tensor:
    """`1 / (1 + exp(-x))`: exp of a number that is not positive cannot overflow, on either side of 0."""
    e = np.exp(-np.abs(x))
    one = x.dtype.type(1)
    return np.where(x < 0, e, one) / (one + e)


def erf(x: Tensor) -> Tensor:
    """The error function, in double precision within a few units in the last place.

    Near 0 it is 2 / √π · exp(-x²) · Σ 2ⁿ x²ⁿ⁺¹ / (2n + 1)!!, whose terms do not cancel; beyond 3 one minus the
    continued fraction of its complement.
    """
    wide = x.astype(np.float64)
    magnitude = np.abs(wide)
    small = np.minimum(magnitude, 3.0)
    term = small.copy()
    total = small.copy()
    for n in range(1, 60):
        term *= 2 * small * small / (2 * n + 1)
        total += term
    near = 2 / np.sqrt(np.pi) * np.exp(-small * small) * total
    answer: Any = np.copysign(np.where(magnitude < 3, near, 1 - _erfc_far(np.maximum(magnitude, 3.0))), wide)
    return answer.astype(x.dtype)


def _erfc_far(x: Tensor) -> Tensor:
    """The complement of the error function for float64 numbers from 3 on."""
    fraction = np.zeros_like(x)
    for k in range(60, 0, -1):
        fraction = (k / 2) / (x + fraction)
    return np.exp(-x * x) / np.sqrt(np.pi) / (x + fraction)
