"""Views of the pages of text; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class StringNormalizerView(View[T]):
    """A node of `StringNormalizer`."""

    operator = "StringNormalizer"

    x: T
    _: KW_ONLY
    case_change_action: str = "NONE"
    is_case_sensitive: int = 0
    locale: str | None = None
    stopwords: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class TfIdfVectorizerView(View[T]):
    """A node of `TfIdfVectorizer`."""

    operator = "TfIdfVectorizer"

    x: T
    _: KW_ONLY
    max_gram_length: int
    max_skip_count: int
    min_gram_length: int
    mode: str
    ngram_counts: tuple[int, ...]
    ngram_indexes: tuple[int, ...]
    pool_int64s: tuple[int, ...] | None = None
    pool_strings: tuple[str, ...] | None = None
    weights: tuple[float, ...] | None = None
