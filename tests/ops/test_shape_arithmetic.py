"""Random arithmetic on shapes: every extent that is claimed is the one that a run has."""

from __future__ import annotations

import numpy as np
import onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from graphport.conversion.legalize import legalize
from graphport.core.dims import evaluate
from graphport.core.facts import TensorFact
from graphport.formats.onnx import from_proto
from tests.models import model, node

SIZES = ({"B": 1, "T": 1, "H": 1}, {"B": 2, "T": 7, "H": 3}, {"B": 3, "T": 4, "H": 10}, {"B": 5, "T": 1, "H": 8})
NUMBERS = {f"n{number}": np.array([number], np.int64) for number in range(-1, 13)}


class Shaped:
    """A graph that computes numbers from shapes and gives tensors these; every number is a tensor of one entry."""

    def __init__(self, draw):
        self.draw = draw
        self.nodes = []
        self.numbers = [f"n{number}" for number in range(1, 5)]
        self.tensors = ["x", "y"]
        self.ranks = {"x": 3, "y": 2}

    def add(self, op, inputs, **attributes):
        name = f"v{len(self.nodes)}"
        self.nodes.append(node(op, inputs, [name], **attributes))
        return name

    def number(self):
        return self.draw(st.sampled_from(self.numbers))

    def tensor(self):
        return self.draw(st.sampled_from(self.tensors))

    def keep(self, name, rank):
        self.tensors.append(name)
        self.ranks[name] = rank

    def read(self):
        """An extent of a tensor, by Gather, or by Slice."""
        tensor = self.tensor()
        shape = self.add("Shape", [tensor])
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        if self.draw(st.booleans()):
            self.numbers.append(self.add("Gather", [shape, f"n{axis}"]))
        else:
            self.numbers.append(self.add("Slice", [shape, f"n{axis}", f"n{axis + 1}"]))

    def compute(self):
        op = self.draw(st.sampled_from(["Mul", "Div", "Add", "Sub", "Max", "Min"]))
        second = f"n{self.draw(st.integers(1, 12))}" if op == "Div" else self.number()
        self.numbers.append(self.add(op, [self.number(), second]))

    def pile(self):
        """A long expression, which gets a symbol where it is an extent."""
        total = self.number()
        for _ in range(3):
            total = self.add("Add", [self.add("Mul", [total, self.number()]), self.number()])
        self.numbers.append(self.add("Div", [total, f"n{self.draw(st.integers(2, 12))}"]))

    def cast(self):
        inner = self.add("Cast", [self.number()], to=onnx.TensorProto.INT32)
        self.numbers.append(self.add("Cast", [inner], to=onnx.TensorProto.INT64))

    def where(self):
        condition = self.add(self.draw(st.sampled_from(["Equal", "Less"])), [self.number(), self.number()])
        self.numbers.append(self.add("Where", [condition, self.number(), self.number()]))

    def extent(self):
        """A number that can be an extent, and does not grow beyond what is quickly computed."""
        return self.add("Min", [self.add("Max", [self.number(), "n1"]), "n12"])

    def flatten(self):
        tensor = self.tensor()
        first = self.add("Gather", [self.add("Shape", [tensor]), "n0"])
        self.keep(self.add("Reshape", [tensor, self.add("Concat", [first, "n-1"], axis=0)]), 2)

    def expand(self):
        shape = self.add("Concat", [self.extent(), self.extent()], axis=0)
        ones = self.add("ConstantOfShape", ["n1"])
        self.keep(self.add("Expand", [ones, shape]), 2)

    def count(self):
        ends = [self.add("Squeeze", [name, "n0"]) for name in ("n0", self.extent(), f"n{self.draw(st.integers(1, 3))}")]
        self.keep(self.add("Range", ends), 1)

    def cut(self):
        tensor = self.tensor()
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        end = self.add("Max", [self.number(), "n1"])
        self.keep(self.add("Slice", [tensor, "n0", end, f"n{axis}"]), self.ranks[tensor])

    def join(self):
        tensor = self.tensor()
        axis = self.draw(st.integers(0, self.ranks[tensor] - 1))
        self.keep(self.add("Concat", [tensor] * self.draw(st.integers(1, 2)), axis=axis), self.ranks[tensor])


STEPS = [
    *(Shaped.read, Shaped.read, Shaped.compute, Shaped.compute, Shaped.pile, Shaped.cast, Shaped.where),
    *(Shaped.flatten, Shaped.expand, Shaped.count, Shaped.cut, Shaped.join),
]


@st.composite
def graphs(draw):
    made = Shaped(draw)
    made.read()
    for step in draw(st.lists(st.sampled_from(STEPS), min_size=3, max_size=14)):
        step(made)
    inputs = [("x", ["B", "T", 4]), ("y", ["H", "T"])]
    names = dict.fromkeys([*made.tensors[2:], *made.numbers[4:]])
    outputs = [onnx.helper.make_empty_tensor_value_info(name) for name in names]
    return model(made.nodes, inputs, outputs, NUMBERS)


def claims(proto):
    """What facts say of shapes of outputs, and of the numbers in them."""
    graph, findings = legalize(from_proto(proto))
    assert not [finding for finding in findings if finding.is_error]
    names = [output.name for output in proto.graph.output]
    return graph.extents, dict(zip(names, (value.fact for value in graph.outputs), strict=True))


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_extents_are_those_of_a_run(proto):
    extents, facts = claims(proto)
    evaluator = ReferenceEvaluator(proto)
    for sizes in SIZES:
        feeds = {
            "x": np.zeros((sizes["B"], sizes["T"], 4), np.float32),
            "y": np.zeros((sizes["H"], sizes["T"]), np.float32),
        }
        real = dict(zip(facts, map(np.asarray, evaluator.run(None, feeds)), strict=True))
        numbers = extents.numbers(sizes)
        for name, fact in facts.items():
            if not isinstance(fact, TensorFact) or fact.shape is None:
                continue
            for dim, length in zip(fact.shape, real[name].shape, strict=True):
                if extents.free(dim) <= sizes.keys():
                    assert evaluate(dim, numbers) == length, (name, str(dim), sizes)
            for dim, element in zip(fact.elements or (), real[name].reshape(-1), strict=False):
                if extents.free(dim) <= sizes.keys():
                    assert evaluate(dim, numbers) == element, (name, str(dim), sizes)
