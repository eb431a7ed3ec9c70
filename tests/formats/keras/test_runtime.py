"""Keras as the native runtime of Keras files, where it is installed or `GRAPHPORT_PYTHON_KERAS` names its Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from graphport.proof.runtimes import RUNTIMES

MODEL = Path(__file__).parent / "models" / "masked_encoder.keras"


@pytest.mark.skipif(not RUNTIMES["keras"].is_installed, reason="keras is not installed")
def test_a_conversion_is_verified_against_keras(tmp_path):
    command = [sys.executable, "-m", "graphport", "convert", str(MODEL), str(tmp_path / "m.onnx")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert "Keras on masked_encoder.keras and ONNX Runtime on m.onnx agree" in found.stdout + found.stderr
