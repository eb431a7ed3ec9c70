"""Runs that a verb starts by itself end at limits of time and memory, in every backend."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import graphport as gp
from graphport.backends import prepare
from graphport.runtimes.run_limits import RunLimitError, limited
from tests.core.test_child_process import ended

REASON = "did not finish within 1 s; set GRAPHPORT_LIMITS=proof.seconds=N to raise the limit"


def looping(iterations: int = 1 << 40, *, stacked: int = 0) -> gp.Model:
    """A loop that adds 1 each time; with `stacked` one without a trip count, of whose iterations so much is kept."""
    of = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("Add", ["a", "one"], ["a2"])]
    results = [of("c2", TensorProto.BOOL, []), of("a2", TensorProto.FLOAT, [2])]
    if stacked:
        nodes.append(helper.make_node("ConstantOfShape", ["many"], ["s"]))
        results.append(of("s", TensorProto.FLOAT, [stacked]))
    given = [of("i", TensorProto.INT64, []), of("c", TensorProto.BOOL, []), of("a", TensorProto.FLOAT, [2])]
    body = helper.make_graph(nodes, "body", given, results)
    names = ["y", "all"][: 1 + bool(stacked)]
    loop = helper.make_node("Loop", ["" if stacked else "m", "t", "x"], names, body=body)
    outputs = [of("y", TensorProto.FLOAT, [2]), of("all", TensorProto.FLOAT, ["n", stacked])][: len(names)]
    constants = [
        helper.make_tensor("m", TensorProto.INT64, [], [iterations]),
        helper.make_tensor("t", TensorProto.BOOL, [], [True]),
        helper.make_tensor("one", TensorProto.FLOAT, [2], [1.0, 1.0]),
        helper.make_tensor("many", TensorProto.INT64, [1], [stacked]),
    ]
    graph = helper.make_graph([loop], "g", [of("x", TensorProto.FLOAT, [2])], outputs, constants)
    return gp.from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


@pytest.fixture
def one_second(monkeypatch):
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.seconds=1")


@pytest.mark.parametrize("backend", ["onnxruntime", "reference", "litert"])
def test_a_run_is_stopped_when_its_time_is_over(one_second, backend):
    graph = looping().graph
    session = prepare(graph, backend)
    began = time.monotonic()
    with limited(None) as limits:
        with pytest.raises(RunLimitError, match=REASON):
            session.run({"x": np.ones(2, np.float32)})
        assert time.monotonic() - began < 20
        again = time.monotonic()
        with pytest.raises(RunLimitError, match=REASON):
            session.run({"x": np.ones(2, np.float32)})
        assert time.monotonic() - again < 0.5, "no further run is begun"
    assert limits.reason is not None


def test_a_loop_that_openvino_would_not_leave_is_not_begun(one_second):
    with limited(None), pytest.raises(RunLimitError, match="a loop may run more than 65536 iterations"):
        prepare(looping().graph, "openvino")
    with limited(None):
        assert prepare(looping(8).graph, "openvino").run({"x": np.ones(2, np.float32)})["y"].tolist() == [9, 9]


@pytest.mark.skipif(sys.platform != "linux", reason="the memory of a process is known on Linux")
@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_run_above_the_memory_limit_is_stopped(monkeypatch, backend):
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.seconds=60,proof.memory=1000000")
    graph = looping(stacked=1 << 16).graph
    with limited(1) as limits:
        limits.size = None  # the estimate knows nothing of what a loop keeps
        session = prepare(graph, backend)
        with pytest.raises(RunLimitError, match="exceeded the memory limit"):
            session.run({"x": np.ones(2, np.float32)})


def test_run_with_an_estimate_above_the_limit_is_not_started():
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    shape = helper.make_tensor("shape", TensorProto.INT64, [1], [1 << 30])
    nodes = [helper.make_node("Expand", ["x", "shape"], ["e"]), helper.make_node("ReduceSum", ["e"], ["y"])]
    model = gp.from_onnx(helper.make_model(helper.make_graph(nodes, "g", [x], [y], [shape])))
    with limited(100), pytest.raises(RunLimitError, match=r"was not started: the arrays of a run need about \d+ MiB"):
        prepare(model.graph, "onnxruntime")


@pytest.mark.parametrize("backend", ["onnxruntime", "reference"])
def test_a_run_with_too_many_products_is_not_begun(backend):
    side = 1 << 12
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [side, 64])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0]),
        helper.make_node("MatMul", ["x", "t"], ["square"]),
        helper.make_node("ReduceSum", ["square"], ["y"]),
    ]
    model = gp.from_onnx(helper.make_model(helper.make_graph(nodes, "g", [x], [y])))
    with limited(None) as limits:
        limits.seconds = 1e-3
        with pytest.raises(RunLimitError, match=r"multiply-accumulates, the limit is [\d,]+"):
            prepare(model.graph, backend)


@pytest.mark.parametrize(
    "verb",
    [
        pytest.param(lambda model: gp.compare(model, model), id="compare"),
        pytest.param(lambda model: gp.find_difference(model, model), id="find_difference"),
        pytest.param(lambda model: gp.quantize(model, weights_only=True), id="quantize"),
        pytest.param(gp.latency, id="latency"),
    ],
)
def test_a_verb_that_needs_the_run_reports_the_limit(one_second, verb):
    with pytest.raises(gp.DiagnosticError, match=REASON):
        verb(looping())


def test_a_verb_that_does_without_the_run_reports_it(one_second):
    model = looping()
    report = gp.cast(model, "bfloat16").report
    assert report.snr_db is None
    assert any(REASON in finding.message for finding in report.findings)
    assert any(REASON in str(note) for note in gp.report(model, model).document["notes"])


def test_a_run_that_its_user_requested_has_no_limit(monkeypatch):
    monkeypatch.setenv("GRAPHPORT_LIMITS", "proof.seconds=0")
    assert gp.run(looping(8), {"x": np.ones(2, np.float32)}, backend="reference")["y"].tolist() == [9, 9]


@pytest.mark.parametrize("target", ["o.onnx", "o.xml", "o.tflite"])
def test_a_proof_that_does_not_finish_leaves_the_file_unverified(tmp_path, one_second, target):
    source = tmp_path / "loop.onnx"
    gp.save(looping(), source)
    report = gp.convert(source, tmp_path / target)
    assert (tmp_path / target).exists()
    assert report.skipped is not None
    assert report.skipped.endswith(REASON)


@pytest.mark.skipif(sys.platform != "linux", reason="processes are listed in /proc")
def test_no_runtime_outlives_a_proof_that_is_killed(tmp_path):
    source = tmp_path / "loop.onnx"
    gp.save(looping(), source)
    command = [sys.executable, "-m", "graphport", "convert", str(source), str(tmp_path / "o.xml")]
    program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while not (runtimes := _computing(program.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert runtimes, "a runtime computes the loop"
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    assert all(ended(runtime) for runtime in runtimes)


def _computing(program: int) -> list[int]:
    """The children of a program that have computed for more than two seconds."""
    tasks = Path(f"/proc/{program}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [child for child in children if _seconds(child) > 2]


def _seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
