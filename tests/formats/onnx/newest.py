"""Marks of tests that need a newer onnx package than the lowest declared one."""

import onnx.defs
import pytest

from graphport.formats.onnx.container import schema

NEEDS_NEWEST_OPSET = pytest.mark.skipif(
    onnx.defs.onnx_opset_version() < schema.JUDGED, reason=f"the onnx package has no schemas of opset {schema.JUDGED}"
)
