"""Inputs and outputs in another axis order: equal results, and a Transpose only where an operator requires it."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.ir.verify import verify
from graphport.passes.layout import channels, layout
from tests.draws import times
from tests.passes.cases import info, model, node

EXTENTS: tuple[int, ...] = (2, 3, 4, 5)


def rearranged(
    draw: st.DrawFn, kind: str, x: str, shape: list[int], axis: int, name: str
) -> tuple[list[Any], dict[str, list[int]], dict[str, Any]]:
    """Return nodes, results and constants of an operation along an axis.

    Kinds: concatenation with itself (c), Gather (g), mean (m), Split (v), or a channel shuffle (w: reshape, transpose,
    reshape). Or an axis is added in front (u) and removed again around another operator. Or a reduction removes the
    axis, and Unsqueeze adds it again with size 1 (d).
    """
    if kind == "d":
        made = [
            node("ReduceMax", f"{x} {name}axes", f"{name}narrow", keepdims=0),
            node("Tanh", f"{name}narrow", f"{name}plain"),
            node("Unsqueeze", f"{name}plain {name}axes", name),
        ]
        axes = np.array([axis - draw(st.sampled_from([0, 4]))])
        return made, {name: [*shape[:axis], 1, *shape[axis + 1 :]]}, {f"{name}axes": axes}
    if kind == "u":
        wide = [*shape[:axis], 1, *shape[axis:]]
        perm = draw(st.permutations(range(5)))
        turned = [wide[i] for i in perm]
        place = perm.index(axis)
        made = [
            node("Unsqueeze", f"{x} {name}axis", f"{name}wide"),
            node("Transpose", f"{name}wide", f"{name}turned", perm=perm),
            node("Abs", f"{name}turned", f"{name}plain"),
            node("Squeeze", f"{name}plain {name}place", name),
        ]
        told = {f"{name}axis": np.array([axis]), f"{name}place": np.array([place - draw(st.sampled_from([0, 5]))])}
        return made, {name: [*turned[:place], *turned[place + 1 :]]}, told
    if kind == "c" and prod(shape) < 1500:
        doubled = [*shape[:axis], 2 * shape[axis], *shape[axis + 1 :]]
        return [node("Concat", f"{x} {x}", name, axis=axis - 4)], {name: doubled}, {}
    if kind in "cm":
        reduced = [*shape[:axis], 1, *shape[axis + 1 :]]
        mean = node("ReduceMean", f"{x} {name}axes", name, keepdims=1)
        return [mean], {name: reduced}, {f"{name}axes": np.array([axis - 4])}
    if kind == "g":
        places = draw(st.lists(st.integers(0, shape[axis] - 1), min_size=1, max_size=shape[axis]))
        result = [*shape[:axis], len(places), *shape[axis + 1 :]]
        return [node("Gather", f"{x} {name}at", name, axis=axis)], {name: result}, {f"{name}at": np.array(places)}
    half = [*shape[:axis], shape[axis] // 2, *shape[axis + 1 :]]
    if kind == "v":
        return [node("Split", x, f"{name} {name}b", axis=axis, num_outputs=2)], {f"{name}b": half, name: half}, {}
    parted = [*half[:axis], 2, *half[axis:]]
    joined, perm = draw(st.integers(0, 3)), draw(st.permutations(range(5)))
    turned = [parted[i] for i in perm]
    whole = [*turned[:joined], turned[joined] * turned[joined + 1], *turned[joined + 2 :]]
    made = [
        node("Reshape", f"{x} {name}parts", f"{name}parted"),
        node("Transpose", f"{name}parted", f"{name}turned", perm=perm),
        node("Reshape", f"{name}turned {name}whole", name),
    ]
    return made, {name: whole}, {f"{name}parts": np.array(parted), f"{name}whole": np.array(whole)}


@st.composite
def nets(draw: st.DrawFn) -> Any:
    """Return a random net of operators that are independent of the axis order, with Transpose nodes in between."""
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
        match draw(st.sampled_from("tttrkcmpszagvwwuudd")):
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
            case "p":
                pads = draw(st.lists(st.integers(0, 1), min_size=8, max_size=8))
                padded = [n + pads[i] + pads[i + 4] for i, n in enumerate(shape)]
                if prod(padded) < 3000:
                    add("Pad", [name, constant(np.array(pads))], padded)
            case "c" | "d" | "g" | "m" | "u" | "v" | "w" as kind if kind in "cdgmu" or shape[axis] % 2 == 0:
                more, results, told = rearranged(draw, kind, name, shape, axis % 4, f"t{len(values)}")
                nodes += more
                constants |= told
                values |= results
            case "s":
                add("Softmax", [name], shape, axis=axis)
            case _:
                ends = [max(1, n - 1) for n in shape[: draw(st.integers(1, 4))]]
                bounds = constant(np.zeros(len(ends), np.int64)), constant(np.array(ends))
                add("Slice", [name, *bounds], [*ends, *shape[len(ends) :]])
    last = list(values)[-1]
    return extents, nodes, [info(last, values[last])] if nodes else [], constants


@settings(max_examples=times(60), deadline=None)
@given(nets(), st.permutations(range(4)), st.permutations(range(4)))
def test_any_input_and_output_layout_keeps_the_results(net: Any, first: list[int], last: list[int]) -> None:
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


def test_channels_last_convolution_network_needs_two_transposes() -> None:
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
    # The inverse change removes every Transpose.
    assert layout(told.graph, channels(told.graph, are_last=False)) == ["x", "y"]
    assert [each.op for each in told.graph] == ["Conv", "Relu", "MaxPool", "Conv"]


def test_layout_ignores_unknown_inputs_and_invalid_permutations() -> None:
    told = gp.from_onnx(model([node("Relu", "x", "y")], [info("x", [2, 3])], [info("y", [2, 3])], {}))
    assert layout(told.graph, {"z": (1, 0), "y": (0, 2)}) == []
    assert [each.op for each in told.graph] == ["Relu"]


def test_channel_shuffle_works_in_any_layout() -> None:
    nodes = [
        node("Conv", "x w", "c"),
        node("Reshape", "c parted", "p"),
        node("Transpose", "p", "t", perm=[0, 2, 1, 3, 4]),
        node("Reshape", "t joined", "j"),
        node("Split", "j", "a b", axis=1, num_outputs=2),
        node("Gather", "a rows", "g", axis=2),
        node("Conv", "g v", "y"),
    ]
    random = np.random.default_rng(3)
    constants = {
        "w": random.normal(size=(8, 3, 1, 1)).astype(np.float32),
        "v": random.normal(size=(2, 4, 1, 1)).astype(np.float32),
        "parted": np.array([1, 2, 4, 6, 5]),
        "joined": np.array([1, 8, 6, 5]),
        "rows": np.array([1, 0, 1, 5]),
    }
    told = gp.from_onnx(model(nodes, [info("x", [1, 3, 6, 5])], [info("y", [1, 2, 4, 5])], constants, opset=18))
    x = random.normal(size=(1, 3, 6, 5)).astype(np.float32)
    expected = gp.run(told, {"x": x}, backend="reference")["y"]
    layout(told.graph, channels(told.graph, are_last=True))
    verify(told.graph)
    found = gp.run(told, {"x": x.transpose(0, 2, 3, 1)}, backend="reference")["y"]
    np.testing.assert_allclose(found, expected.transpose(0, 2, 3, 1), rtol=2e-6, atol=1e-6)
    assert sum(each.op == "Transpose" for each in told.graph) == 3
