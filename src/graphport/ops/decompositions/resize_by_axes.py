"""Resize as one Gather or matrix product per axis."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.budget import reserve
from graphport.core.dtypes import DType
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.comparison import Where
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.resize import target
from graphport.ops.definitions.resize.sampling import Axis, resampled
from graphport.ops.lowering.operands import cast, dtype_of, float_elements, sizes, transposed

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


def is_present(value: Value | None) -> bool:
    """Whether an operand is present; an empty tensor counts as absent."""
    return value is not None and value.shape not in (None, (0,))


@dataclass(frozen=True, slots=True)
class Sampling:
    """The sampling options of a Resize."""

    coordinates: str
    mode: str
    nearest: str
    a: float
    excludes_outside: bool
    antialias: bool


def resized_by_axes(
    b: Builder,
    x: Value,
    given: tuple[Value | None, Value | None, Value | None],
    stated: Sampling,
    axes: tuple[int, ...] | None,
    policy: str,
    extrapolation: float = 0.0,
) -> Value:
    """Resize each axis by a Gather or a matrix whose columns are the operator definition applied to unit vectors.

    Coordinates outside of a region, along any axis, give `extrapolation`.
    """
    roi, scales, wanted = (None if not is_present(each) else float_elements(each) for each in given)
    rank = len(b.dims(x))
    chosen = [axis % rank for axis in axes] if axes is not None else list(range(rank))
    lengths = list(sizes([b.dims(x)[axis] for axis in chosen], "the image"))
    sizes_, ratios = target(
        lengths,
        None if scales is None else np.array(scales, np.float32),
        None if wanted is None else np.array(wanted, np.int64),
        policy,
    )
    edges = roi or (*[0.0] * len(chosen), *[1.0] * len(chosen))
    masks: list[np.ndarray[Any, Any]] = []
    outside = False
    for place, (axis, n, out, ratio) in enumerate(zip(chosen, lengths, sizes_, ratios, strict=True)):
        region = np.array([edges[place], edges[place + len(chosen)]], np.float32)
        if out == n and ratio == 1 and list(region) == [0, 1]:
            continue
        reserve(n, out)
        plan = [Axis(1, n, out, ratio, float(region[0]), float(region[1]))]
        units = resampled(
            np.eye(n, dtype=np.float32),
            plan,
            mode=stated.mode,
            coordinates=stated.coordinates,
            nearest=stated.nearest,
            a=stated.a,
            excludes_outside=stated.excludes_outside,
            antialiases=stated.antialias,
            extrapolation=np.nan,
        )
        # Distinguish a zero weight from a missing coordinate: the column of a missing coordinate is NaN.
        is_outside = np.isnan(units).any(axis=0)
        outside = outside or bool(is_outside.any())
        masks.append(np.reshape(is_outside, (-1, *[1] * (rank - axis - 1))))
        units = np.where(is_outside, np.float32(0), units)
        if stated.mode == "nearest" and np.all(units.sum(axis=0) == 1):
            x = b(Gather, x, units.argmax(axis=0).tolist(), axis=axis)
        else:
            x = multiply_axis(b, x, b.constant(units.astype(np.float32)), axis)
    if not outside or not extrapolation:
        return x
    reserve(*np.broadcast_shapes(*(mask.shape for mask in masks)))
    return b(Where, b.constant(reduce(np.logical_or, masks)), extrapolation, x)


def multiply_axis(b: Builder, x: Value, matrix: Value, axis: int) -> Value:
    """Multiply an axis of x by a matrix [n, out]."""
    own, rank = dtype_of(x), len(b.dims(x))
    if not own.is_floating:
        message = f"interpolation of {own} is not supported, expected a float type"
        raise UnsupportedError(message)
    order = [*(each for each in range(rank) if each != axis), axis]
    y = b(MatMul, transposed(b, cast(b, x, DType.FLOAT32), order), matrix)
    return cast(b, transposed(b, y, [order.index(each) for each in range(rank)]), own)
