"""Models whose files change while they are in use, and reports that are passed on."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from tests.models import model, node, typed, write_onnx


@pytest.fixture
def source(tmp_path):
    weights = {"w": np.ones((64, 64), np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    return write_onnx(tmp_path / "m.onnx", model(nodes, [typed("x", [1, 64])], [typed("y", [1, 64])], weights))


@pytest.mark.parametrize(
    "use",
    [
        pytest.param(lambda m: gp.run(m, {"x": np.ones((1, 64), np.float32)}), id="run"),
        pytest.param(lambda m: gp.compare(m, m), id="compare"),
        pytest.param(gp.to_onnx, id="to_onnx"),
        pytest.param(lambda m: gp.cast(m, "float16"), id="cast"),
    ],
)
def test_a_file_that_changed_is_a_diagnostic(source, use):
    loaded = gp.load(source)
    with source.open("r+b") as file:
        file.truncate(1000)
    with pytest.raises(gp.DiagnosticError, match="was changed or replaced after it was opened") as caught:
        use(loaded)
    assert caught.value.diagnostics[0].code == "IO0015"
    assert isinstance(caught.value, OSError), "as before"


def test_a_report_names_files_without_their_folders(source):
    page = gp.report(gp.load(source)).html()
    assert "m.onnx" in page
    assert str(source.parent) not in page
