"""Shape rules and shape arithmetic shared by operator definitions, with the letters of the specifications."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic, decide_equal, decide_less, maximum, minimum
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.requirements import require

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType
    from graphport.ops.declare import ShapeRule


def elementwise(name: str = "x") -> ShapeRule:
    """Return the fact of the first operand, called `name`."""

    def rule(x: TensorFact, *_operands: object, **_attributes: object) -> TensorFact:
        return TensorFact(x.dtype, x.shape)

    rule.__name__ = f"like_{name}"
    return rule


@dataclass(frozen=True, slots=True)
class Broadcasting:
    """The shape rule of operators whose operands broadcast, aligned at the last dim."""

    dtype: DType | None
    like: int

    def __call__(self, *operands: TensorFact, **_attributes: object) -> TensorFact:
        """Return the common shape."""
        shape = broadcast(*(operand.dims for operand in operands))
        return TensorFact(self.dtype or operands[self.like].dtype, shape)


def broadcasting(dtype: DType | None = None, *, like: int = 0) -> ShapeRule:
    """Return the shape rule for broadcasting operands; the result has `dtype`, or the dtype of operand `like`."""
    return Broadcasting(dtype, like)


def broadcast(*shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """Return the common shape, aligned at the last dim: dims are equal, or one of them is 1.

    Raises:
        ShapeError: two dims differ and neither is 1.
    """
    rank = max(map(len, shapes), default=0)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_broadcast_dim(dims) for dims in zip(*padded, strict=True))


def _broadcast_dim(dims: Sequence[Dim]) -> Dim:
    result: Dim = 1
    for dim in dims:
        if dim in (1, result):
            continue
        if result == 1:
            result = dim
            continue
        require(result, "broadcast", dim)
        if isinstance(dim, Symbolic) and isinstance(result, Symbolic):
            # If the dims differ, one dim is 1 in every successful run, and the result is the larger
            # one, or 0.
            greater = maximum(dim, result)
            may_be_empty = not (decide_less(0, dim) and decide_less(0, result))
            result = greater * minimum(minimum(dim, result), 1) if may_be_empty else greater
        elif decide_equal(dim, result) is False and isinstance(dim, int) and isinstance(result, int):
            message = f"{result} and {dim} do not broadcast"
            raise ShapeError(message, "dims must agree or be 1")
        elif isinstance(dim, int):
            result = dim
    return result


def decided_equal_shapes(a: Sequence[Dim], b: Sequence[Dim], what: str) -> None:
    """Check that two shapes do not differ in every run.

    Raises:
        ShapeError: they do; the message contains `what` and both shapes.
    """
    if len(a) != len(b) or any(decide_equal(x, y) is False for x, y in zip(a, b, strict=True)):
        message = f"{what}: {list(map(str, a))} against {list(map(str, b))}"
        raise ShapeError(message)
    for x, y in zip(a, b, strict=True):
        require(x, "=", y)


def same_dim(a: Dim, b: Dim, what: str) -> Dim:
    """Return the dim that `a` and `b` must both equal: the more specific one.

    Raises:
        ShapeError: they differ in every run; `what` names them.
    """
    if decide_equal(a, b) is False:
        message = f"{what}: {a} and {b} differ"
        raise ShapeError(message)
    require(a, "=", b)
    return b if isinstance(a, Symbolic) and not isinstance(b, Symbolic) else a


def axis_index(axis: int, rank: int, what: str = "axis") -> int:
    """Return `axis` normalized to [0, rank).

    Raises:
        ShapeError: it is not in [-rank, rank).
    """
    if not -rank <= axis < rank:
        message = f"{what} {axis} is outside of a tensor of rank {rank}"
        raise ShapeError(message, f"allowed: {-rank} to {rank - 1}")
    return axis % rank


def axis_indices(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Return `axes` normalized to [0, rank), in order.

    Raises:
        ShapeError: one is out of range or repeated.
    """
    found = tuple(axis_index(axis, rank) for axis in axes)
    if len(set(found)) != len(found):
        message = f"axes {tuple(axes)} name one axis twice"
        raise ShapeError(message)
    return found


def pairs(pads: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Convert ONNX's `(b0, b1, …, e0, e1, …)` to one (begin, end) per axis."""
    half = len(pads) // 2
    return list(zip(pads[:half], pads[half:], strict=True))


def check_rank(fact: TensorFact, least: int, what: str) -> int:
    """Return the rank of `fact`; raises `ShapeError` if it is below `least`, `Unknown` if it is not known."""
    if fact.rank < least:
        message = f"{what} has rank {fact.rank}, at least {least} is needed"
        raise ShapeError(message)
    return fact.rank
