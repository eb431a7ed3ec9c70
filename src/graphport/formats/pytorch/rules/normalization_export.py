"""Export rules of normalizations to ATen."""

from __future__ import annotations

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, aten_results, size_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Div, Mul, Sub
from graphport.ops.definitions.normalization import GroupNormalization, InstanceNormalization, MeanVarianceNormalization
from graphport.ops.definitions.normalization.norms import LRN, LpNormalization
from graphport.ops.definitions.reduction import ReduceMean
from graphport.ops.definitions.reshape import Reshape, Shape
from graphport.ops.lowering.operands import cast, dtype_of, reshaped, vector
from graphport.ops.views.normalization import BatchNormalizationView, LayerNormalizationView, RMSNormalizationView

_EPSILON_OF_VARIANCE = 1e-9


@BatchNormalizationView.export_rule(DIALECT)
def export_batch_normalization(b: Builder, op: BatchNormalizationView) -> tuple[Value, ...]:
    """Export BatchNormalization as one operator; in training mode with the statistics of the batch."""
    parameters = [op.scale, op.b, op.input_mean, op.input_var]
    if not op.training_mode:
        wide = _widest(b, op.x, *parameters)
        x = cast(b, op.x, wide)
        weights = [cast(b, each, wide) for each in parameters]
        y = aten(b, "batch_norm", x, *weights, False, 1 - op.momentum, op.epsilon, True)
        return (cast(b, y, dtype_of(op.x)),)
    rank = len(b.dims(op.x))
    axes = vector(b, [0, *range(2, rank)])
    x = cast(b, op.x, DType.FLOAT32) if dtype_of(op.x).bits < DType.FLOAT32.bits else op.x
    mean = b(ReduceMean, x, axes)
    centered = b(Sub, x, mean)
    variance = b(ReduceMean, b(Mul, centered, centered), axes)
    scale, shift = (reshaped(b, cast(b, each, dtype_of(x)), [-1, *[1] * (rank - 2)]) for each in (op.scale, op.b))
    root = aten(b, "rsqrt", b(Add, variance, b.like(variance, op.epsilon)))
    y = cast(b, b(Add, b(Mul, b(Mul, centered, root), scale), shift), dtype_of(op.x))
    found = [y]
    for old, new in ((op.input_mean, mean), (op.input_var, variance)):
        flat = cast(b, reshaped(b, new, [-1]), dtype_of(old))
        kept = b(Mul, old, b.like(old, op.momentum))
        found.append(b(Add, kept, b(Mul, flat, b.like(old, 1 - op.momentum))))
    return tuple(found)


def _widest(b: Builder, *values: Value) -> DType:
    del b
    return max((dtype_of(value) for value in values), key=lambda dtype: dtype.bits)


@InstanceNormalization.export_rule(DIALECT)
def export_instance_normalization(
    b: Builder, input: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5
) -> Value:
    return aten(b, "instance_norm", input, scale, bias, None, None, True, 0.1, epsilon, True)


@GroupNormalization.export_rule(DIALECT)
def export_group_normalization(
    b: Builder, x: Value, scale: Value, bias: Value, *, epsilon: float = 1e-5, num_groups: int, stash_type: int = 1
) -> Value:
    del stash_type
    return aten(b, "group_norm", x, num_groups, scale, bias, epsilon, True)


def _trailing(b: Builder, x: Value, axis: int) -> tuple[int, ...] | None:
    """Return the sizes from an axis on if they are static, else `None`."""
    dims = b.dims(x)
    found = tuple(dim for dim in dims[axis % len(dims) :] if isinstance(dim, int))
    return found if len(found) == len(dims) - axis % len(dims) else None


