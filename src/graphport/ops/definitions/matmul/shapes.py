"""Shapes of products of matrices."""

from __future__ import annotations

from graphport.core.dims import Dim, decide_equal, product
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.requirements import require
from graphport.ops.shapes import broadcast


def multiplied(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of `a @ b`, as NumPy's `matmul` has it.

    Raises:
        ShapeError: a scalar, inner dims that differ, or leading dims that do not broadcast.
    """
    if not a or not b:
        message = f"{'a' if not a else 'b'} is a scalar"
        raise ShapeError(message, "factors have at least one axis")
    *_, columns_of_a = a
    inner = b[max(len(b) - 2, 0)]
    if decide_equal(columns_of_a, inner) is False:
        message = f"a has {columns_of_a} columns, b has {inner} rows"
        raise ShapeError(message, "they must agree")
    require(columns_of_a, "=", inner)
    rows = (a[-2],) if len(a) > 1 else ()
    columns = (b[-1],) if len(b) > 1 else ()
    return (*broadcast(a[:-2], b[:-2]), *rows, *columns)


def product_macs(y: TensorFact, a: TensorFact, *_operands: object, **_attributes: object) -> Dim:
    """Multiply-accumulates of `a @ b`: one for each entry of the result and column of `a`."""
    return product([*y.dims, a.dims[-1]])
