"""Import rules of generators (fill, range, random) of TFLite."""

from __future__ import annotations

from graphport.formats.tflite.rules.rows import ROWS

ROWS.lower("RANGE(start, limit, delta) -> Range(scalar(start), scalar(limit), scalar(delta))")
ROWS.lower("FILL(shape, number) -> Expand(scalar(number), vector(shape))", moves=(1,))
ROWS.lower("ZEROS_LIKE(x) -> Expand(like(x, 0), Shape(x))", is_raw=True)
