"""Object detection: selection of boxes and pooling of regions."""

from __future__ import annotations

from graphport.ops.definitions.detection.roi_align import RoiAlign
from graphport.ops.definitions.detection.suppression import NonMaxSuppression

__all__ = ["NonMaxSuppression", "RoiAlign"]
