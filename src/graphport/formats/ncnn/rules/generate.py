"""Constants of ncnn."""

from __future__ import annotations

from graphport.formats.ncnn.rules.binding import AXES, Layer, layer
from graphport.formats.ncnn.rules.emitting import KEYS, MOST_AXES
from graphport.ir.graph import Value


@layer("MemoryData")
def memory_data(at: Layer) -> Value:
    """A blob that is a weight."""
    shape = [n for n in (at.integer(KEYS[name]) for name in AXES[MOST_AXES]) if n]
    return at.weight(0, [1, *(shape or [1])])
