"""Reductions against ONNX Runtime, and what their shape rules refuse."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.definitions.reduction import (
    ArgMax,
    ArgMin,
    CumProd,
    CumSum,
    ReduceMax,
    ReduceMean,
    ReduceProd,
    ReduceSum,
    TopK,
)
from tests.draws import times
from tests.every import every
from tests.ops.facts import f32, facts_of, ints, refuse
from tests.ops.oracle import check_operator, compare, old_opset, run_operator, run_word
from tests.ops.standard import check_by_standard

OP_DEFS = registry.op_defs()
REDUCTIONS = [
    "ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin",
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceSumSquare",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def numbers(shape, dtype=np.float32, seed=0):
    x = np.random.default_rng([seed, *shape]).normal(size=shape) * 3
    if np.dtype(dtype).kind in "ub":
        x = np.abs(x)
    return np.asarray(x, np.float64).astype(dtype)


@st.composite
def reductions(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), max_size=4)))
    chosen = draw(st.lists(st.sampled_from(range(len(shape))), unique=True)) if shape else []
    axes = np.array([axis - len(shape) * draw(st.booleans()) for axis in chosen], np.int64)
    return (
        shape,
        draw(st.sampled_from([None, axes])) if not chosen else axes,
        draw(st.integers(0, 1)),
        draw(st.integers(0, 1)),
    )


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=times(25))
@given(reductions(), st.sampled_from([np.float32, np.int32]))
def test_reduction_is_that_of_onnx_runtime(name, reduction, dtype):
    shape, axes, keepdims, noop = reduction
    x = np.asarray(np.abs(numbers(shape, dtype)) + np.array(1, dtype))
    if dtype is np.int32 and name == "ReduceProd":
        x = np.asarray(np.minimum(x, 2 if x.size < 30 else 1))  # products that wrap differ
    if dtype is np.int32 and name in ("ReduceLogSum", "ReduceLogSumExp", "ReduceL2"):
        dtype, x = np.float32, x.astype(np.float32)
    check_operator(OP_DEFS[name], [x, axes], keepdims=keepdims, noop_with_empty_axes=noop, tolerance=1e-4)


@every("name", REDUCTIONS)
@every("dtype", [np.float16, np.float64, np.int64, np.uint32, np.uint64, ml_dtypes.bfloat16])
def test_reduction_supports_every_dtype(name, dtype):
    x = numbers((3, 4), dtype)
    x = (np.abs(x.astype(np.float64)) + 1).astype(dtype)
    found = run_operator(OP_DEFS[name], [x, np.array([1])])[0]
    assert found.dtype == dtype
    expected = run_operator(OP_DEFS[name], [x.astype(np.float64), np.array([1])])[0]
    limit = {"float16": 1e-3, "bfloat16": 8e-3}.get(np.dtype(dtype).name, 1e-12)
    trunc = np.trunc(expected) if np.dtype(dtype).kind in "iu" else expected
    np.testing.assert_allclose(found.astype(np.float64), trunc, rtol=limit)


@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.bool_, np.float64, np.int64])
def test_extremes_are_those_of_onnx_runtime(name, dtype):
    check_operator(OP_DEFS[name], [numbers((3, 4, 2), dtype), np.array([0, 2])])
    check_operator(OP_DEFS[name], [numbers((3, 4), dtype)], keepdims=0)


@pytest.mark.parametrize("name", [name for name in REDUCTIONS if name != "ReduceMean"])
def test_reduction_over_an_empty_axis_matches_the_standard(name):
    check_by_standard(OP_DEFS[name], [np.zeros((2, 0, 3), np.float32), np.array([1])])


def test_mean_of_integers_is_truncated():
    assert ReduceMean(np.array([[-3, -4], [3, 4]]), np.array([1]), keepdims=0).tolist() == [-3, 3]
    assert ReduceMean(np.array([2**62 + 1, 2**62 + 1]), keepdims=0) == -(2**62) + 1  # the sum wraps


def test_half_types_are_summed_in_single_precision():
    x = np.full(4096, 0.1, np.float16)
    assert abs(float(ReduceSum(x, keepdims=0)) - 409.6) < 0.5


def test_axes_are_checked():
    refuse(ReduceSum, [f32(2, 3), ints(2)], "axis 2 is outside")
    refuse(ReduceSum, [f32(2, 3), ints(1, -1)], "name one axis twice")
    refuse(ReduceSum, [f32(2), TensorFact(DType.INT64, (2,))], "2 axes of a tensor of rank 1", keepdims=0)


def test_reduction_with_unknown_axes_infers_the_rank():
    two = TensorFact(DType.INT64, (1,))
    (kept,) = facts_of(ReduceSum, [f32(2, 3), two], {}, 1)
    assert kept.rank == 2
    (fewer,) = facts_of(ReduceSum, [f32(2, 3, 4), two], {"keepdims": 0}, 1)
    assert fewer.rank == 2
    many = TensorFact(DType.INT64, (Symbol("K"),))
    assert facts_of(ReduceSum, [f32(2, 3), many], {"keepdims": 0}, 1)[0].shape is None
    none = TensorFact(DType.INT64, (0,))
    assert facts_of(ReduceSum, [f32(2, 3), none], {"keepdims": 0}, 1)[0].shape == ()
    noop = {"keepdims": 0, "noop_with_empty_axes": 1}
    assert facts_of(ReduceSum, [f32(2, 3), none], noop, 1)[0].shape == (2, 3)


N = Symbol("N", 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("ReduceSum", "N+7"), ("ReduceProd", "12*N"), ("ReduceMax", "max(N,4)"), ("ReduceMin", "min(N,3)")],
)
@pytest.mark.parametrize("keepdims", [0, 1])
def test_dims_are_reduced(name, expected, keepdims):
    (fact,) = facts_of(OP_DEFS[name], [ints(N, 3, 4)], {"keepdims": keepdims}, 1)
    assert [str(dim) for dim in fact.elements] == [expected]
    assert fact.shape == ((1,) if keepdims else ())


def test_product_of_a_shape_is_its_size():
    (fact,) = facts_of(ReduceProd, [ints(2, 3), ints(0)], {"keepdims": 0}, 1)
    assert fact == TensorFact(DType.INT64, (), (6,))
    (fact,) = facts_of(ReduceMax, [ints(N, 3), ints()], {"noop_with_empty_axes": 1}, 1)
    assert fact.elements == (N, 3)


# Places


@pytest.mark.parametrize("op_def", [ArgMax, ArgMin], ids=lambda op_def: op_def.name)
@given(st.data())
def test_argmax_and_argmin_match_onnx_runtime(op_def, data):
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    dtype = data.draw(st.sampled_from([np.float32, np.int32, np.int8, np.uint8, np.float64]))
    x = np.random.default_rng(0).integers(0, 3, shape).astype(dtype)
    check_operator(
        op_def, [x], axis=axis, keepdims=data.draw(st.integers(0, 1)), select_last_index=data.draw(st.integers(0, 1))
    )


@pytest.mark.parametrize("op_def", [ArgMax, ArgMin], ids=lambda op_def: op_def.name)
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int16, np.uint64])
def test_argmax_and_argmin_support_every_dtype(op_def, dtype):
    x = np.random.default_rng(0).integers(0, 9, (3, 5)).astype(dtype)
    np.testing.assert_array_equal(op_def(x, axis=1), op_def(x.astype(np.float64), axis=1))


def test_argmax_over_an_empty_axis_is_rejected():
    refuse(ArgMax, [f32(2, 0)], "axis 1 has length 0", axis=1)
    refuse(ArgMin, [f32(2, 3)], "axis 2 is outside", axis=2)


@given(st.data())
def test_largest_are_those_of_onnx_runtime(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    k = data.draw(st.integers(0, shape[axis]))
    dtype = data.draw(st.sampled_from([np.float32, np.int32, np.int64, np.float64]))
    x = np.random.default_rng(1).integers(-3, 4, shape).astype(dtype)
    check_operator(TopK, [x, np.array([k])], outputs=2, axis=axis, largest=data.draw(st.integers(0, 1)))


def test_more_than_there_are_is_refused():
    refuse(TopK, [f32(2, 3), ints(4)], "k is 4, axis 1 has 3 entries")
    refuse(TopK, [f32(2, 3), ints(-1)], "k is -1")
    refuse(TopK, [f32(2, 3), ints(1, 1)], "k has 2 elements")
    with pytest.raises(IndexError):
        TopK(np.zeros(3, np.float32), np.array([4]))


def test_topk_accepts_a_symbolic_k():
    values, places = facts_of(TopK, [TensorFact(DType.FLOAT32, (2, 100)), ints(N)], {}, 2)
    assert values.shape == places.shape == (2, N)


# Running sums


@given(st.data())
def test_running_sum_is_that_of_onnx_runtime(data):
    shape = tuple(data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3)))
    axis = np.array(
        data.draw(st.integers(-len(shape), len(shape) - 1)), data.draw(st.sampled_from([np.int32, np.int64]))
    )
    dtype = data.draw(st.sampled_from([np.float32, np.float64, np.int32, np.int64]))
    x = numbers(shape, dtype)
    check_operator(CumSum, [x, axis], exclusive=data.draw(st.integers(0, 1)), reverse=data.draw(st.integers(0, 1)))


@pytest.mark.parametrize("exclusive", [0, 1])
@pytest.mark.parametrize("reverse", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint64, np.float16])
def test_running_product_is_that_of_the_standard(exclusive, reverse, dtype):
    x = numbers((3, 4), dtype)
    if dtype is np.float16:
        found = CumProd(x, np.array(1), exclusive=exclusive, reverse=reverse)
        wide = CumProd(x.astype(np.float32), np.array(1), exclusive=exclusive, reverse=reverse)
        compare(found, wide.astype(np.float16))
    else:
        check_by_standard(CumProd, [x, np.array(1)], exclusive=exclusive, reverse=reverse)


def test_running_sum_refuses_an_axis_outside():
    refuse(CumSum, [f32(2, 3), TensorFact(DType.INT64, (), (2,))], "axis 2 is outside")
    refuse(CumSum, [f32(2, 3), ints(0, 1)], "axis has 2 elements")


# Older forms


@every("name", REDUCTIONS)
@every("opset", [1, 11, 12, 13, 17])
@every("axes", [None, (0,), (1, 2)])
@every("keepdims", [0, 1])
def test_old_reduction_reads_axes_from_an_attribute(name, opset, axes, keepdims):
    x = np.abs(numbers((2, 3, 4))) + 1
    if name == "ReduceSum" and opset >= 13:
        old_opset(name, opset, [x, None if axes is None else np.array(axes)], keepdims=keepdims)
    elif opset == 1:
        given = {"keepdims": keepdims} | ({} if axes is None else {"axes": axes})
        found = run_word("onnx", name, [x], opset=1, **given)[0]
        compare(found, run_operator(OP_DEFS[name], [x, None if axes is None else np.array(axes)], keepdims=keepdims)[0])
    else:
        given = {} if axes is None else {"axes": axes}
        old_opset(name, opset, [x], keepdims=keepdims, tolerance=1e-5, **given)


@pytest.mark.parametrize("opset", [1, 9, 10])
def test_older_largest_are_those_of_onnx_runtime(opset):
    x = numbers((3, 5))
    if opset < 10:
        old_opset("TopK", opset, [x], outputs=2, k=3, axis=0)
    else:
        old_opset("TopK", opset, [x, np.array([3])], outputs=2, axis=0)


@pytest.mark.parametrize("opset", [7, 11, 12])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    old_opset("ArgMax", opset, [numbers((3, 5))], axis=1, keepdims=0)
    if opset >= 11:
        old_opset("CumSum", opset, [numbers((3, 5)), np.array(1)], reverse=1)
