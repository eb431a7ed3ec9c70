"""Views of the pages of padding; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class PadView(View[T]):
    """A node of `Pad`."""

    operator = "Pad"

    data: T
    pads: T
    constant_value: T | None = None
    axes: T | None = None
    _: KW_ONLY
    mode: str = "constant"
