"""All modules with rules; importing this registers them."""

from graphport.formats.stablehlo.rules import control, elementwise, linear, reductions, shapes, special

__all__ = ["control", "elementwise", "linear", "reductions", "shapes", "special"]
