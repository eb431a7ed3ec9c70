"""Models of 1 GB and of 3 GB are opened, checked, converted and simplified within 200 and 300 MB."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.memory import LIMIT, MIB, large_model, large_onnx, peaks, watched

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


LAYERS, CHANNELS = 16, 1365
"""64 MiB of weights in each layer."""


@pytest.mark.parametrize("options", [[], ["--no-verify"]], ids=["as a user would", "not verified"])
@pytest.mark.parametrize(
    ("times", "is_external"), [pytest.param(1, False, id="1 GB in one file"), pytest.param(3, True, id="3 GB beside")]
)
@pytest.mark.parametrize(
    "passes",
    [
        pytest.param([], id="every weight changes"),
        pytest.param(["--skip", "fuse-batchnorm"], id="no weight changes"),
    ],
)
def test_a_model_is_simplified_within_300_mb(tmp_path, options, times, is_external, passes):
    try:
        model = large_onnx(tmp_path / "large.onnx", LAYERS * times, CHANNELS, is_external=is_external)
        found = watched("simplify", model, tmp_path / "small.onnx", *options, *passes)
        written = tmp_path / ("small.onnx.data" if is_external else "small.onnx")
        assert written.stat().st_size >= LAYERS * times * CHANNELS**2 * 9 * 4
        assert found.anonymous < 300 * MIB
        assert found.resident < 300 * MIB
    finally:
        shutil.rmtree(tmp_path, ignore_errors=True)
