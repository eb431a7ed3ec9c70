"""Shape arithmetic with a known result becomes a constant, and Reshape shapes are simplified."""

from __future__ import annotations

import numpy as np

from graphport.passes.journal import Journal
from graphport.passes.resolve_shapes import resolve_shapes, target_shape
from tests.passes.alone import done, read
from tests.passes.cases import node


def test_target_shape_uses_zero_and_minus_one_for_symbolic_dims():
    assert target_shape([2, 3], [5]) == (2, 3)
    graph = read([node("Relu", "x", "y")], (("x", ("N", 3, "M")),))
    n, three, m = graph.inputs[0].fact.shape
    assert target_shape([n, 3], [n, three]) == (0, 3)
    assert target_shape([3, n], [n, three]) == (3, -1)
    assert target_shape([n, m], [n, three]) == (0, -1)
    assert target_shape([n, m], [n, m]) == (0, 0)
    assert target_shape([m, n], [n, m]) is None
    assert target_shape([n], []) == (-1,)
    assert target_shape([-1, m], [three, three]) is None


def test_shape_arithmetic_with_known_result_becomes_a_constant():
    nodes = [node("Shape", "x", "s"), node("Gather", "s i", "g"), node("Cast", "g", "y", to=1)]
    ops, journal = done(resolve_shapes, nodes, i=np.array([2, 0]))
    assert ops == []
    assert [str(note) for note in journal.done] == [
        "Shape s: constant for the known shapes",
        "Cast y: constant for the known shapes",
    ]
    ops, _ = done(resolve_shapes, [node("Size", "x", "s"), node("Cast", "s", "y", to=1)])
    assert ops == ["Cast"]  # all of whose operands are constants now: that is folding's
    graph = read(nodes, (("x", ("N", 3, 4)),), i=np.array([2, 0]))
    resolve_shapes(graph, Journal())
    assert [each.op for each in graph] == ["Shape", "Gather", "Cast"]
    folded = read([node("Neg", "i", "n"), node("Gather", "x n", "y")], i=np.array([0]))
    resolve_shapes(folded, Journal())
    assert [each.op for each in folded] == ["Neg", "Gather"]  # that is folding's


def test_a_target_that_is_computed_of_the_shape_follows_it():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n j", "t", axis=0),
        node("Reshape", "x t", "y"),
    ]
    # PyTorch's exporter sets allowzero for shapes without a 0.
    for attributes in ({}, {"allowzero": 1}):
        nodes[-1] = node("Reshape", "x t", "y", **attributes)
        graph = read(nodes, (("x", ("N", 3, 4)),), i=np.array([0]), j=np.array([12]))
        resolve_shapes(graph, Journal())
        assert graph.last.operands[1].storage.numpy().tolist() == [0, 12]
        assert not graph.last.attributes.get("allowzero")


def test_a_target_in_which_an_axis_is_to_have_no_entries_stays():
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s i", "n"),
        node("Concat", "n j", "t", axis=0),
        node("Reshape", "x t", "y", allowzero=1),
    ]
    graph = read(nodes, (("x", ("N", 0, 4)),), i=np.array([0]), j=np.array([4, 0]))
    resolve_shapes(graph, Journal())
    assert graph.last.operands[1].storage is None


def test_resolve_shapes_keeps_constant_nodes():
    graph, journal = read([node("Constant", "", "i", value_ints=[0]), node("Gather", "x i", "y")]), Journal()
    resolve_shapes(graph, journal)
    assert [each.op for each in graph] == ["Constant", "Gather"]
    assert not journal.done


def test_scales_that_float_arithmetic_computes_of_open_sizes_are_constants():
    """`floor(float(H) * 2) / float(H)`, the scales of `interpolate` in files of older exporters."""
    nodes = [
        node("Shape", "x", "s"),
        node("Slice", "s two four", "size"),
        node("Cast", "size", "real", to=1),
        node("Mul", "real factor", "longer"),
        node("Floor", "longer", "whole"),
        node("Div", "whole real", "ratio"),
        node("Concat", "ones ratio", "scales", axis=0),
        node("Resize", "x  scales", "y", mode="nearest"),
    ]
    nodes[-1].input[:] = ["x", "", "scales"]
    for factor, expected in [(2.0, [1, 1, 2, 2]), (3.0, [1, 1, 3, 3]), (1.5, None), (2.0**20, None)]:
        constants = {"two": np.array([2]), "four": np.array([4]), "ones": np.ones(2, np.float32)}
        constants["factor"] = np.array(factor, np.float32)
        graph = read(nodes, (("x", (1, 3, "H", "W")),), **constants)
        resolve_shapes(graph, Journal())
        (resize,) = (each for each in graph if each.op == "Resize")
        reals = resize.operand(2).fact.reals
        assert (None if reals is None else list(reals)) == expected
        assert [str(dim) for dim in resize.results[0].shape[1:]] == (
            ["3", f"{expected[2]}*H", f"{expected[2]}*W"] if expected else ["y.1", "y.2", "y.3"]
        )


def test_inexact_float_arithmetic_on_symbolic_dims_is_unknown():
    def scales(shape, last):
        nodes = [node("Shape", "x", "s"), node("Cast", "s", "real", to=1), *last]
        return read(nodes, (("x", shape),), two=np.array(2, np.float32)).outputs[0].fact

    product = [node("Mul", "real real", "y")]
    assert scales(("N", "H"), product).elements is None
    quotient = [node("Mul", "real two", "double"), node("Div", "double real", "y")]
    assert scales(("N", "H"), quotient).reals == (2.0, 2.0)
    halved = [node("Div", "real two", "y")]
    assert scales(("N", "H"), halved).elements is None
