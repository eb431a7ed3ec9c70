"""Concatenation, splitting and repetition of tensors."""

from __future__ import annotations

from typing import Annotated

import numpy as np

from graphport.core.dims import Dim, Symbolic, ceil_div, decide_equal, decide_less
from graphport.core.facts import OPEN, TensorFact, Unknown, as_integer
from graphport.ops.declare import MAX_RESULTS, ShapeError, op
from graphport.ops.requirements import require
from graphport.ops.shapes import axis_index, broadcast, same_dim
from graphport.ops.types import ALL_4, INT64, Tensor, Types

T = Annotated[Tensor, Types("T", ALL_4)]
T1 = Annotated[Tensor, Types("T1", INT64)]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]


def _concat_shape(*inputs: TensorFact, axis: int) -> TensorFact:
    shapes = [fact.shape for fact in inputs]
    ranks = {len(shape) for shape in shapes if shape is not None}
    if not ranks:
        raise Unknown
    rank = ranks.pop()
    if ranks:
        message = f"operands have ranks {sorted({rank, *ranks})}"
        raise ShapeError(message, "all operands must have equal rank")
    place = axis_index(axis, rank)
    dims: list[Dim | None] = [None] * rank
    total: Dim = 0
    for index, shape in enumerate(shapes):
        total = total + (OPEN if shape is None else shape[place])
        for i, dim in enumerate(shape or ()):
            known = dims[i]
            dims[i] = dim if known is None or i == place else same_dim(known, dim, f"axis {i} of operand {index}")
    dims[place] = OPEN if None in shapes else total
    return inputs[0].with_shape([OPEN if dim is None else dim for dim in dims])


@op(
    picks=True,
    turns="axis",
    shape=_concat_shape,
    since=4,
    outputs=("concat_result",),
    symbolic=True,
    exactness="exact",
    role="passive",
)
def Concat(*inputs: T, axis: int) -> T:
    """Concatenate the operands along `axis`; all other dims are equal.

    Shapes: [*s] each → [*s], summed at `axis`.

    Raises:
        ShapeError: ranks or other dims differ.

    Source: ONNX Concat-13.
    """
    return np.concatenate(inputs, axis)


def _split_shape(
    input: TensorFact, split: TensorFact | None = None, *, axis: int = 0, num_outputs: int | None = None
) -> list[TensorFact]:
    place = axis_index(axis, input.rank)
    lengths = _equal(input.dims[place], num_outputs) if split is None else _split_sizes(input.dims[place], split)
    return [input.with_shape([*input.dims[:place], length, *input.dims[place + 1 :]]) for length in lengths]


def _split_sizes(dim: Dim, split: TensorFact) -> list[Dim]:
    if split.elements is None:
        count = split.dims[0]
        if isinstance(count, Symbolic):
            raise Unknown
        _check_count(count)
        return [OPEN] * count
    lengths = list(split.elements)
    if any(decide_less(length, 0) for length in lengths):
        message = f"the parts {list(map(str, lengths))} are no lengths"
        raise ShapeError(message)
    if decide_equal(sum(lengths), dim) is False:
        message = f"the parts {list(map(str, lengths))} do not fill {dim} entries"
        raise ShapeError(message)
    require(sum(lengths), "=", dim)
    return lengths


def _check_count(count: int) -> None:
    if count > MAX_RESULTS:
        message = f"{count} results, expected at most {MAX_RESULTS}"
        raise ShapeError(message)


def _equal(dim: Dim, count: int | None) -> list[Dim]:
    if count is None:
        message = "split and num_outputs are both missing"
        raise ShapeError(message, "set split or num_outputs")
    if count < 1:
        message = f"num_outputs is {count}"
        raise ShapeError(message, "it is positive")
    _check_count(count)
    part = ceil_div(dim, count)
    last = dim - part * (count - 1)
    if isinstance(last, int) and last < 0:
        message = f"axis of {dim} elements cannot be split into {count} parts of {part}"
        raise ShapeError(message, "only the last part may be shorter")
    return [part] * (count - 1) + [last]


@op(
    picks=True,
    turns="axis",
    shape=_split_shape,
    since=18,
    outputs=("*outputs",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("split",),
    ranks={"input": (1, None), "split": 1},
)
def Split(input: T, split: Int64 | None = None, *, axis: int = 0, num_outputs: int | None = None) -> tuple[T, ...]:
    """`input` cut along `axis`: into parts of the lengths `split`, or into `num_outputs` equal parts, the last shorter.

    Shapes: input [*s], split [k] → k times [*s] with split[i] at `axis`.

    Raises:
        ShapeError: the parts do not fill the axis.

    Source: ONNX Split-18.
    """
    length = input.shape[axis]
    if split is None:
        lengths = [as_integer(part) for part in _equal(length, num_outputs)]
    else:
        lengths = [int(part) for part in split]
        if sum(lengths) != length:
            message = f"the parts {lengths} do not fill {length} entries"
            raise ValueError(message)
    ends = np.cumsum(lengths, dtype=np.int64)
    return tuple(input.take(range(end - part, end), axis) for part, end in zip(lengths, ends.tolist(), strict=True))


def _expand_shape(input: TensorFact, shape: TensorFact) -> TensorFact:
    if shape.elements is not None:
        if any(decide_less(dim, 0) for dim in shape.elements):
            message = f"the shape {list(map(str, shape.elements))} has a negative dim"
            raise ShapeError(message, "1 keeps a dim")
        return input.with_shape(broadcast(input.dims, shape.elements))
    length = shape.dims[0]
    if isinstance(length, Symbolic):
        raise Unknown
    return input.with_shape([OPEN] * max(length, input.rank))


@op(
    picks=True,
    shape=_expand_shape,
    since=8,
    outputs=("output",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("shape",),
    ranks={"shape": 1},
)
def Expand(input: T, shape: Int64) -> T:
    """`input` repeated along axes of 1 so that it broadcasts with `shape`; an entry 1 keeps a larger dim.

    Shapes: input [*s], shape [r] → broadcast of both.

    Raises:
        ShapeError: the two do not broadcast.

    Source: ONNX Expand-13.
    """
    target = np.broadcast_shapes(input.shape, tuple(int(dim) for dim in shape))
    return np.broadcast_to(input, target).copy()


def _tile_shape(input: TensorFact, repeats: TensorFact) -> TensorFact:
    count = repeats.dims[0] if repeats.shape else None
    if isinstance(count, int) and count != input.rank:
        message = f"{count} repeats for a tensor of rank {input.rank}"
        raise ShapeError(message, "expected one repeat count for each axis")
    if repeats.elements is None:
        return input.with_shape([OPEN] * input.rank)
    if any(decide_less(times, 0) for times in repeats.elements):
        message = f"the repeats are {list(map(str, repeats.elements))}"
        raise ShapeError(message, "expected counts of at least 0")
    return input.with_shape([dim * times for dim, times in zip(input.dims, repeats.elements, strict=True)])


@op(
    picks=True,
    shape=_tile_shape,
    since=6,
    outputs=("output",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("repeats",),
    ranks={"repeats": 1},
)
def Tile(input: T, repeats: T1) -> T:
    """Repeat `input` along each axis i `repeats[i]` times.

    Shapes: input [*s], repeats [rank] → [*(s * repeats)].

    Raises:
        ShapeError: `repeats` does not have one element per axis, or one is negative.

    Source: ONNX Tile-13.
    """
    return np.tile(input, [int(times) for times in repeats])
