"""Runtime processes: the diagnostic of a crash."""

from __future__ import annotations

import os
import signal
import sys

import numpy as np
import pytest

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from graphport.proof import process as processes
from graphport.proof.process import Listening, Process, UnansweredError, UnfinishedError
from graphport.proof.runners import NativeRunner
from graphport.proof.runtimes import Runtime
from graphport.proof.side import Side
from graphport.proof.test_inputs import make_test_input
from graphport.runtimes.run_limits import limited

LEAVING = """
import os, subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(20)"])
sys.stdin.buffer.read(8)
os._exit(3)
"""


ANSWERING = """
from graphport.runtimes.serve import Port, serve

class Echo:
    inputs = outputs = [Port("x")]

    def run(self, inputs, states):
        return [2 * value for value in inputs], states

serve("1", lambda path, settings: Echo())
"""


@pytest.fixture(
    params=[processes._EAR, Listening], ids=["as this system hears", "by a thread, as on Windows"], autouse=True
)
def ear(request, monkeypatch):
    monkeypatch.setattr(processes, "_EAR", request.param)


def test_large_results_are_received_completely(tmp_path, monkeypatch):
    (tmp_path / "answering.py").write_text(ANSWERING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    process = Process(Runtime("answering", "Answering", "numpy", "answering"))
    process.ask_to_load("nothing", 1)
    assert process.finish_loading().version == "1"
    value = np.arange(500_000, dtype=np.float32)
    process.ask_to_run([value, value[:0]], {})
    doubled, empty = process.answer().outputs
    assert np.array_equal(doubled, 2 * value)
    assert empty.size == 0
    process.end()


def test_a_runtime_that_does_not_finish_is_killed_at_the_limit(tmp_path, monkeypatch):
    (tmp_path / "silent.py").write_text("import time; time.sleep(60)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.seconds=1")
    process = Process(Runtime("silent", "Silent", "numpy", "silent"))
    with limited(None):
        process.ask_to_load("nothing", 1)
        with pytest.raises(UnfinishedError, match=r"did not finish within 1 s; set GRAPHPORT_LIMITS=proof\.seconds=N"):
            process.finish_loading()
    assert not process.is_alive


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="Windows stops no process")
@pytest.mark.parametrize("count", [1, 1 << 20], ids=["before it replies", "while it reads the inputs"])
def test_a_runtime_that_is_stopped_is_killed_at_the_limit(tmp_path, monkeypatch, count):
    (tmp_path / "answering.py").write_text(ANSWERING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    process = Process(Runtime("answering", "Answering", "numpy", "answering"))
    process.ask_to_load("nothing", 1)
    process.finish_loading()
    os.kill(process.pid, signal.SIGSTOP)
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.seconds=1")
    with limited(None):
        process.ask_to_run([np.zeros(count, np.float32)], {})
        with pytest.raises(UnfinishedError, match="did not finish within 1 s"):
            process.answer()
    assert not process.is_alive


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is known on Linux")
@pytest.mark.parametrize("watcher", ["the program", "the process itself"])
def test_runtime_above_the_memory_limit_is_killed(tmp_path, monkeypatch, watcher):
    grows = "import time\nimport numpy\n" + ANSWERING.replace(
        "return [", "numpy.ones(1 << 27); time.sleep(60); return ["
    )
    (tmp_path / "growing.py").write_text(grows)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.memory=1000000,proof.seconds=30")
    process = Process(Runtime("growing", "Growing", "numpy", "growing"))
    if watcher == "the process itself":
        monkeypatch.setattr(processes.child_process, "resident_bytes", lambda _process=None: 0)
    with limited(1):
        process.ask_to_load("nothing", 1)
        process.finish_loading()
        process.ask_to_run([np.zeros(1, np.float32)], {})
        with pytest.raises(UnfinishedError, match="exceeded the memory limit"):
            process.answer()
    assert not process.is_alive


def test_exit_is_detected_while_a_child_process_holds_the_pipes(tmp_path, monkeypatch):
    (tmp_path / "leaving.py").write_text(LEAVING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    process = Process(Runtime("leaving", "Leaving", "numpy", "leaving"))
    process.ask_to_load("nothing.onnx", 1)
    with pytest.raises(UnansweredError, match="its process ended with 3"):
        process.finish_loading()
    assert not process.is_alive


def test_request_to_an_exited_process_reports_its_exit_status(tmp_path, monkeypatch):
    (tmp_path / "ending.py").write_text("import os, sys; sys.stdin.buffer.read(8); os._exit(3)")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    process = Process(Runtime("ending", "Ending", "numpy", "ending"))
    for _ in range(2):
        process.ask_to_run([np.zeros(3, np.float32)], {})
        with pytest.raises(UnansweredError, match="its process ended with 3"):
            process.answer()


def test_crashed_runtime_is_restarted_for_other_sizes(tmp_path, monkeypatch):
    ends = "if len(inputs[0]) == 1:\n            os._exit(3)\n        return ["
    (tmp_path / "picky.py").write_text("import os\n" + ANSWERING.replace("return [", ends))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    graph = Graph()
    x = graph.add_input("x", TensorFact(DType.FLOAT32, (Symbol("N"),)))
    graph.add_output(graph.append(Node("Neg", [x], [Value("y", x.fact)])).output)
    side = Side("a", "net", graph, tmp_path / "net")
    witness = NativeRunner(side, Runtime("picky", "Picky", "numpy", "picky"))
    witness.load()
    for length in (2, 1, 3):
        witness.start_run(make_test_input(graph, "normal", {"N": length}, 0), side)
        if length == 1:
            with pytest.raises(UnansweredError, match="its process ended with 3"):
                witness.finish()
        else:
            assert witness.finish()[0].shape == (length,)
    witness.close()


def test_runtime_may_be_installed_in_another_python_environment(tmp_path, monkeypatch):
    """`GRAPHPORT_PYTHON_NUMPY` names a Python for the runtimes of the package `numpy`."""
    (tmp_path / "elsewhere.py").write_text(ANSWERING)
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexport PYTHONPATH="{tmp_path}"\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    monkeypatch.setenv("GRAPHPORT_PYTHON_NUMPY", str(other))
    runtime = Runtime("elsewhere", "Elsewhere", "numpy", "elsewhere")
    assert runtime.is_installed
    assert not runtime._replace(package="numpy_that_is_not_there").is_installed
    process = Process(runtime)
    process.ask_to_load("nothing", 1)
    assert process.finish_loading().version == "1"
    process.end()


@pytest.mark.skipif(os.name != "posix", reason="descriptors as POSIX has them")
def test_a_process_with_many_open_files_hears_its_runtimes():
    """`select.select` refuses descriptors from 1024 on."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the system allows fewer open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    source, sink = os.pipe()
    opened = [os.dup(source) for _ in range(1100)]
    try:
        with os.fdopen(os.dup(source), "rb", buffering=0) as stream:
            assert stream.fileno() > 1024
            place = bytearray(8)
            assert processes._Selecting(stream).read_into(memoryview(place), 0.01) is None  # pyright: ignore[reportPrivateUsage]
            os.write(sink, b"answer")
            assert processes._Selecting(stream).read_into(memoryview(place), 5) == len(b"answer")  # pyright: ignore[reportPrivateUsage]
    finally:
        for each in (*opened, source, sink):
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
