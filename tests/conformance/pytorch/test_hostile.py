"""Programs with hostile names and degenerate graphs: torch loads them as program, with submodules and as Python."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphport as gp
from tests.conformance.pytorch import programs

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.skipif(not programs.PYTHON, reason="GRAPHPORT_PYTHON_TORCH names no Python that has torch"),
]
NAMES = (
    *("class", "None", "self", "torch", "x y", "é", "日本", "a" * 5000, "__init__", "forward", "a.b", "1", "-"),
    *("'; import os; '", "../../x", "a\nb", "lambda", "input", "print", "_", "output", "a,b;c@1", "(e["),
)
X = np.array([[1, -2, 3], [-4, 5, -6]], np.float32)
ONES = np.ones(3, np.float32)


def graph(nodes, inputs, outputs, weights=()):
    """A model; inputs and outputs are names and shapes."""
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in each]
        for each in (inputs.items(), outputs)
    ]
    made = helper.make_graph(nodes, "network", *infos, [numpy_helper.from_array(w, name) for name, w in weights])
    return helper.make_model(made, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def node(op_type, *names, scope=""):
    *operands, result = names
    return helper.make_node(op_type, operands, [result], name=f"{scope}/{op_type}")


def cases():
    """Models by name, each with its inputs."""
    x, y = {"x": [2, 3]}, ("y", [2, 3])
    relu, add = node("Relu", "x", "y"), node("Add", "x", "w", "y")
    found = {
        "input returned": (graph([relu], x, [("x", [2, 3]), y]), X),
        "no nodes": (graph([], x, [("x", [2, 3])]), X),
        "no inputs": (graph([node("Add", "w", "w", "y")], {}, [("y", [3])], [("w", ONES)]),),
        "only a weight": (graph([], {}, [("w", [3])], [("w", ONES)]),),
        "weight returned": (graph([add], x, [y, ("w", [3])], [("w", ONES)]), X),
        "unused input": (graph([relu], x | {"u": [3]}, [y]), X, ONES),
        "output twice": (graph([relu, node("Identity", "y", "z")], x, [y, ("z", [2, 3])]), X),
        "empty operand": (
            graph([node("MatMul", "x", "w", "y")], {"x": [2, 0]}, [("y", [2, 3])], [("w", X[:0])]),
            X[:, :0],
        ),
        "scalar": (graph([node("Neg", "x", "y")], {"x": []}, [("y", [])]), np.float32(2)),
        "module and tensor": (graph([node("Add", "x", "fc", "y", scope="/fc")], x, [y], [("fc", ONES)]), X),
        "deep modules": (graph([node("Relu", "x", "y", scope="/a" * 2000)], x, [y]), X),
        "many nodes": (
            graph(
                [node("Relu", f"v{i}", f"v{i + 1}", scope=f"/l.{i // 9}") for i in range(999)],
                {"v0": [3]},
                [("v999", [3])],
            ),
            ONES,
        ),
    }
    for name in NAMES:
        nodes = [node("Add", name, f"w:{name}", f"{name}!"), node("Relu", f"{name}!", f"o{name}", scope=f"/{name}")]
        found[name] = graph(nodes, {name: [2, 3]}, [(f"o{name}", [2, 3])], [(f"w:{name}", ONES)]), X
    return found


@pytest.mark.parametrize("form", ["program", "unflatten", "code"])
def test_hostile_programs_compute_the_same_in_torch(tmp_path, form):
    expected = {}
    for index, (name, (made, *inputs)) in enumerate(cases().items()):
        onnx.save(made, tmp_path / "source.onnx")
        model, path = gp.load(tmp_path / "source.onnx"), tmp_path / f"{index}.pt2"
        gp.save(model, path, code=True)
        programs.store(path, inputs)
        given = dict(zip([value.name for value in model.graph.inputs], inputs, strict=True))
        expected[name] = path, list(gp.run(model, given, backend="reference").values())
    programs.run_all(tmp_path, form)
    for name, (path, outputs) in expected.items():
        found = programs.outcome(path)
        assert not found.error, (name, found.error)
        for one, other in zip(found.outputs, outputs, strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name[:50])
