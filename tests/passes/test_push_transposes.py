"""A Transpose meets the one before it through operators that treat elements one by one."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.passes.push_transposes import MAX_CHAIN, push_transposes
from tests.draws import times
from tests.passes.alone import applied
from tests.passes.cases import info, model, node, some

SHAPE = (2, 3, 5)
X = some(*SHAPE)
UNARY, BINARY = ("Relu", "Neg", "Abs", "Sigmoid"), ("Add", "Mul", "Sub", "Max", "Div")


def between(steps, first, second, *, outputs=("y",), constants=None):
    """Transposes around steps; each is a word, or a word and the constant that it takes, at the left or the right."""
    given = dict(constants or {})
    nodes = [node("Transpose", "x", "t", perm=first)]
    value = "t"
    for index, (op_type, constant, is_left) in enumerate(steps):
        operands = value
        if constant is not None:
            given[f"k{index}"] = constant
            operands = f"k{index} {value}" if is_left else f"{value} k{index}"
        nodes.append(node(op_type, operands, f"h{index}"))
        value = f"h{index}"
    nodes.append(node("Transpose", value, "y", perm=second))
    proto = model(nodes, [info("x", SHAPE)], [info(name, None) for name in outputs], given)
    return applied(proto, push_transposes, {"x": X}, exact=False)[0]


@st.composite
def chains(draw: st.DrawFn):
    first, second = (draw(st.permutations(range(3))) for _ in range(2))
    moved = tuple(SHAPE[axis] for axis in first)
    steps = []
    for index in range(draw(st.integers(1, 4))):
        if draw(st.booleans()):
            steps.append((draw(st.sampled_from(UNARY)), None, False))
            continue
        # A number for each entry, for each of some axes, or for all together; of as many axes, or of fewer.
        shape = tuple(extent if draw(st.booleans()) else 1 for extent in moved)[draw(st.integers(0, 3)) :]
        steps.append((draw(st.sampled_from(BINARY)), 1.5 + np.abs(some(*shape, seed=index)), draw(st.booleans())))
    return steps, first, second


@settings(max_examples=times(60))
@given(chains())
def test_any_chain_computes_equal_results(chain):
    steps, first, second = chain
    ops = between(steps, first, second)
    assert ops[-1] == "Transpose"
    assert len(ops) <= len(steps) + 2


FULL = some(5, 2, 3, seed=9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_constant_operands_are_transposed_when_a_transpose_moves_past(count):
    words = [("Add", FULL, False), ("Mul", FULL + 3, True), ("Relu", None, False)][:count]
    assert between(words, (2, 0, 1), (1, 2, 0)) == [*(op_type for op_type, _, _ in words), "Transpose"]


@pytest.mark.parametrize("output", ["t", "h0", "h1"])
def test_values_with_another_consumer_are_unchanged(output):
    steps = [("Relu", None, False), ("Add", FULL, False)]
    assert between(steps, (2, 0, 1), (1, 2, 0), outputs=("y", output)) == ["Transpose", "Relu", "Add", "Transpose"]


def test_transpose_does_not_move_past_axis_operators_or_computed_operands():
    nodes = [node("Transpose", "x", "t", perm=[2, 0, 1]), node("Softmax", "t", "h", axis=1)]
    nodes.append(node("Transpose", "h", "y", perm=[1, 2, 0]))
    proto = model(nodes, [info("x", SHAPE)], [info("y", None)])
    assert applied(proto, push_transposes, {"x": X})[0] == ["Transpose", "Softmax", "Transpose"]
    nodes[1] = node("Add", "t z", "h")
    proto = model(nodes, [info("x", SHAPE), info("z", (5, 2, 3))], [info("y", None)])
    assert applied(proto, push_transposes, {"x": X, "z": FULL})[0] == ["Transpose", "Add", "Transpose"]


def test_transpose_does_not_move_past_a_rank_increasing_constant():
    grown = some(4, 5, 2, 3, seed=2)
    nodes = [node("Transpose", "x", "t", perm=[2, 0, 1]), node("Add", "t k", "h")]
    nodes.append(node("Transpose", "h", "y", perm=[0, 2, 3, 1]))
    proto = model(nodes, [info("x", SHAPE)], [info("y", None)], {"k": grown})
    assert applied(proto, push_transposes, {"x": X})[0] == ["Transpose", "Add", "Transpose"]


def test_chains_have_an_end():
    for count, is_short in ((MAX_CHAIN, True), (MAX_CHAIN + 3, False)):
        steps = list(itertools.islice(itertools.cycle([("Relu", None, False), ("Neg", None, False)]), count))
        assert (between(steps, (2, 0, 1), (1, 2, 0)).count("Transpose") == 1) is is_short
