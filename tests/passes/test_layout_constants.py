"""Transposes of constants, and Transposes that move axes of length 1 only."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.ir.verify import verify
from graphport.ops.layout_constants import fold_layouts, merge_into_reshapes
from tests.draws import times
from tests.passes.cases import info, model, node


def _operators(program: Any) -> list[str]:
    return [each.op_type for each in program.graph]


@settings(max_examples=times(60), deadline=None)
@given(st.lists(st.sampled_from([1, 1, 2, 3]), min_size=1, max_size=4), st.data())
def test_transpose_that_moves_only_unit_axes_merges_into_reshape(shape: list[int], data: Any) -> None:
    perm = data.draw(st.permutations(range(len(shape))))
    nodes = [
        node("Reshape", "x shape", "wide"),
        node("Transpose", "wide", "turned", perm=perm),
        node("Abs", "turned", "y"),
    ]
    has_symbol = data.draw(st.booleans())
    length = [n if not has_symbol else None for n in [prod(shape)]]
    constants = {"shape": np.array([-1 if has_symbol and not i else n for i, n in enumerate(shape)])}
    program = gp.from_onnx(model(nodes, [info("x", length)], [info("y", None)], constants))
    x = np.random.default_rng(1).normal(size=prod(shape)).astype(np.float32)
    expected = gp.run(program, {"x": x}, backend="reference")["y"]
    merge_into_reshapes(program.graph)
    verify(program.graph)
    np.testing.assert_array_equal(gp.run(program, {"x": x}, backend="reference")["y"], expected)
    moved = [axis for axis in perm if shape[axis] != 1 or (has_symbol and axis == 0)]
    assert _operators(program) == (["Reshape", "Abs"] if moved == sorted(moved) else ["Reshape", "Transpose", "Abs"])


def test_transpose_with_an_identity_permutation_is_removed_between_nodes() -> None:
    nodes = [node("Abs", "x", "a"), node("Transpose", "a", "b", perm=[0, 1]), node("Neg", "b", "y")]
    program = gp.from_onnx(model(nodes, [info("x", [2, 3])], [info("y", None)], {}))
    fold_layouts(program.graph)
    verify(program.graph)
    assert _operators(program) == ["Abs", "Neg"]


def test_layouts_of_constants_are_folded_when_they_are_read() -> None:
    nodes = [
        node("Transpose", "w", "turned", perm=[1, 0]),
        node("Reshape", "turned to", "flat"),
        node("Abs", "x", "plain"),
        node("Identity", "plain", "same"),
        node("Add", "same flat", "sum"),
        node("Transpose", "w", "z", perm=[1, 0]),
        node("Identity", "x", "copy"),
        node("Neg", "copy", "y"),
    ]
    w = np.arange(6, dtype=np.float32).reshape(2, 3)
    outputs = [info("sum", [6]), info("z", [3, 2]), info("y", [6])]
    program = gp.from_onnx(model(nodes, [info("x", [6])], outputs, {"w": w, "to": np.array([6])}))
    x = {"x": np.arange(6, dtype=np.float32) - 3}
    expected = gp.run(program, x, backend="reference")
    fold_layouts(program.graph)
    verify(program.graph)
    found = gp.run(program, x, backend="reference")
    assert _operators(program) == ["Abs", "Add", "Transpose", "Identity", "Neg"]
    assert all(np.array_equal(found[name], value) for name, value in expected.items())


def test_a_shape_that_is_computed_from_an_open_batch_becomes_a_constant() -> None:
    nodes = [
        node("Shape", "x", "n", start=0, end=1),
        node("Concat", "n rest", "shape", axis=0),
        node("Reshape", "x shape", "y"),
    ]
    program = gp.from_onnx(model(nodes, [info("x", ["n", 4])], [info("y", None)], {"rest": np.array([2, 2])}, opset=18))
    fold_layouts(program.graph)
    reshape = program.graph.outputs[0].producer
    assert list(reshape.operands[1].storage.numpy()) == [-1, 2, 2]
    assert gp.run(program, {"x": np.zeros((3, 4), np.float32)}, backend="reference")["y"].shape == (3, 2, 2)
