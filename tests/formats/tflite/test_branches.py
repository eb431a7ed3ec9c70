"""What a branch gives is its own: LiteRT's IF frees what a kernel has computed once, ahead of all runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from graphport.ir.graph import walk
from tests.formats.tflite.litert import LiteRT

if TYPE_CHECKING:
    from pathlib import Path

STORED: dict[str, Any] = {
    "c": np.arange(6, dtype=np.float32).reshape(2, 3),
    "shape": np.array([3, 2]),
    "counts": np.array([2, 1]),
    "places": np.array([1, 0]),
    "none": np.array([], np.int64),
}
BRANCHES: dict[str, list[tuple[str, list[str], dict[str, Any]]]] = {
    "itself": [("Identity", ["c"], {})],
    "reshaped": [("Reshape", ["c", "shape"], {})],
    "tiled": [("Tile", ["c", "counts"], {})],
    "gathered": [("Gather", ["c", "places"], {})],
    "joined": [("Concat", ["c", "c"], {"axis": 0})],
    "scalar": [("ReduceSum", ["c"], {"keepdims": 0}), ("Reshape", ["o0", "none"], {})],
    "given": [("Mul", ["c", "x"], {})],
}


def body(name: str, steps: list[tuple[str, list[str], dict[str, Any]]], offset: float) -> onnx.GraphProto:
    own = {key: array + np.float32(offset) if key == "c" else array for key, array in STORED.items()}
    stored = [numpy_helper.from_array(array, f"{name}_{key}") for key, array in own.items()]
    nodes = []
    for place, (op, operands, attributes) in enumerate(steps):
        names = [each if each == "x" else f"{name}_{each}" for each in operands]
        nodes.append(helper.make_node(op, names, [f"{name}_o{place}"], **attributes))
    return helper.make_graph(nodes, name, [], [onnx.ValueInfoProto(name=f"{name}_o{len(steps) - 1}")], stored)


def test_a_branch_gives_nothing_that_is_computed_from_constants_alone(tmp_path: Path) -> None:
    x = np.full((2, 3), 2, np.float32)
    ports = [
        helper.make_tensor_value_info("p", TensorProto.BOOL, []),
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
    ]
    with LiteRT() as run:
        for name, steps in BRANCHES.items():
            bodies = {f"{which}_branch": body(which, steps, place) for place, which in enumerate(("then", "else"))}
            node = helper.make_node("If", ["p"], ["y"], **bodies)
            graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name="y")])
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
            onnx.save(proto, tmp_path / "m.onnx")
            model = gp.load(tmp_path / "m.onnx")
            gp.save(model, tmp_path / "m.tflite")
            for inner in list(walk(gp.load(tmp_path / "m.tflite", raw=True).graph))[1:]:
                (result,) = inner.outputs
                maker = result.producer
                assert maker is None or not all(each.is_constant for each in maker.operands), name
            for chosen in (True, False):
                given = {"p": np.array(chosen), "x": x}
                found = run(tmp_path / "m.tflite", list(given.values()))
                assert not isinstance(found, str), found
                np.testing.assert_array_equal(found[0], gp.run(model, given, backend="reference")["y"], name)
