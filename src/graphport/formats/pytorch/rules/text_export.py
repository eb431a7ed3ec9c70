"""Export rules of operators on tokens to ATen; torch has no strings."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.formats.pytorch.rules.emitting import DIALECT, aten, size_of, with_fact
from graphport.ops.declare import UnsupportedError
from graphport.ops.definitions.text import ngrams
from graphport.ops.lowering.operands import cast, sizes
from graphport.ops.views.text import TfIdfVectorizerView

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

    Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]


@TfIdfVectorizerView.export_rule(DIALECT)
def export_tfidf_vectorizer(b: Builder, op: TfIdfVectorizerView) -> Value:
    """Export TfIdfVectorizer on integers as comparisons of shifted rows with the n-grams of the pool.

    Raises:
        UnsupportedError: the tokens are strings, or the length of a row is not constant.
    """
    if op.pool_int64s is None:
        message = "PyTorch does not support string tensors"
        raise UnsupportedError(message)
    is_vector = len(b.dims(op.x)) == 1
    x = cast(b, aten(b, "unsqueeze", op.x, 0) if is_vector else op.x, DType.INT64)
    (length,) = sizes(b.dims(x)[1:], "the length of a row")
    columns = dict(zip(ngrams(op.ngram_counts, op.pool_int64s), op.ngram_indexes, strict=True))
    y = aten(b, "full", (size_of(b, x, 0), max(op.ngram_indexes) + 1), 0.0, dtype=DType.FLOAT32)
    y = with_fact(y, DType.FLOAT32, (b.dims(x)[0], max(op.ngram_indexes) + 1))
    for count in range(op.min_gram_length, min(op.max_gram_length, len(op.ngram_counts)) + 1):
        pool = [gram for gram in columns if len(gram) == count]
        for step in range(1, 2 if count == 1 else op.max_skip_count + 2):
            if pool and (count - 1) * step < length:
                values = _occurrences(b, x, np.array(pool, np.int64), step, length)
                column = b.constant(np.array([columns[gram] for gram in pool]))
                y = aten(b, "index_add", y, 1, column, values)
                y = with_fact(y, DType.FLOAT32, (b.dims(x)[0], max(op.ngram_indexes) + 1))
    if op.mode == "IDF":
        y = aten(b, "clamp", y, None, 1.0)
    if op.mode != "TF" and op.weights:
        y = aten(b, "mul.Tensor", y, b.like(y, list(op.weights[: max(op.ngram_indexes) + 1])))
    return aten(b, "squeeze.dim", y, 0) if is_vector else y


def _occurrences(
    b: Builder, x: Value, pool: np.ndarray[tuple[int, ...], np.dtype[np.int64]], step: int, length: int
) -> Value:
    """Count each n-gram of `pool` [grams, count] in each row of `x` [N, length]: [N, grams]."""
    grams, count = pool.shape
    reach = length - (count - 1) * step
    terms: list[Value] = []
    for column in range(count):
        tokens = aten(b, "slice.Tensor", x, 1, column * step, column * step + reach)
        terms.append(aten(b, "eq.Tensor", aten(b, "unsqueeze", tokens, 2), b.constant(pool[:, column])))
    hits = aten(b, "all.dim", aten(b, "stack", terms, 0), 0)
    hits = with_fact(hits, DType.BOOL, (b.dims(x)[0], reach, grams))
    return cast(b, aten(b, "sum.dim_IntList", hits, (1,)), DType.FLOAT32)
