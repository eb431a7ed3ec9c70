"""Export rules of random numbers to ATen, which uses torch's generator and ignores seeds of the model."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, size_of
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.random import Bernoulli, Multinomial, RandomNormal, RandomUniform
from graphport.ops.lowering.operands import cast, dtype_of
from graphport.ops.views.random import RandomNormalLikeView, RandomUniformLikeView


def _normal(b: Builder, sizes: Any, dtype: DType, mean: float, scale: float) -> Value:
    numbers = aten(b, "randn", sizes, dtype=DType.FLOAT32)
    return cast(b, aten(b, "add.Tensor", aten(b, "mul.Tensor", numbers, scale), mean), dtype)


def _uniform(b: Builder, sizes: Any, dtype: DType, low: float, high: float) -> Value:
    numbers = aten(b, "rand", sizes, dtype=DType.FLOAT32)
    return cast(b, aten(b, "add.Tensor", aten(b, "mul.Tensor", numbers, high - low), low), dtype)


def _sizes(b: Builder, x: Value) -> tuple[Any, ...]:
    return tuple(size_of(b, x, axis) for axis in range(len(b.dims(x))))


@RandomNormal.export_rule(DIALECT)
def export_random_normal(
    b: Builder,
    *,
    dtype: DType = DType.FLOAT32,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Value:
    del seed
    return _normal(b, shape, dtype, mean, scale)


@RandomUniform.export_rule(DIALECT)
def export_random_uniform(
    b: Builder,
    *,
    dtype: DType = DType.FLOAT32,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> Value:
    del seed
    return _uniform(b, shape, dtype, low, high)


@RandomNormalLikeView.export_rule(DIALECT)
def export_random_normal_like(b: Builder, op: RandomNormalLikeView) -> Value:
    return _normal(b, _sizes(b, op.input), op.dtype or dtype_of(op.input), op.mean, op.scale)


@RandomUniformLikeView.export_rule(DIALECT)
def export_random_uniform_like(b: Builder, op: RandomUniformLikeView) -> Value:
    return _uniform(b, _sizes(b, op.input), op.dtype or dtype_of(op.input), op.low, op.high)


@Bernoulli.export_rule(DIALECT)
def export_bernoulli(b: Builder, input: Value, *, dtype: DType | None = None, seed: float | None = None) -> Value:
    del seed
    return cast(b, aten(b, "bernoulli", input), dtype or dtype_of(input))


@Multinomial.export_rule(DIALECT)
def export_multinomial(
    b: Builder, input: Value, *, dtype: DType = DType.INT32, sample_size: int = 1, seed: float | None = None
) -> Value:
    """Export Multinomial, whose operand has log probabilities."""
    del seed
    shares = aten(b, "softmax.int", cast(b, input, DType.FLOAT32), -1)
    return cast(b, aten(b, "multinomial", shares, sample_size, True), dtype)
