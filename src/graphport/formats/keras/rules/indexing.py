"""Layers of Keras that pick elements, and masks."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.sequences import is_sequence
from graphport.formats.keras.rules.binding import DTYPES, Layer, in_compute_type, layer
from graphport.formats.keras.rules.padding import sides
from graphport.formats.keras.rules.tensors import constant_of, expand_like, reduced, spatial_axes, squeezed, unsqueezed
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.activation import Tanh
from graphport.ops.definitions.arithmetic import Add, Div, Mod, Mul
from graphport.ops.definitions.comparison import And, Equal, GreaterOrEqual, Not, Or, Where
from graphport.ops.definitions.indexing import Gather, OneHot, Slice
from graphport.ops.definitions.matmul import MatMul
from graphport.ops.definitions.reduction import ArgMax, ReduceMax, ReduceMin, ReduceSum
from graphport.ops.definitions.reshape import Concat
from graphport.ops.lowering.operands import cast, dtype_of, transposed, vector

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

_INDICES = (DType.INT32, DType.INT64)


@layer("Embedding", weights="embeddings", mask="make", autocast=False)
def embedding(at: Layer, *, input_dim: int = 0, output_dim: int = 0, mask_zero: bool = False) -> Value:
    """Gather rows of a table."""
    del input_dim, output_dim, mask_zero
    return _rows(at)


def _rows(at: Layer) -> Value:
    indices = at.x if dtype_of(at.x) in _INDICES else cast(at.b, at.x, DType.INT32)
    return in_compute_type(at, at.b(Gather, at.need("embeddings"), indices, axis=0))


@layer(
    "ReversibleEmbedding",
    weights="embeddings reverse_embeddings:!tie_weights",
    call="x reverse",
    mask="make",
    autocast=False,
)
def reversible_embedding(
    at: Layer,
    *,
    input_dim: int = 0,
    output_dim: int = 0,
    mask_zero: bool = False,
    tie_weights: bool = True,
    reverse: bool = False,
    reverse_dtype: str | None = None,
    logit_soft_cap: float | None = None,
) -> Value:
    """Rows of a table or, with `reverse`, the products of `x` with all rows, limited to `logit_soft_cap`."""
    del input_dim, output_dim, mask_zero
    if not reverse:
        return _rows(at)
    b, dtype = at.b, at.dtype if reverse_dtype is None else DTYPES[reverse_dtype]
    kernel = transposed(b, at.need("embeddings"), (1, 0)) if tie_weights else at.need("reverse_embeddings")
    logits = b(MatMul, cast(b, at.x, dtype), cast(b, kernel, dtype))
    if logit_soft_cap is None:
        return logits
    limit = b.like(logits, logit_soft_cap)
    return b(Mul, b(Tanh, b(Div, logits, limit)), limit)


@layer("Cropping1D", "Cropping2D", "Cropping3D")
def cropping(at: Layer, *, cropping: Any = 1, data_format: str | None = None) -> Value:
    """Crop the spatial dims at both ends."""
    b, axes = at.b, spatial_axes(at.rank, data_format)
    cuts = [
        (axis, begin, -end if end else np.iinfo(np.int64).max)
        for axis, (begin, end) in zip(axes, sides(cropping, at.rank - 2, "cropping"), strict=True)
        if begin or end
    ]
    if not cuts:
        return at.x
    found, starts, stops = zip(*cuts, strict=True)
    return b(Slice, at.x, starts, stops, found)


# Masks


def any_of(b: Builder, mask: Value, axes: list[int], *, keepdims: bool = False) -> Value:
    """Whether any element along axes is true."""
    return cast(b, reduced(b, ReduceMax, cast(b, mask, DType.INT32), axes, keepdims=keepdims), DType.BOOL)


def all_of(b: Builder, mask: Value, axes: list[int], *, keepdims: bool = False) -> Value:
    """Whether all elements along axes are true."""
    return cast(b, reduced(b, ReduceMin, cast(b, mask, DType.INT32), axes, keepdims=keepdims), DType.BOOL)


@layer("Embedding.mask", "ReversibleEmbedding.mask", autocast=False)
def embedding_mask(at: Layer) -> Value:
    """Steps whose index is not 0."""
    return at.b(Not, at.b(Equal, at.x, 0))


def _selected(at: Layer, mask_value: float, *, keepdims: bool) -> Value:
    b = at.b
    return any_of(b, b(Not, b(Equal, at.x, mask_value)), [at.rank - 1], keepdims=keepdims)


@layer("Masking.mask")
def masking_mask(at: Layer, *, mask_value: float = 0.0) -> Value:
    """Steps that have an element other than `mask_value`."""
    return _selected(at, mask_value, keepdims=False)


@layer("Masking", mask="make")
def masking(at: Layer, *, mask_value: float = 0.0) -> Value:
    """The input with masked time indices set to 0."""
    return at.b(Mul, at.x, cast(at.b, _selected(at, mask_value, keepdims=True), dtype_of(at.x)))


@layer("masks.or", autocast=False)
def masks_or(at: Layer) -> Value:
    """Steps that any mask selects."""
    return reduce(lambda x, y: at.b(Or, x, y), at.inputs)


@layer("masks.and", autocast=False)
def masks_and(at: Layer) -> Value:
    """Steps that all masks select."""
    return reduce(lambda x, y: at.b(And, x, y), at.inputs)


@layer("Concatenate.mask", autocast=False)
def concatenate_mask(at: Layer, *, axis: int = -1, requires_all: bool = False) -> Value:
    """The mask of a concatenation; inputs without a mask are selected."""
    b = at.b
    parts: list[Value] = []
    for index, x in enumerate(at.inputs):
        mask, rank = at.get(f"mask:{index}"), len(b.dims(x))
        mask = b.constant(np.ones((1,) * rank, np.bool_)) if mask is None else mask
        mask = unsqueezed(b, mask, list(range(len(b.dims(mask)), rank)))
        parts.append(expand_like(b, mask, [(x, each) for each in range(rank)]))
    joined = b(Concat, *parts, axis=at.axis(axis))
    return (all_of if requires_all else any_of)(b, joined, [at.rank - 1])


# Categories


@layer("CategoryEncoding", call="x count_weights", autocast=False)
def category_encoding(at: Layer, *, num_tokens: int | None = None, output_mode: str = "multi_hot") -> Value:
    """Indices as one-hot rows, their union, or their counts."""
    if num_tokens is None:
        message = "num_tokens is missing"
        raise ShapeError(message)
    return encoded(at, cast(at.b, at.x, DType.INT64), num_tokens, output_mode, at.get("count_weights"))


def encoded(at: Layer, indices: Value, depth: int, mode: str, weights: Value | None = None) -> Value:
    """Indices in the output mode of a layer for categories.

    Raises:
        UnsupportedError: the mode needs statistics, as `tf_idf` does.
    """
    b = at.b
    if mode == "int":
        return indices
    if mode not in ("one_hot", "multi_hot", "count"):
        message = f"the output mode {mode!r}"
        raise UnsupportedError(message)
    rank = len(b.dims(indices))
    if mode == "one_hot" and rank > 0 and b.dims(indices)[-1] == 1:
        indices = squeezed(b, indices, [rank - 1])
    hot = b(OneHot, indices, vector(b, [depth]), constant_of(b, [0, 1], at.dtype), axis=-1)
    if weights is not None:
        hot = b(Mul, hot, unsqueezed(b, cast(b, weights, at.dtype), [len(b.dims(weights))]))
    if mode == "one_hot" or rank == 0:
        return hot
    op_def = ReduceMax if mode == "multi_hot" else ReduceSum
    return reduced(b, op_def, hot, [len(b.dims(hot)) - 2]) if rank > 1 else reduced(b, op_def, hot, [0])


@layer("Discretization", autocast=False)
def discretization(
    at: Layer,
    *,
    bin_boundaries: Any = None,
    num_bins: int | None = None,
    epsilon: float = 0.01,
    output_mode: str = "int",
    keras_version: int = 3,
) -> Value:
    """The number of boundaries that an element reaches: int32 in Keras 3, int64 in Keras 2."""
    del num_bins, epsilon
    if not is_sequence(bin_boundaries):
        message = "its boundaries are not in the configuration"
        raise UnsupportedError(message)
    b, x = at.b, cast(at.b, at.x, DType.FLOAT32)
    edges = constant_of(b, list(bin_boundaries), DType.FLOAT32)
    reached = b(GreaterOrEqual, unsqueezed(b, x, [at.rank]), edges)
    found = reduced(b, ReduceSum, cast(b, reached, DType.INT32), [at.rank])
    if output_mode == "int":
        return found if keras_version >= 3 else cast(b, found, DType.INT64)
    return encoded(at, cast(b, found, DType.INT64), len(bin_boundaries) + 1, output_mode)


@layer("IntegerLookup", autocast=False)
def integer_lookup(
    at: Layer,
    *,
    vocabulary: Any = None,
    num_oov_indices: int = 1,
    mask_token: int | None = None,
    oov_token: int = -1,
    max_tokens: int | None = None,
    vocabulary_dtype: str = "int64",
    vocabulary_size: int | None = None,
    invert: bool = False,
    output_mode: str = "int",
    pad_to_max_tokens: bool = False,
    oov_method: str = "floormod",
    idf_weights: Any = None,
    keras_version: int = 3,
) -> Value:
    """The index of an integer in a vocabulary; integers outside share an index, or several by their remainder."""
    del vocabulary_dtype, oov_method, idf_weights, vocabulary_size
    if not is_sequence(vocabulary) or not num_oov_indices:
        message = "it has no vocabulary in the configuration, or no index for other integers"
        raise UnsupportedError(message)
    b = at.b
    masked = [] if mask_token is None else [mask_token]
    if invert:
        tokens = [*masked, *[oov_token] * num_oov_indices, *vocabulary]
        return b(Gather, constant_of(b, tokens, DType.INT64), cast(b, at.x, DType.INT64), axis=0)
    x = cast(b, at.x, DType.INT64)
    known = [each for each in vocabulary if each != mask_token]
    is_token = b(Equal, unsqueezed(b, x, [at.rank]), constant_of(b, known, DType.INT64))
    is_known = any_of(b, is_token, [at.rank])
    # Mask tokens have an index in the mode "int" only.
    others = len(masked) if output_mode == "int" else 0
    first = others + num_oov_indices
    depth = max_tokens if pad_to_max_tokens and max_tokens is not None else first + len(known)
    found = b(ArgMax, cast(b, is_token, DType.INT32), axis=at.rank, keepdims=0)
    found = b(Add, found, first)
    other = b.constant(np.int64(others))
    if num_oov_indices > 1:
        other = b(Add, b(Mod, x, num_oov_indices), other)
    found = b(Where, is_known, found, other)
    if mask_token is not None:
        is_masked = b(Equal, x, mask_token)
        found = b(Where, is_masked, 0 if output_mode == "int" else depth, found)
    result = encoded(at, found, depth, output_mode)
    return cast(b, result, DType.INT64) if keras_version >= 3 else result
