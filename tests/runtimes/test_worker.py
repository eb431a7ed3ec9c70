"""A runtime in a separate process that crashes or does not respond."""

from __future__ import annotations

import os
import time
from types import SimpleNamespace

import numpy as np
import pytest

from graphport.backends.latency import measure_interleaved
from graphport.core.diagnostics import DiagnosticError
from graphport.runtimes.worker import Worker, trips


def test_worker_exit_without_result_is_reported():
    with pytest.raises(DiagnosticError) as caught:
        Worker("nothing", "graphport.backends.interpreter", [])
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0003"
    assert finding.message == "nothing does not load the model: its process exited with 0"


PROGRAM = """
import time
from graphport.runtimes.worker import serve

def load():
    def compute(arrays):
        time.sleep(0.02)
        return arrays
    return compute

serve(load)
"""


def test_the_way_to_a_process_is_no_time_of_its_runtime(tmp_path, monkeypatch):
    (tmp_path / "sleeping.py").write_text(PROGRAM)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    worker = Worker("sleeping", "sleeping", [])
    (x,) = arrays = [np.ones(1 << 21, np.float32)]
    with trips() as lost:
        began = time.perf_counter()
        (found,) = worker.run(arrays)
        whole = time.perf_counter() - began
    np.testing.assert_array_equal(found, x)
    # The remainder includes the 20 ms of sleep, independently of the transfer time of 8 MiB.
    assert 0 < lost.seconds < whole - 0.02
    (measured,) = measure_interleaved([lambda: worker.run(arrays)], seconds=0.0, least=3)
    began = time.perf_counter()
    worker.run(arrays)
    assert 20 <= measured.least < 20 + 1e3 * (time.perf_counter() - began)
    assert worker.run(arrays)[0].size == x.size


COUNTING = """
import os
from graphport.runtimes.worker import RefusedError, serve

def load(name, count):
    if name == "no":
        raise RefusedError("no")
    def compute(arrays):
        if name == "end":
            os._exit(3)
        return [arrays[0] * int(count), arrays[0] * 0 + os.getpid()]
    return compute

serve(load)
"""


@pytest.fixture
def counting(tmp_path, monkeypatch):
    """Return a constructor of workers whose runtime returns the id of its process."""
    (tmp_path / "counting.py").write_text(COUNTING)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]))
    monkeypatch.setattr("graphport.runtimes.worker._IDLE", {})
    return lambda *arguments: Worker("counting", "counting", arguments)


def test_idle_worker_process_is_reused(counting):
    ones = [np.ones(1)]
    first, beside = counting("a", "2"), counting("b", "3")
    (two, one_process), (three, other_process) = first.run(ones), beside.run(ones)
    assert (two, three) == (2, 3)
    assert one_process != other_process
    del first
    assert counting("c", "4").run(ones) == [4, one_process]  # after its last user is gone
    with pytest.raises(DiagnosticError, match="counting does not load the model: no"):
        counting("no", "1")
    assert counting("d", "5").run(ones) == [5, one_process]
    assert beside.run(ones) == [3, other_process]


def test_exited_worker_reports_its_exit_status(counting):
    ones = [np.ones(1)]
    (_, one_process) = counting("a", "2").run(ones)
    ending = counting("end", "2")
    for _ in range(2):
        with pytest.raises(DiagnosticError, match="its process exited with 3") as caught:
            ending.run(ones)
        assert caught.value.diagnostics[0].code == "RUN0005"
    del ending
    (six, process) = counting("a", "6").run(ones)
    assert six == 6
    assert process != one_process


def test_killed_idle_worker_is_not_reused(counting):
    (_, process) = counting("a", "2").run([np.ones(1)])
    os.kill(int(process[0]), 9)
    (seven, other) = counting("a", "7").run([np.ones(1)])
    assert seven == 7
    assert other != process


def test_forked_program_starts_new_workers(counting, monkeypatch):
    (_, process) = counting("a", "2").run([np.ones(1)])
    monkeypatch.setattr("graphport.runtimes.worker.os", SimpleNamespace(getpid=lambda: -1))
    (eight, other) = counting("a", "8").run([np.ones(1)])
    assert eight == 8
    assert other != process


def test_trips_are_counted_in_the_innermost_context():
    with trips() as outer:
        with trips() as inner:
            inner.seconds += 1
        assert outer.seconds == 0
