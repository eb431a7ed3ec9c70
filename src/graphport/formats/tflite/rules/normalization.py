"""Normalizations of TFLite."""

from __future__ import annotations

from graphport.formats.tflite.rules.rule_table import RULES

RULES.lower("""
# Vectors of length 1 along the last axis; lengths below 1e-6 count as that.
L2_NORMALIZATION(x) -> Div(x, Max(ReduceL2(x, [-1]), 1e-6))
# Elements divided by what is around them along the last axis.
LOCAL_RESPONSE_NORMALIZATION(x, *, radius=0, alpha=0.0, beta=0.0, bias=0.0)
    -> last(LRN(first(x), alpha=alpha * (2 * radius + 1), beta=beta, bias=bias, size=2 * radius + 1))
""")
