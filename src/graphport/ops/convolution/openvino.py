"""Convolutions in OpenVINO."""

from __future__ import annotations

from graphport.ops.convolution import openvino_binary as openvino_binary  # noqa: PLC0414  registers its rules
from graphport.ops.convolution import openvino_painted as openvino_painted  # noqa: PLC0414  registers its rules
from graphport.ops.convolution import openvino_sampled as openvino_sampled  # noqa: PLC0414  registers its rules
from graphport.ops.convolution import openvino_windows as openvino_windows  # noqa: PLC0414  registers its rules
