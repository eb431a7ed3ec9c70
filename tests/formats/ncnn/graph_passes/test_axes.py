"""Operators with more axes than a blob are exported with fewer axes and equal elements, if that is possible."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from graphport.core.facts import TensorFact
from graphport.formats.ncnn.graph_passes.axes import fold_axes
from graphport.formats.ncnn.rules.emitting import MOST_AXES
from graphport.ir.text import to_text
from graphport.ir.verify import verify
from tests.every import every
from tests.laws import computed
from tests.passes.alone import read
from tests.passes.cases import node

WIDE = (2, 3, 1, 4, 2, 5)
RESHAPING = {"Reshape", "Squeeze", "Unsqueeze", "Flatten"}


def folded(nodes, shape: Any = WIDE, more: Any = (), **constants):
    """Return the remaining op types after a check of the values, and whether all high-rank nodes are Reshape."""
    arrays = {name: np.asarray(each) for name, each in constants.items()}
    inputs = (("x", shape), *more)
    outputs = [name for each in nodes[-1:] for name in each.output]
    given = {
        name: np.random.default_rng(1).permutation(int(np.prod(dims))).reshape(dims).astype(np.float32)
        for name, dims in inputs
    }
    before = read(nodes, inputs, outputs=outputs, **arrays)
    graph = read(nodes, inputs, outputs=outputs, **arrays)
    fold_axes(graph)
    verify(graph)
    for one, other in zip(computed(graph, given), computed(before, given), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)
    is_narrow = not any(
        len(value.fact.shape) - (value.fact.shape[:1] == (1,)) > MOST_AXES
        for each in graph
        if each.op not in RESHAPING
        for value in (*each.operands, *each.results)
    )
    return [each.op for each in graph if each.op not in RESHAPING], is_narrow


@every(
    "perm",
    [
        (0, 1, 2, 3, 4, 5),
        (5, 4, 3, 2, 1, 0),
        (1, 0, 2, 3, 4, 5),
        (0, 1, 2, 4, 5, 3),
        (3, 4, 5, 0, 1, 2),
        (0, 3, 1, 4, 5, 2),
        (4, 2, 0, 5, 1, 3),
        (2, 0, 1, 3, 5, 4),
        (0, 3, 1, 5, 4, 2),
        (1, 0, 2, 3, 5, 4),
        (0, 4, 5, 3, 2, 1),
        (5, 1, 2, 3, 4, 0),
    ],
)
def test_an_order_of_many_axes(perm):
    ops, is_narrow = folded([node("Transpose", "x", "y", perm=perm)])
    assert is_narrow
    assert set(ops) <= {"Transpose"}
    assert len(ops) <= 4
    moved = [sorted(axis for axis in perm if WIDE[axis] != 1).index(axis) for axis in perm if WIDE[axis] != 1]
    runs = 1 + sum(one + 1 != other for one, other in pairwise(moved))
    if runs <= MOST_AXES:
        assert len(ops) == 1


def test_an_order_that_is_not_written_and_one_that_moves_nothing():
    assert folded([node("Transpose", "x", "y")])[1]
    assert folded([node("Transpose", "x", "y", perm=(2, 0, 1, 3, 4, 5))])[1]


@every("axis", range(-6, 6))
def test_what_works_along_one_axis(axis):
    length = WIDE[axis]
    for nodes, constants in (
        ([node("Softmax", "x", "y", axis=axis)], {}),
        ([node("LogSoftmax", "x", "y", axis=axis)], {}),
        ([node("Concat", "x x", "y", axis=axis)], {}),
        ([node("Gather", "x i", "y", axis=axis)], {"i": np.array(length - 1)}),
        ([node("Gather", "x i", "y", axis=axis)], {"i": np.array([0, length - 1, -1])}),
        ([node("Slice", "x a b c", "y")], {"a": [0], "b": [max(length - 1, 1)], "c": [axis]}),
        ([node("Slice", "x a b c d", "y")], {"a": [-1], "b": [-100], "c": [axis], "d": [-1]}),
        ([node("ReduceSum", "x c", "y")], {"c": [axis]}),
        ([node("ReduceMax", "x c", "y", keepdims=0)], {"c": [axis]}),
    ):
        ops, is_narrow = folded(nodes, **constants)
        if "Reduce" in nodes[0].op_type and length == 1:
            continue  # nothing is summed up: another rule's
        assert (ops, is_narrow) == ([nodes[0].op_type], True)


def test_parts_along_one_axis():
    for axis, sizes in ((3, [1, 3]), (-1, [2, 2, 1]), (0, [1, 1])):
        names = " ".join(f"p{n}" for n in range(len(sizes)))
        ops, is_narrow = folded([node("Split", "x s", names, axis=axis)], s=sizes)
        assert (ops, is_narrow) == (["Split"], True)


def test_operands_of_different_lengths_are_joined():
    more = (("z", (2, 3, 1, 1, 2, 5)),)
    assert folded([node("Concat", "x z", "y", axis=3)], more=more) == (["Concat"], True)


def test_cuts_along_several_axes_are_made_one_after_another():
    cut = {"a": [0, 1, -1], "b": [2, 4, -6], "c": [0, 3, -1], "d": [1, 2, -2]}
    assert folded([node("Slice", "x a b c d", "y")], **cut) == (["Slice"] * 3, True)
    short = {name: cut[name][:2] for name in "ab"}
    assert folded([node("Slice", "x a b", "y")], **short) == (["Slice"] * 2, True)


@every("axes", [[0], [0, 1], [1, 3], [3, 4, 5], [-1, 0], [0, 1, 2, 3, 4, 5], [2, 3]])
def test_sums_over_several_axes(axes):
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2"):
        for keepdims in (0, 1):
            assert folded([node(op, "x c", "y", keepdims=keepdims)], c=axes) == ([op], True)


def test_sums_that_stay():
    for constants, operands in (({}, "x"), ({"c": np.zeros(0, np.int64)}, "x c"), ({"c": [2]}, "x c")):
        assert folded([node("ReduceSum", operands, "y")], **constants) == (["ReduceSum"], False)
    assert folded([node("ReduceSum", "x c", "y")], c=[0, 3, 5]) == (["ReduceSum"], False)  # five runs of axes


@every(
    ("shape", "is_said"),
    [
        ((2, 3, 1, 4, 2, 5), True),
        ((5,), True),
        ((), True),
        ((4, 1, 1), True),
        ((3, 1, 4, 1, 1), True),
        ((2, 1, 1, 4, 1, 5), False),
        ((1, 3, 1, 1, 2, 1), False),
        ((2, 1, 1, 4, 2, 1), True),
    ],
)
def test_what_is_stretched_along_axes_beside_each_other(shape, is_said):
    for operands in ("x z", "z x"):
        ops, is_narrow = folded([node("Sub", operands, "y")], more=(("z", shape),))
        assert (ops, is_narrow) == (["Sub"], is_said)
    ops, is_narrow = folded([node("Relu", "x", "y")])
    assert (ops, is_narrow) == (["Relu"], True)


def test_attributes_of_what_is_pointwise_are_kept():
    assert folded([node("LeakyRelu", "x", "y", alpha=0.5)]) == (["LeakyRelu"], True)


def test_products_of_as_many_batches():
    for z, is_said in (((2, 3, 1, 4, 5, 7), True), ((5, 7), False), ((1, 3, 1, 4, 5, 7), False)):
        ops, is_narrow = folded([node("MatMul", "x z", "y")], more=(("z", z),))
        assert (ops, is_narrow) == (["MatMul"], is_said)


def test_normalizations_over_the_last_axis():
    for axis, shape, is_said in ((-1, (5,), True), (5, (5,), True), (-2, (2, 5), False)):
        ops, is_narrow = folded(
            [node("LayerNormalization", "x g b", "y", axis=axis)],
            g=np.ones(shape, np.float32),
            b=np.full(shape, 2, np.float32),
        )
        assert (ops, is_narrow) == (["LayerNormalization"], is_said)
    assert folded([node("LayerNormalization", "x g", "y m i", epsilon=0.5)], g=np.ones(5, np.float32))[1] is False


def test_shapes_that_fit_into_a_blob_are_unchanged():
    for shape in ((2, 3, 4, 5), (1, 2, 3, 4, 5)):
        graph = read([node("Softmax", "x", "h", axis=1), node("Relu", "h", "y")], (("x", shape),))
        before = to_text(graph)
        fold_axes(graph)
        assert to_text(graph) == before


def test_what_is_not_known_stays():
    for shape in ((2, 3, 1, 4, 2, "N"), None):
        graph = read([node("Softmax", "x", "y", axis=1)], (("x", shape),))
        before = to_text(graph)
        fold_axes(graph)
        assert to_text(graph) == before
    graph = read([node("Concat", "x z", "y", axis=5)], (("x", WIDE), ("z", WIDE)))
    graph.inputs[1].fact = TensorFact(graph.inputs[1].fact.dtype, None)
    fold_axes(graph)
    assert [each.op for each in graph] == ["Concat"]
    graph = read([node("Relu", "x", "y")], (("x", WIDE),))
    graph.first.restate("Relu", "custom", {})
    fold_axes(graph)
    assert [each.op for each in graph] == ["custom.Relu"]


def test_reshapes_in_a_row_are_one():
    nodes = [node("Relu", "x", "a"), node("Reshape", "a s", "b"), node("Relu", "b", "c"), node("Reshape", "c t", "y")]
    graph = read(nodes, (("x", WIDE),), s=np.array([6, 4, 10]), t=np.array([4, 60]))
    fold_axes(graph)
    ops = [each.op for each in graph]
    assert "Reshape Reshape" not in " ".join(ops)
    x = np.random.default_rng(0).normal(size=WIDE).astype(np.float32)
    np.testing.assert_array_equal(computed(graph, {"x": x})[0], np.maximum(x, 0).reshape(4, 60))


@pytest.mark.parametrize("places", [[[0, 1]], [[0], [1]]])
def test_places_of_more_axes_stay(places):
    assert folded([node("Gather", "x i", "y", axis=1)], i=places) == (["Gather"], False)
