"""Import rules of generators (fill, range, random) of TFLite."""

from __future__ import annotations

from graphport.formats.tflite.rules.rule_table import RULES

RULES.lower("RANGE(start, limit, delta) -> Range(scalar(start), scalar(limit), scalar(delta))")
RULES.lower("FILL(shape, number) -> Expand(scalar(number), vector(shape))", moves=(1,))
RULES.lower("ZEROS_LIKE(x) -> Expand(like(x, 0), Shape(x))", is_raw=True)
