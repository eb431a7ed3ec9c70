"""Shapes of products of matrices."""

from __future__ import annotations

from graphport.core.dims import Dim, decide_equal
from graphport.ops.declare import ShapeError
from graphport.ops.shapes import broadcast


def multiplied(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of `a @ b`, as NumPy's `matmul` has it.

    Raises:
        ShapeError: a scalar, inner dims that differ, or leading dims that do not broadcast.
    """
    if not a or not b:
        message = f"{'a' if not a else 'b'} is a scalar"
        raise ShapeError(message, "factors have at least one axis")
    inner = b[-2] if len(b) > 1 else b[-1]
    if decide_equal(a[-1], inner) is False:
        message = f"a has {a[-1]} columns, b has {inner} rows"
        raise ShapeError(message, "they must agree")
    leading = broadcast(a[:-2], b[:-2])
    return (*leading, *(a[-2:-1] if len(a) > 1 else ()), *(b[-1:] if len(b) > 1 else ()))
