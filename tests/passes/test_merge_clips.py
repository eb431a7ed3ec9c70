"""Clips of clips cut off what both cut off, wherever their intervals meet."""

from __future__ import annotations

import itertools

import numpy as np
from onnx import helper

from graphport.passes.merge_clips import merge_clips
from tests.every import every
from tests.passes.alone import applied
from tests.passes.cases import info, model, node

BOUNDS = (None, -2.0, 0.0, 3.0, 6.0)
X = np.array([-9, -2, -1.5, 0, 0.5, 3, 4, 6, 9], np.float32)
INTERVALS = [(a, b) for a, b in itertools.product(BOUNDS, BOUNDS) if a is None or b is None or a <= b]


def clips(first, second, *, outputs=("y",), computed=False):
    constants = {}
    nodes, given, feeds = [], [info("x", [9])], {"x": X}
    for index, (bounds, read, made) in enumerate([(first, "x", "h"), (second, "h", "y")]):
        words = []
        for place, bound in enumerate(bounds):
            words.append("_" if bound is None else f"b{index}{place}")
            if bound is not None and not (computed and index == place == 0):
                constants[words[-1]] = np.array(bound, np.float32)
            elif bound is not None:
                given.append(info(words[-1], []))
                feeds[words[-1]] = np.array(bound, np.float32)
        while words and words[-1] == "_":
            words.pop()
        nodes.append(node("Clip", " ".join([read, *words]), made))
    proto = model(nodes, given, [info(name, [9]) for name in outputs], constants)
    return applied(proto, merge_clips, feeds)[0]


@every(("first", "second"), list(itertools.product(INTERVALS, INTERVALS)))
def test_overlapping_clips_are_merged(first, second):
    low = max([each for each in (first[0], second[0]) if each is not None], default=-np.inf)
    high = min([each for each in (first[1], second[1]) if each is not None], default=np.inf)
    assert len(clips(first, second)) == (1 if low <= high else 2)


def _clipping(form, read, made, index):
    """A node that clips, its constants, and the interval that it keeps."""
    name = f"b{index}"
    match form:
        case "relu":
            return node("Relu", read, made), {}, (0, None)
        case ("max", number, shape):
            return node("Max", f"{read} {name}", made), {name: np.full(shape, number)}, (number, None)
        case ("min", number, shape):
            return node("Min", f"{name} {read}", made), {name: np.full(shape, number)}, (None, number)
        case (low, high):
            constants = {f"{name}l": np.array(low), f"{name}h": np.array(high)}
            return node("Clip", f"{read} {name}l {name}h", made), constants, (low, high)


FORMS = ["relu", ("max", -2, ()), ("max", 3, (1,)), ("min", 6, ()), ("min", 3, (1,)), ("min", -3, ()), (-2, 3), (3, 6)]


@every(("first", "second"), list(itertools.product(FORMS, repeat=2)))
@every("dtype", [np.float32, np.float16, np.int32, np.int64])
def test_overlapping_clip_like_operators_are_merged(first, second, dtype):
    if dtype in (np.int32, np.int64) and "relu" in (first, second):
        return
    one, some, (a, b) = _clipping(first, "x", "h", 0)
    two, others, (c, d) = _clipping(second, "h", "y", 1)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    x = np.array([[-9, -3], [-2, 0], [1, 3], [4, 6], [9, 5]], dtype).reshape(10)
    proto = model(
        [one, two],
        [info("x", [10], kind)],
        [info("y", None, kind)],
        {name: array.astype(dtype) for name, array in (some | others).items()},
        opset=18,
    )
    low = max([each for each in (a, c) if each is not None], default=-99)
    high = min([each for each in (b, d) if each is not None], default=99)
    ops, _ = applied(proto, merge_clips, {"x": x})
    assert len(ops) == (1 if low <= high else 2)
    assert (ops == ["Relu"]) is (first == second == "relu")


def test_bounds_that_make_the_result_larger_or_are_no_number_stay():
    numbers = np.array([1.0, 2.0], np.float32)
    for nodes, constants in (
        ([node("Max", "x b", "h"), node("Min", "h k", "y")], {"b": numbers, "k": np.float32(5)}),
        ([node("Max", "x b", "h"), node("Min", "h k", "y")], {"b": np.float32("nan"), "k": np.float32(5)}),
        ([node("Max", "x b k", "h"), node("Min", "h k", "y")], {"b": np.float32(1), "k": np.float32(5)}),
        ([node("Max", "x b", "h"), node("Relu", "h", "y")], {"b": np.ones((1, 1, 1), np.float32)}),
    ):
        proto = model(nodes, [info("x", [3, 2])], [info("y", None)], constants, opset=18)
        assert len(applied(proto, merge_clips, {"x": np.arange(6, dtype=np.float32).reshape(3, 2)})[0]) == 2


def test_clips_with_other_consumers_or_computed_bounds_are_kept():
    assert len(clips((0.0, 6.0), (3.0, None), outputs=("h", "y"))) == 2
    assert len(clips((0.0, 6.0), (3.0, None), computed=True)) == 2
