"""Images from their blocks, against ONNX Runtime."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.reshape import Col2Im
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, run_operator


@st.composite
def blocks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    axes = draw(st.integers(2, 3))
    block, strides, dilations = (draw(st.lists(st.integers(1, n), min_size=axes, max_size=axes)) for n in (3, 2, 2))
    # With three axes and gaps ONNX Runtime 1.31 leaves elements of a block out; the next test has them.
    dilations = dilations if axes == 2 else [1] * axes
    pads = draw(st.lists(st.integers(0, 1), min_size=2 * axes, max_size=2 * axes))
    image = [(k - 1) * d + 1 + draw(st.integers(0, 3)) for k, d in zip(block, dilations, strict=True)]
    counts = [
        (n + pads[i] + pads[i + axes] - (block[i] - 1) * dilations[i] - 1) // strides[i] + 1
        for i, n in enumerate(image)
    ]
    shape = (draw(st.integers(1, 2)), draw(st.integers(1, 2)) * int(np.prod(block)), int(np.prod(counts)))
    attributes = {"strides": tuple(strides), "dilations": tuple(dilations), "pads": tuple(pads)}
    return [rng.normal(size=shape).astype(np.float32), np.array(image), np.array(block)], attributes


@given(blocks())
def test_images_are_those_of_onnx_runtime(case):
    inputs, attributes = case
    check_operator(Col2Im, inputs, **attributes)


def test_blocks_with_gaps_have_three_axes_too():
    x = np.array([1, 2, 3, 4], np.float32).reshape(1, 4, 1)
    (found,) = run_operator(Col2Im, [x, np.array([2, 3, 1]), np.array([2, 2, 1])], dilations=(1, 2, 1))
    assert found.reshape(2, 3).tolist() == [[1, 0, 2], [3, 0, 4]]


def test_col2im_strides_pads_and_dilations_are_optional():
    check_operator(Col2Im, [np.ones((1, 4, 4), np.float32), np.array([3, 3]), np.array([2, 2])])


def ints(*elements):
    return TensorFact(DType.INT64, (len(elements),), elements)


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        pytest.param([(1, 5, 4), (3, 3), (2, 2)], {}, "5 rows", id="rows"),
        pytest.param(
            [(1, 4, 5), (3, 3), (2, 2)], {}, "input has 5 columns, expected one for each of 4 blocks", id="columns"
        ),
        pytest.param([(4, 4), (3, 3), (2, 2)], {}, "rank 2", id="rank"),
        pytest.param([(1, 4, 4), (3, 3), (2, 2)], {"strides": (1,)}, "2 axes, another parameter 1", id="axes"),
    ],
)
def test_columns_are_refused(operands, attributes, message):
    x, image, block = operands
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(Col2Im, [TensorFact(DType.FLOAT32, x), ints(*image), ints(*block)], attributes, 1)


def test_col2im_accepts_symbolic_dims():
    n = Symbol("N")
    (found,) = Inference().infer_operator(Col2Im, [TensorFact(DType.FLOAT32, (n, 8, 4)), ints(3, 3), ints(2, 2)], {}, 1)
    assert found == TensorFact(DType.FLOAT32, (n, 2, 3, 3))
