"""The memory limit of a run relative to the size of the file, and the accuracy of the estimate."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import graphport as gp
from graphport.backends import prepare
from graphport.runtimes import memory
from tests.models import write_onnx
from tests.passes.cases import info, model, node

MB = 1 << 20


def chain(*nodes):
    """Return a model of an input scalar, expanded to 1 MiB."""
    shape = np.array([MB // 4], np.int64)
    proto = model([node("Expand", "x n", "a"), *nodes], [info("x", [1])], [info("y", None)], {"n": shape})
    return gp.load(proto.SerializeToString())


@pytest.mark.parametrize(
    ("nodes", "count"),
    [
        pytest.param([node("Tanh", "a", "y")], 3, id="one after another"),
        pytest.param([node("Tanh", "a", "b"), node("Exp", "b", "c"), node("Sin", "c", "y")], 3, id="as long as read"),
        pytest.param([node("Tanh", "a", "b"), node("Exp", "b", "c"), node("Sum", "a b c", "y")], 5, id="read again"),
        pytest.param([node("Tanh", "a", "b"), node("Exp", "a", "y")], 3, id="read by nobody"),
    ],
)
def test_memory_estimate_includes_values_with_later_consumers(nodes, count):
    told = memory.estimate_proof_bytes(chain(*nodes).graph, {}) - 2 * MB
    assert told / MB == pytest.approx(count, abs=0.01)


def test_a_run_holds_no_more_than_is_reported():
    nodes = [node("Tanh", "a", "b"), node("Exp", "b", "c"), node("Sin", "c", "d"), node("Mul", "d b", "y")]
    graph = chain(*nodes, node("Cos", "a", "unread")).graph
    session = prepare(graph, "reference")
    tracemalloc.start()
    try:
        session.run({"x": np.ones(1, np.float32)})
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 3 * MB < most < memory.estimate_proof_bytes(graph, {}) - 2 * MB + MB / 2


def test_memory_limit_grows_with_the_file_size(tmp_path, monkeypatch):
    graph = chain(node("Tanh", "a", "y")).graph
    monkeypatch.setenv("GRAPHPORT_LIMITS", f"proof.memory={4 * MB}")
    assert "the limit for a file of 100 bytes is 4 MiB; set GRAPHPORT_LIMITS=proof.memory=N to raise it" in str(
        memory.excess(graph, {}, 100)
    )
    assert memory.excess(graph, {}, 2 << 10) is None
    assert memory.excess(graph, {}, None) is None


def test_the_size_of_a_model_is_that_of_its_files(tmp_path):
    weights = {"w": np.ones((64, 64), np.float32)}
    proto = model([node("MatMul", "x w", "y")], [info("x", [1, 64])], [info("y", None)], weights)
    path = write_onnx(tmp_path / "m.onnx", proto)
    gp.convert(path, tmp_path / "o.onnx", verify=False, external_data=True)
    for name in ("o.onnx", "o.xml", "o.ncnn.param"):
        if name != "o.onnx":
            gp.convert(path, tmp_path / name, verify=False)
        read = gp.load(tmp_path / name)
        assert memory.size_of(read.graph, read.path) > 64 * 64 * 4, name
    assert memory.size_of(gp.load(proto.SerializeToString()).graph, None) is None
