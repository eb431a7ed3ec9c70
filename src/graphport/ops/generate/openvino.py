"""Ranges and other made tensors in OpenVINO."""

from __future__ import annotations

from graphport.ops.generate import openvino_filled as openvino_filled  # noqa: PLC0414  registers its rules
from graphport.ops.generate import openvino_range as openvino_range  # noqa: PLC0414  registers its rules
