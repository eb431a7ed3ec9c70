"""Attention, and how positions and caches enter it."""

from __future__ import annotations

from graphport.ops.pages.attention.attention import Attention
from graphport.ops.pages.attention.cache import TensorScatter
from graphport.ops.pages.attention.rotary import RotaryEmbedding

__all__ = ["Attention", "RotaryEmbedding", "TensorScatter"]
