"""Rows of OpenVINO."""

from __future__ import annotations

from graphport.ops.dialects.operands import as_index, as_int64
from graphport.ops.dialects.table import Rows

ROWS = Rows("openvino", {"as_index": as_index, "as_int64": as_int64})
