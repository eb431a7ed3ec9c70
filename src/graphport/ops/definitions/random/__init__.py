"""Numbers by chance: no two runs need agree, and no run of one backend agrees with another's."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.special_functions import widened
from graphport.ops.types import ALL_4, BOOL, FLOATS, INDICES, NUMBERS_4, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.ops.views.random import RandomNormalLikeView, RandomUniformLikeView

T = Annotated[Tensor, Types("T", FLOATS)]
Any1 = Annotated[Tensor, Types("T1", ALL_4)]
Float1 = Annotated[Tensor, Types("T1", FLOATS)]
Float2 = Annotated[Tensor, Types("T2", FLOATS)]
Index2 = Annotated[Tensor, Types("T2", INDICES)]
Number2 = Annotated[Tensor, Types("T2", NUMBERS_4 | BOOL)]


def _generator(seed: float | None) -> np.random.Generator:
    """Return a generator: reproducible with a seed, otherwise from system entropy."""
    return np.random.default_rng(None if seed is None else struct.unpack("<Q", struct.pack("<d", seed))[0])


def _made_shape(dtype: DType, shape: Sequence[int]) -> TensorFact:
    if dtype not in FLOATS:
        message = f"dtype is {dtype}"
        raise ShapeError(message, f"expected {', '.join(sorted(map(str, FLOATS)))}")
    if any(n < 0 for n in shape):
        message = f"the shape {list(shape)} has a negative dim"
        raise ShapeError(message)
    return TensorFact(dtype, tuple(shape))


def _like_shape(input: TensorFact, dtype: DType | None) -> TensorFact:
    made = dtype or input.dtype
    if made is not None and made not in FLOATS:
        message = f"the result would be {made}"
        raise ShapeError(message, "set dtype to a float type")
    return TensorFact(made, input.shape)


def _normal_shape(
    *,
    dtype: DType = DType.FLOAT32,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> TensorFact:
    return _made_shape(dtype, shape)


@op(shape=_normal_shape, since=1, outputs=("output",), is_random=True)
def RandomNormal(
    *,
    dtype: DType = DType.FLOAT32,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> T:
    """Numbers around `mean`, normally distributed with the standard deviation `scale`.  Shapes: → `shape`.

    Raises:
        ShapeError: `dtype` is no floating type, or `shape` has a negative dim.

    Source: ONNX RandomNormal-22.
    """
    return np.asarray(_generator(seed).normal(mean, scale, shape)).astype(dtype.numpy)


@viewed
def _normal_like_shape(op: RandomNormalLikeView[TensorFact]) -> TensorFact:
    return _like_shape(op.input, op.dtype)


@op(shape=_normal_like_shape, since=1, outputs=("output",), is_random=True)
def RandomNormalLike(
    input: Any1,
    *,
    dtype: DType | None = None,
    mean: float = 0.0,
    scale: float = 1.0,
    seed: float | None = None,
) -> Float2:
    """`RandomNormal` in the shape of `input`, and its type unless `dtype` names another.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: the type is not floating.

    Source: ONNX RandomNormalLike-22.
    """
    made = input.dtype if dtype is None else dtype.numpy
    return np.asarray(_generator(seed).normal(mean, scale, input.shape)).astype(made)


def _uniform_shape(
    *,
    dtype: DType = DType.FLOAT32,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> TensorFact:
    return _made_shape(dtype, shape)


@op(shape=_uniform_shape, since=1, outputs=("output",), is_random=True)
def RandomUniform(
    *,
    dtype: DType = DType.FLOAT32,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
    shape: tuple[int, ...],
) -> T:
    """Numbers from `low` to `high`, each as likely as any other.  Shapes: → `shape`.

    Raises:
        ShapeError: `dtype` is no floating type, or `shape` has a negative dim.

    Source: ONNX RandomUniform-22.
    """
    return np.asarray(_generator(seed).uniform(low, high, shape)).astype(dtype.numpy)


@viewed
def _uniform_like_shape(op: RandomUniformLikeView[TensorFact]) -> TensorFact:
    return _like_shape(op.input, op.dtype)


@op(shape=_uniform_like_shape, since=1, outputs=("output",), is_random=True)
def RandomUniformLike(
    input: Any1,
    *,
    dtype: DType | None = None,
    high: float = 1.0,
    low: float = 0.0,
    seed: float | None = None,
) -> Float2:
    """`RandomUniform` in the shape of `input`, and its type unless `dtype` names another.  Shapes: input [*s] → [*s].

    Raises:
        ShapeError: the type is not floating.

    Source: ONNX RandomUniformLike-22.
    """
    made = input.dtype if dtype is None else dtype.numpy
    return np.asarray(_generator(seed).uniform(low, high, input.shape)).astype(made)


def _bernoulli_shape(input: TensorFact, *, dtype: DType | None = None, seed: float | None = None) -> TensorFact:
    made = dtype or input.dtype
    if made is not None and made not in NUMBERS_4 | BOOL:
        message = f"the result would be {made}"
        raise ShapeError(message, "set dtype to a numeric type or bool")
    return TensorFact(made, input.shape)


@op(shape=_bernoulli_shape, since=15, outputs=("output",), is_random=True)
def Bernoulli(input: Float1, *, dtype: DType | None = None, seed: float | None = None) -> Number2:
    """Bernoulli samples: 1 with probability `input`, else 0, in the type of `input` or `dtype`.

    Shapes: input [*s] → [*s].

    Raises:
        ShapeError: `dtype` is neither numeric nor bool.

    Source: ONNX Bernoulli-22.
    """
    hit: Any = _generator(seed).random(input.shape) < widened(input)
    return np.asarray(hit).astype(input.dtype if dtype is None else dtype.numpy)


def _multinomial_shape(
    input: TensorFact, *, dtype: DType = DType.INT32, sample_size: int = 1, seed: float | None = None
) -> TensorFact:
    if dtype not in INDICES or sample_size < 1:
        message = f"sample_size is {sample_size}, dtype is {dtype}"
        raise ShapeError(message, "expected at least 1 sample, and int32 or int64")
    if input.rank != 2:
        message = f"input has rank {input.rank}"
        raise ShapeError(message, "expected rank 2: a row of log-probabilities for each distribution")
    return TensorFact(dtype, (input.dims[0], sample_size))


@op(
    shape=_multinomial_shape,
    since=7,
    outputs=("output",),
    is_random=True,
    ranks={"input": 2},
)
def Multinomial(
    input: Float1, *, dtype: DType = DType.INT32, sample_size: int = 1, seed: float | None = None
) -> Index2:
    """Classes drawn with the probabilities whose logarithms, up to a constant, are the rows of `input`.

    Shapes: input [N, C] → [N, sample_size].

    Raises:
        ShapeError: `input` has another rank, or `dtype` is no index type.

    Source: ONNX Multinomial-22.
    """
    wide = input.astype(np.float64)
    limits = np.cumsum(np.exp(wide - np.max(wide, 1, keepdims=True)), 1)
    drawn = _generator(seed).random((input.shape[0], sample_size)) * limits[:, -1:]
    indices = np.sum(drawn[:, :, None] >= limits[:, None, :], 2)
    return np.minimum(indices, input.shape[1] - 1).astype(dtype.numpy)
