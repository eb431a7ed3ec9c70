"""Finding the first node that computes otherwise: planted faults, and what must not be blamed."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import graphport as gp
from graphport.comparison import first_difference, stream
from graphport.comparison.limits import Limits
from graphport.core.storage import ArrayStorage
from graphport.ir import rewrite
from graphport.ir.graph import Graph, walk
from tests.ir.test_subgraph import looped
from tests.models import model, node

RANDOM = np.random.default_rng(0)


def deep(layers: int = 8, width: int = 6) -> onnx.ModelProto:
    """x → (MatMul → Add → Tanh) × layers; values m0, a0, t0, m1, …"""
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    value = "x"
    for i in range(layers):
        constants[f"w{i}"] = RANDOM.normal(size=(width, width)).astype(np.float32)
        constants[f"b{i}"] = RANDOM.normal(size=width).astype(np.float32)
        nodes += [
            node("MatMul", [value, f"w{i}"], [f"m{i}"], name=f"product{i}"),
            node("Add", [f"m{i}", f"b{i}"], [f"a{i}"], name=f"bias{i}"),
            node("Tanh", [f"a{i}"], [f"t{i}"], name=f"tanh{i}"),
        ]
        value = f"t{i}"
    return model(nodes, [("x", ["N", width])], [(value, ["N", width])], constants)


def given(width: int = 6) -> dict[str, np.ndarray]:
    return {"x": np.random.default_rng(1).normal(size=(2, width)).astype(np.float32)}


def twin(whole: gp.Model) -> gp.Model:
    return gp.Model(rewrite.copy(whole.graph), whole.format)


def called(graph: Graph, name: str):
    return next(each for inner in walk(graph) for each in inner if each.name == name)


def scale(graph: Graph, name: str, factor: float) -> None:
    (weight,) = [value for value in graph.constants if value.name == name]
    assert weight.storage is not None
    weight.storage = ArrayStorage((weight.storage.numpy() * factor).astype(np.float32))


def found_in(a: gp.Model, b: gp.Model, inputs=None, **options) -> gp.FoundDifference:
    found = gp.find_difference(a, b, inputs, **options)
    assert found is not None
    return found


@pytest.mark.parametrize("at_once", [256, 1], ids=["one slice", "a slice a node"])
@pytest.mark.parametrize("layer", [0, 3, 7])
def test_scaled_weight_is_located(layer, at_once, monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", at_once)
    a = gp.from_onnx(deep())
    b = twin(a)
    scale(b.graph, f"w{layer}", 1.01)
    found = found_in(a, b, given())
    assert (found.node, found.operator, found.value) == (f"product{layer}", "MatMul", f"m{layer}")
    assert (len(found.a.graph), len(found.b.graph)) == (1, 1)
    again = gp.compare(found.a, found.b, found.inputs)
    assert not again.passed
    assert again.max_abs == pytest.approx(found.difference.max_abs)


def test_changed_operator_is_located():
    a = gp.from_onnx(deep())
    b = twin(a)
    called(b.graph, "tanh4").op_type = "Sigmoid"
    assert found_in(a, b, given()).node == "tanh4"


def test_equal_models_have_no_difference():
    a = gp.from_onnx(deep())
    assert gp.find_difference(a, twin(a), given()) is None


def test_accumulated_rounding_is_not_attributed_to_one_node():
    nodes = [node("Mul", [f"v{i}" if i else "x", f"w{i}"], [f"v{i + 1}"]) for i in range(8)]
    constants = {f"w{i}": np.full(6, 1.25, np.float32) for i in range(8)}
    a = gp.from_onnx(model(nodes, [("x", ["N", 6])], [("v8", ["N", 6])], constants))
    b = twin(a)
    for i in range(8):
        scale(b.graph, f"w{i}", 1 + 3e-5)
    assert not gp.compare(a, b, given()).passed
    found = found_in(a, b, given())
    assert not found.is_beyond
    assert "no single node" in str(found)


def test_difference_in_a_loop_body_is_located():
    a = gp.from_onnx(looped())
    b = twin(a)
    added = next(each for inner in walk(b.graph) for each in inner if each.op == "Add")
    added.op_type = "Sub"
    found = found_in(a, b, {"x": np.array([1, 2], np.float32)})
    assert (found.operator, found.value, len(found.b.graph)) == ("Sub", "added", 1)


def test_renamed_values_are_paired_by_their_elements():
    a = gp.from_onnx(deep())
    b = twin(a)
    for each in list(b.graph.values()):
        if not each.is_input and not each.is_output and not each.is_constant:
            b.graph.rename(each, f"other_{each.name}")
    scale(b.graph, "w5", 1.5)
    found = found_in(a, b, given())
    assert "product5" in {each.name for each in found.b.graph}
    assert len(found.b.graph) < len(a.graph)


def test_failing_node_is_located():
    a = gp.from_onnx(deep(4))
    b = twin(a)
    weight = next(value for value in b.graph.constants if value.name == "w2")
    weight.storage = ArrayStorage(np.ones((5, 6), np.float32))
    weight.fact = weight.fact.of(weight.storage)
    assert found_in(a, b, given()).node == "product2"


def test_missing_axis_is_located():
    nodes = [
        node("ReduceSum", ["x", "axis"], ["s"], keepdims=1, name="sum"),
        node("Neg", ["s"], ["n"], name="neg"),
        node("Mul", ["x", "n"], ["y"], name="product"),
    ]
    a = gp.from_onnx(model(nodes, [("x", [2, 3])], [("y", [2, 3])], {"axis": np.array([1])}))
    b = twin(a)
    called(b.graph, "sum").set_attribute("keepdims", 0)
    assert found_in(a, b, {"x": RANDOM.normal(size=(2, 3)).astype(np.float32)}).node == "sum"


def test_random_numbers_are_no_fault():
    nodes = [node("RandomNormalLike", ["x"], ["r"], name="noise"), node("Add", ["x", "r"], ["y"])]
    a = gp.from_onnx(model(nodes, [("x", [4])], [("y", [4])]))
    found = gp.find_difference(a, twin(a), {"x": np.ones(4, np.float32)})
    assert found is None or not found.is_beyond


def test_comparing_every_value_holds_few_at_a_time(monkeypatch):
    monkeypatch.setattr(stream, "MOST_NODES", 2)
    a = gp.from_onnx(deep(20))
    held: list[int] = []
    second = stream.Stream._second

    def watched(self, *arguments):
        held.append(len(self.known_a) + len(self.known_b))
        return second(self, *arguments)

    monkeypatch.setattr(stream.Stream, "_second", watched)
    result = gp.compare(a, twin(a), given(), every_value=True)
    assert len(result.values) == 60
    assert result.passed
    assert max(held) < 12


def test_limits_use_the_given_tolerances():
    x, y = np.array([1.0, 2.0]), np.array([1.0, 2.001])
    assert not Limits().difference("v", x, y).passed
    assert Limits(absolute=1e-2).difference("v", x, y).passed
    assert Limits(relative=1e-3).difference("v", x, y).passed
    assert Limits(least_snr=60).difference("v", x, y).passed
    assert not Limits(least_snr=70).difference("v", x, y).passed
    assert not Limits(absolute=1e-2, least_snr=70).difference("v", x, y).passed
    assert Limits(of={"v": Limits(absolute=1e-2)}).difference("v", x, y).passed
    assert not Limits(of={"w": Limits(absolute=1e-2)}).difference("v", x, y).passed
    assert not Limits(least_snr=1).difference("v", np.array([1, 2]), np.array([1, 3])).passed


def test_user_metric_decides():
    x, y = np.array([1.0, 2.0]), np.array([1.5, 1.9])
    limits = Limits(metric=lambda a, b: -float(np.abs(a - b).max()), least_metric=-0.4)
    found = limits.difference("v", x, y)
    assert (found.metric, found.passed) == (-0.5, False)


def test_local_recomputation_respects_the_time_limit(monkeypatch):
    nodes = [node("Mul", [f"v{i}" if i else "x", f"w{i}"], [f"v{i + 1}"]) for i in range(8)]
    constants = {f"w{i}": np.full(6, 1.25, np.float32) for i in range(8)}
    a = gp.from_onnx(model(nodes, [("x", ["N", 6])], [("v8", ["N", 6])], constants))
    b = twin(a)
    for i in range(8):
        scale(b.graph, f"w{i}", 1 + 9e-5)
    plain, looked = first_difference.Search._examined, []

    def watched(self, pair, known):
        before = self._checked
        found = plain(self, pair, known)
        looked.append(self._checked - before)
        return found

    monkeypatch.setattr(first_difference.Search, "_examined", watched)
    monkeypatch.setattr(first_difference, "_MOST_CHECKED", 3)
    found_in(a, b, given())
    assert sum(looked) == 3
    assert len(looked) > 3


REALS = np.random.default_rng(5).normal(size=(2, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("x", "y", "moved"),
    [
        pytest.param(REALS, REALS.T, True, id="another order of axes"),
        pytest.param(REALS, REALS[:, None], True, id="one more axis"),
        pytest.param(REALS, REALS * 2, False, id="other numbers"),
        pytest.param(REALS, REALS[:1], False, id="fewer numbers"),
        pytest.param(REALS, REALS.astype(np.float64).T, False, id="another precision"),
        pytest.param(REALS > 0, (REALS > 0).T, False, id="masks say nothing"),
        pytest.param(REALS[:0], REALS[:0].T, False, id="no numbers say nothing"),
        pytest.param([REALS], REALS, False, id="a sequence"),
        pytest.param(REALS, None, False, id="nothing"),
    ],
)
def test_numbers_in_another_order_are_distinguished_from_other_numbers(x, y, moved):
    assert first_difference._is_moved(x, y) is moved
    assert first_difference._is_moved(y, x) is moved


@pytest.mark.parametrize(
    ("x", "y", "coded"),
    [
        pytest.param(REALS, REALS.astype(np.int8), True, id="codes"),
        pytest.param(REALS, REALS.astype(np.float16), False, id="two precisions"),
        pytest.param([REALS], REALS.astype(np.int8), False, id="a sequence"),
    ],
)
def test_codes_are_distinguished_from_real_numbers(x, y, coded):
    assert first_difference._is_coded(x, y) is coded
    assert first_difference._is_coded(y, x) is coded
