"""Reading, legalizing and writing ONNX models of many nodes, in processor time, beside the package onnx."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.conversion.legalize import legalize
from graphport.core.collection import paused_collection
from graphport.formats.onnx.reader import read
from graphport.ops.declare import OPSET
from graphport.ops.infer import infer

FEW, MANY = 10_000, 100_000
ROUNDS = 3
SECONDS = 1.5
"""What loading `MANY` nodes may take."""

WINDOW: dict[str, Any] = {
    "kernel_shape": [3, 3],
    "pads": [1, 1, 1, 1],
    "strides": [1, 1],
    "dilations": [1, 1],
    "group": 1,
}


def model(path: Path, count: int, opset: int) -> Path:
    """`count` nodes one behind the other, of six operators in turn, all with names."""
    nodes = []
    last = before = "x"
    for n in range(count):
        name, out = f"/layers.{n}/node", f"v{n}"
        match n % 6:
            case 0:
                node = helper.make_node("Conv", [last, "w", "b"], [out], name, **WINDOW)
            case 1:
                node = helper.make_node("Relu", [last], [out], name)
            case 2:
                node = helper.make_node("Add", [last, before], [out], name)
                before = out
            case 3:
                node = helper.make_node("LeakyRelu", [last], [out], name, alpha=0.1)
            case 4:
                node = helper.make_node("Mul", [last, "one"], [out], name)
            case _:
                node = helper.make_node("Sigmoid", [last], [out], name)
        nodes.append(node)
        last = out
    arrays = {"w": np.ones((8, 8, 3, 3), np.float32), "b": np.zeros(8, np.float32), "one": np.float32(1)}
    kind = helper.make_tensor_type_proto(TensorProto.FLOAT, ["N", 8, 16, 16])
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_value_info("x", kind)],
        [helper.make_value_info(last, kind)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items()],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    path.write_bytes(proto.SerializeToString())
    return path


@pytest.fixture(scope="module", params=[pytest.param(OPSET, id="pinned opset"), pytest.param(13, id="opset 13")])
def models(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The same model with `FEW` and with `MANY` nodes."""
    folder = tmp_path_factory.mktemp("onnx")
    return {count: model(folder / f"{count}.onnx", count, request.param) for count in (FEW, MANY)}


def seconds(work: Any, given: Any = lambda: None) -> float:
    """The least processor time of several rounds, each with something of its own."""
    found: list[float] = []
    for _ in range(ROUNDS):
        made = given()
        begin = time.process_time()
        work(made)
        found.append(time.process_time() - begin)
    return min(found)


def test_many_nodes_load_in_a_second_and_a_half(models, figure, benchmark):
    path = models[MANY]
    theirs = seconds(lambda _: onnx.load(path))
    for name, options in (("raw", {"raw": True}), ("canonical", {})):
        ours = seconds(lambda _, options=options: gp.load(path, **options))
        figure(f"load {name}: {ours:.2f} s, {ours / theirs:.1f} times onnx.load", ours, f"at most {SECONDS}")
        assert ours <= SECONDS
    benchmark.pedantic(lambda: gp.load(path), rounds=1)


@pytest.mark.parametrize("task", ["read", "legalize", "infer", "write"])
def test_a_node_takes_as_long_among_many_as_among_few(models, figure, tmp_path, task):
    def work(graph: Any) -> None:
        with paused_collection():
            match task:
                case "legalize":
                    legalize(graph, in_place=True)
                case "infer":
                    infer(graph)
                case "write":
                    gp.save(graph, tmp_path / "copy.onnx")
                case _:
                    read(graph)

    given: dict[str, Any] = {"legalize": read, "infer": lambda path: gp.load(path).graph, "write": gp.load}
    each: dict[int, float] = {}
    for count, path in models.items():
        made = given.get(task, lambda path: path)
        each[count] = seconds(work, lambda made=made, path=path: made(path)) / count * 1e6
    figure(f"{task}: {each[MANY]:.1f} µs a node, among {FEW:,} {each[FEW]:.1f}", each[MANY] / each[FEW], "about 1")
    assert each[MANY] < 2 * each[FEW]
