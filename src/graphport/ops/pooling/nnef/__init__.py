"""Poolings in NNEF."""

from __future__ import annotations

from graphport.ops.pooling.nnef import indices, pools

__all__ = ["indices", "pools"]
