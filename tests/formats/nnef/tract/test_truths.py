"""Operators on truths are written so that tract computes them, in each flavour that it reads."""

from __future__ import annotations

from itertools import product

import nnef
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.formats.nnef.tract.test_writing import computed

RNG = np.random.default_rng(7)
X, Z, C = (RNG.random((3, 4)) > 0.5 for _ in range(3))
ROWS = np.array([[1, 0], [2, 3], [0, 1]])
OPERATORS = {
    "Equal": (("x", "z"), {}, X == Z),
    "And": (("x", "z"), {}, X & Z),
    "Or": (("x", "z"), {}, X | Z),
    "Xor": (("x", "z"), {}, X ^ Z),
    "Not": (("x",), {}, ~X),
    "Where": (("c", "x", "z"), {}, np.where(C, X, Z)),
    "Concat": (("x", "z"), {"axis": 0}, np.concatenate([X, Z])),
    "Transpose": (("x",), {"perm": [1, 0]}, X.T),
    "Trilu": (("x",), {"upper": 0}, np.tril(X)),
    "Tile": (("x", "twice"), {}, np.tile(X, (2, 1))),
    "Gather": (("x", "last"), {"axis": 1}, X[:, 3]),
    "GatherElements": (("x", "rows"), {"axis": 1}, np.take_along_axis(X, ROWS, 1)),
    "ReduceMax": (("x", "ones"), {"keepdims": 0}, X.any(1)),
    "ReduceMin": (("x", "ones"), {"keepdims": 0}, X.all(1)),
}
CONSTANTS = {"twice": np.array([2, 1]), "last": np.array(3), "rows": ROWS, "ones": np.array([1])}
GIVEN = {"x": X, "z": Z, "c": C}


def model_of(name):
    operands, attributes, expected = OPERATORS[name]
    inputs = [helper.make_tensor_value_info(k, TensorProto.BOOL, [3, 4]) for k in operands if k in GIVEN]
    output = helper.make_tensor_value_info("y", TensorProto.BOOL, expected.shape)
    constants = [numpy_helper.from_array(CONSTANTS[k], k) for k in operands if k in CONSTANTS]
    node = helper.make_node(name, list(operands), ["y"], **attributes)
    graph = helper.make_graph([node], name, inputs, [output], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def test_tract_computes_them(tmp_path):
    onnx_file = tmp_path / "one.onnx"
    for name, flavour in product(OPERATORS, ("tract", "both")):
        onnx.save(model_of(name), onnx_file)
        place = tmp_path / "all" / f"{name}-{flavour}"
        place.mkdir(parents=True)
        try:
            gp.save(gp.load(onnx_file), place / "model", format="nnef", flavour=flavour)
        except gp.DiagnosticError:
            place.rmdir()
            assert flavour == "both", name
            continue
        np.savez(place / "given.npz", **{key: GIVEN[key] for key in OPERATORS[name][0] if key in GIVEN})
    computed(tmp_path / "all")
    for place in (tmp_path / "all").iterdir():
        (found,) = np.load(place / "found.npz").values()
        np.testing.assert_array_equal(found, OPERATORS[place.name.partition("-")[0]][2], err_msg=place.name)


@pytest.mark.parametrize("name", ["Equal", "Xor"])
def test_the_standard_parser_takes_them(tmp_path, name):
    onnx.save(model_of(name), tmp_path / "one.onnx")
    gp.save(gp.load(tmp_path / "one.onnx"), tmp_path / "model", format="nnef", flavour="khronos")
    assert nnef.load_graph(str(tmp_path / "model")).outputs == ["y"]


def test_a_proof_has_tract_read_op_types_of_every_registry(tmp_path):
    node = helper.make_node("NonZero", ["x"], ["y"])
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4])]
    output = helper.make_tensor_value_info("y", TensorProto.INT64, None)
    graph = helper.make_graph([node], "places", inputs, [output])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), tmp_path / "one.onnx"
    )
    gp.convert(tmp_path / "one.onnx", tmp_path / "model", format="nnef", verify=False)
    proof = gp.verify(tmp_path / "one.onnx", tmp_path / "model")
    assert proof.passed
    assert "tract" in {each.runtime for each in proof.witnesses if each.is_own and each.ran}
