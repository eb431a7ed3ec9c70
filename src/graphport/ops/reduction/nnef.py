"""Reductions in NNEF: axes stay, with one entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.arithmetic import Cast
from graphport.ops.declare import UnsupportedError, lift, lower
from graphport.ops.pattern import constant_numbers
from graphport.ops.reduction import ArgMax, ArgMin, ReduceMax, ReduceMean, ReduceMin, ReduceSum
from graphport.ops.reshape import Reshape, Transpose, Unsqueeze

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder
    from graphport.ops.declare import Page


def _spelled(page: Page, word: str) -> None:
    @lower("nnef", word)
    def lowered(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
        return b(page, input, b.constant(np.array(axes, np.int64)), keepdims=1, noop_with_empty_axes=1)

    @lift("nnef", page.name)
    def lifted(
        b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> tuple[Value, ...] | None:
        return _lifted(b, word, data, axes, keepdims, noop_with_empty_axes)


def _lifted(
    b: Builder, word: str, data: Value, axes: Value | None, keepdims: int, noop: int
) -> tuple[Value, ...] | None:
    dims = b.dims(data)
    given = () if axes is None else constant_numbers(axes)
    if given is None:
        return None
    chosen = tuple(sorted(axis % len(dims) for axis in given)) or (() if noop else tuple(range(len(dims))))
    dtype = data.fact.dtype if isinstance(data.fact, TensorFact) else None
    kept = TensorFact(dtype, tuple(1 if axis in chosen else dim for axis, dim in enumerate(dims)))
    reduced = b.word(word, data, facts=[kept], axes=chosen, **({"normalize": False} if word == "sum_reduce" else {}))
    return reduced if keepdims or not chosen else b.word("squeeze", *reduced, axes=chosen)


@lower("nnef", "sum_reduce")
def sum_reduce(b: Builder, input: Value, *, axes: tuple[int, ...], normalize: bool) -> Value:
    """The sum, or with `normalize` the mean."""
    page = ReduceMean if normalize else ReduceSum
    return b(page, input, b.constant(np.array(axes, np.int64)), keepdims=1, noop_with_empty_axes=1)


@ReduceSum.lift("nnef")
def lift_sum(
    b: Builder, data: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> tuple[Value, ...] | None:
    return _lifted(b, "sum_reduce", data, axes, keepdims, noop_with_empty_axes)


def _spelled_logical(page: Page, word: str) -> None:
    @lower("nnef", word)
    def lowered(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
        # Extremes of a logical tensor are "all" and "any"; ONNX Runtime computes them of bytes.
        bytes_ = b(Cast, input, to=DType.UINT8)
        reduced = b(page, bytes_, b.constant(np.array(axes, np.int64)), keepdims=1, noop_with_empty_axes=1)
        return b(Cast, reduced, to=DType.BOOL)


_spelled_logical(ReduceMin, "all_reduce")
_spelled_logical(ReduceMax, "any_reduce")


def _spelled_arg(page: Page, word: str) -> None:
    @lower("nnef", word)
    def lowered(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
        rank = len(b.dims(input))
        if len(axes) == 1:
            return b(page, input, axis=axes[0], keepdims=1)
        if not axes:
            message = f"{word} over no axis"
            raise UnsupportedError(message)
        # Several axes count as one, in row-major order.
        order = (*(axis for axis in range(rank) if axis not in axes), *axes)
        kept = rank - len(axes)
        moved = b(Transpose, input, perm=order)
        joined = b(Reshape, moved, b.constant(np.array([*[0] * kept, -1], np.int64)))
        found = b(page, joined, axis=-1, keepdims=0)
        return b(Unsqueeze, found, b.constant(np.array(sorted(axes), np.int64)))

    @lift("nnef", page.name)
    def lifted(
        b: Builder, data: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0
    ) -> tuple[Value, ...] | None:
        if select_last_index:
            return None
        dims = b.dims(data)
        place = axis % len(dims)
        fact = TensorFact(DType.INT64, (*dims[:place], 1, *dims[place + 1 :]))
        found = b.word(word, data, facts=[fact], axes=(place,))
        return found if keepdims else b.word("squeeze", *found, axes=(place,))


_spelled_arg(ArgMax, "argmax_reduce")
_spelled_arg(ArgMin, "argmin_reduce")

for _page, _word in ((ReduceMean, "mean_reduce"), (ReduceMax, "max_reduce"), (ReduceMin, "min_reduce")):
    _spelled(_page, _word)
