from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from graphport.core.dtypes import DType
from tests.every import every


@every("dtype", DType, ids=str)
def test_dtype_of_accepts_names_and_numpy_dtypes(dtype):
    assert DType.of(str(dtype)) is dtype
    assert DType.of(dtype.numpy) is dtype
    assert repr(dtype) == f"DType.{dtype.name}"


@every("dtype", [dtype for dtype in DType if dtype is not DType.STRING], ids=str)
def test_kind_and_width_are_those_of_numpy(dtype):
    assert dtype.numpy.itemsize == max(dtype.bits // 8, 1)
    if dtype.numpy.kind != "V":
        assert dtype.numpy.kind == dtype.kind
    info = {"f": ml_dtypes.finfo, "i": ml_dtypes.iinfo, "u": ml_dtypes.iinfo}.get(dtype.kind)
    if info is not None:
        assert info(dtype.numpy).bits == dtype.bits


def test_only_string_has_zero_bits():
    assert {dtype: dtype.bits for dtype in DType if dtype.bits < 2} == {DType.STRING: 0}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param(float, DType.FLOAT64, id="Python's float"),
        pytest.param(int, DType.INT64, id="Python's int"),
        pytest.param(bool, DType.BOOL, id="Python's bool"),
        pytest.param(np.float32, DType.FLOAT32, id="NumPy's class"),
        pytest.param("f4", DType.FLOAT32, id="NumPy's short name"),
        pytest.param(">f4", DType.FLOAT32, id="the other byte order"),
        pytest.param("U3", DType.STRING, id="text"),
        pytest.param("S3", DType.STRING, id="bytes"),
        pytest.param(object, DType.STRING, id="objects"),
        pytest.param(ml_dtypes.bfloat16, DType.BFLOAT16, id="ml_dtypes"),
    ],
)
def test_numpy_spells_types_in_many_ways(given, expected):
    assert DType.of(given) is expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param("datetime64", "tensors cannot hold datetime64", id="a date"),
        pytest.param(np.longdouble, "tensors cannot hold", id="too wide"),
        pytest.param([("a", "f4")], "tensors cannot hold", id="a structure"),
        pytest.param("float3", "'float3' is not an element type", id="no type"),
    ],
)
def test_other_types_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        DType.of(given)


@pytest.mark.parametrize(
    ("dtype", "count", "size"),
    [
        pytest.param(DType.FLOAT32, 3, 12, id="whole bytes"),
        pytest.param(DType.INT4, 3, 2, id="half a byte is left"),
        pytest.param(DType.UINT2, 5, 2, id="three quarters are left"),
        pytest.param(DType.BOOL, 3, 3, id="a byte each"),
        pytest.param(DType.COMPLEX128, 2, 32, id="two numbers each"),
        pytest.param(DType.STRING, 3, 0, id="text has no size"),
        pytest.param(DType.INT8, 0, 0, id="nothing"),
    ],
)
def test_elements_are_packed(dtype, count, size):
    assert dtype.size(count) == size


def test_claims_about_kinds():
    assert [str(dtype) for dtype in DType if not dtype.is_floating and not dtype.is_integer] == [
        "bool",
        "complex64",
        "complex128",
        "string",
    ]
    assert DType.FLOAT4E2M1.is_floating
    assert DType.UINT2.is_integer
    assert not DType.BOOL.is_integer
    assert not DType.INT8.is_floating
