"""Views of the pages of padding; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class PadView(View):
    """A node of `Pad`."""

    operator = "Pad"

    data: Value
    pads: Value
    constant_value: Value | None = None
    axes: Value | None = None
    _: KW_ONLY
    mode: str = "constant"
