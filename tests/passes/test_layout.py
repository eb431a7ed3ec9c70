"""Inputs and outputs in another order of axes: the same numbers, and Transposes only where something forces them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.ir.verify import verify
from graphport.passes.layout import channels, layout
from tests.passes.cases import info, model, node

EXTENTS: tuple[int, ...] = (2, 3, 4, 5)


@st.composite
def nets(draw: st.DrawFn) -> Any:
    """A random net of operators that compute the same in any order of axes, and of Transposes between them."""
    extents = list(draw(st.permutations(EXTENTS)))
    values: dict[str, list[int]] = {"x": extents}
    nodes: list[Any] = []
    constants: dict[str, Any] = {}

    def constant(array: Any) -> str:
        name = f"c{len(constants)}"
        constants[name] = np.asarray(array)
        return name

    def add(op: str, operands: list[str], shape: list[int], **attributes: Any) -> None:
        name = f"t{len(values)}"
        nodes.append(node(op, " ".join(operands), name, **attributes))
        values[name] = shape

    for _ in range(draw(st.integers(2, 9))):
        name = draw(st.sampled_from(list(values)[-2:]))
        shape = values[name]
        axis = draw(st.integers(-4, 3))
        match draw(st.sampled_from("tttrkcmpsza")):
            case "t":
                perm = draw(st.permutations(range(4)))
                add("Transpose", [name], [shape[i] for i in perm], perm=perm)
            case "r":
                add("Tanh", [name], shape)
            case "k":
                rank = draw(st.integers(0, 4))
                tail = [n if draw(st.booleans()) else 1 for n in shape[4 - rank :]]
                array = np.arange(prod(tail), dtype=np.float32).reshape(tail)
                add(draw(st.sampled_from(["Add", "Mul"])), [name, constant(array)], shape)
            case "a":
                others = [other for other, extent in values.items() if extent == shape]
                add("Sub", [name, draw(st.sampled_from(others))], shape)
            case "c":
                joined = list(shape)
                joined[axis] *= 2
                if prod(joined) < 3000:
                    add("Concat", [name, name], joined, axis=axis)
            case "m":
                reduced = list(shape)
                reduced[axis] = 1
                add("ReduceMean", [name, constant(np.array([axis]))], reduced, keepdims=1)
            case "p":
                pads = draw(st.lists(st.integers(0, 1), min_size=8, max_size=8))
                padded = [n + pads[i] + pads[i + 4] for i, n in enumerate(shape)]
                if prod(padded) < 3000:
                    add("Pad", [name, constant(np.array(pads))], padded)
            case "s":
                add("Softmax", [name], shape, axis=axis)
            case _:
                ends = [max(1, n - 1) for n in shape[: draw(st.integers(1, 4))]]
                bounds = constant(np.zeros(len(ends), np.int64)), constant(np.array(ends))
                add("Slice", [name, *bounds], [*ends, *shape[len(ends) :]])
    last = list(values)[-1]
    return extents, nodes, [info(last, values[last])] if nodes else [], constants


@settings(max_examples=60, deadline=None)
@given(nets(), st.permutations(range(4)), st.permutations(range(4)))
def test_any_order_of_inputs_and_outputs_gives_the_same_numbers(net: Any, first: list[int], last: list[int]) -> None:
    extents, nodes, outputs, constants = net
    if not nodes:
        return
    told = gp.from_onnx(model(nodes, [info("x", extents)], outputs, constants, opset=18))
    x = np.random.default_rng(1).normal(size=extents).astype(np.float32)
    name = outputs[0].name
    expected = gp.run(told, {"x": x}, backend="reference")[name]
    changed = layout(told.graph, {"x": first, name: last})
    verify(told.graph)
    assert changed == ["x", name]
    found = gp.run(told, {"x": x.transpose(first)}, backend="reference")[name]
    np.testing.assert_allclose(found, expected.transpose(last), rtol=2e-6, atol=1e-6)


def test_a_net_of_convolutions_has_its_channels_last_with_one_transpose_at_each_end() -> None:
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("MaxPool", "r", "p", kernel_shape=[2, 2]),
        node("Conv", "p v", "y"),
    ]
    random = np.random.default_rng(2)
    constants = {
        "w": random.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "v": random.normal(size=(5, 4, 1, 1)).astype(np.float32),
    }
    told = gp.from_onnx(model(nodes, [info("x", [1, 3, 8, 6])], [info("y", [1, 5, 7, 5])], constants))
    x = random.normal(size=(1, 3, 8, 6)).astype(np.float32)
    expected = gp.run(told, {"x": x})["y"]
    assert layout(told.graph, channels(told.graph, are_last=True)) == ["x", "y"]
    verify(told.graph)
    assert [each.op for each in told.graph] == ["Transpose", "Conv", "Relu", "MaxPool", "Conv", "Transpose"]
    assert str(told.graph.inputs[0].fact) == "float32[1, 8, 6, 3]"
    np.testing.assert_array_equal(gp.run(told, {"x": x.transpose(0, 2, 3, 1)})["y"], expected.transpose(0, 2, 3, 1))
    # And back: nothing is left of it.
    assert layout(told.graph, channels(told.graph, are_last=False)) == ["x", "y"]
    assert [each.op for each in told.graph] == ["Conv", "Relu", "MaxPool", "Conv"]


def test_what_is_no_input_and_no_order_is_left_alone() -> None:
    told = gp.from_onnx(model([node("Relu", "x", "y")], [info("x", [2, 3])], [info("y", [2, 3])], {}))
    assert layout(told.graph, {"z": (1, 0), "y": (0, 2)}) == []
    assert [each.op for each in told.graph] == ["Relu"]
