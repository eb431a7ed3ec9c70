"""Views of the pages of reshape; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class Col2ImView(View[T]):
    """A node of `Col2Im`."""

    operator = "Col2Im"

    input: T
    image_shape: T
    block_shape: T
    _: KW_ONLY
    dilations: tuple[int, ...] | None = None
    pads: tuple[int, ...] | None = None
    strides: tuple[int, ...] | None = None
