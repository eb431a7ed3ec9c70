"""Models from bytes or open files equal those of their paths, and leave no temporary files."""

from __future__ import annotations

import io
import tempfile

import numpy as np
import pytest

import graphport as gp
from tests.models import NNEF, perceptron, write_onnx


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    source = gp.load(write_onnx(tmp_path / "net.onnx", perceptron()), shapes={"x": [1, 4]})
    for name in ("fixed.onnx", "net.tflite", "net.nnef.tgz", "net.graphport"):
        gp.save(source, tmp_path / name)
    return [tmp_path / name for name in ("fixed.onnx", "net.tflite", "net.nnef.tgz", "net.graphport")]


def test_bytes_and_open_files_are_loaded_with_weights(files, tmp_path):
    x = np.ones((1, 4), np.float32)
    for file in files:
        expected = gp.run(gp.load(file), {"x": x}, backend="reference").ordered[0]
        with file.open("rb") as opened:
            for given in (file.read_bytes(), io.BytesIO(file.read_bytes()), opened):
                model = gp.load(given)
                assert model.path is None
                found = gp.run(model, {"x": x}, backend="reference").ordered[0]
                np.testing.assert_array_equal(found, expected, str(file))
                # What reads weights in pieces finds them, too.
                gp.save(model, tmp_path / "again.onnx")
        assert list((tmp_path / "temporary").iterdir()) == []


def test_findings_name_no_temporary_file():
    found = gp.check(NNEF.replace("relu", "rellu").encode())
    assert found
    assert all(finding.span is not None and finding.span.file == "<bytes>" for finding in found)
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(b"nothing that is known")
    assert "graphport-" not in str(caught.value)


def test_format_argument_overrides_detection():
    text = b"graph net( x ) -> ( y ) { x = external(shape = [2]); y = relu(x); }"
    assert [finding.code for finding in gp.check(text)] == ["IO0002"]
    assert "IO0002" not in [finding.code for finding in gp.check(text, format="nnef")]
    with pytest.raises(gp.DiagnosticError, match="did you mean nnef"):
        gp.load(text, format="nnf")


def test_a_path_is_no_file_of_its_bytes(tmp_path):
    with pytest.raises(gp.DiagnosticError) as caught:
        gp.load(str(tmp_path / "missing.onnx"))
    assert caught.value.diagnostics[0].code == "IO0001"
