"""Normalizations in TFLite: their formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops.dialects.emitting import emit
from graphport.ops.dialects.operands import scalar, vector
from graphport.ops.dialects.tflite.emitting import array_of, in_single, is_other_real, shaped
from graphport.ops.pages import arithmetic
from graphport.ops.pages.comparison import Equal, Where
from graphport.ops.pages.normalization import BatchNormalization
from graphport.ops.pages.normalization.groups import (
    InstanceNormalization,
    MeanVarianceNormalization,
)
from graphport.ops.pages.normalization.norms import LpNormalization
from graphport.ops.pages.reduction import reduce as reductions
from graphport.ops.pages.reshape import Concat, Reshape, Shape
from graphport.ops.views.normalization import (
    BatchNormalizationView,
    GroupNormalizationView,
    LayerNormalizationView,
    RMSNormalizationView,
)

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted: TypeAlias = "tuple[Value, ...] | None"


def _standardized(b: Builder, x: Value, axes: list[int], epsilon: float) -> tuple[Value, Value, Value]:
    """x of mean 0 and variance 1, its mean, and its deviation."""
    places = vector(b, axes)
    mean = b(reductions.ReduceMean, x, places)
    centered = b(arithmetic.Sub, x, mean)
    variance = b(reductions.ReduceMean, b(arithmetic.Mul, centered, centered), places)
    deviation = b(arithmetic.Sqrt, b(arithmetic.Add, variance, b.like(x, epsilon)))
    return b(arithmetic.Div, centered, deviation), mean, deviation


@LayerNormalizationView.lift("tflite")
def lift_layer_normalization(b: Builder, op: LayerNormalizationView) -> Lifted:
    rank = len(b.dims(op.x))
    standard, mean, deviation = _standardized(b, op.x, list(range(op.axis % rank, rank)), op.epsilon)
    y = b(arithmetic.Mul, standard, op.scale)
    y = y if op.b is None else b(arithmetic.Add, y, op.b)
    return (y,) if b.count == 1 else (y, mean, b(arithmetic.Reciprocal, deviation))


@RMSNormalizationView.lift("tflite")
def lift_rms_normalization(b: Builder, op: RMSNormalizationView) -> Lifted:
    rank = len(b.dims(op.x))
    mean = b(reductions.ReduceMean, b(arithmetic.Mul, op.x, op.x), vector(b, list(range(op.axis % rank, rank))))
    root = b(arithmetic.Sqrt, b(arithmetic.Add, mean, b.like(op.x, op.epsilon)))
    return (b(arithmetic.Mul, b(arithmetic.Div, op.x, root), op.scale),)


def _by_channel(b: Builder, value: Value, rank: int) -> Value:
    return shaped(b, value, (*b.dims(value), *[1] * (rank - 2)))


@InstanceNormalization.lift("tflite")
def lift_instance_normalization(
    b: Builder, input: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5
) -> Lifted:
    rank = len(b.dims(input))
    y, _, _ = _standardized(b, input, list(range(2, rank)), epsilon)
    return (b(arithmetic.Add, b(arithmetic.Mul, y, _by_channel(b, scale, rank)), _by_channel(b, bias, rank)),)


@GroupNormalizationView.lift("tflite")
def lift_group_normalization(b: Builder, op: GroupNormalizationView) -> Lifted:
    dims, rank = b.dims(op.x), len(b.dims(op.x))
    known = [n for n in dims if isinstance(n, int)]
    whole = vector(b, known) if len(known) == rank else b(Shape, op.x)
    batch = vector(b, known[:1]) if len(known) == rank else b(Shape, op.x, end=1)
    parts = b(Reshape, op.x, b(Concat, batch, vector(b, [op.num_groups, -1]), axis=0))
    y = b(Reshape, _standardized(b, parts, [2], op.epsilon)[0], whole)
    return (b(arithmetic.Add, b(arithmetic.Mul, y, _by_channel(b, op.scale, rank)), _by_channel(b, op.bias, rank)),)


def _numbers_of(value: Value) -> np.ndarray[Any, Any] | None:
    """The numbers of a vector that is constant, which may be stored as integers; `None` of anything else."""
    maker = value.producer
    stored = None if maker is None or maker.word not in ("DEQUANTIZE", "RESHAPE") else array_of(maker.operands[0])
    if maker is None or stored is None:
        return array_of(value)
    told: Any = maker.attributes.get("quantized")
    if maker.word == "RESHAPE":
        return None if told else stored.reshape(-1)
    if not told or told[0] is None:
        return stored
    _, _, scales, zeros = told[0]
    return (stored.astype(np.float32) - np.array(zeros, np.float32)) * np.array(scales, np.float32)


def _of_batch(b: Builder, op: BatchNormalizationView) -> Lifted:
    """With the mean and the variance of what is given, which move the running ones."""
    rank = len(b.dims(op.x))
    axes = vector(b, [0, *range(2, rank)])
    mean = b(reductions.ReduceMean, op.x, axes)
    centred = b(arithmetic.Sub, op.x, mean)
    variance = b(reductions.ReduceMean, b(arithmetic.Mul, centred, centred), axes)
    standard = b(arithmetic.Div, centred, b(arithmetic.Sqrt, b(arithmetic.Add, variance, b.like(op.x, op.epsilon))))
    scaled = b(arithmetic.Mul, standard, _by_channel(b, op.scale, rank))
    results = [b(arithmetic.Add, scaled, _by_channel(b, op.b, rank))]
    for old, new in ((op.input_mean, mean), (op.input_var, variance)):
        kept = b(arithmetic.Mul, old, b.like(old, op.momentum))
        added = b(arithmetic.Mul, shaped(b, new, b.dims(old)), b.like(old, 1 - op.momentum))
        results.append(b(arithmetic.Add, kept, added))
    return tuple(results[: b.count])


@BatchNormalizationView.lift("tflite")
def lift_batch_normalization(b: Builder, op: BatchNormalizationView) -> Lifted:
    if op.training_mode:
        return _of_batch(b, op)
    if is_other_real(op.x):
        others = (op.scale, op.b, op.input_mean, op.input_var)
        return (in_single(b, BatchNormalization, op.x, *others, **op.stated()),)
    rank = len(b.dims(op.x))
    arrays = [_numbers_of(each) for each in (op.scale, op.b, op.input_mean, op.input_var)]
    if all(each is not None for each in arrays):
        g, o, m, v = (np.asarray(each, np.float64) for each in arrays)
        factor = g / np.sqrt(v + op.epsilon)
        shape = (-1, *[1] * (rank - 2))
        pair = [b.constant(each.astype(np.float32).reshape(shape)) for each in (factor, o - m * factor)]
        return (emit(b, "ADD", emit(b, "MUL", op.x, pair[0]), pair[1]),)
    root = b(arithmetic.Sqrt, b(arithmetic.Add, op.input_var, scalar(b, op.epsilon, DType.FLOAT32)))
    centered = b(arithmetic.Sub, op.x, _by_channel(b, op.input_mean, rank))
    y = b(arithmetic.Mul, centered, _by_channel(b, b(arithmetic.Div, op.scale, root), rank))
    return (b(arithmetic.Add, y, _by_channel(b, op.b, rank)),)


@LpNormalization.lift("tflite")
def lift_lp_normalization(b: Builder, input: Value, *, axis: int = -1, p: int = 2) -> Lifted:
    """0 where the norm is 0."""
    along = vector(b, [axis % len(b.dims(input))])
    norm = b(reductions.ReduceL1 if p == 1 else reductions.ReduceL2, input, along)
    is_zero = b(Equal, norm, b.like(input, 0))
    return (b(arithmetic.Div, input, b(Where, is_zero, b.like(input, 1), norm)),)


@MeanVarianceNormalization.lift("tflite")
def lift_mean_variance(b: Builder, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Lifted:
    places = vector(b, axes)
    centred = b(arithmetic.Sub, x, b(reductions.ReduceMean, x, places))
    variance = b(reductions.ReduceMean, b(arithmetic.Mul, centred, centred), places)
    return (b(arithmetic.Div, centred, b(arithmetic.Add, b(arithmetic.Sqrt, variance), b.like(x, 1e-9))),)
