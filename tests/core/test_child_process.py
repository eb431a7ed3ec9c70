"""Processes of runtimes end with the program that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from graphport.core import child_process
from graphport.core.system import lives

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")

PROGRAM = """
import sys, time
from graphport.core import child_process
process = child_process.start_process("computing")
process.stdout.readline()
print(process.pid, flush=True)
time.sleep(60)
"""
COMPUTING = """
import sys, time
print(flush=True)
until = time.monotonic() + 60
while time.monotonic() < until:
    sum(range(100_000))
"""


def ended(process: int, seconds: float = 10.0) -> bool:
    """Whether a process ends within so many seconds; one that waits for its parent to look has ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not lives(process) or _is_zombie(process):
            return True
        time.sleep(0.05)
    return False


def _is_zombie(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return False


@pytest.fixture
def computing(tmp_path, monkeypatch):
    (tmp_path / "computing.py").write_text(COMPUTING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    return tmp_path


@pytest.mark.parametrize(
    "state",
    [
        pytest.param("computing", id="while it computes"),
        pytest.param("stopped", id="while it is stopped"),
        pytest.param("no death signal", id="without a death signal, as on macOS"),
    ],
)
def test_a_runtime_ends_when_its_program_is_killed(computing, state):
    if state == "stopped" and sys.platform != "linux":
        pytest.skip("only Linux has a death signal")
    if state == "no death signal":
        (computing / "sitecustomize.py").write_text("import sys; sys.platform = 'none'")
    program = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE)
    assert program.stdout is not None
    runtime = int(program.stdout.readline())
    if state == "stopped":
        os.kill(runtime, signal.SIGSTOP)
    assert not ended(runtime, 1.0)
    program.kill()
    program.wait()
    program.stdout.close()
    assert ended(runtime)


def test_a_runtime_outlives_the_thread_that_started_it(computing):
    started = []
    thread = threading.Thread(target=lambda: started.append(child_process.start_process("computing")))
    thread.start()
    thread.join()
    (process,) = started
    process.stdout.readline()
    time.sleep(0.5)
    assert process.poll() is None
    child_process.end(process, 0.1)
    assert process.poll() is not None


def test_child_exits_if_its_parent_ended_before_startup(computing):
    stranger = subprocess.Popen([sys.executable, "-c", ""])
    stranger.wait()
    command = [sys.executable, "-m", "graphport.core.child_process", str(stranger.pid), "computing"]
    assert subprocess.run(command, timeout=30, check=False, capture_output=True).returncode == 124


def test_the_system_ends_a_process_at_the_limit_of_processor_time(computing, monkeypatch):
    bounded = "from graphport.core import child_process\nchild_process._SPARE_SECONDS = 0\nchild_process.allow(1, 0)\n"
    (computing / "computing.py").write_text("import os\nos.cpu_count = lambda: 1\n" + bounded + COMPUTING)
    process = child_process.start_process("computing")
    assert process.wait(30) == -signal.SIGXCPU
    child_process.end(process)


def test_packages_of_a_runtime_module_are_not_imported():
    command = [sys.executable, "-P", "-X", "importtime", "-m", child_process.__name__, str(os.getpid())]
    command.append("graphport.formats.onnx.runtime_process")
    found = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True, timeout=60)
    imported = {line.rpartition("|")[2].strip() for line in found.stderr.splitlines()}
    assert "onnxruntime" in imported
    assert "graphport.formats" not in imported
