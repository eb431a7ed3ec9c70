"""Poolings against ONNX Runtime, and what their shape rules refuse."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.pooling import (
    AveragePool,
    GlobalAveragePool,
    GlobalLpPool,
    GlobalMaxPool,
    LpPool,
    MaxPool,
    MaxRoiPool,
    MaxUnpool,
)
from graphport.ops.infer import Inference
from tests.ops.oracle import check_operator, check_shapes, compare, old_opset, run_operator


def random(*shape, dtype: Any = np.float32, seed=0):
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype(dtype)


@st.composite
def windows(draw):
    """Extents and the attributes of a window that fits."""
    rank = draw(st.integers(1, 3))
    dims = tuple(draw(st.integers(5, 8)) for _ in range(rank))
    kernel = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    attributes: dict[str, Any] = {"kernel_shape": kernel, "ceil_mode": draw(st.integers(0, 1))}
    if draw(st.booleans()):
        attributes["strides"] = tuple(draw(st.integers(1, 3)) for _ in range(rank))
    padding = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER", "VALID", "none"]))
    if padding == "pads":
        attributes["pads"] = tuple(draw(st.integers(0, k - 1)) for k in 2 * kernel)
        attributes["dilations"] = tuple(draw(st.integers(1, 2)) for _ in range(rank))
    elif padding != "none":
        attributes["auto_pad"] = padding
    if padding.startswith("SAME") and "strides" in attributes:
        # Where a window is shorter than its stride, ONNX Runtime's automatic padding is negative.
        attributes["strides"] = tuple(map(min, attributes["strides"], kernel))
    return dims, attributes


@given(windows(), st.integers(0, 1))
def test_max_pool_is_that_of_onnx_runtime(window, storage_order):
    dims, attributes = window
    check_operator(MaxPool, [random(2, 3, *dims)], outputs=2, storage_order=storage_order, **attributes)


@given(windows(), st.integers(0, 1))
def test_average_pool_is_that_of_onnx_runtime(window, count_include_pad):
    dims, attributes = window
    check_operator(AveragePool, [random(2, 3, *dims)], count_include_pad=count_include_pad, **attributes)


@given(windows(), st.sampled_from([1, 2, 3]))
def test_lp_pool_is_that_of_onnx_runtime(window, p):
    dims, attributes = window
    check_operator(LpPool, [random(2, 3, *dims)], p=p, tolerance=1e-4, **attributes)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.float16, np.float64])
def test_max_pool_keeps_the_element_type(dtype):
    x = (random(1, 2, 5, 5) * 50).astype(dtype)
    page_only = dtype is np.float16
    found = run_operator(MaxPool, [x], kernel_shape=(3, 3), pads=(1, 1, 1, 1))
    assert found[0].dtype == dtype
    if not page_only:
        check_operator(MaxPool, [x], outputs=2, kernel_shape=(3, 3), pads=(1, 1, 1, 1))


def test_max_pool_names_the_first_of_equal_entries():
    _, places = run_operator(MaxPool, [np.zeros((1, 2, 4), np.float32)], kernel_shape=(2,), strides=(2,))
    assert places.tolist() == [[[0, 2], [4, 6]]]


def test_max_pool_of_minus_infinity_names_an_entry_and_not_the_padding():
    y, places = run_operator(MaxPool, [np.full((1, 1, 2), -np.inf, np.float32)], kernel_shape=(2,), pads=(1, 1))
    assert y.tolist() == [[[-np.inf] * 3]]
    assert places.min() >= 0


def test_bfloat16_is_averaged_in_single_precision():
    x = np.full((1, 1, 300), 1.0).astype(DType.BFLOAT16.numpy)
    y = run_operator(AveragePool, [x], kernel_shape=(300,))[0]
    assert y.dtype == DType.BFLOAT16.numpy
    assert float(y[0, 0, 0]) == 1.0


@pytest.mark.parametrize("shape", [(2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 2, 2)])
def test_global_pools_are_those_of_onnx_runtime(shape):
    check_operator(GlobalAveragePool, [random(*shape)])
    check_operator(GlobalMaxPool, [random(*shape)])
    check_operator(GlobalLpPool, [random(*shape)], p=3, opset=21)


def test_unpooling_puts_entries_back():
    x = random(2, 3, 6, 8)
    y, places = run_operator(MaxPool, [x], kernel_shape=(2, 2), strides=(2, 2))
    back = check_operator(MaxUnpool, [y, places], kernel_shape=(2, 2), strides=(2, 2))[0]
    np.testing.assert_array_equal(np.sort(back[back != 0]), np.sort(y.reshape(-1)))
    np.testing.assert_array_equal(back[back != 0], x[back != 0])


def test_unpooling_into_a_larger_shape_leaves_zeros_at_the_ends():
    x, places = np.array([[[[1, 2], [3, 4]]]], np.float32), np.array([[[[5, 7], [13, 15]]]], np.int64)
    shape = np.array([1, 1, 5, 5])
    y = run_operator(MaxUnpool, [x, places, shape], kernel_shape=(2, 2), strides=(2, 2))
    expected = np.zeros((1, 1, 5, 5), np.float32)
    expected[0, 0, 1::2, 1::2] = x[0, 0]
    compare(y[0], expected)
    check_shapes(MaxUnpool, [x, places, shape], y, kernel_shape=(2, 2), strides=(2, 2))


def test_maxunpool_index_out_of_range_raises_indexerror():
    with pytest.raises(IndexError):
        MaxUnpool(np.ones((1, 1, 1), np.float32), np.array([[[9]]]), kernel_shape=(2,))


@given(
    st.lists(st.tuples(st.integers(0, 1), *[st.integers(0, 9)] * 4), min_size=1, max_size=5),
    st.sampled_from([0.5, 1.0]),
)
def test_region_pooling_is_that_of_onnx_runtime(regions, scale):
    rois = [(batch, min(a, c), min(b, d), max(a, c), max(b, d)) for batch, a, b, c, d in regions]
    x = random(2, 3, 10, 11)
    attributes: dict[str, Any] = {"pooled_shape": (2, 3), "spatial_scale": scale}
    check_operator(MaxRoiPool, [x, np.array(rois, np.float32)], opset=21, **attributes)


def test_maxroipool_accepts_an_unknown_number_of_regions():
    x, rois = TensorFact(DType.FLOAT32, (2, 3, 8, 8)), TensorFact(DType.FLOAT32, None)
    (fact,) = Inference().infer_operator(MaxRoiPool, [x, rois], {"pooled_shape": (2, 2)}, 1)
    assert fact == TensorFact(DType.FLOAT32, (OPEN, 3, 2, 2))


@pytest.mark.parametrize("opset", [1, 8, 10, 11, 12])
def test_old_max_pools_are_equivalent(opset):
    x = random(1, 2, 6, 7)
    old_opset("MaxPool", opset, [x], kernel_shape=(3, 2), pads=(1, 0, 1, 1), strides=(2, 2))


@pytest.mark.parametrize("opset", [7, 10, 11, 19])
def test_old_average_pools_are_equivalent(opset):
    old_opset("AveragePool", opset, [random(1, 2, 6, 7)], kernel_shape=(3, 2), pads=(1, 0, 1, 1), count_include_pad=1)


@pytest.mark.parametrize("opset", [2, 11, 18])
def test_old_lp_pools_are_equivalent(opset):
    old_opset("LpPool", opset, [random(1, 2, 6, 7)], kernel_shape=(3, 2), p=3, tolerance=1e-4)
    old_opset("GlobalLpPool", min(opset, 2), [random(1, 2, 6, 7)], p=3, tolerance=1e-4)


def test_the_first_lp_pools_had_real_exponents():
    lowered = registry.lowering("onnx", "LpPool", 1)
    assert lowered is not None
    x = random(1, 2, 6)
    from tests.ops.oracle import run_word

    (found,) = run_word("onnx", "LpPool", [x], opset=1, kernel_shape=(2,), p=2.0)
    compare(found, run_operator(LpPool, [x], kernel_shape=(2,))[0])
    (found,) = run_word("onnx", "GlobalLpPool", [x], opset=1)
    compare(found, run_operator(GlobalLpPool, [x])[0])


def fact(*shape, dtype=DType.FLOAT32):
    return TensorFact(dtype, shape)


@pytest.mark.parametrize(
    ("op_def", "operands", "attributes", "message"),
    [
        pytest.param(MaxPool, [fact(1, 2)], {"kernel_shape": ()}, "rank 2", id="no spatial axis"),
        pytest.param(MaxPool, [fact(1, 2, 5)], {"kernel_shape": (2, 2)}, "2 entries", id="kernel's length"),
        pytest.param(MaxPool, [fact(1, 2, 5)], {"kernel_shape": (0,)}, "positive", id="empty kernel"),
        pytest.param(MaxPool, [fact(1, 2, 5)], {"kernel_shape": (6,)}, "reaches over", id="too large"),
        pytest.param(MaxPool, [fact(1, 2, 5)], {"kernel_shape": (2,), "storage_order": 2}, "storage_order", id="order"),
        pytest.param(
            AveragePool, [fact(1, 2, 5)], {"kernel_shape": (2,), "count_include_pad": 2}, "count_include_pad", id="flag"
        ),
        pytest.param(LpPool, [fact(1, 2, 5)], {"kernel_shape": (2,), "p": 0}, "p is 0", id="exponent"),
        pytest.param(GlobalLpPool, [fact(1, 2, 5)], {"p": -1}, "p is -1", id="global exponent"),
        pytest.param(GlobalMaxPool, [fact(5)], {}, "rank 1", id="no channels"),
        pytest.param(
            MaxUnpool, [fact(1, 2, 5), fact(1, 2, 4, dtype=DType.INT64)], {"kernel_shape": (2,)}, "axis 2", id="i"
        ),
        pytest.param(
            MaxUnpool, [fact(1, 2, 5), fact(5, dtype=DType.INT64)], {"kernel_shape": (2,)}, "rank 1", id="i's rank"
        ),
        pytest.param(
            MaxUnpool,
            [fact(1, 2, 5), fact(1, 2, 5, dtype=DType.INT64)],
            {"kernel_shape": (2, 2)},
            "2 entries",
            id="kernel",
        ),
        pytest.param(MaxRoiPool, [fact(2, 3, 8), fact(1, 5)], {"pooled_shape": (1, 1)}, "rank 3", id="no image"),
        pytest.param(MaxRoiPool, [fact(2, 3, 8, 8), fact(1, 4)], {"pooled_shape": (1, 1)}, "5 and 4", id="region"),
        pytest.param(MaxRoiPool, [fact(2, 3, 8, 8), fact(5)], {"pooled_shape": (1, 1)}, "rank 1", id="regions"),
        pytest.param(MaxRoiPool, [fact(2, 3, 8, 8), fact(1, 5)], {"pooled_shape": (1,)}, "pooled_shape", id="shape"),
    ],
)
def test_pools_refuse(op_def, operands, attributes, message):
    with pytest.raises(ShapeError, match=message):
        Inference().infer_operator(op_def, operands, attributes, 1)
