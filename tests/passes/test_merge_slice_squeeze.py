"""Single elements along an axis are one Gather; the results equal those of ONNX Runtime on the original file."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphport as gp
from graphport.passes.merge_slice_squeeze import merge_slice_squeeze
from tests.draws import times
from tests.every import every
from tests.passes.alone import done
from tests.passes.cases import B, info, model, node

X = (2, 3, 4)


@st.composite
def cuts(draw):
    """Return a Slice of `X` with one element along an axis, with any form of its bounds, and that axis."""
    axis = draw(st.integers(0, 2))
    extent = X[axis]
    step = draw(st.sampled_from([1, 1, 2, -1, -3]))
    bound = st.integers(-extent - 2, extent + 2) | st.sampled_from([1 << 60, -(1 << 60)])
    return (
        axis,
        *draw(st.tuples(bound, bound).filter(lambda each: len(range(extent)[each[0] : each[1] : step]) == 1)),
        step,
    )


@given(cuts(), st.booleans(), st.booleans())
@settings(max_examples=times(60))
def test_slice_of_one_element_and_squeeze_become_gather(cut, is_from_behind, squeezes_from_behind):
    axis, start, end, step = cut
    constants = {
        "a": np.array([start]),
        "b": np.array([end]),
        "k": np.array([axis - 3 if is_from_behind else axis]),
        "t": np.array([step]),
        "s": np.array([axis - 3 if squeezes_from_behind else axis]),
    }
    nodes = [node("Slice", "x a b k t", "h"), node("Squeeze", "h s", "y")]
    source = gp.from_onnx(model(nodes, [info("x", X)], [info("y", None)], constants, opset=18))
    x = np.arange(24, dtype=np.float32).reshape(X)
    expected = gp.run(source, {"x": x}, backend="onnxruntime")["y"]
    ops, _ = done(merge_slice_squeeze, nodes, (("x", X),), **constants)
    assert ops == ["Gather"]
    found, _ = gp.simplify(source, only=["pick-entries", "remove-dead"], verify=False)
    np.testing.assert_array_equal(gp.run(found, {"x": x}, backend="onnxruntime")["y"], expected)


@every("lengths", [*itertools.product((1, 2), repeat=3), (1,), (1, 1, 1, 1)])
@every("wanted", range(1, 8))
def test_split_into_single_elements_and_squeeze_become_gather(lengths, wanted):
    """Bits of `wanted` select the pieces with a consumer; the others may have any length."""
    count = sum(lengths)
    read = [index for index in range(len(lengths)) if wanted >> index & 1]
    if not read:
        return
    pieces = [f"p{index}" for index in range(len(lengths))]
    nodes = [node("Split", "x l", " ".join(pieces), axis=1)]
    for index in read:
        single = lengths[index] == 1
        nodes.append(node("Squeeze", f"p{index} s", f"y{index}") if single else node("Neg", f"p{index}", f"y{index}"))
    ops, _ = done(
        merge_slice_squeeze,
        nodes,
        (("x", (2, count, 3)),),
        outputs=[f"y{index}" for index in read],
        l=np.array(lengths),
        s=np.array([-2]),
    )
    gone = all(lengths[index] == 1 for index in read)
    assert ops == (["Gather"] * len(read) if gone else [each.op_type for each in nodes])


def test_values_with_other_consumers_or_unknown_facts_are_unchanged():
    cut = node("Slice", "x a b k", "h")
    squeeze = node("Squeeze", "h k", "y")
    known = {"a": np.array([1]), "b": np.array([2]), "k": np.array([1])}
    assert done(merge_slice_squeeze, [cut, squeeze], **known)[0] == ["Gather"]
    assert done(merge_slice_squeeze, [cut, squeeze], outputs=("y", "h"), **known)[0] == ["Slice", "Squeeze"]
    other = node("Neg", "h", "z")
    assert done(merge_slice_squeeze, [cut, squeeze, other], outputs=("y", "z"), **known)[0] == [
        "Slice",
        "Squeeze",
        "Neg",
    ]
    assert done(merge_slice_squeeze, [cut, squeeze], (("x", (2, "N", 4)),), **known)[0] == ["Slice", "Squeeze"]
    two = node("Slice", "x a b k", "h")
    both = {"a": np.array([1, 1]), "b": np.array([2, 3]), "k": np.array([1, 2]), "s": np.array([1])}
    assert done(merge_slice_squeeze, [two, node("Squeeze", "h s", "y")], **both)[0] == ["Slice", "Squeeze"]
    # The squeezed axis differs from the sliced axis.
    one = known | {"s": np.array([0])}
    assert done(merge_slice_squeeze, [cut, node("Squeeze", "h s", "y")], (("x", (1, 3, 4)),), **one)[0] == [
        "Slice",
        "Squeeze",
    ]


@pytest.mark.parametrize("missing", ["a", "k"])
def test_bounds_that_are_computed_stay(missing):
    nodes = [node("Slice", "x a b k", "h"), node("Squeeze", "h s", "y")]
    known = {"a": np.array([1]), "b": np.array([2]), "k": np.array([1]), "s": np.array([1])}
    inputs = [info("x", X), info("c", [], B), info(missing, [1], 7)]
    source = gp.from_onnx(
        model(nodes, inputs, [info("y", None)], {n: v for n, v in known.items() if n != missing}, opset=18)
    )
    found, _ = gp.simplify(source, only=["pick-entries"], verify=False)
    assert [each.op for each in found.graph] == ["Slice", "Squeeze"]


def test_reshape_and_squeeze_are_kept():
    nodes = [node("Reshape", "x to", "h"), node("Squeeze", "h one", "y")]
    constants = {"to": np.array([6, 4, 1]), "one": np.array([2])}
    words, _ = done(merge_slice_squeeze, nodes, [("x", (24,))], **constants)
    assert words == ["Reshape", "Squeeze"]
