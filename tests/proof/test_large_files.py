"""Files that are large are loaded by one runtime at a time, with the same verdict from the standard test inputs."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.proof import judge
from graphport.proof.runners import NativeRunner
from tests.models import write_onnx
from tests.passes.cases import info, model, node


@pytest.fixture
def net(tmp_path):
    nodes = [node("MatMul", "x w", "h"), node("Tanh", "h", "y")]
    weight = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)
    return write_onnx(tmp_path / "net.onnx", model(nodes, [info("x", ["N", 8])], [info("y", None)], {"w": weight}))


def test_one_runtime_holds_a_file_at_a_time(net, tmp_path, monkeypatch):
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


def test_a_difference_is_found(net, tmp_path, monkeypatch):
    monkeypatch.setattr(judge, "MAX_SIDE_BY_SIDE", 0)
    weight = np.ones((8, 4), np.float32)
    gp.save(gp.edit(gp.load(net), weights={"w": weight}), tmp_path / "wrong.onnx")
    assert gp.verify(net, tmp_path / "wrong.onnx").failed
