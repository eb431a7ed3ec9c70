"""Views of the pages of text; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class StringNormalizerView(View):
    """A node of `StringNormalizer`."""

    operator = "StringNormalizer"

    x: Value
    _: KW_ONLY
    case_change_action: str = "NONE"
    is_case_sensitive: int = 0
    locale: str | None = None
    stopwords: tuple[str, ...] | None = None


@dataclass(slots=True, eq=False, repr=False)
class TfIdfVectorizerView(View):
    """A node of `TfIdfVectorizer`."""

    operator = "TfIdfVectorizer"

    x: Value
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
