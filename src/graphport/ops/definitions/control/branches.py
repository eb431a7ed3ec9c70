"""One body or another."""

from __future__ import annotations

from typing import Annotated, Any

from graphport.core.facts import Fact, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.control.joins import join
from graphport.ops.types import ALL_13, BOOL, Body, Tensor, Types

B = Annotated[Tensor, Types("B", BOOL)]
V = Annotated[Any, Types("V", ALL_13, "any")]


def _if_shape(cond: TensorFact, *, then_branch: Body, else_branch: Body) -> list[Fact]:
    chosen, other = then_branch(), else_branch()
    if len(chosen) != len(other):
        message = f"then_branch returns {len(chosen)} values, else_branch {len(other)}"
        raise ShapeError(message)
    # A symbolic element is a number of a run: both branches are possible.
    if cond.elements and isinstance(cond.elements[0], int):
        return chosen if cond.elements[0] else other
    for number, (a, b) in enumerate(zip(chosen, other, strict=True)):
        _same_dtype(a, b, number)
    return [join(a, b) for a, b in zip(chosen, other, strict=True)]


def _same_dtype(a: Fact, b: Fact, number: int) -> None:
    if not isinstance(a, TensorFact) or not isinstance(b, TensorFact) or None in (a.dtype, b.dtype):
        return
    if a.dtype is not b.dtype:
        message = f"result {number} is {a.dtype} in then_branch and {b.dtype} in else_branch"
        raise ShapeError(message)


@op(shape=_if_shape, since=1, outputs=("*outputs",), exactness="exact")
def If(cond: B, *, then_branch: Body, else_branch: Body) -> tuple[V, ...]:
    """Run one of two bodies and return its results.

    Shapes: cond [] (or one element); results as declared by the bodies.

    Raises:
        ShapeError: the bodies return different counts or types of values.

    Source: ONNX If-25.
    """
    return tuple(then_branch() if cond.reshape(-1)[0] else else_branch())
