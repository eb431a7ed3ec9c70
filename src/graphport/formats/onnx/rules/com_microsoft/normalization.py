"""Normalization operators of ONNX Runtime's domain, most with a residual sum."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.core.storage import storage_of
from graphport.formats.onnx.rules.com_microsoft.binding import import_rule, only
from graphport.ops.definitions.arithmetic import Add
from graphport.ops.definitions.generate import ConstantOfShape
from graphport.ops.definitions.indexing import Gather
from graphport.ops.definitions.indexing.slicing import Slice
from graphport.ops.definitions.normalization import LayerNormalization, RMSNormalization
from graphport.ops.definitions.reduction import ReduceSum
from graphport.ops.definitions.reshape import Shape

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@import_rule("SkipLayerNormalization")
def skip_layer_normalization(
    b: Builder,
    x: Value,
    skip: Value,
    gamma: Value,
    beta: Value | None = None,
    bias: Value | None = None,
    *,
    epsilon: float = 1e-12,
) -> tuple[Value | None, ...]:
    """Layer normalization of a sum, its statistics, and the sum."""
    total = _sum(b, x, skip, bias)
    count = 3 if b.wants(1) or b.wants(2) else 1
    found = b.results(LayerNormalization, count, total, gamma, beta, axis=-1, epsilon=epsilon)
    y, mean, inverse = found if count == 3 else (*found, None, None)
    return y, mean, inverse, total


def _sum(b: Builder, x: Value, skip: Value, bias: Value | None) -> Value:
    total = b(Add, x, skip)
    return total if bias is None else b(Add, total, bias)


@import_rule("SkipSimplifiedLayerNormalization")
def skip_simplified_layer_normalization(
    b: Builder, x: Value, skip: Value, gamma: Value, bias: Value | None = None, *, epsilon: float = 1e-12
) -> tuple[Value | None, ...]:
    """Root-mean-square normalization of a sum, and the sum."""
    only("the normalized tensor and the sum", holds=not b.wants(1) and not b.wants(2))
    total = _sum(b, x, skip, bias)
    return b(RMSNormalization, total, gamma, axis=-1, epsilon=epsilon), None, None, total


@import_rule("EmbedLayerNormalization")
def embed_layer_normalization(
    b: Builder,
    input_ids: Value,
    segment_ids: Value | None,
    word_embedding: Value,
    position_embedding: Value,
    segment_embedding: Value | None,
    gamma: Value,
    beta: Value,
    mask: Value | None = None,
    position_ids: Value | None = None,
    *,
    epsilon: float = 1e-12,
    mask_index_type: int = 0,
) -> tuple[Value | None, ...]:
    """Layer normalization of the sum of word, position and segment embeddings; lengths; the sum.

    Without `position_ids`, positions count from 0.
    """
    del mask_index_type
    total = b(Add, b(Gather, word_embedding, input_ids), _positions(b, input_ids, position_embedding, position_ids))
    if segment_ids is not None and segment_embedding is not None:
        total = b(Add, total, b(Gather, segment_embedding, segment_ids))
    y = b(LayerNormalization, total, gamma, beta, axis=-1, epsilon=epsilon)
    return y, _lengths(b, input_ids, mask) if b.wants(1) else None, total


def _positions(b: Builder, input_ids: Value, embedding: Value, ids: Value | None) -> Value:
    if ids is not None:
        return b(Gather, embedding, ids)
    first = b.constant(np.zeros(1, np.int64))
    return b(Slice, embedding, first, b(Shape, input_ids, start=1, end=2), first)


def _lengths(b: Builder, input_ids: Value, mask: Value | None) -> Value:
    """Count the unmasked tokens of each sample, 0 without a mask."""
    if mask is None:
        return b(ConstantOfShape, b(Shape, input_ids, start=0, end=1), value=storage_of(np.zeros(1, np.int32)))
    return b(ReduceSum, mask, b.constant(np.ones(1, np.int64)), keepdims=0)
