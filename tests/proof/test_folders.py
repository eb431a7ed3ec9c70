"""Runtimes that are reused between proofs resolve relative file names in other folders."""

from __future__ import annotations

import graphport as gp
from tests.models import perceptron, write_onnx


def test_relative_path_uses_the_current_working_directory(tmp_path, monkeypatch):
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        write_onnx(folder / f"{name}.onnx", perceptron())
        gp.convert(f"{name}.onnx", f"{name}.xml", verify=False)
        proof = gp.verify(f"{name}.onnx", f"{name}.xml")
        assert proof.passed
        assert {each.runtime for each in proof.witnesses if each.is_own and each.ran} >= {"onnxruntime", "openvino"}
