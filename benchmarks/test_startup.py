"""Startup time: processor time compared with a Python process that imports NumPy."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROUNDS = 9
NUMPY = [sys.executable, "-c", "import numpy"]
GRAPHPORT = str(Path(sys.executable).with_name("graphport"))


def processor_time(command: list[str]) -> float:
    """Return the user and system time of one run in seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize(
    ("name", "command", "most"),
    [
        ("import graphport", [sys.executable, "-c", "import graphport"], 1.3),
        ("graphport --help", [GRAPHPORT, "--help"], 1.5),
        ("graphport check --help", [GRAPHPORT, "check", "--help"], 1.5),
    ],
)
def test_beginning_costs_little_more_than_numpy(benchmark, figure, name, command, most):
    # Alternate the commands, so that other load affects both.
    pairs = [(processor_time(command), processor_time(NUMPY)) for _ in range(ROUNDS)]
    ratio = min(ours for ours, _ in pairs) / min(numpy for _, numpy in pairs)
    benchmark.extra_info["ratio"] = ratio
    figure(f"{name} against import numpy", ratio, f"at most {most}")
    benchmark.pedantic(processor_time, [command], rounds=1)
    assert ratio <= most
