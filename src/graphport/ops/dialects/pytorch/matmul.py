"""Products of matrices in exported programs."""

from __future__ import annotations

from typing import Any

from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.dialects.pnnx.reshape_shapes import moved
from graphport.ops.dialects.pytorch.overloads import aten
from graphport.ops.pages.matmul import Det, MatMul


@aten("aten._linalg_det", "aten.linalg_det", "aten.det")
def det(b: Builder, self: Any = None, A: Any = None) -> Any:
    y = b(Det, self if self is not None else A)
    if any(b.wants(place) for place in range(1, b.count)):
        message = "the factors of a determinant"
        raise UnsupportedError(message)
    return y if b.count == 1 else (y, *[None] * (b.count - 1))


@aten("aten.inner")
def inner(b: Builder, self: Value, other: Value) -> Value:

    rank = len(b.dims(other))
    if rank == 1 or not b.dims(self):
        return b(MatMul, self, other)
    return b(MatMul, self, moved(b, other, [*range(rank - 2), rank - 1, rank - 2]))