@LayerNormalizationView.export_rule(DIALECT)
def export_layer_normalization(b: Builder, op: LayerNormalizationView) -> tuple[Value, ...]:
    """Export LayerNormalization as one operator if the parameters have the normalized shape, else as its formula."""
    shape = _trailing(b, op.x, op.axis)
    parameters = [op.scale] if op.b is None else [op.scale, op.b]
    own = dtype_of(op.x)
    if shape and all(b.dims(each) == shape and dtype_of(each) is own for each in parameters):
        if not (b.wants(1) or b.wants(2)):
            return (aten(b, "layer_norm", op.x, shape, op.scale, op.b, op.epsilon),)
        if own is DType.FLOAT32 or own is DType.FLOAT64:
            return aten_results(b, "native_layer_norm", 3, op.x, shape, op.scale, op.b, op.epsilon)
    rank = len(b.dims(op.x))
    axes = vector(b, list(range(op.axis % rank, rank)))
    x = cast(b, op.x, DType.FLOAT32) if own.bits < DType.FLOAT32.bits else op.x
    mean = b(ReduceMean, x, axes)
    centered = b(Sub, x, mean)
    variance = b(ReduceMean, b(Mul, centered, centered), axes)
    root = aten(b, "rsqrt", b(Add, variance, b.like(variance, op.epsilon)))
    y = b(Mul, cast(b, b(Mul, centered, root), own), op.scale)
    return (y if op.b is None else b(Add, y, op.b)), mean, root


@RMSNormalizationView.export_rule(DIALECT)
def export_rms_normalization(b: Builder, op: RMSNormalizationView) -> Value:
    rank = len(b.dims(op.x))
    own = dtype_of(op.x)
    x = cast(b, op.x, DType.FLOAT32) if own.bits < DType.FLOAT32.bits else op.x
    axes = vector(b, list(range(op.axis % rank, rank)))
    squares = b(ReduceMean, b(Mul, x, x), axes)
    root = aten(b, "rsqrt", b(Add, squares, b.like(squares, op.epsilon)))
    return b(Mul, cast(b, b(Mul, x, root), dtype_of(op.scale)), op.scale)


@LRN.export_rule(DIALECT)
def export_lrn(b: Builder, x: Value, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0, size: int) -> Value:
    """Export LRN: mean of squares over neighbouring channels by average pooling of a reshaped tensor."""
    flat = aten(b, "reshape", aten(b, "mul.Tensor", x, x), (size_of(b, x, 0), 1, size_of(b, x, 1), -1))
    before = (size - 1) // 2
    bordered = aten(b, "constant_pad_nd", flat, (0, 0, before, size - 1 - before))
    means = aten(b, "avg_pool2d", bordered, (size, 1), (1, 1))
    divisor = aten(b, "add.Scalar", aten(b, "mul.Scalar", means, alpha), bias)
    return b(Div, x, b(Reshape, aten(b, "pow.Tensor_Scalar", divisor, beta), b(Shape, x)))


@LpNormalization.export_rule(DIALECT)
def export_lp_normalization(b: Builder, input: Value, *, axis: int = -1, p: int = 2) -> Value:
    """Export LpNormalization; vectors of zeros are unchanged."""
    norm = aten(b, "linalg_vector_norm", input, float(p), (axis,), True)
    is_zero = aten(b, "eq.Scalar", norm, 0)
    return aten(b, "div.Tensor", input, aten(b, "where.self", is_zero, aten(b, "ones_like", norm), norm))


@MeanVarianceNormalization.export_rule(DIALECT)
def export_mean_variance(b: Builder, x: Value, *, axes: tuple[int, ...] = (0, 2, 3)) -> Value:
    """Export MeanVarianceNormalization.  Source: ONNX's function body, which adds 1e-9 to the standard deviation."""
    places = vector(b, list(axes))
    centered = b(Sub, x, b(ReduceMean, x, places))
    deviation = aten(b, "sqrt", b(ReduceMean, b(Mul, centered, centered), places))
    return b(Div, centered, b(Add, deviation, _EPSILON_OF_VARIANCE))
