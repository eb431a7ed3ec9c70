"""Sampling as ONNX Runtime's own domain has it."""

from __future__ import annotations

from graphport.formats.onnx.rules.com_microsoft.binding import import_rule
from graphport.formats.onnx.rules.resize import grid_sample_19

# As the default domain had it at first.
import_rule("GridSample")(grid_sample_19)
