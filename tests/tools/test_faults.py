"""The fault injection tool: its classification of results, and one writer."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent.parent / "tools"


@pytest.fixture(scope="module")
def faults():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        yield importlib.import_module("faults")


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ({"m.xml": b"1", "m.bin": b"1"}, "old"),
        ({"m.xml": b"2", "m.bin": b"2"}, "new"),
        ({"m.xml": b"1", "m.bin": b"2"}, "MIXED"),
        ({"m.bin": b"2"}, "part"),
        ({}, "part"),
    ],
)
def test_mixtures_and_losses_are_distinguished_from_old_and_new(faults, found, state):
    old, new = {"m.xml": b"1", "m.bin": b"1"}, {"m.xml": b"2", "m.bin": b"2"}
    assert faults._state(found, old, new) == state


def test_files_of_one_command_form_one_set(faults):
    old, new = {"m.ncnn.param": b"1", "m.pnnx.param": b"1"}, {"m.ncnn.param": b"2", "m.pnnx.param": b"2"}
    assert faults._state({"m.ncnn.param": b"1", "m.pnnx.param": b"2"}, old, new) == "MIXED"
    assert faults._state({"m.pnnx.param": b"2"}, old, new) == "part"


@pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="a shim for Linux is compiled")
def test_a_writer_is_refused_interrupted_and_killed_at_calls_of_the_system():
    command = [sys.executable, TOOLS / "faults.py", "--only", "convert .xml", "--most", "3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    *rows, _ = done.stdout.splitlines()
    for fault in ("kill", "SIGTERM", "SIGHUP", "SIGINT", "ENOSPC", "EIO", "EACCES"):
        row = next(row for row in rows if fault in row)
        assert " new" in row
        assert " old" in row
