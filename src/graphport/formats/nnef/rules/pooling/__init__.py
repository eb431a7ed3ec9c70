"""Poolings in NNEF."""

from __future__ import annotations

from graphport.formats.nnef.rules.pooling import indices, max_unpool, pools

__all__ = ["indices", "max_unpool", "pools"]
