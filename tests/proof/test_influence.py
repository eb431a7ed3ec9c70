"""Backward search from an operator finds inputs that give it the required values."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
from graphport.api.verify import side
from graphport.backends import prepare
from graphport.proof.coverage.influence import solve
from tests.models import write_onnx
from tests.passes.cases import info, model, node, some

STEPS = {
    "Add": lambda random: float(random.uniform(-3, 3)),
    "Sub": lambda random: float(random.uniform(-3, 3)),
    "Mul": lambda random: float(random.choice([-4, -0.5, 0.25, 3])),
    "Div": lambda random: float(random.choice([-2, 0.5, 8])),
    "Neg": None,
    "Identity": None,
    "Reshape": None,
    "ReduceMean": None,
}
"""Operators of a chain, with the constant that is their second operand, if they have one."""


def chain(seed):
    random = np.random.default_rng(seed)
    nodes, constants, last = [], {"shape": np.array([2, 12])}, "x"
    names = random.choice(list(STEPS)[:-1], 6).tolist()
    for number, op in enumerate([*names, "ReduceMean"]):
        result, make = f"v{number}", STEPS[op]
        if make is not None:
            constants[f"c{number}"] = np.float32(make(random))
            nodes.append(node(op, f"{last} c{number}", result))
        elif op == "Reshape":
            nodes.append(node(op, f"{last} shape", result))
        else:
            nodes.append(node(op, last, result))
        last = result
    return model(nodes, [info("x", [4, 6])], [info(last, None)], constants), last


def loaded(path, proto):
    return side("a", gp.load(write_onnx(path, proto))).graph


def test_a_chain_of_invertible_operators_reaches_its_target(tmp_path):
    for seed in range(25):
        proto, name = chain(seed)
        graph = loaded(tmp_path / "net.onnx", proto)
        (setting,) = solve(graph.outputs[0], 1000.0, {})
        x = np.full((4, 6), setting.inputs["x"], np.float32)
        found = prepare(graph, "reference").run({"x": x})[name]
        np.testing.assert_allclose(found, 1000.0, rtol=1e-4, err_msg=str(seed))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        pytest.param([node("MatMul", "x w", "y")], {"w": some(6, 9)}, id="MatMul"),
        pytest.param([node("Gemm", "x w b", "y", transB=1)], {"w": some(9, 6), "b": 0 * some(9)}, id="Gemm"),
        pytest.param([node("ReduceL2", "x a", "y")], {"a": np.array([1])}, id="ReduceL2"),
        pytest.param([node("ReduceSum", "x a", "y")], {"a": np.array([1])}, id="ReduceSum"),
        pytest.param([node("Sqrt", "x", "y")], {}, id="Sqrt"),
        pytest.param([node("Log", "x", "r"), node("Mul", "r k", "y")], {"k": np.float32(20)}, id="Log"),
    ],
)
def test_the_largest_element_reaches_the_target(tmp_path, nodes, constants):
    graph = loaded(tmp_path / "net.onnx", model(nodes, [info("x", [4, 6])], [info("y", None)], constants, opset=18))
    (setting,) = solve(graph.outputs[0], 40.0, {})
    x = np.broadcast_to(setting.inputs["x"], (4, 6)).astype(np.float32)
    assert np.max(prepare(graph, "reference").run({"x": x})["y"]) == pytest.approx(40, rel=1e-3)


def test_solve_finds_the_dim_for_a_derived_value(tmp_path):
    nodes = [node("Shape", "x", "s", start=1, end=2), node("Mul", "s two", "d"), node("Expand", "x d", "y")]
    proto = model(nodes, [info("x", [1, "L"])], [info("y", None)], {"two": np.array([2])})
    graph = loaded(tmp_path / "net.onnx", proto)
    doubled = next(each.output for each in graph if each.op == "Mul")
    (setting,) = solve(doubled, 65, {"L": 2})
    assert setting.sizes == {"L": 33}
