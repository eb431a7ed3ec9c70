"""Normalizations in NNEF."""

from __future__ import annotations

from graphport.formats.nnef.rules.normalization import named, standardized

__all__ = ["named", "standardized"]
