"""JAX as the native runtime of files of `jax.export`, where it is installed or `GRAPHPORT_PYTHON_JAX` names its Python."""

import subprocess
import sys
from pathlib import Path

import pytest

from graphport.proof.runtimes import RUNTIMES

CASES = Path(__file__).parent / "cases"


@pytest.mark.skipif(not RUNTIMES["stablehlo"].is_installed, reason="jax is not installed")
def test_a_conversion_is_verified_against_jax(tmp_path):
    file = CASES / "symbolic.jaxexport"
    command = [sys.executable, "-m", "graphport", "convert", str(file), str(tmp_path / "m.onnx")]
    found = subprocess.run(command, check=False, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert f"JAX on {file.name} and ONNX Runtime on m.onnx agree" in found.stdout + found.stderr
