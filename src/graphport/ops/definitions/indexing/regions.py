"""Parts of a tensor that depend on where they are."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.integer_ranges import steps_along_time
from graphport.ops.shapes import check_rank, same_dim
from graphport.ops.types import ALL_4, CLASSIC, INT64, SCALAR, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Old = Annotated[Tensor, Types("T", CLASSIC)]
Indices = Annotated[Tensor, Types("tensor(int64)", INT64)]


def _reverse_shape(
    input: TensorFact, sequence_lens: TensorFact, *, batch_axis: int = 1, time_axis: int = 0
) -> TensorFact:
    if {batch_axis, time_axis} != {0, 1}:
        message = f"batch_axis is {batch_axis} and time_axis is {time_axis}"
        raise ShapeError(message, "expected 0 and 1, in either order")
    if sequence_lens.shape is not None and sequence_lens.rank != 1:
        message = f"sequence_lens has rank {sequence_lens.rank}"
        raise ShapeError(message, "expected rank 1: one length for each sample")
    if input.shape is not None:
        check_rank(input, 2, "input")
        if sequence_lens.shape is not None:
            same_dim(input.dims[batch_axis], sequence_lens.dims[0], "samples and lengths")
    return TensorFact(input.dtype, input.shape)


@op(
    picks=True,
    shape=_reverse_shape,
    since=10,
    exactness="exact",
    role="passive",
    index_operands=("sequence_lens",),
    holds={"sequence_lens": steps_along_time},
    ranks={"input": (2, None), "sequence_lens": 1},
)
def ReverseSequence(input: Old, sequence_lens: Indices, *, batch_axis: int = 1, time_axis: int = 0) -> Old:
    """Reverse the first `sequence_lens[i]` steps of each sample.

    Shapes: input [*s] of rank >= 2, sequence_lens [s[batch_axis]] → [*s].

    Raises:
        ShapeError: the axes are not 0 and 1, or the number of lengths differs from the batch size.
        IndexError: a length exceeds the time axis.

    Source: ONNX ReverseSequence-10.
    """
    x = input if batch_axis == 0 else np.swapaxes(input, 0, 1)
    steps = np.arange(x.shape[1])
    lengths = sequence_lens.reshape(-1, 1)
    order = np.where(steps < lengths, lengths - 1 - steps, steps)
    result = x[np.arange(x.shape[0])[:, None], order]
    return result if batch_axis == 0 else np.swapaxes(result, 0, 1)


def _trilu_shape(input: TensorFact, k: TensorFact | None = None, *, upper: int = 1) -> TensorFact:
    if input.shape is not None:
        check_rank(input, 2, "input")
    if k is not None and k.shape is not None and k.rank > 1:
        message = f"k has rank {k.rank}"
        raise ShapeError(message, "expected a scalar")
    return TensorFact(input.dtype, input.shape)


@op(
    shape=_trilu_shape,
    since=14,
    outputs=("output",),
    exactness="exact",
    role="passive",
    index_operands=("k",),
    ranks={"input": (2, None), "k": SCALAR},
)
def Trilu(input: T, k: Indices | None = None, *, upper: int = 1) -> T:
    """The upper (or lower) triangle of each matrix, from diagonal `k` on; 0 elsewhere.

    Shapes: input [*s], k [] → [*s].

    Raises:
        ShapeError: the rank is below 2.

    Source: ONNX Trilu-14.
    """
    diagonal = 0 if k is None else int(k.reshape(-1)[0])
    rows, columns = np.ogrid[: input.shape[-2], : input.shape[-1]]
    kept = columns - rows >= diagonal if upper else columns - rows <= diagonal
    nothing = np.array("", object) if input.dtype == object else np.zeros((), input.dtype)
    return np.where(kept, input, nothing)
