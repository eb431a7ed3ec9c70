"""Runs are timed on the runtimes that are there, models in turns."""

from __future__ import annotations

import json
import time
from importlib import import_module

import onnx
import pytest
from click.testing import CliRunner

from graphport.backends import BACKENDS
from graphport.backends.latency import measure_interleaved
from graphport.cli.main import cli
from tests.models import model, node


@pytest.fixture
def nets(tmp_path):
    for name, count in (("short", 1), ("long", 40)):
        nodes = [node("Relu", ["x" if i == 0 else f"v{i - 1}"], [f"v{i}"], name=f"n{i}") for i in range(count)]
        onnx.save(model(nodes, [("x", (1, 64))], [(f"v{count - 1}", (1, 64))]), tmp_path / f"{name}.onnx")
    return str(tmp_path / "short.onnx"), str(tmp_path / "long.onnx")


def bench(*arguments):
    result = CliRunner().invoke(cli, ["bench", *arguments, "--seconds", "0.05", "--json"])
    return result.exit_code, json.loads(result.output)


def test_models_are_timed_in_turns(nets):
    code, found = bench(*nets, "--backend", "onnxruntime", "--threads", "1")
    assert code == 0
    short, long = found["runtimes"]["onnxruntime"]
    assert short["runs"] == long["runs"] >= 5
    for each in (short, long):
        assert each["least_ms"] <= each["p10_ms"] <= each["median_ms"] <= each["p90_ms"]
        assert each["per_second"] == pytest.approx(1e3 / each["median_ms"])


@pytest.mark.parametrize("backend", ["onnxruntime", "openvino", "ncnn", "litert"])
def test_bench_times_the_default_mode_of_the_backend(nets, monkeypatch, backend):
    """What is computed to compare is more exact, and takes twice the time where weights are bytes."""
    pytest.importorskip(BACKENDS[backend].package)
    module = import_module(BACKENDS[backend].module)
    told, real = [], module.prepare
    monkeypatch.setattr(
        module, "prepare", lambda *given, **rest: told.append(rest.get("quick")) or real(*given, **rest)
    )
    assert bench(*nets, "--backend", backend)[0] == 0
    assert told == [True, True]


def test_nodes_are_timed_by_the_profile(nets):
    code, found = bench(nets[0], "--nodes", "--backend", "onnxruntime")
    assert code == 0
    ((kernel,),) = found["nodes"]
    assert kernel["operator"] == "Relu"
    assert kernel["microseconds"] >= 0


def test_model_that_no_runtime_supports_is_reported(tmp_path):
    proto = model([node("Unheard", ["x"], ["y"], domain="far")], [("x", (1,))], [("y", (1,))], domains={"far": 1})
    onnx.save(proto, tmp_path / "far.onnx")
    code, found = bench(str(tmp_path / "far.onnx"))
    assert code == 1
    assert found["runtimes"] == {}
    assert "RUN0003" in {finding["code"] for each in found["failed"].values() for finding in each}


def test_measure_interleaved_ranks_by_duration():
    quick, slow = measure_interleaved([lambda: time.sleep(0.001), lambda: time.sleep(0.02)], 0.1)
    assert quick.median < slow.median
    assert slow.least >= 19
