"""Private memory of each verb on a large file is bounded, independently of the size of the weights."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from benchmarks.files import onnx_products

MATRICES, SIZE = 60, 2048
"""1 GB of weights."""
MOST = 150
"""Limit in megabytes of private memory; pages of the mapped file, which the system can evict, do not count."""
GRAPHPORT = str(Path(sys.executable).with_name("graphport"))

VERBS = {
    "check": ("check", "{}"),
    "shapes": ("shapes", "{}"),
    "inspect": ("inspect", "{}"),
    "report": ("report", "{}", "-o", "{}.html"),
    "simplify": ("simplify", "{}", "{}.s.onnx", "--no-verify"),
    "prepare": ("prepare", "{}", "{}.p.onnx", "--no-verify"),
    "cut": ("cut", "{}", "{}.t.onnx", "--to", "v30", "--no-verify"),
    "run": ("run", "{}", "--backend", "reference"),
    "compare": ("compare", "{}", "{}", "--backend", "reference"),
    "to ONNX": ("convert", "{}", "{}.c.onnx", "--no-verify"),
    "to IR": ("convert", "{}", "{}.xml", "--no-verify"),
    "to NNEF": ("convert", "{}", "{}.nnef.tar", "--no-verify"),
    "to PNNX": ("convert", "{}", "{}.pnnx.param", "--no-verify"),
    "to ncnn": ("convert", "{}", "{}.ncnn.param", "--no-verify"),
    "to TFLite": ("convert", "{}", "{}.tflite", "--no-verify"),
    "to an archive": ("convert", "{}", "{}.graphport", "--no-verify"),
}
"""Verbs without the memory of a runtime: those that compute use the reference backend."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return onnx_products(tmp_path_factory.mktemp("large") / "large.onnx", MATRICES, SIZE)


def private(command: list[str]) -> float:
    """Return the peak of private memory of a command in megabytes, sampled every 10 ms."""
    most = 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        status = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            held = [line.split()[1] for line in status.read_text().splitlines() if line.startswith("RssAnon")]
            most = max(most, *map(int, held), 0)
            time.sleep(0.01)
        said = process.stderr.read() if process.stderr else ""
    assert process.returncode == 0, said[-500:]
    return most / 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="private memory is told by Linux")
@pytest.mark.parametrize("verb", VERBS)
def test_the_weights_are_not_held(large, figure, verb):
    found = private([GRAPHPORT, *(word.replace("{}", str(large)) for word in VERBS[verb])])
    for written in large.parent.glob("large.onnx.*"):
        written.unlink()
    figure(f"{verb} of 1 GB, MB", found, f"at most {MOST}")
    assert found <= MOST
