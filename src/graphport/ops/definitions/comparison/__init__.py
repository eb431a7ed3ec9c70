"""Comparison and logic, element by element."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import op
from graphport.ops.shapes import broadcasting
from graphport.ops.types import ALL_4, BOOL, FLOAT8, FLOATS, NUMBERS_4, STRING, Tensor, Types

Ordered = Annotated[Tensor, Types("T", NUMBERS_4)]
Equatable = Annotated[Tensor, Types("T", NUMBERS_4 | BOOL | STRING)]
Logical = Annotated[Tensor, Types("T", BOOL)]
T1 = Annotated[Tensor, Types("T1", BOOL)]
B = Annotated[Tensor, Types("B", BOOL)]
T = Annotated[Tensor, Types("T", ALL_4)]
Real = Annotated[Tensor, Types("T1", FLOATS | FLOAT8)]
T2 = Annotated[Tensor, Types("T2", BOOL)]

_compared = partial(op, shape=broadcasting(DType.BOOL), since=7, outputs=("c",), symbolic=True, exactness="exact")
_combined = op(shape=broadcasting(DType.BOOL), since=7, outputs=("c",), symbolic=True, exactness="exact")


@op(
    shape=broadcasting(DType.BOOL),
    since=7,
    outputs=("c",),
    openvino="opset1.Equal(a, b)",
    symbolic=True,
    exactness="exact",
)
def Equal(a: Equatable, b: Equatable) -> T1:
    """Whether `a == b`; NaN equals nothing.  Shapes: a, b broadcast from the last dim.  Source: ONNX Equal-19."""
    return np.equal(a, b).astype(bool)


@_compared(negation="GreaterOrEqual")
def Less(a: Ordered, b: Ordered) -> T1:
    """Whether `a < b`.  Shapes: a, b broadcast from the last dim.  Source: ONNX Less-13."""
    return np.less(a, b).astype(bool)


@_compared(negation="LessOrEqual")
def Greater(a: Ordered, b: Ordered) -> T1:
    """Whether `a > b`.  Shapes: a, b broadcast from the last dim.  Source: ONNX Greater-13."""
    return np.greater(a, b).astype(bool)


@op(
    negation="Greater",
    shape=broadcasting(DType.BOOL),
    since=12,
    outputs=("c",),
    symbolic=True,
    exactness="exact",
)
def LessOrEqual(a: Ordered, b: Ordered) -> T1:
    """Whether `a <= b`.  Shapes: a, b broadcast from the last dim.  Source: ONNX LessOrEqual-16."""
    return np.less_equal(a, b).astype(bool)


@op(
    negation="Less",
    shape=broadcasting(DType.BOOL),
    since=12,
    outputs=("c",),
    symbolic=True,
    exactness="exact",
)
def GreaterOrEqual(a: Ordered, b: Ordered) -> T1:
    """Whether `a >= b`.  Shapes: a, b broadcast from the last dim.  Source: ONNX GreaterOrEqual-16."""
    return np.greater_equal(a, b).astype(bool)


@_combined
def And(a: Logical, b: Logical) -> T1:
    """Logical AND.  Shapes: a, b broadcast from the last dim.  Source: ONNX And-7."""
    return np.logical_and(a, b)


@_combined
def Or(a: Logical, b: Logical) -> T1:
    """Logical OR.  Shapes: a, b broadcast from the last dim.  Source: ONNX Or-7."""
    return np.logical_or(a, b)


@_combined
def Xor(a: Logical, b: Logical) -> T1:
    """Logical exclusive OR.  Shapes: a, b broadcast from the last dim.  Source: ONNX Xor-7."""
    return np.logical_xor(a, b)


def _logical(x: TensorFact, **_attributes: object) -> TensorFact:
    return TensorFact(DType.BOOL, x.shape)


@op(shape=_logical, since=1, nnef="not(x)", openvino="opset1.LogicalNot(x)", symbolic=True, exactness="exact")
def Not(x: Logical) -> Logical:
    """Logical NOT.  Shapes: x [*s] → [*s].  Source: ONNX Not-1."""
    return np.logical_not(x)


@op(shape=_logical, since=9, openvino="opset10.IsNaN(x)", exactness="exact")
def IsNaN(x: Real) -> T2:
    """Whether `x` is NaN, element-wise.  Shapes: x [*s] → [*s].  Source: ONNX IsNaN-20."""
    return np.isnan(x)


@op(shape=_logical, since=10, exactness="exact")
def IsInf(x: Real, *, detect_negative: int = 1, detect_positive: int = 1) -> T2:
    """Whether `x` is infinite, for the signs that are enabled.  Shapes: x [*s] → [*s].  Source: ONNX IsInf-20."""
    infinite = np.isinf(x)
    return infinite & ((bool(detect_negative) & (x < 0)) | (bool(detect_positive) & (x > 0)))


@op(
    shape=broadcasting(like=1),
    since=9,
    outputs=("output",),
    symbolic=True,
    moves_data=True,
    exactness="exact",
    role="passive",
)
def Where(condition: B, x: T, y: T) -> T:
    """`x` if `condition`, else `y`.  Shapes: all broadcast from the last dim.  Source: ONNX Where-16."""
    return np.where(condition, x, y)
