"""Shapes in OpenVINO."""

from __future__ import annotations

from graphport.ops.reshape import openvino_moves as openvino_moves  # noqa: PLC0414  registers its rules
from graphport.ops.reshape import openvino_reshape as openvino_reshape  # noqa: PLC0414  registers its rules
from graphport.ops.reshape import openvino_spaces as openvino_spaces  # noqa: PLC0414  registers its rules
