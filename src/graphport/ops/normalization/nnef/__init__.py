"""Normalizations in NNEF."""

from __future__ import annotations

from graphport.ops.normalization.nnef import named, standardized

__all__ = ["named", "standardized"]
