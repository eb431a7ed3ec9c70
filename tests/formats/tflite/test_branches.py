"""Branches return copies of outer values, which LiteRT's IF frees; scans are loops over the scanned axis."""

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


SCANS: tuple[dict[str, Any], ...] = (
    {},
    {"scan_input_axes": [1, -1]},
    {"scan_input_directions": [1, 0], "scan_output_directions": [1, 0]},
    {"scan_input_axes": [1, 0], "scan_output_axes": [-1, 1], "scan_output_directions": [0, 1]},
)


def test_a_scan_computes_each_step_along_any_axis_either_way(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    real = TensorProto.FLOAT
    nodes = [
        helper.make_node("Add", ["s", "a"], ["t"]),
        helper.make_node("Mul", ["t", "b"], ["u"]),
        helper.make_node("Sub", ["u", "around"], ["v"]),
    ]
    ports = [helper.make_tensor_value_info(name, real, [4]) for name in "sabtuv"]
    inner = helper.make_graph(nodes, "step", ports[:3], ports[3:])
    with LiteRT() as run:
        for stated in SCANS:
            axes = [axis % 2 for axis in stated.get("scan_input_axes", [0, 0])]
            given = {
                "s0": (4,),
                "a0": (4, 6) if axes[0] else (6, 4),
                "b0": (4, 6) if axes[1] else (6, 4),
                "around": (4,),
            }
            node = helper.make_node(
                "Scan", ["s0", "a0", "b0"], ["x", "y", "z"], body=inner, num_scan_inputs=2, **stated
            )
            graph = helper.make_graph(
                [node],
                "g",
                [helper.make_tensor_value_info(name, real, dims) for name, dims in given.items()],
                [onnx.ValueInfoProto(name=name) for name in "xyz"],
            )
            proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
            onnx.save(proto, tmp_path / "m.onnx")
            model = gp.load(tmp_path / "m.onnx")
            gp.save(model, tmp_path / "m.tflite")
            x = {name: random.normal(size=dims).astype(np.float32) for name, dims in given.items()}
            found = run(tmp_path / "m.tflite", list(x.values()))
            assert not isinstance(found, str), found
            expected = gp.run(model, x, backend="reference")
            for name, array in zip("xyz", found, strict=True):
                np.testing.assert_allclose(array, expected[name], rtol=1e-5, atol=1e-6, err_msg=f"{name} {stated}")
