"""Random nets with constants of one item for each of a batch: any number of items computes what each does alone."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.core.dims import Symbol
from graphport.ir.verify import verify
from graphport.passes.open_axes import set_input_shapes
from graphport.passes.repeated_items import repeat_items
from tests.draws import times
from tests.passes.cases import F, info, model, node, some


class Net:
    """Nodes on `x` and `z` [batch, rows, columns], and on `s` [columns], whose length is no batch."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.random = np.random.default_rng(draw(st.integers(0, 1 << 16)))
        self.batch = draw(st.integers(2, 4))
        # Lengths that are those of the batch by chance, too.
        self.rows, self.columns = (draw(st.sampled_from([self.batch, 1, 3, 5])) for _ in range(2))
        self.shape = [self.batch, self.rows, self.columns]
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.repeated = 0
        """Operands that have an item for each of the batch."""
        self.last = "x"

    def __repr__(self) -> str:
        shapes = {name: array.shape for name, array in self.constants.items()}
        nodes = [f"{each.op_type}({', '.join(each.input)})" for each in self.nodes]
        return f"Net(x [{self.batch}, {self.rows}, {self.columns}], {shapes}, {nodes})"

    def constant(self, *tail: int) -> str:
        """A constant of equal items, which may have been made for another node."""
        shape = (self.batch, *tail)
        known = [name for name, array in self.constants.items() if array.shape == shape]
        self.repeated += 1
        if known and self.draw(st.booleans()):
            return self.draw(st.sampled_from(known))
        item = self.random.normal(size=(1, *tail)).astype(np.float32)
        return self.named(np.repeat(item, self.batch, axis=0))

    def named(self, array: Any) -> str:
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name

    def add(self, op: str, operands: list[str], **attributes: Any) -> None:
        name = f"t{len(self.nodes)}"
        self.nodes.append(node(op, " ".join(operands), name, **attributes))
        self.last = name

    def grow(self, kind: str) -> None:
        _, rows, columns = self.shape
        match kind:
            case "joined":
                axis = self.draw(st.integers(1, 2))
                length = self.draw(st.sampled_from([1, self.batch]))
                tail = (length, columns) if axis == 1 else (rows, length)
                operands = [self.last, *(self.constant(*tail) for _ in range(self.draw(st.integers(1, 2))))]
                self.shape[axis] += length * (len(operands) - 1)
                axis -= self.draw(st.sampled_from([0, 3]))
                self.add("Concat", list(self.draw(st.permutations(operands))), axis=axis)
            case "pointwise":
                op = self.draw(st.sampled_from(["Add", "Sub", "Mul", "Max", "Less", "Where"]))
                tails = [self.draw(st.sampled_from([1, n])) for n in (rows, columns)]
                operands = [self.last, self.constant(*tails)]
                if op == "Max":
                    operands.append(self.constant(rows, columns))
                operands = list(self.draw(st.permutations(operands)))
                if op == "Where":
                    operands.insert(0, self.named(self.random.normal(size=(1, rows, columns)) > 0))
                self.add(op, operands)
                if op == "Less":
                    self.add("Cast", [self.last], to=F)
            case "smaller":  # its first axis is none of the batch, whatever its length
                row = self.random.normal(size=columns).astype(np.float32)
                self.add("Mul", [self.last, self.named(np.broadcast_to(row, (rows, columns)).copy())])
            case "fed":
                is_as_given = (rows, columns) == (self.rows, self.columns)
                self.add("Add", [self.last, self.draw(st.sampled_from(["x", "z"])) if is_as_given else self.last])
            case _:
                self.add("Mul", [self.last, "s" if columns == self.columns else self.last])

    def model(self) -> tuple[gp.Model, dict[str, list[int]]]:
        """The net, and the shapes of its inputs."""
        whole = [self.batch, self.rows, self.columns]
        given = {"s": [self.columns], "x": whole, "z": whole}
        inputs = [info(name, shape) for name, shape in given.items()]
        return gp.from_onnx(model(self.nodes, inputs, [info(self.last, None)], self.constants)), given


KINDS = ["joined", "pointwise", "smaller", "fed", "scaled"]


@st.composite
def nets(draw: st.DrawFn) -> Net:
    net = Net(draw)
    net.grow(draw(st.sampled_from(["joined", "pointwise"])))
    for _ in range(draw(st.integers(0, 4))):
        net.grow(draw(st.sampled_from(KINDS)))
    return net


@settings(max_examples=times(30))
@given(nets(), st.lists(st.integers(0, 1), min_size=1, max_size=5), st.booleans())
def test_any_batch_matches_items_computed_separately(net: Net, items: list[int], is_open: bool) -> None:
    told, given_shapes = net.model()
    feeds = {name: some(*shape) for name, shape in given_shapes.items()}
    alone = gp.run(told, feeds, backend="reference").ordered[0]
    graph = told.graph
    batch = Symbol("N") if is_open else len(items)
    s, *others = graph.inputs
    shapes = {s: given_shapes["s"], **{value: [batch, *given_shapes["x"][1:]] for value in others}}
    assert not [finding for finding in set_input_shapes(graph, shapes) if finding.is_error]
    verify(graph)
    expanded = sum(each.op == "Expand" for each in graph)
    assert expanded == (net.repeated if is_open else 0)
    more = {name: array if name == "s" else array[items] for name, array in feeds.items()}
    together = gp.run(told, more, backend="reference").ordered[0]
    np.testing.assert_allclose(together, alone[items], rtol=1e-6, atol=1e-6)


@settings(max_examples=times(30))
@given(nets(), st.data())
def test_constants_of_which_an_item_differs_stay(net: Net, data: st.DataObject) -> None:
    whole = [name for name, array in net.constants.items() if array.ndim == 3 and len(array) == net.batch]
    name = data.draw(st.sampled_from(whole))
    net.constants[name].flat[data.draw(st.integers(0, net.constants[name].size - 1))] += 1
    told, given_shapes = net.model()
    graph = told.graph
    (x,) = [value for value in graph.inputs if value.name == "x"]
    repeat_items(graph, {x: [7, *given_shapes["x"][1:]]})
    found = {value.name: value.storage.numpy() for each in graph for value in each.operands if value.storage}
    np.testing.assert_array_equal(found[name], net.constants[name])
