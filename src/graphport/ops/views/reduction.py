"""Views of the pages of reduction; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class TopKView(View[T]):
    """A node of `TopK`."""

    operator = "TopK"

    x: T
    k: T
    _: KW_ONLY
    axis: int = -1
    largest: int = 1
    sorted: int = 1
