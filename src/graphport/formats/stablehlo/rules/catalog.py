"""All modules with rules; importing this registers them."""

from graphport.formats.stablehlo.rules import (
    algebra,
    calls,
    complex_numbers,
    control,
    elementwise,
    indexing,
    linear,
    random_bits,
    reductions,
    shapes,
    sorting,
    special,
    wide,
)

__all__ = [
    "algebra",
    "calls",
    "complex_numbers",
    "control",
    "elementwise",
    "indexing",
    "linear",
    "random_bits",
    "reductions",
    "shapes",
    "sorting",
    "special",
    "wide",
]
