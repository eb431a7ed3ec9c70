"""Resampling of tensors: resize and grids."""

from __future__ import annotations

from fractions import Fraction
from math import floor, inf
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim, decide_equal, product
from graphport.core.facts import OPEN, TensorFact, Unknown
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.resize.grid import AffineGrid, GridSample
from graphport.ops.definitions.resize.sampling import COORDINATES, NEAREST, Axis, resampled
from graphport.ops.shapes import axis_indices
from graphport.ops.types import ALL_4, FLOAT32, IEEE, INT64, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.resize import ResizeView

__all__ = ["AffineGrid", "GridSample", "Resize"]

T1 = Annotated[Tensor, Types("T1", ALL_4)]
T2 = Annotated[Tensor, Types("T2", IEEE)]
Float = Annotated[Tensor, Types("tensor(float)", FLOAT32)]
Int64 = Annotated[Tensor, Types("tensor(int64)", INT64)]

POLICIES = ("stretch", "not_larger", "not_smaller")


@viewed
def _resize_shape(op: ResizeView[TensorFact]) -> TensorFact:
    for what, found, allowed in (
        ("mode", op.mode, ("nearest", "linear", "cubic")),
        ("coordinate_transformation_mode", op.coordinate_transformation_mode, COORDINATES),
        ("nearest_mode", op.nearest_mode, NEAREST),
        ("keep_aspect_ratio_policy", op.keep_aspect_ratio_policy, POLICIES),
    ):
        if found not in allowed:
            message = f"{what} is {found!r}"
            raise ShapeError(message, ", ".join(allowed))
    scales, sizes = _sizes_or_scales(op.scales), _sizes_or_scales(op.sizes)
    if scales is None and sizes is None:
        message = "scales and sizes are both missing"
        raise ShapeError(message, "set either scales or sizes")
    if _has_entries(scales) and _has_entries(sizes):
        message = "scales and sizes are both set"
        raise ShapeError(message, "set either scales or sizes")
    if op.coordinate_transformation_mode == "tf_crop_and_resize" and _sizes_or_scales(op.roi) is None:
        message = "tf_crop_and_resize without roi"
        raise ShapeError(message, "set roi: all starts, then all ends")
    rank = op.x.rank
    chosen = tuple(range(rank)) if op.axes is None else axis_indices(op.axes, rank)
    dims: list[Dim] = list(op.x.dims)
    try:
        found = _lengths([op.x.dims[axis] for axis in chosen], scales, sizes, op.keep_aspect_ratio_policy)
    except Unknown:
        found = [OPEN] * len(chosen)
    for axis, length in zip(chosen, found, strict=True):
        dims[axis] = length
    return op.x.with_shape(dims)


def _sizes_or_scales(fact: TensorFact | None) -> TensorFact | None:
    """Return `None` for an empty operand, which older exporters write instead of omitting it."""
    return None if fact is None or fact.shape == (0,) else fact


def _has_entries(fact: TensorFact | None) -> bool:
    return fact is not None and fact.shape is not None and decide_equal(product(fact.shape), 0) is False


def _lengths(dims: list[Dim], scales: TensorFact | None, sizes: TensorFact | None, policy: str) -> list[Dim]:
    """Return the new lengths of the resized axes; raise `Unknown` if they depend on run-time values."""
    for what, fact in (("scales", scales), ("sizes", sizes)):
        if fact is not None and fact.shape and isinstance(fact.shape[0], int) and _has_entries(fact):
            _count(what, fact.shape[0], len(dims))
    if scales is not None and scales.reals:
        _count("scales", len(scales.reals), len(dims))
        return [scaled_length(n, scale) for n, scale in zip(dims, scales.reals, strict=True)]
    if sizes is None or (scales is not None and not _has_entries(sizes)):
        raise Unknown
    _count("sizes", len(sizes.known_elements), len(dims))
    return _sized(dims, list(sizes.known_elements), policy)


def _count(what: str, found: int, axes: int) -> None:
    if found != axes:
        message = f"{what} has {found} entries for {axes} axes"
        raise ShapeError(message)


def scaled_length(n: Dim, scale: float) -> Dim:
    """Return `floor(n * scale)`, computed in float32 as all runtimes do.

    Raises:
        ShapeError: the scale is not positive, or the product overflows.
    """
    if not 0 < scale < inf:
        message = f"a scale is {scale}"
        raise ShapeError(message, "expected positive, finite scales")
    if isinstance(n, int):
        with np.errstate(over="ignore"):
            length = np.float32(n) * np.float32(scale)
        if not np.isfinite(length):
            message = f"the length {n} times the scale {scale} exceeds the range of float32"
            raise ShapeError(message, "correct the scale")
        return floor(length)
    ratio = Fraction(scale)
    # With few binary digits the product is exact for every length, so float32 and rational arithmetic agree.
    return n * ratio.numerator // ratio.denominator if ratio.numerator < 256 and ratio.denominator <= 64 else OPEN


