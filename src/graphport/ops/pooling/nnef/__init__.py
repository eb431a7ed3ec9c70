"""Poolings in NNEF."""

from __future__ import annotations

from graphport.ops.pooling.nnef import indices, places, pools

__all__ = ["indices", "places", "pools"]
