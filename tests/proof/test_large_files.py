"""Files that are large are loaded by one runtime at a time, with the same verdict from the standard test inputs."""

from __future__ import annotations

import sys
import tracemalloc

import numpy as np
import pytest
from onnx import TensorProto

import graphport as gp
from graphport.api.verify import side
from graphport.core.child_process import resident_bytes
from graphport.proof import judge
from graphport.proof.process import Process
from graphport.proof.runners import NativeRunner
from graphport.proof.runtimes import RUNTIMES
from graphport.proof.segments import extraction
from tests.models import write_onnx
from tests.passes.cases import info, model, node


@pytest.fixture
def net(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "y")]
    weight = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    return write_onnx(tmp_path / "net.onnx", model(nodes, [info("x", ["N", 8])], [info("y", None)], {"w": weight}))


def test_large_file_is_loaded_by_one_runtime_at_a_time(net, tmp_path, monkeypatch):
    gp.convert(net, tmp_path / "net.xml")
    usual = gp.verify(net, tmp_path / "net.xml")
    held: list[int] = []
    loaded: set[NativeRunner] = set()
    load, close = NativeRunner.load, NativeRunner.close

    def count(runner):
        load(runner)
        loaded.add(runner)
        held.append(len(loaded))

    def release(runner):
        loaded.discard(runner)
        close(runner)

    monkeypatch.setattr(judge, "MAX_SIDE_BY_SIDE", 0)
    monkeypatch.setattr(NativeRunner, "load", count)
    monkeypatch.setattr(NativeRunner, "close", release)
    proof = gp.verify(net, tmp_path / "net.xml")
    assert proof.verdict == usual.verdict
    assert max(held) == 1
    standard = [run.input for run in proof.runs]
    assert set(standard) == {f"{kind} (N={size})" for kind in ("normal", "edges", "integers") for size in (1, 3)}
    assert [run.input for run in usual.runs][: len(standard)] == standard, "further sizes come after the standard ones"


def test_difference_in_a_large_file_is_found(net, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MAX_SIDE_BY_SIDE", 0)
    weight = np.ones((8, 4), np.float32)
    gp.save(gp.edit(gp.load(net), weights={"w": weight}), tmp_path / "wrong.onnx")
    assert gp.verify(net, tmp_path / "wrong.onnx").failed


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_float64_weights_are_not_retained(dtype, tmp_path):
    weight = np.random.default_rng(0).normal(size=(1024, 1025)).astype(dtype)
    kind = TensorProto.FLOAT16 if dtype is np.float16 else TensorProto.FLOAT
    nodes = [node("MatMul", "x w", "y")]
    net = model(nodes, [info("x", [1, 1024], kind)], [info("y", None, kind)], {"w": weight})
    graph = side("a", gp.load(write_onnx(tmp_path / "net.onnx", net)), label="a").graph
    x = np.ones((1, 1024), dtype)
    tracemalloc.start()
    try:
        cuts = [extraction.widen(graph.outputs[0], graph.inputs) for _ in range(3)]
        found = [extraction.evaluate(each, [x], is_wide=True) for each in cuts]
        assert tracemalloc.get_traced_memory()[0] < weight.size * 8
    finally:
        tracemalloc.stop()
    for each in found:
        np.testing.assert_allclose(each, np.sum(weight.astype(np.float64), 0, keepdims=True), rtol=1e-12)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_process_returns_the_memory_of_a_released_file(tmp_path):
    weights = {f"w{i}": np.full((1024, 1024), i + 1, np.float32) for i in range(16)}
    nodes = [node("MatMul", f"v{i} w{i}", f"v{i + 1}") for i in range(16)]
    net = model(nodes, [info("v0", [1, 1024])], [info("v16", None)], weights)
    process = Process(RUNTIMES["onnx"])
    held = []
    for _ in range(2):
        process.ask_to_load(str(write_onnx(tmp_path / "net.onnx", net)), 0)
        process.finish_loading()
        held.append(resident_bytes(process.pid))
        process.drop()
        held.append(resident_bytes(process.pid))
    process.end()
    assert held[0] - held[1] > 60 << 20
    assert held[3] < held[1] + (8 << 20)
