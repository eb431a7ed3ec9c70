"""What becomes of a runtime in a process of its own that does not answer."""

from __future__ import annotations

import os
import time

import numpy as np
import pytest

from graphport.backends.latency import in_turns
from graphport.backends.subprocess import Worker, trips
from graphport.core.diagnostics import DiagnosticError


def test_a_process_that_ends_without_an_answer_is_told():
    with pytest.raises(DiagnosticError) as caught:
        Worker("nothing", "graphport.backends.pages", [])
    (finding,) = caught.value.diagnostics
    assert finding.code == "RUN0003"
    assert finding.message == "nothing does not load the model: it gave up, and its process ended with 0"


PROGRAM = """
import time
from graphport.backends.subprocess import serve

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
    # What is left is the 20 ms that it slept, however long 8 MiB took there and back.
    assert 0 < lost.seconds < whole - 0.02
    (measured,) = in_turns([lambda: worker.run(arrays)], seconds=0.0, least=3)
    began = time.perf_counter()
    worker.run(arrays)
    assert 20 <= measured.least < 20 + 1e3 * (time.perf_counter() - began)
    assert worker.run(arrays)[0].size == x.size


def test_ways_are_counted_for_the_innermost_alone():
    with trips() as outer:
        with trips() as inner:
            inner.seconds += 1
        assert outer.seconds == 0
