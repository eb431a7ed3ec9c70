"""Fourier transforms and windows in OpenVINO."""

from __future__ import annotations

from graphport.ops.signal import openvino_inverse as openvino_inverse  # noqa: PLC0414  registers its rules
from graphport.ops.signal import openvino_spectra as openvino_spectra  # noqa: PLC0414  registers its rules
