"""All modules with rules; importing this registers them."""

from graphport.formats.stablehlo.rules import (
    algebra,
    binary_functions,
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
)

__all__ = [
    "algebra",
    "binary_functions",
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
]
