"""Special functions that NumPy lacks, and the precision of intermediate results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from graphport.ops.types import Tensor


def widened(x: Tensor) -> Tensor:
    """Convert float16 and bfloat16 to float32 for intermediate results."""
    return x.astype(np.float32) if x.dtype.itemsize < 4 else x


_SUMMATION_BLOCK = 8
"""The block length of blocked summation, as in NumPy."""


def narrow_sum(x: Tensor) -> Tensor:
    """Sum along the last axis (kept with length 1), rounding to the dtype of `x` after every addition.

    Blocks are summed first, then their sums, which limits the rounding error.  Shapes: x [*s, n] → [*s, 1].
    """
    while x.shape[-1] > 1:
        missing = -x.shape[-1] % _SUMMATION_BLOCK
        runs = np.pad(x, [*[(0, 0)] * (x.ndim - 1), (0, missing)]).reshape(*x.shape[:-1], -1, _SUMMATION_BLOCK)
        total = runs[..., 0]
        for place in range(1, _SUMMATION_BLOCK):
            total = (widened(total) + widened(runs[..., place])).astype(x.dtype)
        x = total
    return x


def softmax_rounded(x: Tensor) -> Tensor:
    """Compute softmax along the last axis; 16-bit types are rounded after each of the four steps.

    As in Softmax's decomposition in the specification. NumPy sums float16 in float32; the reference
    implementation sums bfloat16 in bfloat16.

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
    """Compute `1 / (1 + exp(-x))` without overflow: exp is applied to non-positive numbers only."""
    e = np.exp(-np.abs(x))
    one = x.dtype.type(1)
    return np.where(x < 0, e, one) / (one + e)


def erf(x: Tensor) -> Tensor:
    """Compute the error function within a few ulp of float64.

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
    """Compute the complementary error function for float64 x >= 3."""
    fraction = np.zeros_like(x)
    for k in range(60, 0, -1):
        fraction = (k / 2) / (x + fraction)
    return np.exp(-x * x) / np.sqrt(np.pi) / (x + fraction)
