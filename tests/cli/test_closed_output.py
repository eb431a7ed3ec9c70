"""A model that goes to a standard output whose reader leaves early."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from tests.models import model, node, typed, write_onnx


@pytest.mark.skipif(os.name != "posix", reason="pipes as POSIX has them")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_is_closed_early_is_an_error(tmp_path, unbuffered):
    weights = {"w": np.ones((1000, 500), np.float32)}
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    source = write_onnx(tmp_path / "m.onnx", model(nodes, [typed("x", [1, 1000])], [typed("y", [1, 500])], weights))
    command = [sys.executable, "-m", "graphport", "convert", str(source), "-", "--to", "onnx", "--no-verify"]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    told = process.stderr.read().decode()
    process.stderr.close()
    assert process.wait() == 1
    assert "error[IO0014]: standard output was closed before all" in told
    assert "written to" not in told
