"""Memory does not grow with the weights: they are mapped, and written in bounded pieces.

The suite of conformance does the same with a file of 1 GB.
"""

from __future__ import annotations

import sys

import pytest

from tests.draws import spread
from tests.memory import LIMIT, large_model, peaks

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

LARGE = 64
"""MiB of the file here; the limit is for 1024."""


@pytest.mark.parametrize(
    ("name", "options"),
    spread(
        [
            pytest.param("large.onnx", {"external_data": True}, id="to ONNX with its weights beside"),
            pytest.param("large.onnx", {}, id="to ONNX with its weights inside"),
            pytest.param("copy.nnef.tar", {}, id="to NNEF in an archive"),
        ]
    ),
)
def test_memory_does_not_grow_with_the_weights(tmp_path, name, options):
    small = peaks(large_model(tmp_path / "small", 64, 64), tmp_path / f"small-{name}", **options)
    large = peaks(large_model(tmp_path / "large", LARGE << 8, 1024), tmp_path / name, **options)
    assert large.shapes == {
        "x": f"float32[1, {LARGE << 8}]",
        "w": f"float32[{LARGE << 8}, 1024]",
        "h": "float32[1, 1024]",
        "y": "float32[1, 1024]",
    }
    growth = LIMIT * LARGE // 1024
    assert large.anonymous - small.anonymous < growth
    assert large.resident - small.resident < growth
    assert (tmp_path / ("large.onnx.data" if "external_data" in options else name)).stat().st_size >= LARGE << 20
