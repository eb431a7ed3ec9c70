"""Zero initial states of recurrent layers are removed, since 0 is the default; other states are unchanged."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import numpy_helper

import graphport as gp
from tests.passes.cases import I64, info, model, node, some

X = info("x", ["S", "N", 3])
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
EXTENTS = [
    node("Shape", "x", "n", start=1, end=2),
    node("Concat", "one n four", "shape", axis=0),
]
ZEROS = [*EXTENTS, node("ConstantOfShape", "shape", "z")]


def left(op, state, *, fed=(), **constants):
    """Return the remaining operators before a layer with initial `state`, and the operands of the layer."""
    states = "z z" if op == "LSTM" else "z"
    nodes = [*state, node(op, f"x w r _ _ {states}", "y", hidden_size=4)]
    given = {
        "w": some(1, GATES[op] * 4, 3),
        "r": some(1, GATES[op] * 4, 4),
        "one": np.array([1]),
        "two": np.array([2]),
        "four": np.array([4]),
        "zero": np.array([0]),
        "nought": np.zeros((1, 1, 4), np.float32),
        **constants,
    }
    used = {name for each in nodes for name in each.input}
    constants = {name: array for name, array in given.items() if name in used}
    whole = gp.from_onnx(model(nodes, [X, *fed], [info("y", None)], constants))
    result, report = gp.simplify(whole)
    assert report.verification.passed
    last = list(result.graph)[-1]
    return [each.op for each in result.graph], [value is not None for value in last.inputs[5:]]


@pytest.mark.parametrize("op", GATES)
def test_zero_states_of_dynamic_shape_are_dropped(op):
    ops, states = left(op, ZEROS)
    assert ops == [op]
    assert not any(states)


def test_zero_states_after_data_movement_are_dropped():
    moved = [
        node("Concat", "two n four", "shape", axis=0),
        node("ConstantOfShape", "shape", "both"),
        node("Slice", "both zero one zero", "s"),
        node("Transpose", "s", "t", perm=[1, 0, 2]),
        node("Transpose", "t", "z", perm=[1, 0, 2]),
    ]
    assert left("LSTM", [EXTENTS[0], *moved])[0] == ["LSTM"]
    joined = [
        node("Concat", "one n two", "shape", axis=0),
        node("ConstantOfShape", "shape", "half"),
        node("Concat", "half half", "z", axis=2),
    ]
    assert left("GRU", [EXTENTS[0], *joined])[0] == ["GRU"]
    assert left("GRU", [*EXTENTS, node("Expand", "nought shape", "z")])[0] == ["GRU"]


def test_other_states_stay():
    ones = node("ConstantOfShape", "shape", "z", value=numpy_helper.from_array(np.ones(1, np.float32)))
    assert left("GRU", [*EXTENTS, ones])[1] == [True]
    assert left("GRU", [], fed=[info("z", [1, "N", 4])])[1] == [True]
    mixed = np.eye(1, 4, dtype=np.float32)[None]
    assert left("GRU", [*EXTENTS, node("Expand", "mixed shape", "z")], mixed=mixed)[1] == [True]
    parts = [node("Concat", "one n two", "s", axis=0), node("ConstantOfShape", "s", "half")]
    parts = [EXTENTS[0], *parts, node("Concat", "half fed", "z", axis=2)]
    assert left("RNN", parts, fed=[info("fed", [1, "N", 2])])[1] == [True]
    counted = [*EXTENTS, node("Cast", "count", "c", to=1), node("Expand", "c shape", "z")]
    assert left("GRU", counted, fed=[info("count", [1, 1, 4], I64)])[1] == [True]


def test_functions_of_zero_are_not_assumed_zero():
    halves = [*EXTENTS, node("ConstantOfShape", "shape", "nothing"), node("Sigmoid", "nothing", "z")]
    assert left("GRU", halves)[1] == [True]
    assert left("RNN", [*halves[:-1], node("Neg", "nothing", "z")])[1] == [True]
    given = np.zeros((1, 2, 4), np.float32)
    given[0, 1, 3] = 1
    states = [node("Identity", "given", "z")]
    assert left("GRU", states, given=given)[1] == [True]
    assert left("GRU", states, given=0 * given)[1] == []
