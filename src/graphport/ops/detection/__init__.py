"""Boxes in images: which to keep, and what is in them."""

from __future__ import annotations

from graphport.ops.detection.roi_align import RoiAlign
from graphport.ops.detection.suppression import NonMaxSuppression

__all__ = ["NonMaxSuppression", "RoiAlign"]
