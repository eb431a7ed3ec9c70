"""The middle of tensors, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.padding import CenterCropPad
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, run_operator


@given(st.data())
def test_middles_are_those_of_onnx_runtime(data):
    dims = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3))
    axes = data.draw(st.sampled_from([None, *[(axis,) for axis in range(-len(dims), len(dims))]]))
    count = len(dims) if axes is None else 1
    shape = np.array(data.draw(st.lists(st.integers(1, 8), min_size=count, max_size=count)))
    x = np.arange(1, np.prod(dims) + 1, dtype=np.float32).reshape(dims)
    check_operator(CenterCropPad, [x, shape], axes=axes)


def test_text_is_surrounded_by_empty_text():
    assert run_operator(CenterCropPad, [np.array(["a"], object), np.array([3])])[0].tolist() == ["", "a", ""]


def test_centercroppad_accepts_symbolic_sizes():
    n = Symbol("N")
    facts = [TensorFact(DType.FLOAT32, (2, 5)), TensorFact(DType.INT64, (1,), (n,))]
    assert Inference().infer_operator(CenterCropPad, facts, {"axes": (-1,)}, 1) == (TensorFact(DType.FLOAT32, (2, n)),)


@pytest.mark.parametrize(
    ("shape", "axes", "message"),
    [
        pytest.param((3,), None, "1 lengths for 2 axes", id="count"),
        pytest.param((-1, 2), None, "negative", id="negative"),
        pytest.param((3,), (2,), "outside", id="axis"),
    ],
)
def test_middles_are_refused(shape, axes, message):
    facts = [TensorFact(DType.FLOAT32, (2, 5)), TensorFact(DType.INT64, (len(shape),), shape)]
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(CenterCropPad, facts, {} if axes is None else {"axes": axes}, 1)
