"""Texts: joined, split, cleaned, matched and counted."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, op
from graphport.ops.definitions.text.re2 import PatternError, UnsupportedPatternError, compile_re2
from graphport.ops.shapes import broadcasting
from graphport.ops.types import BOOL, FLOAT32, INDICES, INT64, STRING, Tensor, Types
from graphport.ops.view import viewed

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator, Sequence

    from graphport.ops.views.text import StringNormalizerView, TfIdfVectorizerView

T = Annotated[Tensor, Types("T", STRING)]
T1 = Annotated[Tensor, Types("T1", STRING)]
T2 = Annotated[Tensor, Types("T2", STRING)]
Counts = Annotated[Tensor, Types("T3", INT64)]
Matches = Annotated[Tensor, Types("T2", BOOL)]
Text = Annotated[Tensor, Types("tensor(string)", STRING)]
Tokens = Annotated[Tensor, Types("T", INDICES | STRING)]
Weights = Annotated[Tensor, Types("T1", FLOAT32)]


@op(shape=broadcasting(), since=20, outputs=("z",), exactness="exact")
def StringConcat(x: T, y: T) -> T:
    """Concatenate strings element-wise.  Shapes: x, y broadcast from the last dim.

    Source: ONNX StringConcat-20.
    """
    return np.asarray(np.asarray(x, object) + np.asarray(y, object), object)


def _split_shape(
    x: TensorFact, *, delimiter: str | None = None, maxsplit: int | None = None
) -> tuple[TensorFact, TensorFact]:
    pieces = None if x.shape is None else (*x.shape, OPEN)
    return TensorFact(DType.STRING, pieces), TensorFact(DType.INT64, x.shape)


@op(shape=_split_shape, since=20, outputs=("y", "z"), exactness="exact")
def StringSplit(x: T1, *, delimiter: str | None = None, maxsplit: int | None = None) -> tuple[T2, Counts]:
    """Split each string at `delimiter`, at most `maxsplit` times; also return the number of substrings.

    Without a delimiter, or with an empty one, split at runs of whitespace. Shorter rows are padded with empty strings.

    Shapes: x [*s] → [*s, most pieces], [*s].

    Source: ONNX StringSplit-20.
    """
    pieces = [str(text).split(delimiter or None, -1 if maxsplit is None else maxsplit) for text in x.reshape(-1)]
    most = max(map(len, pieces), default=0)
    rows = np.full((len(pieces), most), "", object)
    for row, found in zip(rows, pieces, strict=True):
        row[: len(found)] = found
    return rows.reshape(*x.shape, most), np.array([len(found) for found in pieces], np.int64).reshape(x.shape)


_CASES = {"NONE": str, "LOWER": str.lower, "UPPER": str.upper}


@viewed
def _normalized_shape(op: StringNormalizerView[TensorFact]) -> TensorFact:
    if op.case_change_action not in _CASES:
        message = f"case_change_action is {op.case_change_action!r}"
        raise ShapeError(message, ", ".join(_CASES))
    if op.x.rank not in (1, 2) or (op.x.rank == 2 and isinstance(op.x.dims[0], int) and op.x.dims[0] != 1):
        message = f"x is {op.x}"
        raise ShapeError(message, "expected strings of shape [C] or [1, C]")
    if op.stopwords:
        return op.x.with_shape((*op.x.dims[:-1], OPEN))
    return op.x.with_shape(op.x.dims if op.x.rank == 1 else (1, op.x.dims[1]))


@op(
    shape=_normalized_shape,
    since=10,
    exactness="exact",
    ranks={"x": (1, 2)},
)
def StringNormalizer(
    x: Text,
    *,
    case_change_action: str = "NONE",
    is_case_sensitive: int = 0,
    locale: str | None = None,
    stopwords: tuple[str, ...] | None = None,
) -> Text:
    """Remove `stopwords` and convert strings to upper or lower case as `case_change_action` requests.

    Unless `is_case_sensitive`, the comparison ignores case. If no string remains, the result is one empty string. Case
    conversion is Unicode's; `locale` is ignored.

    Shapes: x [C] → [kept], x [1, C] → [1, kept].

    Raises:
        ShapeError: an unknown change of case, or several rows.

    Source: ONNX StringNormalizer-10.
    """
    change = _CASES[case_change_action]
    key = str if is_case_sensitive else str.lower
    stops = set(map(key, stopwords or ()))
    kept = [change(str(text)) for text in x.reshape(-1) if key(str(text)) not in stops]
    return np.array(kept or [""], object).reshape(*[1] * (x.ndim - 1), -1)


def _match_shape(x: TensorFact, *, pattern: str | None = None) -> TensorFact:
    with suppress(UnsupportedPatternError):
        _compiled(pattern)
    return TensorFact(DType.BOOL, x.shape)


def _compiled(pattern: str | None) -> re.Pattern[str]:
    try:
        return compile_re2(pattern or "")
    except UnsupportedPatternError:
        raise
    except PatternError as error:
        message = f"the pattern {pattern!r}: {error}"
        raise ShapeError(message, "a regular expression in the syntax of RE2") from error


@op(shape=_match_shape, since=20, exactness="exact")
def RegexFullMatch(x: T1, *, pattern: str | None = None) -> Matches:
    r"""Whether each whole string matches the regular expression `pattern`.  Shapes: x [*s] → [*s].

    Patterns have RE2 syntax, without backreferences and lookaround.

    Raises:
        ShapeError: the pattern is invalid.
        UnsupportedPatternError: it has classes of Unicode (`\pL`) or single bytes (`\C`), which have no translation.

    Source: ONNX RegexFullMatch-20.
    """
    matches = _compiled(pattern).fullmatch
    return np.array([matches(str(text)) is not None for text in x.reshape(-1)], np.bool_).reshape(x.shape)


@viewed
def _vector_shape(op: TfIdfVectorizerView[TensorFact]) -> TensorFact:
    if op.mode not in ("TF", "IDF", "TFIDF"):
        message = f"unknown mode {op.mode!r}"
        raise ShapeError(message, "TF, IDF or TFIDF")
    if not 1 <= op.min_gram_length <= op.max_gram_length or op.max_skip_count < 0:
        message = f"grams of {op.min_gram_length} to {op.max_gram_length} items, {op.max_skip_count} skipped"
        raise ShapeError(message, "expected lengths of at least 1, and at least 0 skips")
    count = sum(1 for _ in ngrams(op.ngram_counts, op.pool_int64s or op.pool_strings or ()))
    if len(op.ngram_indexes) != count or not count or min(op.ngram_indexes) < 0:
        message = f"ngram_indexes has {len(op.ngram_indexes)} elements for {count} n-grams"
        raise ShapeError(message, "ngram_indexes has one entry, from 0 on, for each gram of the pool")
    if op.weights and len(op.weights) != count:
        message = f"{len(op.weights)} weights for {count} n-grams, expected equal counts"
        raise ShapeError(message)
    if op.x.rank > 2:
        message = f"X has rank {op.x.rank}"
        raise ShapeError(message, "expected rank 1 or 2: one row of tokens, or several")
    columns = max(op.ngram_indexes) + 1
    return TensorFact(DType.FLOAT32, (op.x.dims[0], columns) if op.x.rank == 2 else (columns,))


def ngrams(starts: Sequence[int], items: Sequence[object]) -> Iterator[tuple[object, ...]]:
    """Yield the n-grams of a pool: 1-grams from index `starts[0]`, 2-grams from `starts[1]`, and so on."""
    ends = [*starts[1:], len(items)]
    for length, (start, end) in enumerate(zip(starts, ends, strict=False), 1):
        if not 0 <= start <= end <= len(items) or (end - start) % length:
            message = f"pool elements {start} to {end} are no whole n-grams of length {length}"
            raise ShapeError(message, "set ngram_counts to the start index of the n-grams of each length")
        for place in range(start, end, length):
            yield tuple(items[place : place + length])


@op(
    shape=_vector_shape,
    since=9,
    exactness="rounding",
    ranks={"x": (1, 2)},
)
def TfIdfVectorizer(
    x: Tokens,
    *,
    max_gram_length: int,
    max_skip_count: int,
    min_gram_length: int,
    mode: str,
    ngram_counts: tuple[int, ...],
    ngram_indexes: tuple[int, ...],
    pool_int64s: tuple[int, ...] | None = None,
    pool_strings: tuple[str, ...] | None = None,
    weights: tuple[float, ...] | None = None,
) -> Weights:
    """Count the n-grams of the pool in each row.

    N-grams have `min_gram_length` to `max_gram_length` tokens, with 0 to `max_skip_count` skipped tokens between
    neighbours; n-gram `i` of the pool counts in column `ngram_indexes[i]`. Mode `IDF` limits counts to 1; `IDF` and
    `TFIDF` multiply column `i` by `weights[i]`.

    Shapes: X [C] → [columns], X [N, C] → [N, columns], with max(ngram_indexes) + 1 columns.

    Raises:
        ShapeError: an unknown mode, a pool that does not divide into n-grams, or rank above 2.

    Source: ONNX TfIdfVectorizer-9.
    """
    positions = dict(zip(ngrams(ngram_counts, pool_int64s or pool_strings or ()), ngram_indexes, strict=True))
    # The pool has no longer grams than it has counts.
    lengths = range(min_gram_length, min(max_gram_length, len(ngram_counts)) + 1)
    columns = max(ngram_indexes) + 1
    rows = x.tolist() if x.ndim == 2 else [x.reshape(-1).tolist()]
    found = np.zeros((len(rows), columns), np.float32)
    for result, row in zip(found, rows, strict=True):
        for gram, count in Counter(_grams(row, lengths, max_skip_count)).items():
            if gram in positions:
                result[positions[gram]] += count
    if mode == "IDF":
        found = np.minimum(found, 1)
    if mode != "TF" and weights:
        found = found * np.array(weights[:columns], np.float32)
    return found if x.ndim == 2 else found[0]


def _grams(row: Sequence[object], lengths: range, most_skips: int) -> Iterator[tuple[object, ...]]:
    """Yield all n-grams of a row, with up to `most_skips` skipped tokens between neighbours for n > 1."""
    for length in lengths:
        for step in range(1, 2 if length == 1 else most_skips + 2):
            for first in range(len(row) - (length - 1) * step):
                yield tuple(row[first : first + (length - 1) * step + 1 : step])
