"""Sampling as ONNX Runtime's own domain has it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ops.dialects.com_microsoft.binding import word
from graphport.ops.pages.resize import GridSample

if TYPE_CHECKING:
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder


@word("GridSample")
def grid_sample(
    b: Builder,
    x: Value,
    grid: Value,
    *,
    align_corners: int = 0,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
) -> Value:
    """As in the default domain, with the modes called as they were."""
    called = {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    return b(GridSample, x, grid, align_corners=align_corners, mode=called, padding_mode=padding_mode)
