"""Convolutions in OpenVINO."""

from __future__ import annotations

from graphport.ops.dialects.openvino import convolution_binary as convolution_binary  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import convolution_deformable as convolution_deformable  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import convolution_transpose as convolution_transpose  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import convolution_windows as convolution_windows  # noqa: PLC0414  registers its rules
