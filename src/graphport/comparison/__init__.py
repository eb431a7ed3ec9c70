"""Comparison of two runs: metrics, pairing of outputs, the first value that differs."""

from graphport.comparison.metrics import Comparison, Difference, compare_outputs, difference

__all__ = ["Comparison", "Difference", "compare_outputs", "difference"]
