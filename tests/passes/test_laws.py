"""Laws of passes on random networks, and in any order."""

from __future__ import annotations

import random

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.passes.driver import PassList, run
from graphport.passes.prepare import PREPARE
from tests.draws import spread, times
from tests.every import every
from tests.passes import facts
from tests.passes.cases import Case, info, model, node
from tests.passes.families import cases

POINTWISE = ("Relu", "Sigmoid", "Identity", "Dropout", "Neg")
SCALARS = st.sampled_from([0.5, -1.5, 2.0])


class Network:
    """A random network of rank 3 or 4, and what it reads."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.spatial = draw(st.sampled_from([(6,), (5, 6)]))
        self.random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
        self.constants = {}
        self.nodes = []
        self.maps = {"x": 4}

    def add(self, op: str, operands: str, maps: int, **attributes) -> None:
        name = f"t{len(self.maps)}"
        self.nodes.append(node(op, operands, name, **attributes))
        self.maps[name] = maps

    def constant(self, *shape: int, low: float = -1.0) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = self.random.uniform(low, 1.5, shape).astype(np.float32)
        return name

    def grow(self) -> None:
        source = self.draw(st.sampled_from(list(self.maps)[-3:]))
        maps = self.maps[source]
        match self.draw(st.sampled_from(["conv", "norm", "constant", "pointwise", "sum", "transposed", "named"])):
            case "conv":
                group = self.draw(st.sampled_from([1, 2]))
                pads = [self.draw(st.sampled_from([0, 1]))] * 2 * len(self.spatial)
                kernel = 3 if any(pads) else 1
                weight = self.constant(4, maps // group, *[kernel] * len(self.spatial))
                bias = self.draw(st.booleans())
                self.add("Conv", f"{source} {weight} {self.constant(4) if bias else ''}", 4, group=group, pads=pads)
            case "transposed":
                weight = self.constant(maps, 2, *[1] * len(self.spatial))
                self.add("ConvTranspose", f"{source} {weight}", 4, group=2)
            case "norm":
                p = [self.constant(maps, low=0.5) for _ in range(4)]
                self.add("BatchNormalization", " ".join([source, *p]), maps)
            case "constant":
                shape = self.draw(st.sampled_from([(), (1,), (maps, *[1] * len(self.spatial)), (1, *self.spatial)]))
                operands = [source, self.constant(*shape, low=0.5)]
                if self.draw(st.booleans()):
                    operands.reverse()
                self.add(self.draw(st.sampled_from(["Add", "Sub", "Mul", "Div"])), " ".join(operands), maps)
            case "pointwise":
                self.add(self.draw(st.sampled_from(POINTWISE)), source, maps)
            case "sum":
                same = [name for name, count in self.maps.items() if count == maps]
                self.add("Add", f"{source} {self.draw(st.sampled_from(same))}", maps)
            case _:
                self.add("Identity", self.constant(maps, *[1] * len(self.spatial)), maps)
                copied = list(self.maps)[-1]
                del self.maps[copied]
                self.maps[copied + "_"] = maps
                self.nodes.append(node("Add", f"{copied} {source}", copied + "_"))

    def proto(self) -> onnx.ModelProto:
        made = [name for name in self.maps if name != "x"]
        outputs = dict.fromkeys([made[-1], *self.draw(st.lists(st.sampled_from(made), max_size=2))])
        shape = ["N", None, *[None] * len(self.spatial)]
        return model(
            self.nodes,
            [info("x", ["N", 4, *self.spatial])],
            [info(name, [shape[0], self.maps[name], *shape[2:]]) for name in outputs],
            self.constants,
        )


@st.composite
def networks(draw: st.DrawFn) -> onnx.ModelProto:
    network = Network(draw)
    for _ in range(draw(st.integers(1, 8))):
        network.grow()
    return network.proto()


def outputs_of(graph_model: gp.Model, x: np.ndarray) -> dict[str, np.ndarray]:
    return gp.run(graph_model, {"x": x}, backend="onnxruntime")


@given(networks(), st.integers(1, 3), st.randoms(use_true_random=False))
@settings(max_examples=times(30))
def test_a_random_network_computes_equal_results_in_any_order_of_passes(proto, batch, order):
    source = gp.from_onnx(proto)
    x = (
        np.random.default_rng(batch)
        .normal(size=(batch, *[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim][1:]))
        .astype(np.float32)
    )
    expected = outputs_of(source, x)
    prepared, _ = gp.prepare(source, verify=False)
    shuffled = list(PREPARE)
    order.shuffle(shuffled)
    other = gp.prepare(source, only=["name-nodes"], verify=False)[0]
    run(other.graph, PassList(tuple(shuffled)))
    simplified, _ = gp.simplify(source, verify=False)
    for result in (prepared, other, simplified):
        assert list(result.inputs) == list(source.inputs)
        assert list(result.outputs) == list(source.outputs)
        for name, found in outputs_of(result, x).items():
            largest = max(1.0, float(np.abs(expected[name]).max()))
            np.testing.assert_allclose(found, expected[name], rtol=0, atol=2e-4 * largest)


@given(networks())
@settings(max_examples=times(30))
def test_preparing_and_simplifying_twice_is_doing_it_once(proto):
    once, _ = gp.prepare(gp.from_onnx(proto), verify=False)
    _, report = gp.prepare(once, verify=False)
    assert sum(report.changes.values()) == 0
    small, _ = gp.simplify(gp.from_onnx(proto), verify=False)
    _, report = gp.simplify(small, verify=False)
    assert sum(report.changes.values()) == 0
    assert all(each.op not in ("BatchNormalization", "Dropout") for each in once.graph)


@every("case", spread(cases(), start=2), ids=lambda case: case.name)
def test_any_pass_order_keeps_the_results(case: Case, tmp_path):
    prepared, _ = gp.prepare(gp.from_onnx(case.model), only=["name-nodes"], verify=False)
    shuffled = list(PREPARE)
    random.Random(case.name).shuffle(shuffled)
    run(prepared.graph, PassList(tuple(shuffled)))
    source, result = tmp_path / "source.onnx", tmp_path / "result.onnx"
    onnx.save(case.model, source)
    gp.save(prepared, result)
    facts.assert_equal(source, result, case.feeds or facts.feeds_of(case.model), case.tolerance)
    facts.assert_loads(source, result)
