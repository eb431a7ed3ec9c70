"""Views of the pages of resize; made by `tools/operator_views.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from graphport.ops.view import T, View


@dataclass(slots=True, eq=False, repr=False)
class GridSampleView(View[T]):
    """A node of `GridSample`."""

    operator = "GridSample"

    x: T
    grid: T
    _: KW_ONLY
    align_corners: int = 0
    mode: str = "linear"
    padding_mode: str = "zeros"


@dataclass(slots=True, eq=False, repr=False)
class ResizeView(View[T]):
    """A node of `Resize`."""

    operator = "Resize"

    x: T
    roi: T | None = None
    scales: T | None = None
    sizes: T | None = None
    _: KW_ONLY
    antialias: int = 0
    axes: tuple[int, ...] | None = None
    coordinate_transformation_mode: str = "half_pixel"
    cubic_coeff_a: float = -0.75
    exclude_outside: int = 0
    extrapolation_value: float = 0.0
    keep_aspect_ratio_policy: str = "stretch"
    mode: str = "nearest"
    nearest_mode: str = "round_prefer_floor"
