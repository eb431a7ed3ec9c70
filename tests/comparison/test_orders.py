"""The first wrong node, where one model has its channels first and the other one last."""

from __future__ import annotations

import numpy as np
import pytest

import graphport as gp
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


# The axes of a cube are told by its numbers alone, as long as another value tells that orders differ at all.
@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 4, 4, 3)])
def test_what_is_turned_and_right_is_passed_by(shape: tuple[int, ...]) -> None:
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), last(shape), x)
    assert found is None or not found.is_beyond


@pytest.mark.parametrize("shape", [(1, 4, 5, 6), (2, 4, 4, 3)])
def test_what_is_turned_and_wrong_is_told_by_its_node(shape: tuple[int, ...]) -> None:
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), last(shape, scale=SCALE * np.array([1, 1, 3, 1], np.float32)), x)
    assert found is not None
    assert (found.operator, found.value, found.is_beyond) == ("Mul", "k", True)
    found = gp.find_difference(first(shape), last(shape, tanh="Softsign"), x)
    assert found is not None
    assert (found.operator, found.value, found.is_beyond) == ("Softsign", "t", True)


def test_a_model_that_turns_nothing_is_left_as_it_is() -> None:
    shape = (1, 4, 4, 4)
    x = {"x": RANDOM.normal(size=shape).astype(np.float32)}
    found = gp.find_difference(first(shape), first(shape), x)
    assert found is None or not found.is_beyond
