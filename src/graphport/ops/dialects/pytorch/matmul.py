"""Products of matrices in exported programs."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.inverse import inverted
from graphport.ops.dialects.pnnx.reshape_shapes import moved
from graphport.ops.dialects.pytorch.overloads import aten
from graphport.ops.dialects.torch_functions import number, vector
from graphport.ops.pages.arithmetic import Abs, Log, Sign
from graphport.ops.pages.matmul import Det, MatMul
from graphport.ops.pages.reshape import Expand, Shape, Squeeze, Unsqueeze


@aten("aten._linalg_det", "aten.linalg_det", "aten.det")
def det(b: Builder, self: Any = None, A: Any = None) -> Any:
    y = b(Det, self if self is not None else A)
    if any(b.wants(place) for place in range(1, b.count)):
        message = "the factors of a determinant"
        raise UnsupportedError(message)
    return y if b.count == 1 else (y, *[None] * (b.count - 1))


@aten("aten.inverse", "aten.linalg_inv", "aten.linalg_inv_ex")
def inv(b: Builder, self: Any = None, A: Any = None, check_errors: Any = False) -> Any:
    """Of at most four rows; a matrix without one gives infinite numbers, where PyTorch stops."""
    del check_errors
    x: Value = self if self is not None else A
    y = inverted(b, x)
    return y if b.count == 1 else (y, _in_order(b, x))


@aten("aten.linalg_solve", "aten.linalg_solve_ex", "aten._linalg_solve_ex")
def solve(b: Builder, A: Value, B: Value, left: Any = True, check_errors: Any = False) -> Any:
    """`A⁻¹ B`, for A of at most four rows; `B` is a vector for each matrix where it has an axis less."""
    del check_errors
    if any(b.wants(place) for place in range(2, b.count)):
        message = "the factors of a matrix"
        raise UnsupportedError(message)
    inverse = inverted(b, A)
    is_vector = len(b.dims(B)) == 1 or (len(b.dims(B)) + 1 == len(b.dims(A)) and b.dims(B) == b.dims(A)[:-1])
    right = b(Unsqueeze, B, vector(b, [-1])) if is_vector else B
    y = b(MatMul, inverse, right) if number(left) else b(MatMul, right, inverse)
    y = b(Squeeze, y, vector(b, [-1])) if is_vector else y
    return y if b.count == 1 else (y, None, None, _in_order(b, A))[: b.count]


def _in_order(b: Builder, x: Value) -> Value:
    """That nothing went wrong, for each matrix."""
    return b(Expand, b.constant(0, DType.INT32), b(Shape, x, end=len(b.dims(x)) - 2))


@aten("aten.logdet")
def logdet(b: Builder, self: Value) -> Value:
    """No number below 0, as PyTorch has it."""
    return b(Log, b(Det, self))


@aten("aten.slogdet", "aten.linalg_slogdet", "aten._linalg_slogdet")
def slogdet(b: Builder, self: Any = None, A: Any = None) -> Any:
    y = b(Det, self if self is not None else A)
    if any(b.wants(place) for place in range(2, b.count)):
        message = "the factors of a determinant"
        raise UnsupportedError(message)
    return (b(Sign, y), b(Log, b(Abs, y)), *[None] * (b.count - 2))


@aten("aten.inner")
def inner(b: Builder, self: Value, other: Value) -> Value:

    rank = len(b.dims(other))
    if rank == 1 or not b.dims(self):
        return b(MatMul, self, other)
    return b(MatMul, self, moved(b, other, [*range(rank - 2), rank - 1, rank - 2]))
