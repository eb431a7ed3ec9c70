"""Sizes in window operators: integers if they are static, else values computed at run time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphport.ir.graph import Value
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.definitions.reshape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ops.builder import Builder
    from graphport.ops.declare import OpDef

Numbers: TypeAlias = "npt.NDArray[np.int64]"
Extents: TypeAlias = "Numbers | Value"


_OF_NUMBERS: dict[OpDef, Callable[[Any, Any], Numbers]] = {
    Add: np.add,
    Sub: np.subtract,
    Mul: np.multiply,
    Div: np.floor_divide,
    Max: np.maximum,
    Min: np.minimum,
}
"""NumPy equivalents of the operators; division truncates, for non-negative integers."""


@dataclass(frozen=True, slots=True)
class Vectors:
    """Arithmetic on integer vectors, folded if the operands are static."""

    b: Builder

    def value(self, x: Extents | int) -> Value:
        """Return a vector as a value; an integer is broadcast."""
        return x if isinstance(x, Value) else self.b.constant(np.atleast_1d(np.asarray(x, np.int64)))

    def __call__(self, op_def: OpDef, x: Extents, y: Extents | int) -> Extents:
        """Apply a binary operator: emit it for values, compute it for static vectors."""
        if isinstance(x, Value) or isinstance(y, Value):
            return self.b(op_def, self.value(x), self.value(y))
        return _OF_NUMBERS[op_def](x, y)


def spatial(b: Builder, x: Value, rank: int) -> Extents:
    """Return the `rank` spatial dims, that is all but the first two.

    Raises:
        ShapeError: the operand has another rank.
    """
    dims = b.dims(x)[2:]
    if len(b.dims(x)) != rank + 2:
        message = f"the operand has rank {len(b.dims(x))}, expected {rank + 2} for a window with {rank} axes"
        raise ShapeError(message)
    known = [n for n in dims if isinstance(n, int)]
    return np.array(known, np.int64) if len(known) == len(dims) else b(Shape, x, start=2)


def same_padding(
    b: Builder, extents: Extents, reach: Sequence[int], strides: Sequence[int], *, is_upper: bool
) -> tuple[Extents, Extents]:
    """Return SAME auto-padding for windows of size `reach`; an odd element is at the end if `is_upper`."""
    v, step, long = Vectors(b), np.array(strides), np.array(reach)
    starts = v(Div, v(Sub, extents, 1), step)
    total = v(Max, v(Sub, v(Add, v(Mul, starts, step), long), extents), 0)
    small = v(Div, total, 2)
    large = v(Sub, total, small)
    return (small, large) if is_upper else (large, small)
