"""Padding against ONNX Runtime, in old opsets and in NNEF, and what its shape rule refuses."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.definitions.padding import Pad
from graphport.ops.infer import Inference
from tests.ops.oracle import (
    check_operator,
    check_shapes,
    compare,
    lowered_nodes,
    old_opset,
    run_operator,
    run_word,
    there_and_back,
)

NUMPY_MODES: dict[str, Any] = {
    "constant": "constant",
    "replicate": "edge",
    "reflect": "reflect",
    "reflect-even": "symmetric",
}


def random(*shape, dtype: Any = np.float32):
    return (np.random.default_rng(shape).normal(size=shape) * 10).astype(dtype)


@given(st.sampled_from(["constant", "reflect", "edge", "wrap"]), st.data())
def test_padding_is_that_of_onnx_runtime(mode, data):
    rank = data.draw(st.integers(1, 3))
    dims = tuple(data.draw(st.integers(3, 5)) for _ in range(rank))
    axes = data.draw(st.one_of(st.none(), st.lists(st.integers(0, rank - 1), unique=True, min_size=1)))
    least = -1 if mode == "constant" else 0
    pads = np.array([data.draw(st.integers(least, 2)) for _ in range(2 * (rank if axes is None else len(axes)))])
    value = np.asarray(random()) if mode == "constant" and data.draw(st.booleans()) else None
    check_operator(Pad, [random(*dims), pads, value, None if axes is None else np.array(axes)], mode=mode)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.int64, np.float64, np.bool_, np.uint16, np.float16])
def test_padding_keeps_the_element_type(dtype):
    found = run_operator(Pad, [random(2, 3, dtype=dtype), np.array([1, 0, 0, 1])])[0]
    assert found.dtype == dtype
    compare(found, np.pad(random(2, 3, dtype=dtype), ((1, 0), (0, 1))))


@pytest.mark.parametrize("dtype", [DType.INT4, DType.UINT2, DType.FLOAT8E5M2, DType.BFLOAT16], ids=str)
def test_narrow_types_are_padded_with_their_zero(dtype):
    found = run_operator(Pad, [np.ones((2,), dtype.numpy), np.array([1, 0])])[0]
    assert found.dtype == dtype.numpy
    assert found.astype(np.float32).tolist() == [0, 1, 1]


def test_string_padding_uses_the_empty_string():
    text = np.array(["a", "b"], object)
    assert run_operator(Pad, [text, np.array([0, 1])])[0].tolist() == ["a", "b", ""]
    assert run_operator(Pad, [text, np.array([1, 0])], mode="edge")[0].tolist() == ["a", "a", "b"]


def test_negative_padding_crops_before_the_rest_is_mirrored():
    x = np.arange(5.0, dtype=np.float32)
    assert run_operator(Pad, [x, np.array([-2, 2])], mode="reflect")[0].tolist() == [2, 3, 4, 3, 2]


def test_shapes_follow_symbolic_extents():
    n = Symbol("N")
    pads = TensorFact(DType.INT64, (4,), (1, 0, 2, -1))
    (found,) = Inference().infer_operator(Pad, [TensorFact(DType.FLOAT32, (n, 5)), pads], {}, 1)
    assert found == TensorFact(DType.FLOAT32, (n + 3, 4))
    (found,) = Inference().infer_operator(
        Pad, [TensorFact(DType.FLOAT32, (n, 5)), TensorFact(DType.INT64, (4,))], {}, 1
    )
    assert found == TensorFact(DType.FLOAT32, (OPEN, OPEN))
    axes = TensorFact(DType.INT64, (1,), (1,))
    (found,) = Inference().infer_operator(
        Pad, [TensorFact(DType.FLOAT32, (n, 5)), TensorFact(DType.INT64, (2,)), None, axes], {}, 1
    )
    assert found == TensorFact(DType.FLOAT32, (n, OPEN))


def test_padding_of_a_shape_tensor_keeps_symbolic_elements():
    n = Symbol("N")
    shape = TensorFact(DType.INT64, (2,), (n, 5))
    (found,) = Inference().infer_operator(Pad, [shape, TensorFact(DType.INT64, (2,), (1, 0))], {}, 1)
    assert found == TensorFact(DType.INT64, (3,), (0, n, 5))


@pytest.mark.parametrize("opset", [11, 13, 18])
def test_old_padding_is_equivalent(opset):
    old_opset("Pad", opset, [random(2, 3), np.array([0, 1, 2, 0]), np.asarray(random())])


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_amounts_used_to_be_attributes(mode):
    old_opset("Pad", 2, [random(4, 5)], pads=(1, 0, 2, 1), mode=mode, value=3.0)
    (found,) = run_word("onnx", "Pad", [random(4, 5)], opset=1, paddings=(1, 0, 2, 1), mode=mode, value=3.0)
    (expected,) = run_word("onnx", "Pad", [random(4, 5)], opset=2, pads=(1, 0, 2, 1), mode=mode, value=3.0)
    compare(found, expected)


@given(st.sampled_from(sorted(NUMPY_MODES)), st.integers(-1, 2), st.integers(-1, 2))
def test_borders_of_nnef_are_those_of_numpy(border, begin, end):
    x = random(3, 4)
    (found,) = run_word("nnef", "pad", [x], padding=((0, 0), (begin, end)), border=border, value=2.0)
    kept = x[:, max(-begin, 0) : 4 - max(-end, 0)]
    value = {"constant_values": 2.0} if border == "constant" else {}
    compare(found, np.pad(kept, ((0, 0), (max(begin, 0), max(end, 0))), NUMPY_MODES[border], **value))


def test_mirroring_the_edge_needs_to_know_that_the_axis_is_long_enough():
    arguments: dict[str, Any] = {"padding": ((1, 2), (0, 0)), "border": "reflect-even", "value": 0.0}
    with pytest.raises(UnsupportedError, match="mirror padding"):
        run_word("nnef", "pad", [random(3, 4)], symbolic=True, **arguments)


def test_reflect_padding_of_long_axes_uses_slices():
    attributes: dict[str, Any] = {"padding": ((1, 2),), "border": "reflect-even", "value": 0.0}
    nodes = lowered_nodes("nnef", "pad", [(1 << 40,)], **attributes)
    assert [operator for operator, _ in nodes] == ["Slice", "Slice", "Concat"]
    with pytest.raises(UnsupportedError, match="mirror padding"):
        lowered_nodes("nnef", "pad", [(1 << 40,)], **attributes | {"padding": ((-1, 2),)})


def test_padding_of_nnef_has_a_pair_for_each_dimension():
    with pytest.raises(ShapeError, match="1 pairs"):
        run_word("nnef", "pad", [random(3, 4)], padding=((1, 1),), border="constant", value=0.0)
    with pytest.raises(ShapeError, match="'mirror'"):
        run_word("nnef", "pad", [random(3)], padding=((1, 1),), border="mirror", value=0.0)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge", "wrap"])
@pytest.mark.parametrize("axes", [None, (-1,)])
def test_exporting_padding_preserves_its_semantics(mode, axes):
    pads = np.array([1, 2] if axes else [0, 1, 2, 0])
    value = np.asarray(random()) if mode == "constant" else None
    inputs = [random(3, 4), pads, value, None if axes is None else np.array(axes)]
    words = there_and_back(Pad, inputs, constants=(1, 2, 3), mode=mode)
    # NNEF has no wrapping pad: it is a concat of the tensor and its slices.
    assert set(words) == ({"slice", "concat", "copy"} if mode == "wrap" else {"pad"})


def test_amounts_that_are_computed_are_not_stated():
    assert there_and_back(Pad, [random(3), np.array([1, 1])]) is None


@pytest.mark.parametrize(
    ("pads", "axes", "mode", "message"),
    [
        pytest.param((1, 1), None, "constant", "2 entries for 2 axes", id="too few"),
        pytest.param((1, 1), (2,), "constant", "outside", id="axis"),
        pytest.param((1, 1, 1, 1), (0, -2), "constant", "twice", id="axis twice"),
        pytest.param((-3, 0, -1, 0), None, "constant", "cuts more", id="too much cut off"),
        pytest.param((1, 1, 1, 1), None, "mirror", "'mirror'", id="mode"),
    ],
)
def test_padding_refuses(pads, axes, mode, message):
    operands = [
        TensorFact(DType.FLOAT32, (3, 4)),
        TensorFact(DType.INT64, (len(pads),), pads),
        None,
        None if axes is None else TensorFact(DType.INT64, (len(axes),), axes),
    ]
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(Pad, operands, {"mode": mode}, 1)


def test_results_have_the_shapes_that_the_rule_states():
    inputs = [random(3, 4), np.array([1, -1]), None, np.array([1])]
    check_shapes(Pad, inputs, run_operator(Pad, inputs))
