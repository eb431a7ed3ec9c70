"""Attention, and how positions and caches enter it."""

from __future__ import annotations

from graphport.ops.definitions.attention.attention import Attention
from graphport.ops.definitions.attention.cache import TensorScatter
from graphport.ops.definitions.attention.rotary import RotaryEmbedding

__all__ = ["Attention", "RotaryEmbedding", "TensorScatter"]
