"""The middle of a tensor, or a tensor in the middle of zeros."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dims import Symbolic
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.shapes import axis_indices
from graphport.ops.types import ALL_4, INDICES, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
Tind = Annotated[Tensor, Types("Tind", INDICES)]


def _center_shape(input_data: TensorFact, shape: TensorFact, *, axes: tuple[int, ...] | None = None) -> TensorFact:
    rank = input_data.rank
    chosen = tuple(range(rank)) if axes is None else axis_indices(axes, rank)
    if shape.shape is not None:
        count = shape.dims[0] if shape.rank else 1
        if not isinstance(count, Symbolic) and count != len(chosen):
            message = f"{count} lengths for {len(chosen)} axes"
            raise ShapeError(message)
    lengths = shape.elements or (OPEN,) * len(chosen)
    if any(isinstance(n, int) and n < 0 for n in lengths):
        message = f"a negative length in {list(map(str, lengths))}"
        raise ShapeError(message)
    dims = list(input_data.dims)
    for axis, length in zip(chosen, lengths, strict=True):
        dims[axis] = length
    return input_data.with_shape(dims)


@op(
    shape=_center_shape,
    since=18,
    outputs=("output_data",),
    moves_data=True,
    exactness="exact",
    role="passive",
    index_operands=("shape",),
    ranks={"shape": 1},
)
def CenterCropPad(input_data: T, shape: Tind, *, axes: tuple[int, ...] | None = None) -> T:
    """Crop or zero-pad `input_data` to the lengths `shape` along `axes`, centred.

    If the difference is odd, the end loses or gains one element more.

    Shapes: input_data [*s], shape [k] for k axes, default all → s with `shape` there.

    Raises:
        ShapeError: the number of lengths differs from the number of axes, or an axis is invalid.

    Source: ONNX CenterCropPad-18.
    """
    chosen = range(input_data.ndim) if axes is None else axis_indices(axes, input_data.ndim)
    lengths = list(input_data.shape)
    for axis, length in zip(chosen, shape.reshape(-1), strict=True):
        lengths[axis] = int(length)
    kept = [(max(n - m, 0) // 2, min(n, m)) for n, m in zip(input_data.shape, lengths, strict=True)]
    placed = [(max(m - n, 0) // 2, min(n, m)) for n, m in zip(input_data.shape, lengths, strict=True)]
    empty = "" if input_data.dtype == object else 0
    result = np.full(lengths, empty, input_data.dtype)
    inner = input_data[tuple(slice(first, first + n) for first, n in kept)]
    result[tuple(slice(first, first + n) for first, n in placed)] = inner
    return result
