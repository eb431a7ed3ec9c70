"""Normalizations in NNEF."""

from __future__ import annotations

from graphport.ops.dialects.nnef.normalization import named, standardized

__all__ = ["named", "standardized"]
