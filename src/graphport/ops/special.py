"""Special functions that NumPy lacks, and the precision that pages compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphport.ops.types import Tensor


def widened(x: Tensor) -> Tensor:
    """`x` as float32 where it is narrower: half types hold too few digits for what stands between two roundings."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


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
