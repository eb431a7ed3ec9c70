"""Normalization by a norm of neighbouring elements."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_index, check_rank
from graphport.ops.types import FLOATS, Tensor, Types

T = Annotated[Tensor, Types("T", FLOATS)]


def _lrn_shape(x: TensorFact, *, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0, size: int) -> TensorFact:
    if size < 1:
        message = f"size is {size}"
        raise ShapeError(message, "at least 1 channel")
    if x.shape is not None:
        check_rank(x, 2, "x")
    return x.with_shape(x.shape)


@op(
    shape=_lrn_shape,
    since=1,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (2, None)},
)
def LRN(x: T, *, alpha: float = 0.0001, beta: float = 0.75, bias: float = 1.0, size: int) -> T:
    """Local response normalization: `x / (bias + alpha / size * sum) ** beta`, `sum` of squares over `size` channels.

    If `size` is even, the window has one more channel after the centre than before.

    Shapes: x [N, C, *d] → [N, C, *d].

    Raises:
        ShapeError: `size` is not positive.

    Source: ONNX LRN-13.
    """
    wide = np.result_type(x.dtype, np.float32)
    squares = x.astype(wide) ** 2
    channels = x.shape[1]
    sums = np.zeros_like(squares)
    # A window may be far wider than there are channels.
    for step in range(max(-((size - 1) // 2), 1 - channels), min(size // 2, channels - 1) + 1):
        here = slice(max(-step, 0), channels - max(step, 0))
        there = slice(max(step, 0), channels - max(-step, 0))
        sums[:, here] += squares[:, there]
    scale = wide.type(bias) + wide.type(alpha / size) * sums
    return (x.astype(wide) / scale ** wide.type(beta)).astype(x.dtype)


def _lp_shape(input: TensorFact, *, axis: int = -1, p: int = 2) -> TensorFact:
    if p not in (1, 2):
        message = f"p is {p}"
        raise ShapeError(message, "1 or 2")
    if input.shape is not None:
        axis_index(axis, input.rank)
    return input.with_shape(input.shape)


@op(shape=_lp_shape, since=1, outputs=("output",), exactness="accumulation", role="pointwise")
def LpNormalization(input: T, *, axis: int = -1, p: int = 2) -> T:
    """`input` over its p-norm along `axis`; 0 where the norm is 0.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: `axis` is outside of the tensor, or `p` neither 1 nor 2.

    Source: ONNX LpNormalization-22.
    """
    wide = np.result_type(input.dtype, np.float32)
    a = input.astype(wide)
    norm = np.abs(a).sum(axis=axis, keepdims=True) if p == 1 else np.sqrt((a * a).sum(axis=axis, keepdims=True))
    return np.divide(a, norm, out=np.zeros_like(a), where=norm != 0).astype(input.dtype)