def _sized(dims: list[Dim], wanted: list[Dim], policy: str) -> list[Dim]:
    if policy == "stretch":
        return wanted
    pairs = [(n, size) for n, size in zip(dims, wanted, strict=True) if isinstance(n, int) and isinstance(size, int)]
    if len(pairs) != len(dims) or any(n == 0 for n, _ in pairs):
        raise Unknown
    scale = _kept_ratio(pairs, policy)
    return [floor(scale * n + 0.5) for n, _ in pairs]


def _kept_ratio(pairs: list[tuple[int, int]], policy: str) -> float:
    choose = min if policy == "not_larger" else max
    return choose(size / n for n, size in pairs)


@op(
    turns="axes",
    shape=_resize_shape,
    since=13,
    moves_where=(("mode", "nearest"), ("extrapolation_value", 0.0)),
    exactness="accumulation",
    role="passive",
    index_operands=("roi", "scales", "sizes"),
    ranks={"roi": 1, "scales": 1, "sizes": 1},
)
def Resize(
    x: T1,
    roi: T2 | None = None,
    scales: Float | None = None,
    sizes: Int64 | None = None,
    *,
    antialias: int = 0,
    axes: tuple[int, ...] | None = None,
    coordinate_transformation_mode: str = "half_pixel",
    cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0,
    extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch",
    mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> T1:
    """Resample `axes` of `x` to new lengths.

    `scales` or `sizes` give the lengths; `mode` selects the nearest element or interpolates between two or four
    elements per axis, with `antialias` over all elements that an output element covers. Coordinates beyond the ends use
    the edge element, or `extrapolation_value` for `tf_crop_and_resize`.

    Shapes: x [*s], scales or sizes [k], roi [2k], axes k of them, default all → floor(s * scale), or `sizes`.

    Raises:
        ShapeError: scales and sizes are both present or both absent, or do not fit `axes`; an unknown mode.

    Source: ONNX Resize-19.
    """
    chosen = tuple(range(x.ndim)) if axes is None else axis_indices(axes, x.ndim)
    region = [(0.0, 1.0)] * len(chosen)
    if roi is not None and roi.size:
        edges = [float(edge) for edge in roi.reshape(-1)]
        region = list(zip(edges[: len(chosen)], edges[len(chosen) :], strict=True))
    lengths = [x.shape[axis] for axis in chosen]
    wanted, ratios = target(lengths, scales, sizes, keep_aspect_ratio_policy)
    plans = [
        Axis(axis, n, out, ratio, start, end)
        for axis, n, out, ratio, (start, end) in zip(chosen, lengths, wanted, ratios, region, strict=True)
    ]
    return resampled(
        x,
        plans,
        mode=mode,
        coordinates=coordinate_transformation_mode,
        nearest=nearest_mode,
        a=cubic_coeff_a,
        excludes_outside=bool(exclude_outside),
        antialiases=bool(antialias),
        extrapolation=extrapolation_value,
    )


def target(
    lengths: list[int], scales: Tensor | None, sizes: Tensor | None, policy: str
) -> tuple[list[int], list[float]]:
    """Return the new length of each axis and the ratio of new to old length; arguments as for `Resize`.

    Raises:
        ShapeError: there are not as many scales or sizes as axes.
    """
    given = scales if scales is not None and scales.size else sizes
    count = 0 if given is None else given.size
    if count != len(lengths):
        message = f"{count} scales or sizes for {len(lengths)} axes"
        raise ShapeError(message)
    if scales is not None and scales.size:
        ratios = [float(scale) for scale in scales.reshape(-1)]
        wanted = [scaled_length(n, ratio) for n, ratio in zip(lengths, ratios, strict=True)]
        return [n for n in wanted if isinstance(n, int)], ratios
    asked = [] if sizes is None else [int(size) for size in sizes.reshape(-1)]
    if policy == "stretch":
        return asked, [size / n if n else 1.0 for n, size in zip(lengths, asked, strict=True)]
    ratio = _kept_ratio(list(zip(lengths, asked, strict=True)), policy)
    return [floor(ratio * n + 0.5) for n in lengths], [ratio] * len(lengths)
