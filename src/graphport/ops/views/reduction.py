"""Views of the pages of reduction; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class TopKView(View):
    """A node of `TopK`."""

    operator = "TopK"

    x: Value
    k: Value
    _: KW_ONLY
    axis: int = -1
    largest: int = 1
    sorted: int = 1
