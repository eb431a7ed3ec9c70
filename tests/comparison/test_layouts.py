"""The first wrong node, if one model is channels-first and the other channels-last."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

import graphport as gp
from graphport.comparison import layouts
from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.models import model, node

RANDOM = np.random.default_rng(8)
W, V = (RANDOM.normal(size=(4, 4, 1, 1)).astype(np.float32) for _ in range(2))
SCALE = RANDOM.normal(size=4).astype(np.float32)


def first(shape: tuple[int, ...]) -> gp.Model:
    nodes = [
        node("Conv", ["x", "w"], ["h"]),
        node("Mul", ["h", "scale"], ["k"]),
        node("Tanh", ["k"], ["t"]),
        node("Conv", ["t", "v"], ["y"]),
    ]
    constants = {"w": W, "v": V, "scale": SCALE.reshape(-1, 1, 1)}
    return gp.load(model(nodes, [("x", shape)], [("y", shape)], constants).SerializeToString())


def last(shape: tuple[int, ...], *, scale: np.ndarray = SCALE, tanh: str = "Tanh") -> gp.Model:
    nodes = [
        node("Conv", ["x", "w"], ["before"]),
        node("Transpose", ["before"], ["h"], perm=[0, 2, 3, 1]),
        node("Mul", ["h", "scale"], ["k"]),
        node(tanh, ["k"], ["t"]),
        node("Transpose", ["t"], ["behind"], perm=[0, 3, 1, 2]),
        node("Conv", ["behind", "v"], ["y"]),
    ]
    constants = {"w": W, "v": V, "scale": scale}
    return gp.load(model(nodes, [("x", shape)], [("y", shape)], constants).SerializeToString())


# Only the elements identify the axes of a cube, as long as another value shows that the orders differ.
@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 4, 4, 3)])
def test_correct_transposed_values_are_skipped(shape: tuple[int, ...]) -> None:
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), last(shape), x)
    assert found is None or not found.is_beyond


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 4, 4, 3)])
def test_a_wrong_transposed_value_is_reported_by_its_node(shape: tuple[int, ...]) -> None:
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), last(shape, scale=SCALE * np.array([1, 1, 3, 1], np.float32)), x)
    assert found is not None
    assert (found.operator, found.value, found.is_beyond) == ("Mul", "k", True)
    found = gp.find_difference(first(shape), last(shape, tanh="Softsign"), x)
    assert found is not None
    assert (found.operator, found.value, found.is_beyond) == ("Softsign", "t", True)


def test_model_without_transposes_is_unchanged() -> None:
    shape = (1, 4, 4, 4)
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), first(shape), x)
    assert found is None or not found.is_beyond


def value_of(shape: tuple[int | str, ...] | None, op_type: str = "Relu") -> Value:
    graph = Graph()
    fact = TensorFact(
        DType.FLOAT32, None if shape is None else tuple(Symbol(n) if isinstance(n, str) else n for n in shape)
    )
    return graph.append(Node(op_type, [graph.add_input("x", fact)], [Value("y", fact)])).output


def orders_between(x: tuple[int, ...], y: tuple[int, ...]) -> set[tuple[int, ...]]:
    """Return every shape-preserving permutation of the elements of an array from shape `y` to shape `x`."""
    cells = np.arange(np.prod(y)).reshape(y)
    turned = [cells.transpose(order) for order in permutations(range(len(y)))]
    return {tuple(each.ravel()) for each in turned if each.shape == x}


def test_ambiguous_permutations_are_layout_candidates() -> None:
    """Told by trying all orders: there is one, and the shape is another one or there is a second."""
    shapes = list(product((1, 2, 3), repeat=3))
    for x, y in product(shapes, shapes):
        found = len(orders_between(y, x))
        assert layouts._is_candidate(value_of(x), value_of(y)) is (found > (x == y)), (x, y)


def test_layout_candidates_are_static_with_2_to_6_axes() -> None:
    looked = [n for n in range(9) if layouts._is_candidate(value_of((2,) * n), value_of((2,) * n))]
    assert looked == [2, 3, 4, 5, 6]
    square = value_of((2, 2))
    for other in (value_of(None), value_of(("N", 2)), value_of((2, 2, 1)), value_of((2, 3))):
        assert not layouts._is_candidate(square, other)
        assert not layouts._is_candidate(other, square)


def test_an_input_and_an_output_keep_their_order() -> None:
    square, other = value_of((2, 2)), value_of((2, 2))
    assert square.producer is not None
    assert not layouts._is_candidate(square.producer.inputs[0], other)
    assert layouts._is_candidate(other, square.producer.inputs[0])
    square.producer.graph.add_output(square)
    assert not layouts._is_candidate(square, other)
    assert layouts._is_candidate(other, square)


@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (3, 3, 2), (2, 1, 3, 2)], ids=str)
def test_detected_permutation_matches_the_elements(shape: tuple[int, ...]) -> None:
    x = RANDOM.normal(size=shape)
    for order in permutations(range(x.ndim)):
        inverse = np.argsort(order)
        for noise in (0, 1e-5):
            y = x.transpose(inverse) + noise
            found = layouts._order(x, y)
            if found is None:
                assert y.shape == x.shape
                np.testing.assert_allclose(y, x, atol=1e-4)
            else:
                np.testing.assert_allclose(y.transpose(found), x, atol=1e-4)
    wrong = x.copy()
    wrong.flat[0] += 100
    assert layouts._order(x, wrong) is None
