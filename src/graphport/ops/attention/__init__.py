"""Attention, and how positions and caches enter it."""

from __future__ import annotations

from graphport.ops.attention.attention import Attention
from graphport.ops.attention.cache import TensorScatter
from graphport.ops.attention.rotary import RotaryEmbedding

__all__ = ["Attention", "RotaryEmbedding", "TensorScatter"]
