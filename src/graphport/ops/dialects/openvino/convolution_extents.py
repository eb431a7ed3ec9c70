"""Extents of windows in OpenVINO, as numbers where they are known and as values where a run tells them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from graphport.ops.pages.arithmetic import Add, Div, Max, Min, Mul, Sub
from graphport.ops.pages.reshape import Shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page

Numbers: TypeAlias = "npt.NDArray[np.int64]"


@dataclass(frozen=True, slots=True)
class Vectors:
    """Arithmetic on vectors of integers: done at once where they are known, by nodes where a run tells them."""

    b: Builder

    def value(self, x: Numbers | Value) -> Value:
        return self.b.constant(x.astype(np.int64)) if isinstance(x, np.ndarray) else x

    def _with(
        self, page: Page, function: Callable[[Any, Any], Any], x: Numbers | Value, y: Numbers | Value
    ) -> Numbers | Value:
        if isinstance(x, np.ndarray) and isinstance(y, np.ndarray):
            return function(x, y)
        return self.b(page, self.value(x), self.value(y))

    def add(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        return self._with(Add, np.add, x, y)

    def sub(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        return self._with(Sub, np.subtract, x, y)

    def mul(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        return self._with(Mul, np.multiply, x, y)

    def div(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        """The quotient of numbers that are not negative, rounded down."""
        return self._with(Div, np.floor_divide, x, y)

    def greater(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        return self._with(Max, np.maximum, x, y)

    def less(self, x: Numbers | Value, y: Numbers | Value) -> Numbers | Value:
        return self._with(Min, np.minimum, x, y)


def spatial(b: Builder, x: Value) -> Numbers | Value:
    """The extents behind the first two axes."""
    dims = b.dims(x)[2:]
    known = [n for n in dims if isinstance(n, int)]
    return np.array(known, np.int64) if len(known) == len(dims) else b(Shape, x, start=2)


def same_padding(
    b: Builder, extents: Numbers | Value, reach: Sequence[int], strides: Sequence[int], *, is_upper: bool
) -> tuple[Numbers | Value, Numbers | Value]:
    """Padding with which there is a window for every `strides` entries, the odd one at the end if `is_upper`."""
    v, step, long = Vectors(b), np.array(strides), np.array(reach)
    starts = v.div(v.sub(extents, np.array(1)), step)
    total = v.greater(v.sub(v.add(v.mul(starts, step), long), extents), np.array(0))
    small = v.div(total, np.array(2))
    large = v.sub(total, small)
    return (small, large) if is_upper else (large, small)
