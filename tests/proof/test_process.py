"""Processes of runtimes: what is told of one that ends."""

from __future__ import annotations

import os

import pytest

from graphport.proof.process import Process, UnansweredError
from graphport.proof.runtimes import Runtime

LEAVING = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
sys.stdin.buffer.read(8)
os._exit(3)
"""


def test_a_runtime_that_ends_is_told_at_once_though_a_child_of_its_own_keeps_the_pipes_open(tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text(LEAVING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    process = Process(Runtime("leaving", "Leaving", "numpy", "leaving"))
    process.ask_to_load("nothing.onnx", 1)
    with pytest.raises(UnansweredError, match="its process ended with 3"):
        process.opened(15.0)
    assert not process.is_alive
