"""A second run changes nothing of what the first one wrote: what had no room, what opens chances late, declarations."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from tests.draws import times
from tests.passes.cases import info, model, node, some

SIZES = st.lists(st.integers(1, 400), min_size=1, max_size=7)


def filled(weight: int, idle: int, sizes: list[int]) -> onnx.ModelProto:
    """A model of `weight` stored numbers, `idle` nodes that go, and rows of `sizes` numbers that may be computed."""
    nodes = [node("Add", "x w", "h0"), *(node("Identity", f"h{n}", f"h{n + 1}") for n in range(idle))]
    value, constants = f"h{idle}", {"w": some(weight)}
    outputs = [value]
    for n, size in enumerate(sizes):
        constants[f"s{n}"] = np.array([size])
        nodes.append(node("ConstantOfShape", f"s{n}", f"c{n}", value=onnx.numpy_helper.from_array(some(1) + n)))
        nodes.append(node("Neg", f"c{n}", f"d{n}") if n % 2 else node("Identity", f"c{n}", f"d{n}"))
        nodes.append(node("Concat", f"a{n} d{n}", f"y{n}", axis=0))
        outputs.append(f"y{n}")
    inputs = [info("x", [weight]), *(info(f"a{n}", [size]) for n, size in enumerate(sizes))]
    return model(nodes, inputs, [info(name, None) for name in outputs], constants)


def changed_again(proto: onnx.ModelProto) -> bool:
    once, _ = gp.simplify(gp.from_onnx(proto), verify=False)
    first = gp.to_onnx(once)
    twice, _ = gp.simplify(gp.from_onnx(first), verify=False)
    return gp.to_onnx(twice).SerializeToString() != first.SerializeToString()


@settings(max_examples=times(40))
@given(st.integers(1, 3000), st.integers(0, 12), SIZES)
def test_size_limit_gives_the_same_result_in_a_second_run(weight, idle, sizes):
    assert not changed_again(filled(weight, idle, sizes))


def test_folds_above_the_size_limit_are_reported_as_left():
    one = filled(2000, 0, [120, 120])
    two = filled(2000, 0, [120, 120, 120, 120])
    assert gp.simplify(gp.from_onnx(one), verify=False)[1].changes["fold-constants"] >= 2
    _, report = gp.simplify(gp.from_onnx(two), verify=False)
    left = next(outcome.left for outcome in report.passes if outcome.name == "fold-constants")
    assert len(left) == 4
    assert all("would enlarge the weights by" in note.text for note in left)


def test_oversized_fold_does_not_block_a_small_fold():
    _, report = gp.simplify(gp.from_onnx(filled(2000, 0, [100, 4000])), verify=False)
    left = next(outcome.left for outcome in report.passes if outcome.name == "fold-constants")
    assert len(left) == 1


@pytest.mark.parametrize("axes", [["N", 4], [None, 4]])
def test_inferred_output_shape_is_stable_in_a_second_run(axes):
    assert not changed_again(model([node("Relu", "x", "y")], [info("x", ["M", 4])], [info("y", axes)], {}))
