"""Views of the pages of random; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.core.dtypes import DType
from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class RandomNormalLikeView(View[T]):
    """A node of `RandomNormalLike`."""

    operator = "RandomNormalLike"

    input: T
    _: KW_ONLY
    dtype: DType | None = None
    mean: float = 0.0
    scale: float = 1.0
    seed: float | None = None


@dataclass(slots=True, eq=False, repr=False)
class RandomUniformLikeView(View[T]):
    """A node of `RandomUniformLike`."""

    operator = "RandomUniformLike"

    input: T
    _: KW_ONLY
    dtype: DType | None = None
    high: float = 1.0
    low: float = 0.0
    seed: float | None = None
