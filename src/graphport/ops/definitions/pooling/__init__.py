"""Pooling: reduction of the elements under a window or of a whole feature map."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.convolution.window import (
    Window,
    clip_kernel,
    integer_dims,
    integer_pads,
    window,
    window_view,
)
from graphport.ops.definitions.pooling.regions import MaxRoiPool, MaxUnpool
from graphport.ops.shapes import check_rank
from graphport.ops.types import BYTES, FLOATS, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.pooling import AveragePoolView, LpPoolView, MaxPoolView

__all__ = [
    "AveragePool",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "LpPool",
    "MaxPool",
    "MaxRoiPool",
    "MaxUnpool",
]

T = Annotated[Tensor, Types("T", FLOATS)]
TorByte = Annotated[Tensor, Types("T", FLOATS | BYTES)]
I = Annotated[Tensor, Types("I", INT64)]  # noqa: E741  the letter of the specification


def _pooled(op: AveragePoolView[TensorFact] | LpPoolView[TensorFact] | MaxPoolView[TensorFact]) -> TensorFact:
    rank, kernel = check_rank(op.x, 3, "x"), op.kernel_shape
    if any(k < 1 for k in kernel):
        message = f"kernel_shape {kernel} must be positive"
        raise ShapeError(message)
    if len(kernel) != rank - 2:
        message = f"kernel_shape {kernel} has {len(kernel)} entries for {rank - 2} spatial axes"
        raise ShapeError(message, f"{rank - 2} are needed")
    slid = window(
        op.x.dims[2:],
        kernel,
        auto_pad=op.auto_pad,
        ceil_mode=op.ceil_mode,
        dilations=op.dilations,
        pads=op.pads,
        strides=op.strides,
    )
    return op.x.with_shape([*op.x.dims[:2], *slid.lengths])


@viewed
def _max_pool_shape(op: MaxPoolView[TensorFact]) -> list[TensorFact]:
    if op.storage_order not in (0, 1):
        message = f"storage_order is {op.storage_order}"
        raise ShapeError(message, "0 counts rows first, 1 columns first")
    y = _pooled(op)
    return [y, y.with_dtype(DType.INT64)]


@op(
    finds="indices",
    homogeneous=True,
    shape=_max_pool_shape,
    since=1,
    outputs=("y", "indices"),
    moves_data=True,
    exactness="exact",
    role="passive",
    ranks={"x": (3, None)},
)
def MaxPool(
    x: TorByte,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    storage_order: int = 0,
    strides: tuple[int, ...] | None = None,
) -> tuple[TorByte, I]:
    """Maximum over a sliding window, and its flat index in `x`; padding counts as minus infinity.

    Of equal elements the first counts. Indices count the last spatial axis fastest, or the first one if
    `storage_order` is 1. With `ceil_mode` a last window may hang over the end.

    Shapes: x [N, C, *d] → twice [N, C, *out] with `out` as for `Conv`.

    Raises:
        ShapeError: the window does not fit.

    Source: ONNX MaxPool-22.
    """
    slid = window(
        x.shape[2:],
        kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    slid = clip_kernel(x.shape[2:], slid)
    out = integer_dims(slid.lengths)
    shape = (*x.shape[:2], *out, prod(integer_dims(slid.kernel)))
    entries = window_view(x, slid, lowest(x.dtype)).reshape(shape)
    # NaN is the largest where the window has one, padding the smallest where it does not.
    first = np.argmax(entries.astype(np.result_type(x.dtype, np.float32)), axis=-1, keepdims=True)
    if not all(shape):
        return np.empty(shape[:-1], x.dtype), np.empty(shape[:-1], np.int64)
    indices = np.broadcast_to(window_view(_flat_indices(x, storage_order), slid, -1).reshape(1, 1, *out, -1), shape)
    within = np.take_along_axis(indices, first, axis=-1)
    # If padding is the maximum, all elements equal the lowest value of the type: the first element wins.
    first = np.where(within < 0, np.argmax(indices >= 0, axis=-1, keepdims=True), first)
    y = np.take_along_axis(entries, first, axis=-1)[..., 0]
    within = np.take_along_axis(indices, first, axis=-1)[..., 0]
    maps = np.arange(prod(x.shape[:2])).reshape(*x.shape[:2], *[1] * len(out)) * prod(x.shape[2:])
    return y, (within + maps).astype(np.int64)


def lowest(dtype: np.dtype[Any]) -> float:
    """Return the lowest value of a type."""
    return int(np.iinfo(dtype).min) if dtype.kind in "iu" else -np.inf


def _flat_indices(x: Tensor, storage_order: int) -> Tensor:
    """Return the flat index of each element in one feature map of x [N, C, *d]: [1, 1, *d]."""
    dims = x.shape[2:]
    counted = np.arange(prod(dims), dtype=np.int64)
    indices = counted.reshape(dims[::-1]).T if storage_order else counted.reshape(dims)
    return indices[None, None]


@viewed
def _average_pool_shape(op: AveragePoolView[TensorFact]) -> TensorFact:
    if op.count_include_pad not in (0, 1):
        message = f"count_include_pad is {op.count_include_pad}"
        raise ShapeError(message, "0 or 1")
    return _pooled(op)


@op(
    homogeneous=True,
    shape=_average_pool_shape,
    since=1,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (3, None)},
)
def AveragePool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    count_include_pad: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """Mean over a sliding window; padding counts as zeros if `count_include_pad`, else it is excluded.

    With `ceil_mode` the last window may exceed the padding; elements beyond the padding never count.

    Shapes: x [N, C, *d] → [N, C, *out] with `out` as for `Conv`.

    Raises:
        ShapeError: the window does not fit.

    Source: ONNX AveragePool-22.
    """
    slid = window(
        x.shape[2:],
        kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    wide = np.result_type(x.dtype, np.float32)
    inside = tuple(range(-len(kernel_shape), 0))
    sums = window_view(x.astype(wide), clip_kernel(x.shape[2:], slid), 0).sum(axis=inside)
    with np.errstate(invalid="ignore", divide="ignore"):
        return (sums / _counts(x.shape[2:], slid, counts_padding=bool(count_include_pad)).astype(wide)).astype(x.dtype)


def _counts(dims: tuple[int, ...], slid: Window, *, counts_padding: bool) -> Tensor:
    """Return the element count of each window position, [*out]; padding included if `counts_padding`."""
    counts: Tensor = np.ones((), np.int64)
    axes = zip(
        dims,
        integer_dims(slid.kernel),
        slid.strides,
        slid.dilations,
        integer_pads(slid.pads),
        slid.lengths,
        strict=True,
    )
    for n, k, s, d, (begin, end), out in axes:
        low, high = (-begin, n + end) if counts_padding else (0, n)
        first = np.arange(integer_dims([out])[0], dtype=np.int64) * s - begin
        at = np.add.outer(first, np.arange(k, dtype=np.int64) * d)
        counts = np.multiply.outer(counts, np.count_nonzero((at >= low) & (at < high), axis=1))
    return counts


@viewed
def _lp_pool_shape(op: LpPoolView[TensorFact]) -> TensorFact:
    check_exponent(op.p)
    return _pooled(op)


def check_exponent(p: float) -> None:
    """Check the exponent of a norm.

    Raises:
        ShapeError: it is not positive.
    """
    if p <= 0:
        message = f"p is {p}"
        raise ShapeError(message, "expected a positive exponent")


@op(
    shape=_lp_pool_shape,
    since=2,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (3, None)},
)
def LpPool(
    x: T,
    *,
    auto_pad: str = "NOTSET",
    ceil_mode: int = 0,
    dilations: tuple[int, ...] | None = None,
    kernel_shape: tuple[int, ...],
    p: int = 2,
    pads: tuple[int, ...] | None = None,
    strides: tuple[int, ...] | None = None,
) -> T:
    """The p-norm over a sliding window: `sum(abs(x) ** p) ** (1 / p)`.

    Shapes: x [N, C, *d] → [N, C, *out] with `out` as for `Conv`.

    Raises:
        ShapeError: the window does not fit, or `p` is not positive.

    Source: ONNX LpPool-22.
    """
    slid = window(
        x.shape[2:],
        kernel_shape,
        auto_pad=auto_pad,
        ceil_mode=ceil_mode,
        dilations=dilations,
        pads=pads,
        strides=strides,
    )
    powers = np.abs(x.astype(np.result_type(x.dtype, np.float32))) ** p
    sums = window_view(powers, clip_kernel(x.shape[2:], slid), 0).sum(axis=tuple(range(-len(kernel_shape), 0)))
    return (sums ** sums.dtype.type(1 / p)).astype(x.dtype)


def _global_shape(x: TensorFact, **_attributes: object) -> TensorFact:
    rank = check_rank(x, 2, "x")
    return x.with_shape([*x.dims[:2], *[1] * (rank - 2)])


def _global_lp_shape(x: TensorFact, *, p: int = 2) -> TensorFact:
    check_exponent(p)
    return _global_shape(x)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


@op(
    homogeneous=True,
    shape=_global_shape,
    since=1,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (2, None)},
)
def GlobalAveragePool(x: T) -> T:
    """The mean of each feature map.  Shapes: x [N, C, *d] → [N, C, *1].  Source: ONNX GlobalAveragePool-22."""
    return np.mean(x, axis=_spatial(x), keepdims=True, dtype=np.result_type(x.dtype, np.float32)).astype(x.dtype)


@op(
    homogeneous=True,
    shape=_global_shape,
    since=1,
    moves_data=True,
    exactness="exact",
    role="passive",
    ranks={"x": (2, None)},
)
def GlobalMaxPool(x: T) -> T:
    """The maximum of each feature map.  Shapes: x [N, C, *d] → [N, C, *1].  Source: ONNX GlobalMaxPool-22."""
    return np.max(x, axis=_spatial(x), keepdims=True)


@op(
    shape=_global_lp_shape,
    since=2,
    exactness="accumulation",
    role="pointwise",
    ranks={"x": (2, None)},
)
def GlobalLpPool(x: T, *, p: int = 2) -> T:
    """The p-norm of each feature map: `sum(abs(x) ** p) ** (1 / p)`.  Shapes: x [N, C, *d] → [N, C, *1].

    Raises:
        ShapeError: `p` is not positive.

    Source: ONNX GlobalLpPool-22.
    """
    powers = np.abs(x.astype(np.result_type(x.dtype, np.float32))) ** p
    sums = powers.sum(axis=_spatial(x), keepdims=True)
    return (sums ** sums.dtype.type(1 / p)).astype(x.dtype)
