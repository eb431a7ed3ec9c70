"""A tensor file of 1 GB is opened, checked and converted within 200 MB."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.memory import LIMIT, large_model, peaks

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]


@pytest.mark.parametrize("options", [{"external_data": True}, {}], ids=["weights beside", "weights inside"])
def test_a_tensor_file_of_1_gb_becomes_onnx_within_200_mb(tmp_path, options):
    try:
        model = large_model(tmp_path / "large", 16384, 16384)
        found = peaks(model, tmp_path / "large.onnx", **options)
        assert found.anonymous < LIMIT
        assert found.resident < LIMIT
        assert found.shapes["w"] == "float32[16384, 16384]"
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
