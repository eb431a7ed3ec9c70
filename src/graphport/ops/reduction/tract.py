"""Reductions in tract's NNEF."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.spoken import Speaker
from graphport.ops.tract import axis_of, word

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("tract_core_product_reduce")
def product_reduce(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """The product over some axes, which stay with one entry."""
    rank = len(b.dims(input))
    if not axes:
        return input
    chosen = np.array([axis_of(axis, rank) for axis in axes], np.int64)
    return Speaker(b)("ReduceProd", input, b.constant(chosen), keepdims=1)


@word("tract_core_argmax_reduce_last")
def argmax_last(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """The place of the largest entry, the last one of equals."""
    return _last(b, "ArgMax", input, axes)


@word("tract_core_argmin_reduce_last")
def argmin_last(b: Builder, input: Value, *, axes: tuple[int, ...]) -> Value:
    """The place of the smallest entry, the last one of equals."""
    return _last(b, "ArgMin", input, axes)


def _last(b: Builder, page: str, input: Value, axes: tuple[int, ...]) -> Value:
    axis = axis_of(axes[0], len(b.dims(input)))
    return Speaker(b)(page, input, axis=axis, keepdims=1, select_last_index=1)
