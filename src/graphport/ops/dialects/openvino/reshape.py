"""Shapes in OpenVINO."""

from __future__ import annotations

from graphport.ops.dialects.openvino import reshape_by_pattern as reshape_by_pattern  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import reshape_moves as reshape_moves  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import reshape_spaces as reshape_spaces  # noqa: PLC0414  registers its rules
