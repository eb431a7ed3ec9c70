"""Files that are damaged or made to do harm are found out within a second and 100 MB, each in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import NamedTuple

import pytest

from tests.formats.openvino.documents import Layer, parameter, write_ir
from tests.formats.openvino.hostile import KINDS, TOLD

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc"),
]
SECONDS, MEGABYTES = 1, 100
_PROGRAM = """
import json, sys, time
import graphport as gp

def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

gp.check(sys.argv[1])  # imports what it needs
before, start = peak(), time.process_time()
findings = gp.check(sys.argv[2])
print(json.dumps([len(findings), time.process_time() - start, peak() - before]))
"""


class Cost(NamedTuple):
    """What it took: findings, seconds of the processor, bytes beyond those of a small file."""

    findings: int
    seconds: float
    memory: int


def cost(sound, path):
    command = [sys.executable, "-W", "error", "-c", _PROGRAM, str(sound), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return Cost(*json.loads(done.stdout))


@pytest.mark.parametrize("kind", [*KINDS, *TOLD])
def test_hostile_file_is_rejected_within_1_s_and_100_mb(kind, tmp_path):
    sound = write_ir(tmp_path, [parameter("x", "1,4"), Layer("y", "opset1.ReLU", {}, ["x"])], ["y"])
    path = tmp_path / "hostile" / "model.xml"
    path.parent.mkdir()
    (KINDS | TOLD)[kind](path)
    found = cost(sound, path)
    assert found.findings
    assert found.seconds < SECONDS
    assert found.memory < MEGABYTES << 20
