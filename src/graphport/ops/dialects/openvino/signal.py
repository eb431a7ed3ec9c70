"""Fourier transforms and windows in OpenVINO."""

from __future__ import annotations

from graphport.ops.dialects.openvino import signal_inverse as signal_inverse  # noqa: PLC0414  registers its rules
from graphport.ops.dialects.openvino import signal_spectra as signal_spectra  # noqa: PLC0414  registers its rules
