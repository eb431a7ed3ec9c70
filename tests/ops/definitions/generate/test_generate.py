"""Tensors made of parameters, against ONNX Runtime and over dims."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.generate import Constant, ConstantOfShape, EyeLike, Range
from tests.draws import times
from tests.every import every
from tests.ops.facts import fact_of, ints, refuse, single
from tests.ops.oracle import check_operator, old_opset, run_operator, run_ort
from tests.ops.standard import check_by_standard

N = Symbol("N", 1)


def scalar(element, dtype=DType.INT64):
    return TensorFact(dtype, (), (element,))


@pytest.mark.parametrize(
    "attributes",
    [
        {"value": single([[1, 2]])},
        {"value_float": 1.5},
        {"value_floats": (1.5, 2.5)},
        {"value_int": -7},
        {"value_ints": (1, 2, 3)},
        {"value_string": "a"},
        {"value_strings": ("a", "b")},
    ],
    ids=lambda attributes: next(iter(attributes)),
)
def test_constant_returns_its_attribute(attributes):
    found = run_operator(Constant, [], **attributes)[0]
    stored: dict[str, Any] = {name: storage_of(x) if isinstance(x, np.ndarray) else x for name, x in attributes.items()}
    np.testing.assert_array_equal(found, run_ort("Constant", [], stored)[0])
    fact = fact_of(Constant, **stored)
    assert fact == TensorFact.of(storage_of(found, DType.of(found.dtype)))


def test_constant_supports_every_dtype_and_sparse_values():
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.int4, ml_dtypes.float8_e5m2, np.bool_):
        x = np.array([0, 1]).astype(dtype)
        assert run_operator(Constant, [], value=x)[0].dtype == dtype
    assert run_operator(Constant, [], sparse_value=single([0, 3]))[0].tolist() == [0, 3]


def test_constant_requires_exactly_one_attribute():
    refuse(Constant, [], "no value")
    refuse(Constant, [], "2 values: value_int, value_float", value_int=1, value_float=1.0)


@every("shape", [(2, 3), (), (0,), (2, 0, 3)])
@every("dtype", [None, np.float32, np.int64, np.bool_, np.int8, np.uint64, np.float16, np.float64])
def test_filled_tensor_is_that_of_onnx_runtime(shape, dtype):
    value = None if dtype is None else storage_of(np.array([1], dtype))
    given = None if value is None else value.numpy()
    found = run_operator(ConstantOfShape, [np.array(shape, np.int64)], value=given)[0]
    expected = run_ort("ConstantOfShape", [np.array(shape, np.int64)], {"value": value})[0]
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


def test_constantofshape_infers_facts():
    one = storage_of(np.array([7]))
    assert fact_of(ConstantOfShape, ints(N, 2)).shape == (N, 2)
    assert fact_of(ConstantOfShape, ints(N, 2)).dtype is DType.FLOAT32
    assert fact_of(ConstantOfShape, ints(3), value=one).elements == (7, 7, 7)
    assert fact_of(ConstantOfShape, ints(), value=one).elements == (7,)
    assert fact_of(ConstantOfShape, ints(N), value=one).elements is None
    assert fact_of(ConstantOfShape, ints(10**12), value=one).elements is None
    assert fact_of(ConstantOfShape, TensorFact(DType.INT64, (3,))).rank == 3
    assert fact_of(ConstantOfShape, TensorFact(DType.INT64, (N,))).shape is None
    refuse(ConstantOfShape, [ints(-1)], "has a negative dim")
    refuse(ConstantOfShape, [ints(1)], "value has 2 elements", value=storage_of(np.array([1, 2])))


@settings(max_examples=times(60))
@given(
    st.integers(-9, 9),
    st.integers(-9, 9),
    st.integers(-4, 4).filter(bool),
    st.sampled_from([np.int32, np.int64, np.float32, np.float64, np.int16]),
)
def test_range_is_that_of_onnx_runtime(start, limit, delta, dtype):
    check_operator(Range, [np.array(number, dtype) for number in (start, limit, delta)])


@pytest.mark.parametrize(("start", "limit", "delta"), [(0, 1, 0.3), (1, 0, -0.25), (0, 1, 0.1), (-1.5, 2, 0.7)])
def test_range_of_fractions_is_that_of_onnx_runtime(start, limit, delta):
    check_operator(Range, [np.array(number, np.float32) for number in (start, limit, delta)])


def test_range_infers_facts():
    assert fact_of(Range, scalar(0), scalar(N), scalar(1)).shape == (N,)
    assert str(fact_of(Range, scalar(0), scalar(N), scalar(2)).shape[0]) == "(N+1)//2"
    assert fact_of(Range, scalar(5), scalar(0), scalar(-2)).elements == (5, 3, 1)
    assert fact_of(Range, scalar(N), scalar(N + 2), scalar(1)).elements == (N, N + 1)
    assert fact_of(Range, scalar(0), scalar(9), scalar(N)).rank == 1
    reals = [TensorFact(DType.FLOAT32, (), reals=(number,)) for number in (0.0, 1.0, 0.3)]
    assert fact_of(Range, *reals).shape == (4,)
    refuse(Range, [scalar(0), scalar(3), scalar(0)], "never arrives")
    endless = [TensorFact(DType.FLOAT32, (), reals=(number,)) for number in (0.0, float("inf"), 1.0)]
    refuse(Range, endless, "has no finite length")
    for dtype in (np.int64, np.float32):
        with pytest.raises(ShapeError, match="never arrives"):
            Range(*(np.array(number, dtype) for number in (0, 3, 0)))


@every("k", [0, 1, -1, 5])
@every("dtype", [None, DType.FLOAT32, DType.FLOAT64, DType.INT32, DType.INT64, DType.UINT64])
def test_identity_matrix_is_that_of_onnx_runtime(k, dtype):
    check_operator(EyeLike, [np.zeros((3, 4), np.float32)], k=k, dtype=dtype)


@pytest.mark.parametrize("dtype", [DType.FLOAT16, DType.BFLOAT16, DType.BOOL, DType.INT8, DType.UINT8])
def test_eyelike_supports_every_dtype(dtype):
    check_by_standard(EyeLike, [np.zeros((2, 3), np.int32)], dtype=dtype)


def test_identity_matrix_has_rank_2():
    refuse(EyeLike, [TensorFact(DType.FLOAT32, (2,))], "input has rank 1, expected 2")


@pytest.mark.parametrize("opset", [9, 11, 12])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    old_opset("ConstantOfShape", opset, [np.array([2, 3])])
    old_opset("EyeLike", opset, [np.zeros((2, 3), np.float32)])
    old_opset("Constant", opset, [], value=storage_of(single([1, 2])))
    if opset >= 11:
        old_opset("Range", opset, [np.array(number) for number in (1, 9, 2)])
