"""Views of the pages of indexing; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class ScatterElementsView(View):
    """A node of `ScatterElements`."""

    operator = "ScatterElements"

    data: Value
    indices: Value
    updates: Value
    _: KW_ONLY
    axis: int = 0
    reduction: str = "none"


@dataclass(slots=True, eq=False, repr=False)
class SliceView(View):
    """A node of `Slice`."""

    operator = "Slice"

    data: Value
    starts: Value
    ends: Value
    axes: Value | None = None
    steps: Value | None = None
