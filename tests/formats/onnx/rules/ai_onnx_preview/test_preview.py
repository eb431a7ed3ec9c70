"""What ONNX tries out: attention changed by graphs, and steps of optimizers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest
from onnx import helper

import graphport as gp
from graphport.core.diagnostics import DiagnosticError

if TYPE_CHECKING:
    from pathlib import Path

    Array = np.ndarray[Any, Any]

FLOAT = onnx.TensorProto.FLOAT
TRAINING = "ai.onnx.preview.training"


def saved(path: Path, node: onnx.NodeProto, given: dict[str, Array], domain: str, opened: int = 0) -> gp.Model:
    """A model of one node, with so many open extents of each input."""
    ports = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(array.dtype),
            [f"{name}{axis}" if axis % 2 == 0 and axis < opened else size for axis, size in enumerate(array.shape)],
        )
        for name, array in given.items()
    ]
    graph = helper.make_graph([node], "g", ports, [onnx.ValueInfoProto(name=name) for name in node.output])
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid(domain, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=13), path)
    return gp.load(path)


def changed(op: str, number: float) -> onnx.GraphProto:
    """A graph of one operation with a number."""
    ports = [helper.make_tensor_value_info(name, FLOAT, [None] * 4) for name in ("given", "made")]
    constant = helper.make_node("Constant", [], ["number"], value_float=number)
    node = helper.make_node(op, ["given", "number"], ["made"])
    return helper.make_graph([constant, node], op, ports[:1], ports[1:])


@pytest.mark.parametrize("opened", [0, 3])
def test_scores_and_weights_of_attention_are_changed_by_graphs(opened: int, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    sizes = {"q": (2, 6, 5, 4), "k": (2, 3, 7, 4), "v": (2, 3, 7, 8)}
    given = {name: random.normal(size=size).astype(np.float32) for name, size in sizes.items()}
    bodies = {"score_mod": changed("Min", 0.25), "prob_mod": changed("Mul", 3.0)}
    node = helper.make_node("FlexAttention", list(given), ["y"], domain="ai.onnx.preview", scale=0.3, **bodies)
    found = saved(tmp_path / "m.onnx", node, given, "ai.onnx.preview", opened)
    assert not any(node.dialect for node in found.graph)
    q, k, v = (array.astype(float) for array in given.values())
    k, v = (np.repeat(x, 2, axis=1) for x in (k, v))
    scores = np.exp(np.minimum(0.3 * q @ k.swapaxes(2, 3), 0.25))
    expected = 3 * (scores / scores.sum(-1, keepdims=True)) @ v
    for backend in ("reference", "onnxruntime"):
        (y,) = gp.run(found, given, backend=backend).values()
        np.testing.assert_allclose(y, expected, atol=1e-5)


def operands(parts: int, seed: int) -> dict[str, Array]:
    """A rate, the number of the step, and two tensors with what belongs to them."""
    random = np.random.default_rng(seed)
    sizes = [((2, 3), (4,))[place % 2] for place in range(2 * parts)]
    tensors = {f"x{place}": np.abs(random.normal(size=size)).astype(np.float32) for place, size in enumerate(sizes)}
    return {"rate": np.float32(0.1), "number": np.int64(3), **tensors}


def stepped(path: Path, op: str, given: dict[str, Array], parts: int, **stated: Any) -> list[Array]:
    names = [f"y{place}" for place in range(2 * (parts - 1))]
    node = helper.make_node(op, list(given), names, domain=TRAINING, **stated)
    found = saved(path, node, given, TRAINING)
    assert not any(node.dialect for node in found.graph)
    results = [list(gp.run(found, given, backend=backend).values()) for backend in ("reference", "onnxruntime")]
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    return results[0]


def test_adagrad_matches_its_formula(tmp_path: Path) -> None:
    given = operands(3, 1)
    rate, number, *rest = given.values()
    found = stepped(tmp_path / "m.onnx", "Adagrad", given, 3, norm_coefficient=0.5, decay_factor=0.2, epsilon=1e-3)
    for place in range(2):
        x, gradient, squares = rest[place::2]
        gradient = 0.5 * x + gradient
        squares = squares + gradient**2
        step = rate / (1 + number * 0.2) * gradient / (np.sqrt(squares) + 1e-3)
        np.testing.assert_allclose(found[place], x - step, rtol=1e-5)
        np.testing.assert_allclose(found[place + 2], squares, rtol=1e-5)


@pytest.mark.parametrize("number", [0, 4])
def test_adam_steps_along_means(number: int, tmp_path: Path) -> None:
    given = operands(4, 2) | {"number": np.int64(number)}
    rate, _, *rest = given.values()
    stated = {"alpha": 0.8, "beta": 0.7, "norm_coefficient": 0.5, "norm_coefficient_post": 0.1, "epsilon": 1e-2}
    found = stepped(tmp_path / "m.onnx", "Adam", given, 4, **stated)
    adjusted = rate * np.sqrt(1 - 0.7**number) / (1 - 0.8**number) if number else rate
    for place in range(2):
        x, gradient, mean, squares = rest[place::2]
        gradient = 0.5 * x + gradient
        mean, squares = 0.8 * mean + 0.2 * gradient, 0.7 * squares + 0.3 * gradient**2
        expected = 0.9 * (x - adjusted * mean / (np.sqrt(squares) + 1e-2))
        for one, other in zip(found[place::2], (expected, mean, squares), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)


@pytest.mark.parametrize("mode", ["standard", "nesterov"])
def test_momentum_matches_its_formula(mode: str, tmp_path: Path) -> None:
    for number in (0, 4):
        given = operands(3, 3) | {"number": np.int64(number)}
        rate, _, *rest = given.values()
        stated = {"alpha": 0.8, "beta": 0.7, "norm_coefficient": 0.5, "mode": mode}
        found = stepped(tmp_path / "m.onnx", "Momentum", given, 3, **stated)
        for place in range(2):
            x, gradient, velocity = rest[place::2]
            gradient = 0.5 * x + gradient
            velocity = 0.8 * velocity + (0.7 if number else 1) * gradient
            along = gradient + 0.8 * velocity if mode == "nesterov" else velocity
            np.testing.assert_allclose(found[place], x - rate * along, rtol=1e-5)
            np.testing.assert_allclose(found[place + 2], velocity, rtol=1e-5)


def test_unknown_optimizer_options_are_refused(tmp_path: Path) -> None:
    given = operands(3, 3)
    with pytest.raises(DiagnosticError, match="mode is 'nestor'"):
        stepped(tmp_path / "m.onnx", "Momentum", given, 3, alpha=1.0, beta=1.0, norm_coefficient=0.0, mode="nestor")
    del given["x5"]
    with pytest.raises(DiagnosticError, match="5 operands after the learning rate"):
        stepped(tmp_path / "m.onnx", "Adagrad", given, 3)
