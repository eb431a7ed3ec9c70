"""Random recurrent layers: an initial state of moved zeros is removed, and results are unchanged."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import numpy_helper

from graphport.passes.drop_zero_states import drop_zero_states
from tests.draws import times
from tests.passes.alone import applied
from tests.passes.cases import F, info, model, node, some

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
STEPS, BATCH, WIDTH, HIDDEN = 3, 2, 3, 4


class States:
    """Nodes and constants that compute states, and the inputs among them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.nodes: list[Any] = []
        self.constants: dict[str, Any] = {}
        self.fed: dict[str, Any] = {}

    def _name(self) -> str:
        return f"v{len(self.nodes) + len(self.constants) + len(self.fed)}"

    def _constant(self, array: Any) -> str:
        name = self._name()
        self.constants[name] = np.asarray(array)
        return name

    def _node(self, op: str, operands: str, **attributes: Any) -> str:
        name = self._name()
        self.nodes.append(node(op, operands, name, **attributes))
        return name

    def state(self, shape: tuple[int, ...], depth: int = 3) -> tuple[str, bool]:
        """Return a value of this shape, and whether it consists of moved zeros only."""
        moves = ["picked", "joined", "transposed", "cut", "shaped", "spread", "cast"]
        leaves = ["filled", "zeros", "computed", "other", "zeros", "computed", "one", "fed"]
        kind = self.draw(st.sampled_from(moves if depth and self.draw(st.booleans()) else leaves))
        match kind:
            case "filled":
                return self._node("ConstantOfShape", self._constant(np.array(shape))), True
            case "zeros":
                return self._constant(np.zeros(shape, np.float32)), True
            case "other":
                value = numpy_helper.from_array(np.array([0.5], np.float32))
                return self._node("ConstantOfShape", self._constant(np.array(shape)), value=value), False
            case "one":
                array = np.zeros(shape, np.float32)
                array.flat[self.draw(st.integers(0, array.size - 1))] = -0.75
                return self._constant(array), False
            case "fed":
                name = self._name()
                self.fed[name] = some(*shape)
                return name, False
            case "computed":
                op = self.draw(st.sampled_from(["Sigmoid", "Cos", "Exp"]))
                return self._node(op, self.state(shape, 0)[0]), False
            case _:
                return self._moved(kind, shape, depth - 1)

    def _moved(self, kind: str, shape: tuple[int, ...], depth: int) -> tuple[str, bool]:
        axis = self.draw(st.integers(0, len(shape) - 1))
        match kind:
            case "transposed":
                perm = self.draw(st.permutations(range(len(shape))))
                x, is_zero = self.state(tuple(shape[i] for i in np.argsort(perm)), depth)
                return self._node("Transpose", x, perm=perm), is_zero
            case "joined" if shape[axis] > 1:
                first = self.draw(st.integers(1, shape[axis] - 1))
                sizes = first, shape[axis] - first
                parts = [self.state((*shape[:axis], n, *shape[axis + 1 :]), depth) for n in sizes]
                joined = self._node("Concat", " ".join(name for name, _ in parts), axis=axis)
                return joined, all(is_zero for _, is_zero in parts)
            case "cut":
                x, is_zero = self.state((*shape[:axis], shape[axis] + 1, *shape[axis + 1 :]), depth)
                bounds = [self._constant(np.array([n])) for n in (1, shape[axis] + 1, axis)]
                return self._node("Slice", " ".join([x, *bounds])), is_zero
            case "picked":
                x, is_zero = self.state((*shape[:axis], shape[axis] + 2, *shape[axis + 1 :]), depth)
                # Non-zero indices: they select elements and are not elements themselves.
                places = self._constant(np.arange(shape[axis]) + 1)
                return self._node("Gather", f"{x} {places}", axis=axis), is_zero
            case "shaped":
                x, is_zero = self.state((prod(shape),), depth)
                return self._node("Reshape", f"{x} {self._constant(np.array(shape))}"), is_zero
            case "spread":
                x, is_zero = self.state((*shape[:axis], 1, *shape[axis + 1 :]), depth)
                return self._node("Expand", f"{x} {self._constant(np.array(shape))}"), is_zero
            case _:
                x, is_zero = self.state(shape, depth)
                return self._node("Cast", x, to=F), is_zero


@st.composite
def nets(draw: st.DrawFn) -> Any:
    """Return a model of some layers, its inputs, and for each layer the names of its zero states."""
    made = States(draw)
    weights: dict[str, Any] = {}
    nodes: list[Any] = []
    outputs: list[str] = []
    told: list[str] = []
    for index in range(3):
        op = draw(st.sampled_from(list(GATES)))
        direction = draw(st.sampled_from(["forward", "reverse", "bidirectional"]))
        shape = (2 if direction == "bidirectional" else 1, BATCH, HIDDEN)
        states = [made.state(shape) for _ in range(2 if op == "LSTM" else 1)]
        if draw(st.booleans()):
            states[0] = "_", False
        rows = GATES[op] * HIDDEN
        weights |= {f"w{index}": some(shape[0], rows, WIDTH), f"r{index}": some(shape[0], rows, HIDDEN)}
        operands = f"x w{index} r{index} _ _ " + " ".join(name for name, _ in states)
        nodes.append(node(op, operands, f"y{index} h{index}", hidden_size=HIDDEN, direction=direction))
        outputs += [f"y{index}", f"h{index}"]
        zeros = " and ".join(name for name, is_zero in states if is_zero)
        told += [f"{op} y{index}: uses the default initial state 0 instead of {zeros}"] if zeros else []
    fed = {"x": some(STEPS, BATCH, WIDTH), **made.fed}
    inputs = [info(name, array.shape) for name, array in fed.items()]
    given = {**weights, **made.constants}
    return model([*made.nodes, *nodes], inputs, [info(name, None) for name in outputs], given), fed, told


@settings(max_examples=times(40))
@given(nets())
def test_only_zero_states_are_dropped(net: Any) -> None:
    proto, fed, told = net
    _, journal = applied(proto, drop_zero_states, fed)
    assert [str(note) for note in journal.done] == told
