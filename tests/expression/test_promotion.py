"""The rules of PyTorch 2.13, each row checked against it."""

from __future__ import annotations

import pytest

from graphport.core.dtypes import DType
from graphport.expression.faults import Fault
from graphport.expression.functions import SIGNATURES
from graphport.expression.promotion import Operand, Priority, promote, resolve, result_dtype, scalar_dtype
from tests.every import every

TYPES = {
    "b": DType.BOOL, "u1": DType.UINT8, "i1": DType.INT8, "i2": DType.INT16, "i4": DType.INT32, "i8": DType.INT64,
    "f2": DType.FLOAT16, "bf": DType.BFLOAT16, "f4": DType.FLOAT32, "f8": DType.FLOAT64,
    "c8": DType.COMPLEX64, "c16": DType.COMPLEX128,
}  # fmt: skip


def operand(given):
    """A tensor `f4`, one without axes `f4.`, or a Python number."""
    if not isinstance(given, str):
        return Operand(scalar_dtype(given, DType.FLOAT32), Priority.SCALAR, given)
    priority = Priority.ZERO_DIM if given.endswith(".") else Priority.TENSOR
    return Operand(TYPES[given.rstrip(".")], priority)


def result_of(function, *given, default=DType.FLOAT32):
    return resolve(function, SIGNATURES[function], [operand(entry) for entry in given], default)


@every(
    ("given", "expected"),
    [
        pytest.param(("i4", "i8"), "i8", id="the wider integer"),
        pytest.param(("u1", "i1"), "i2", id="signed and unsigned bytes"),
        pytest.param(("u1", "i4"), "i4", id="a wide integer holds a byte"),
        pytest.param(("b", "i1"), "i1", id="bool gives way"),
        pytest.param(("i8", "f2"), "f2", id="a float of any width before an integer"),
        pytest.param(("f2", "bf"), "f4", id="the two halves"),
        pytest.param(("f4", "f8"), "f8", id="the wider float"),
        pytest.param(("f8", "c8"), "c16", id="complex with parts as wide as the float"),
        pytest.param(("f2", "c8"), "c8", id="complex"),
        pytest.param(("i1", 300), "i1", id="a number keeps an integer"),
        pytest.param(("i4", 2.5), "f4", id="a fraction makes a float"),
        pytest.param(("f2", 1e9), "f2", id="a number keeps a float"),
        pytest.param(("f8", 2.5), "f8", id="a number keeps a double"),
        pytest.param(("b", 2), "i8", id="a number makes an integer of a bool"),
        pytest.param(("b", True), "b", id="bool and bool"),
        pytest.param(("f4", 1j), "c8", id="a complex number"),
        pytest.param(("f8", 1j), "c16", id="a complex number and doubles"),
        pytest.param(("i4", 1j), "c8", id="a complex number and integers"),
        pytest.param(("i1", "i8."), "i1", id="a tensor without axes keeps an integer"),
        pytest.param(("i1", "f8."), "f8", id="but its category counts"),
        pytest.param(("f2", "f8."), "f2", id="and not its width"),
        pytest.param(("f2.", "f8."), "f8", id="among themselves it does"),
        pytest.param(("i4.", 2.5), "f4", id="a number and a tensor without axes"),
        pytest.param(("f8.", 2.5), "f8", id="a tensor without axes before a number"),
    ],
)
def test_the_type_of_a_sum(given, expected):
    assert result_of("add", *given).result is TYPES[expected]
    assert result_of("add", *reversed(given)).result is TYPES[expected]


@every(
    ("function", "given", "expected"),
    [
        ("div", ("i4", "i4"), "f4"),
        ("div", ("b", "b"), "f4"),
        ("exp", ("i8",), "f4"),
        ("exp", ("b",), "f4"),
        ("exp", ("f2",), "f2"),
        ("atan2", ("i4", "i4"), "f4"),
        ("reciprocal", ("u1",), "f4"),
        ("floor", ("i4",), "i4"),
        ("sign", ("b",), "b"),
        ("square", ("b",), "i8"),
        ("floor_divide", ("b", 2), "i8"),
        ("floor_divide", ("i4", 2.5), "f4"),
        ("pow", ("b", 2), "i8"),
        ("pow", (2, "i4"), "i4"),
        ("abs", ("c16",), "f8"),
        ("lshift", ("b", "i4"), "i4"),
        ("and", ("b", "b"), "b"),
        ("torch.float", ("i4",), "f4"),
        ("torch.float", ("f8",), "f4"),
        ("torch.long", ("f4",), "i8"),
        ("torch.bool", ("c8",), "b"),
    ],
)
def test_the_type_of_a_function(function, given, expected):
    assert result_of(function, *given).result is TYPES[expected]


@every(
    ("function", "given"),
    [
        ("abs", ("b",)),
        ("neg", ("b",)),
        ("sub", ("b", "b")),
        ("sub", ("i4", "b")),
        ("sub", ("f4", True)),
        ("floor", ("b",)),
        ("floor", ("c8",)),
        ("erf", ("c8",)),
        ("sign", ("c8",)),
        ("maximum", ("c8", "f4")),
        ("atan2", ("f4", "c8")),
        ("remainder", ("b", "b")),
        ("remainder", ("c8", "c8")),
        ("logaddexp", ("i4", "i4")),
        ("and", ("f4", "i4")),
        ("xor", ("i4", 2.5)),
        ("lshift", ("f4", 2)),
        ("lshift", ("b", "b")),
        ("pow", ("b", "b")),
        ("pow", ("i4", -1)),
        ("torch.long", ("c8",)),
    ],
)
def test_types_that_a_function_does_not_take(function, given):
    with pytest.raises(Fault) as caught:
        result_of(function, *given)
    assert caught.value.code == "EXPR0203"


def test_wide_unsigned_integers_meet_no_other_integers():
    assert promote(DType.UINT16, DType.FLOAT32) is DType.FLOAT32
    assert result_dtype([Operand(DType.UINT32, Priority.TENSOR), operand(3)], DType.FLOAT32) is DType.UINT32
    with pytest.raises(Fault, match="no common type"):
        promote(DType.UINT16, DType.INT64)


def test_float16_values_are_computed_in_singles_and_rounded():
    resolution = result_of("mul", "f2", "f2")
    assert (resolution.computed, resolution.produced, resolution.result) == (
        DType.FLOAT32,
        DType.FLOAT32,
        DType.FLOAT16,
    )
    assert result_of("abs", "c8").produced is DType.FLOAT32


def test_default_dtype_applies_to_integer_operands():
    assert result_of("div", "i4", "i4", default=DType.FLOAT64).result is DType.FLOAT64
    assert result_of("exp", "f4", default=DType.FLOAT64).result is DType.FLOAT32


@pytest.mark.parametrize(
    ("exponent", "kernel"),
    [(0.5, "sqrt"), (2, "square"), (2.0, "square"), (-0.5, "rsqrt"), (-1, "reciprocal"), (3, "pow"), ("f4", "pow")],
)
def test_constant_exponents_use_special_kernels(exponent, kernel):
    assert result_of("pow", "f4", exponent).kernel == kernel
