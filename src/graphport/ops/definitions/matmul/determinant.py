"""Determinant."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import same_dim
from graphport.ops.special_functions import widened
from graphport.ops.types import FLOATS, Tensor, Types

T = Annotated[Tensor, Types("T", FLOATS)]


def _det_shape(x: TensorFact) -> TensorFact:
    if x.rank < 2:
        message = f"X has rank {x.rank}"
        raise ShapeError(message, "expected rank 2 or more, with square matrices in the last two axes")
    same_dim(x.dims[-2], x.dims[-1], "rows and columns")
    return x.with_shape(x.dims[:-2])


@op(
    shape=_det_shape,
    since=11,
    exactness="accumulation",
    ranks={"x": (2, None)},
)
def Det(x: T) -> T:
    """The determinant of each matrix in the last two axes.  Shapes: x [*s, n, n] → [*s].

    Raises:
        ShapeError: the matrices are not square.

    Source: ONNX Det-22.
    """
    return np.asarray(np.linalg.det(widened(x))).astype(x.dtype)
