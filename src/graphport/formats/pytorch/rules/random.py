"""Random sampling in exported programs."""

from __future__ import annotations

from typing import Any

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.binding import named_dtype, scalar_of
from graphport.formats.pytorch.rules.functions.generate import fill
from graphport.formats.pytorch.rules.functions.reshape_shapes import lengths
from graphport.formats.pytorch.rules.overloads import RULES, aten
from graphport.formats.pytorch.rules.promotion import cast
from graphport.ir.graph import Value
from graphport.ops.builder import Builder
from graphport.ops.definitions.arithmetic import Add, Floor, Mul
from graphport.ops.definitions.comparison import Less
from graphport.ops.definitions.random import RandomNormalLike, RandomUniformLike
from graphport.ops.definitions.reduction import TopK
from graphport.ops.lowering.operands import dtype_of


def _zeros(b: Builder, size: Any, dtype: Any) -> Value:
    return fill(b, lengths(b, size), 0, named_dtype(dtype) or DType.FLOAT32)


@aten("aten.rand_like")
def rand_like(b: Builder, self: Value, dtype: Any = None) -> Value:
    return b(RandomUniformLike, self, dtype=named_dtype(dtype))


@aten("aten.randn_like")
def randn_like(b: Builder, self: Value, dtype: Any = None) -> Value:
    return b(RandomNormalLike, self, dtype=named_dtype(dtype))


RULES.having(zeros=_zeros).lower("""
aten.rand(size, dtype=None) -> RandomUniformLike(zeros(size, dtype))
aten.randn(size, dtype=None) -> RandomNormalLike(zeros(size, dtype))
""")


@aten("aten.randint", "aten.randint.low", by_position=False)
def randint(b: Builder, high: Any, size: Any, low: Any = 0, dtype: Any = None) -> Value:
    first, last = float(scalar_of(low)), float(scalar_of(high))
    x = b(RandomUniformLike, _zeros(b, size, None))
    wide = b(Floor, b(Add, b(Mul, x, b.like(x, last - first)), b.like(x, first)))
    return cast(b, wide, named_dtype(dtype) or DType.INT64)


@aten("aten.bernoulli", by_position=False)
def bernoulli(b: Builder, self: Value, p: Any = None) -> Value:
    """1 with probability `p` or with the probability in `self`, else 0."""
    chance = self if p is None else cast(b, p, dtype_of(self)) if isinstance(p, Value) else b.like(self, float(p))
    return cast(b, b(Less, b(RandomUniformLike, self), chance), dtype_of(self))


@aten("aten.randperm")
def randperm(b: Builder, n: Any, dtype: Any = None) -> Value:
    """Random permutation: argsort of random values."""
    count = lengths(b, [n])
    _, indices = b.results(TopK, 2, b(RandomUniformLike, _zeros(b, [n], None)), count)
    return cast(b, indices, named_dtype(dtype) or DType.INT64)
