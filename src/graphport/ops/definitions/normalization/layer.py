"""Normalization by statistics of the last axes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dims import Dim, decide_equal
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.normalization.groups import STASH, check_stash, standardized
from graphport.ops.shapes import axis_index
from graphport.ops.types import FLOATS, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from graphport.ops.views.normalization import LayerNormalizationView

T = Annotated[Tensor, Types("T", FLOATS)]
V = Annotated[Tensor, Types("V", FLOATS)]
U = Annotated[Tensor, Types("U", frozenset({DType.FLOAT32, DType.BFLOAT16}))]


def check_fits(name: str, fact: TensorFact | None, shape: tuple[Dim, ...]) -> None:
    """Check that a scale or bias broadcasts to `shape` without enlarging it.

    Raises:
        ShapeError: it has more axes, or a dim that is neither 1 nor that of `shape`.
    """
    if fact is None or fact.shape is None:
        return
    if len(fact.shape) > len(shape):
        message = f"{name} has rank {len(fact.shape)}, x has rank {len(shape)}"
        raise ShapeError(message, f"at most {len(shape)}")
    for axis in range(1, len(fact.shape) + 1):
        found, wanted = fact.shape[-axis], shape[-axis]
        if decide_equal(found, 1) is False and decide_equal(found, wanted) is False:
            message = f"{name} has size {found} on axis -{axis}, x has {wanted}"
            raise ShapeError(message, f"use equal sizes, or size 1 for {name}")


@viewed
def _layer_shape(op: LayerNormalizationView[TensorFact]) -> list[TensorFact]:
    check_stash(op.stash_type)
    stash = DType.BFLOAT16 if op.stash_type == 16 else DType.FLOAT32
    if op.x.shape is None:
        return [op.x.with_shape(None), TensorFact(stash, None), TensorFact(stash, None)]
    first = axis_index(op.axis, op.x.rank)
    check_fits("scale", op.scale, op.x.shape)
    check_fits("b", op.b, op.x.shape)
    statistics = TensorFact(stash, (*op.x.shape[:first], *[1] * (op.x.rank - first)))
    return [op.x.with_shape(op.x.shape), statistics, statistics]


@op(
    shape=_layer_shape,
    since=17,
    outputs=("y", "mean", "invstddev"),
    exactness="accumulation",
    role="pointwise",
)
def LayerNormalization(
    x: T, scale: T, b: T | None = None, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> tuple[T, U, U]:
    """Mean 0 and variance 1 over all axes from `axis` on, times `scale`, plus `b`; the mean; 1 / the deviation.

    Statistics are computed in the type that `stash_type` names by ONNX's number (1 float32, 16 bfloat16).

    Shapes: x [*s], scale and b broadcast to it → [*s], twice [*s[:axis], 1, …].

    Raises:
        ShapeError: `axis` is outside of the tensor, or `scale` or `b` would make it larger.

    Source: ONNX LayerNormalization-17.
    """
    stash = (DType.BFLOAT16 if stash_type == 16 else DType.FLOAT32).numpy
    wide = np.result_type(STASH[stash_type], np.float32)
    axes = tuple(range(axis % x.ndim, x.ndim))
    y, mean, inverse = standardized(x.astype(wide), axes, epsilon)
    y = y.astype(x.dtype) * scale
    return (y if b is None else y + b), mean.astype(stash), inverse.astype(stash)


def _rms_shape(
    x: TensorFact, scale: TensorFact, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1
) -> TensorFact:
    check_stash(stash_type)
    if x.shape is not None:
        axis_index(axis, x.rank)
        check_fits("scale", scale, x.shape)
    return TensorFact(scale.dtype, x.shape)


@op(shape=_rms_shape, since=23, exactness="accumulation", role="pointwise")
def RMSNormalization(x: T, scale: V, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1) -> V:
    """`x` over the root of its mean square over all axes from `axis` on, times `scale`.

    Shapes: x [*s], scale broadcasts to it → [*s].

    Raises:
        ShapeError: `axis` is outside of the tensor, or `scale` would make it larger.

    Source: ONNX RMSNormalization-23.
    """
    wide = np.result_type(STASH[stash_type], np.float32)
    a = x.astype(wide)
    axes = tuple(range(axis % x.ndim, x.ndim))
    root = np.sqrt((a * a).mean(axis=axes, keepdims=True) + wide.type(epsilon))
    return (a / root).astype(scale.dtype) * scale
