"""Bodies of loops, in words that tract has."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp

PARTS = {"lengths": np.array([1, 2])}
WORDS = [
    pytest.param([("Split", ["x", "lengths"], ["a", "b"], {}), ("Concat", ["b", "a"], ["p"], {"axis": 0})], id="split"),
    pytest.param([("Elu", ["x"], ["p"], {"alpha": 2.0})], id="elu of a slope"),
    pytest.param([("Selu", ["x"], ["p"], {})], id="selu"),
    pytest.param([("Exp", ["x"], ["e"], {}), ("Reciprocal", ["e"], ["p"], {})], id="rcp"),
]


@pytest.mark.parametrize("nodes", WORDS)
def test_op_types_of_a_body_are_those_that_tract_has(tmp_path, nodes):
    made = [helper.make_node(op, inputs, results, **given) for op, inputs, results, given in nodes]
    made.append(helper.make_node("Add", ["s", "p"], ["t"]))
    s, x, t, p, s0, s1 = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 3]) for name in ("s", "x", "t", "p", "s0", "s1")
    )
    used = [numpy_helper.from_array(array, name) for name, array in PARTS.items() if name in made[0].input]
    body = helper.make_graph(made, "body", [s, x], [t, p], used)
    scan = helper.make_node("Scan", ["s0", "xs"], ["s1", "os"], body=body, num_scan_inputs=1)
    several = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [5, 3, 3]) for name in ("xs", "os")]
    graph = helper.make_graph([scan], "loop", [s0, several[0]], [s1, several[1]])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, tmp_path / "net.onnx")
    proof = gp.convert(tmp_path / "net.onnx", tmp_path / "net.nnef", flavour="tract").proof
    assert proof is not None
    assert proof.passed, proof
    assert any(witness.runtime == "tract" and witness.ran for witness in proof.witnesses), proof.notes
