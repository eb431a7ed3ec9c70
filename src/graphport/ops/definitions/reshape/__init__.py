"""The same elements in another shape or order."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dims import Dim, Symbolic, decide_equal, decide_less, maximum, product, substitute, symbols
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, Fact, TensorFact, Unknown, as_integer
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.reshape.blocks import DepthToSpace, SpaceToDepth
from graphport.ops.definitions.reshape.columns import Col2Im
from graphport.ops.definitions.reshape.pieces import Concat, Expand, Split, Tile
from graphport.ops.requirements import require
from graphport.ops.shapes import axis_indices
from graphport.ops.types import ALL_13, INT64, Tensor, Types

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Col2Im", "Concat", "DepthToSpace", "Expand", "SpaceToDepth", "Split", "Tile"]

T = Annotated[Tensor, Types("T", ALL_13)]
V = Annotated[Any, Types("V", ALL_13, "any")]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]
T1 = Annotated[Tensor, Types("T1", INT64)]


def _itself(input: Fact) -> Fact:
    return input


@op(
    picks=True,
    homogeneous=True,
    shape=_itself,
    since=1,
    outputs=("output",),
    nnef="copy(input)",
    pnnx="nn.Identity(input)",
    symbolic=True,
    exactness="exact",
    role="passive",
)
def Identity(input: V) -> V:
    """`input` itself.  Shapes: any; sequences and optionals, too.  Source: ONNX Identity-25."""
    return input


def _shape_shape(data: TensorFact, *, start: int = 0, end: int | None = None) -> TensorFact:
    dims = data.dims[_clamped(start, data.rank) : _clamped(data.rank if end is None else end, data.rank)]
    return TensorFact(DType.INT64, (len(dims),)).with_elements(dims)


def _clamped(position: int, rank: int) -> int:
    return min(max(position + rank if position < 0 else position, 0), rank)


@op(shape=_shape_shape, since=1, outputs=("shape",), exactness="exact", role="index")
def Shape(data: T, *, start: int = 0, end: int | None = None) -> T1:
    """The dims of `data` from axis `start` up to `end`, clamped to its rank.  Shapes: data [*s] → [len].

    Source: ONNX Shape-25.
    """
    return np.array(data.shape[start:end], np.int64)


def _size_shape(data: TensorFact) -> TensorFact:
    return TensorFact(DType.INT64, (), (product(data.dims),))


@op(shape=_size_shape, since=1, outputs=("size",), exactness="exact", role="index")
def Size(data: T) -> T1:
    """The number of elements of `data`.  Shapes: data [*s] → [].  Source: ONNX Size-25."""
    return np.array(data.size, np.int64)


def _reshape_shape(data: TensorFact, shape: TensorFact, *, allowzero: int = 0) -> TensorFact:
    if shape.elements is None:
        return data.with_shape([OPEN] * _count(shape))
    return TensorFact(data.dtype, resolve_target_shape(data.shape, shape.elements, copies_zero=not allowzero))


def _count(vector: TensorFact) -> int:
    """Number of entries of a vector; raises `Unknown` where that is not known."""
    return as_integer(vector.dims[0]) if vector.rank else 1


def resolve_target_shape(
    source: tuple[Dim, ...] | None, target: tuple[Dim, ...], *, copies_zero: bool
) -> tuple[Dim, ...]:
    """Resolve a target shape: -1 is inferred, 0 (if `copies_zero`) copies the dim of `source` at that index.

    Raises:
        ShapeError: two -1, a 0 beyond the rank of `source`, or different element counts.
    """
    if sum(dim == -1 for dim in target) > 1:
        message = f"the target shape {list(map(str, target))} leaves more than one dim open"
        raise ShapeError(message, "only one entry may be -1")
    if any(decide_less(dim, -1) for dim in target):
        message = f"the target shape {list(map(str, target))} has a negative dim"
        raise ShapeError(message)
    if source is None:
        # A dim that may be 0 may stand for the copied dim.
        least = 1 if copies_zero else 0
        return tuple(dim if decide_less(dim, least) is False else OPEN for dim in target)
    dims = list(target)
    if copies_zero:
        dims = [_copied(source, i, dim) if dim == 0 else dim for i, dim in enumerate(target)]
        dims = resolve_copied_dims(source, dims)
    if -1 not in dims:
        if not may_fill(source, dims):
            message = f"{product(source)} elements do not fill the shape {list(map(str, dims))}"
            raise ShapeError(message, "the product of the dims must not change")
        if product(dims) != 0:
            require(product(source), "=", product(dims))
        return tuple(dims)
    place = dims.index(-1)
    rest = [dim for i, dim in enumerate(dims) if i != place]
    dims[place] = _remaining(source, rest, target)
    return tuple(dims)


def may_fill(source: tuple[Dim, ...], dims: Sequence[Dim]) -> bool:
    """Whether two shapes may have equal element counts; with a dim of 0, open dims may be 0 too."""
    before, after = product(source), product(dims)
    return decide_equal(before, after) is not False or (after == 0 and isinstance(before, Symbolic))


def resolve_copied_dims(source: tuple[Dim, ...], dims: list[Dim]) -> list[Dim]:
    """Replace dims of a target that may be 0 at run time by the dim of `source` that they copy.

    An element remains if all others are positive and the element counts agree: a copy would be an error then.
    """
    is_known = -1 not in dims and decide_equal(product(source), product(dims)) is True
    doubtful = [i for i, dim in enumerate(dims) if dim != -1 and decide_less(dim, 1) is not False]
    if is_known and len(doubtful) == 1:
        return dims
    return [resolve_dim(dim, source[i]) if i in doubtful and i < len(source) else dim for i, dim in enumerate(dims)]


def resolve_dim(asked: Dim, copied: Dim) -> Dim:
    """Return the result dim of a Reshape target element: `asked`, or `copied` if `asked` is 0 at run time."""
    if isinstance(asked, int) or decide_less(asked, 1) is False or _vanishes_with(copied, asked):
        return asked
    return asked + copied * maximum(1 - asked, 0)


def _vanishes_with(dim: Dim, other: Dim) -> bool:
    """Whether `dim` is provably 0 whenever `other` is 0."""
    if other * (dim // other) == dim:
        return True
    (name, *rest) = symbols(other)
    return not rest and other == symbols(other)[name] and substitute(dim, {name: 0}) == 0


def _copied(source: tuple[Dim, ...], index: int, dim: Dim) -> Dim:
    if index >= len(source):
        message = f"target shape[{index}] is {dim}, which copies a dim of the operand; its rank is only {len(source)}"
        raise ShapeError(message, f"its rank is {len(source)}")
    return source[index]


def _remaining(source: tuple[Dim, ...], rest: list[Dim], target: tuple[Dim, ...]) -> Dim:
    volume, known = product(source), product(rest)
    if isinstance(known, int) and known == 0:
        message = f"-1 in the target shape {list(map(str, target))} is ambiguous, because another dim is 0"
        raise ShapeError(message)
    if isinstance(volume, int) and isinstance(known, int) and volume % known:
        message = f"{volume} elements are not a multiple of {known}, which the target {list(map(str, target))} fixes"
        raise ShapeError(message)
    return volume // known


@op(
    picks=True,
    reshapes=True,
    shape=_reshape_shape,
    since=5,
    outputs=("reshaped",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("shape",),
    ranks={"shape": 1},
)
def Reshape(data: T, shape: Int64, *, allowzero: int = 0) -> T:
    """Change the shape; elements keep their row-major order.

    A dim of -1 is inferred from the others; a dim of 0 copies the dim of `data` at that index, unless `allowzero`.

    Shapes: data [*s], shape [r] → rank r.

    Raises:
        ShapeError: the element counts differ, or more than one -1.

    Source: ONNX Reshape-25.
    """
    target = resolve_target_shape(data.shape, tuple(int(dim) for dim in shape.reshape(-1)), copies_zero=not allowzero)
    return data.reshape([as_integer(dim) for dim in target])


def _flatten_shape(input: TensorFact, *, axis: int = 1) -> TensorFact:
    if not -input.rank <= axis <= input.rank:
        message = f"axis {axis} is outside of a tensor of rank {input.rank}"
        raise ShapeError(message)
    split = axis + input.rank if axis < 0 else axis
    return input.with_shape((product(input.dims[:split]), product(input.dims[split:])))


@op(
    picks=True,
    reshapes=True,
    shape=_flatten_shape,
    since=1,
    outputs=("output",),
    exactness="exact",
    role="passive",
)
def Flatten(input: T, *, axis: int = 1) -> T:
    """Reshape to a matrix with axes before `axis` as rows.  Shapes: input [*s] → [prod s[:axis], prod s[axis:]].

    Source: ONNX Flatten-25.
    """
    split = axis + input.ndim if axis < 0 else axis
    return input.reshape(prod(input.shape[:split]), prod(input.shape[split:]))


def _squeeze_shape(data: TensorFact, axes: TensorFact | None = None) -> TensorFact:
    if axes is None:
        if any(isinstance(dim, Symbolic) and decide_equal(dim, 1) is None for dim in data.dims):
            raise Unknown
        return data.with_shape([dim for dim in data.dims if dim != 1])
    if axes.elements is None:
        return _fewer(data, _count(axes))
    chosen = axis_indices(axes.integer_elements, data.rank)
    for axis in chosen:
        if decide_equal(data.dims[axis], 1) is False:
            message = f"axis {axis} has {data.dims[axis]} entries, only an axis of 1 can be left out"
            raise ShapeError(message)
        require(data.dims[axis], "=", 1)
    return data.with_shape([dim for axis, dim in enumerate(data.dims) if axis not in chosen])


def _fewer(data: TensorFact, count: int) -> TensorFact:
    if count > data.rank:
        message = f"{count} axes of a tensor of rank {data.rank}"
        raise ShapeError(message)
    return data.with_shape([OPEN] * (data.rank - count))


@op(
    picks=True,
    reshapes=True,
    shape=_squeeze_shape,
    since=13,
    outputs=("squeezed",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("axes",),
    ranks={"axes": (0, 1)},
)
def Squeeze(data: T, axes: Int64 | None = None) -> T:
    """Remove `axes` of length 1; without `axes`, all axes of length 1.

    Shapes: data [*s], axes [k] → rank - k.

    Raises:
        ShapeError: the length of an axis is not 1.

    Source: ONNX Squeeze-25.
    """
    return np.squeeze(data) if axes is None else np.squeeze(data, tuple(int(axis) for axis in axes.reshape(-1)))


def _unsqueeze_shape(data: TensorFact, axes: TensorFact) -> TensorFact:
    if axes.elements is None:
        return data.with_shape([OPEN] * (data.rank + _count(axes)))
    chosen = axis_indices(axes.integer_elements, data.rank + len(axes.elements))
    dims = list(data.dims)
    for axis in sorted(chosen):
        dims.insert(axis, 1)
    return data.with_shape(dims)


@op(
    picks=True,
    reshapes=True,
    shape=_unsqueeze_shape,
    since=13,
    outputs=("expanded",),
    symbolic=True,
    exactness="exact",
    role="passive",
    index_operands=("axes",),
    ranks={"axes": (0, 1)},
)
def Unsqueeze(data: T, axes: Int64) -> T:
    """Insert axes of length 1; `axes` are indices in the result.

    Shapes: data [*s], axes [k] → rank + k.

    Source: ONNX Unsqueeze-25.
    """
    return np.expand_dims(data, tuple(int(axis) for axis in axes.reshape(-1)))


def _transpose_shape(data: TensorFact, *, perm: tuple[int, ...] | None = None) -> TensorFact:
    order = tuple(reversed(range(data.rank))) if perm is None else perm
    if sorted(order) != list(range(data.rank)):
        message = f"perm {order} is not a permutation of {data.rank} axes"
        raise ShapeError(message)
    return data.with_shape([data.dims[axis] for axis in order])


@op(
    picks=True,
    shape=_transpose_shape,
    since=1,
    outputs=("transposed",),
    symbolic=True,
    exactness="exact",
    role="passive",
)
def Transpose(data: T, *, perm: tuple[int, ...] | None = None) -> T:
    """`data` with axis `perm[i]` as axis i; without `perm`, in reverse order.

    Shapes: data [*s] → [s[perm[0]], s[perm[1]], …].

    Source: ONNX Transpose-25.
    """
    return np.transpose(data, perm)
