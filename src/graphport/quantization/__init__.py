"""Rounding a graph to integers: what is rounded, to which grid, and what is done about the noise."""
