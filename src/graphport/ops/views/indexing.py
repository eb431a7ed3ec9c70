"""Views of the pages of indexing; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class ScatterElementsView(View[T]):
    """A node of `ScatterElements`."""

    operator = "ScatterElements"

    data: T
    indices: T
    updates: T
    _: KW_ONLY
    axis: int = 0
    reduction: str = "none"


@dataclass(slots=True, eq=False, repr=False)
class SliceView(View[T]):
    """A node of `Slice`."""

    operator = "Slice"

    data: T
    starts: T
    ends: T
    axes: T | None = None
    steps: T | None = None
