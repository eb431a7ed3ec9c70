"""Export rules of normalizations to TFLite, by their formulas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.formats.tflite.rules.emitting import array_of, in_single, is_nonfloat32_float, shaped
from graphport.formats.tflite.rules.rule_table import RULES
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Reciprocal, Sqrt, Sub
from graphport.ops.definitions.normalization import BatchNormalization
from graphport.ops.definitions.reduction import ReduceMean
from graphport.ops.definitions.reshape import Concat, Reshape, Shape
from graphport.ops.lowering.emitting import emit
from graphport.ops.lowering.operands import vector
from graphport.ops.views.normalization import BatchNormalizationView, GroupNormalizationView, LayerNormalizationView

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Exported: TypeAlias = "tuple[Value, ...] | None"


def _moments(b: Builder, x: Value, axes: Value) -> tuple[Value, Value, Value]:
    """Return the mean, the deviation from it, and the variance."""
    mean = b(ReduceMean, x, axes)
    centred = b(Sub, x, mean)
    return mean, centred, b(ReduceMean, b(Mul, centred, centred), axes)


def _standardized(b: Builder, x: Value, axes: Sequence[int], epsilon: float) -> tuple[Value, Value, Value, Value]:
    """Normalize x to mean 0 and variance 1; return also mean, variance and standard deviation."""
    mean, centred, variance = _moments(b, x, vector(b, axes))
    deviation = b(Sqrt, b(Add, variance, epsilon))
    return b(Div, centred, deviation), mean, variance, deviation


@LayerNormalizationView.export_rule("tflite")
def export_layer_normalization(b: Builder, op: LayerNormalizationView) -> Exported:
    rank = len(b.dims(op.x))
    standard, mean, _, deviation = _standardized(b, op.x, range(op.axis % rank, rank), op.epsilon)
    y = b(Mul, standard, op.scale)
    y = y if op.b is None else b(Add, y, op.b)
    return (y,) if b.count == 1 else (y, mean, b(Reciprocal, deviation))


def _by_channel(b: Builder, value: Value, rank: int) -> Value:
    return shaped(b, value, (*b.dims(value), *[1] * (rank - 2)))


def _affine(b: Builder, x: Value, scale: Value, bias: Value) -> Value:
    """Multiply by a scale and add a bias per channel."""
    rank = len(b.dims(x))
    return b(Add, b(Mul, x, _by_channel(b, scale, rank)), _by_channel(b, bias, rank))


RULES.having(
    affine=_affine,
    behind=lambda b, place, x: vector(b, range(place, len(b.dims(x)))),
    moments=lambda b, x, axes: _moments(b, x, vector(b, axes)),
    standardized=lambda b, x, epsilon: _standardized(b, x, range(2, len(b.dims(x))), epsilon)[0],
).export_rules("""
InstanceNormalization -> affine(standardized(input, epsilon), scale, b)
RMSNormalization(stash_type: ignored)
    -> Mul(Div(x, Sqrt(Add(ReduceMean(Mul(x, x), behind(axis(axis, x), x)), epsilon))), scale)
# 0 where the norm is 0.
LpNormalization
    -> norm = ReduceL1(input, [axis(axis, input)]) if p == 1 else ReduceL2(input, [axis(axis, input)]);
       Div(input, Where(Equal(norm, 0), like(input, 1), norm))
MeanVarianceNormalization
    -> mean, centred, variance = moments(x, axes); Div(centred, Add(Sqrt(variance), 1e-9))
""")


@GroupNormalizationView.export_rule("tflite")
def export_group_normalization(b: Builder, op: GroupNormalizationView) -> Exported:
    dims, rank = b.dims(op.x), len(b.dims(op.x))
    known = [n for n in dims if isinstance(n, int)]
    whole = vector(b, known) if len(known) == rank else b(Shape, op.x)
    batch = vector(b, known[:1]) if len(known) == rank else b(Shape, op.x, end=1)
    parts = b(Reshape, op.x, b(Concat, batch, [op.num_groups, -1], axis=0))
    y = b(Reshape, _standardized(b, parts, [2], op.epsilon)[0], whole)
    return (_affine(b, y, op.scale, op.bias),)


def _vector_elements(value: Value) -> np.ndarray[Any, Any] | None:
    """Return the elements of a constant vector, possibly dequantized; `None` otherwise."""
    maker = value.producer
    stored = None if maker is None or maker.op_type not in ("DEQUANTIZE", "RESHAPE") else array_of(maker.operands[0])
    if maker is None or stored is None:
        return array_of(value)
    quantized: Any = maker.attributes.get("quantized")
    if maker.op_type == "RESHAPE":
        return None if quantized else stored.reshape(-1)
    if not quantized or quantized[0] is None:
        return stored
    _, _, scales, zeros = quantized[0]
    return (stored.astype(np.float32) - np.array(zeros, np.float32)) * np.array(scales, np.float32)


def _of_batch(b: Builder, op: BatchNormalizationView) -> Exported:
    """Training mode: normalize by the batch's mean and variance, which update the running ones."""
    standard, mean, variance, _ = _standardized(b, op.x, [0, *range(2, len(b.dims(op.x)))], op.epsilon)
    results = [_affine(b, standard, op.scale, op.b)]
    for old, new in ((op.input_mean, mean), (op.input_var, variance)):
        kept = b(Mul, old, b.like(old, op.momentum))
        added = b(Mul, shaped(b, new, b.dims(old)), b.like(old, 1 - op.momentum))
        results.append(b(Add, kept, added))
    return tuple(results[: b.count])


@BatchNormalizationView.export_rule("tflite")
def export_batch_normalization(b: Builder, op: BatchNormalizationView) -> Exported:
    if op.training_mode:
        return _of_batch(b, op)
    if is_nonfloat32_float(op.x):
        others = (op.scale, op.b, op.input_mean, op.input_var)
        return (in_single(b, BatchNormalization, op.x, *others, **op.non_defaults()),)
    rank = len(b.dims(op.x))
    arrays = [_vector_elements(each) for each in (op.scale, op.b, op.input_mean, op.input_var)]
    if all(each is not None for each in arrays):
        g, o, m, v = (np.asarray(each, np.float64) for each in arrays)
        factor = g / np.sqrt(v + op.epsilon)
        shape = (-1, *[1] * (rank - 2))
        pair = [b.constant(each.astype(np.float32).reshape(shape)) for each in (factor, o - m * factor)]
        return (emit(b, "ADD", emit(b, "MUL", op.x, pair[0]), pair[1]),)
    root = b(Sqrt, b(Add, op.input_var, op.epsilon))
    centred = b(Sub, op.x, _by_channel(b, op.input_mean, rank))
    return (_affine(b, centred, b(Div, op.scale, root), op.b),)
