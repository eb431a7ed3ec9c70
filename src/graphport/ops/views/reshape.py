"""Views of the pages of reshape; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ir.graph import Value
from graphport.ops.view import View


@dataclass(slots=True, eq=False, repr=False)
class Col2ImView(View):
    """A node of `Col2Im`."""

    operator = "Col2Im"

    input: Value
    image_shape: Value
    block_shape: Value
    _: KW_ONLY
    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
