"""Ranges and other made tensors in OpenVINO."""

from __future__ import annotations

from graphport.ops.dialects.openvino import generate_fill as generate_fill  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import generate_range as generate_range  # noqa: PLC0414  registers its rules
