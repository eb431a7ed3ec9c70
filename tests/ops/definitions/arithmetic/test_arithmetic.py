"""Arithmetic against ONNX Runtime, and what its shape rules refuse."""

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.arithmetic import BitShift, Div, Max, Min, Mod, Mul, Pow, Sub
from tests.every import every
from tests.ops.facts import facts_of, refuse, single
from tests.ops.oracle import check_operator, check_shapes, old_opset, run_operator, run_word
from tests.ops.standard import check_by_standard

OP_DEFS = registry.op_defs()
INTEGERS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
FLOATS = [np.float16, np.float32, np.float64]


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):
        yield


def numbers(shape, dtype, seed=0, scale=3.0):
    kind = np.dtype(dtype).kind
    rng = np.random.default_rng([seed, *shape])
    if kind in "iu":
        return np.asarray(rng.integers(-5 if kind == "i" else 0, 9, shape), dtype)
    return np.asarray(rng.normal(size=shape) * scale, np.float64).astype(dtype)


def fact(dtype, *shape):
    return TensorFact(dtype, shape)


SHAPES = [((3, 4), (3, 4)), ((3, 4), ()), ((2, 1, 4), (3, 1)), ((1,), (2, 3)), ((0, 3), (1, 3)), ((), ())]
BINARY = {
    "Add": [*FLOATS, *INTEGERS],
    "Sub": [*FLOATS, *INTEGERS],
    "Mul": [*FLOATS, *INTEGERS],
    "Div": [*FLOATS],
}
_HERE = {np.int32, np.int64, np.float16, np.float32, np.float64, np.uint32, np.uint64}


@every(("name", "dtype"), [(name, dtype) for name, some in BINARY.items() for dtype in some])
def test_binary_arithmetic_is_that_of_onnx_runtime(name, dtype):
    check = check_operator if dtype in _HERE else check_by_standard
    for a, b in SHAPES:
        check(OP_DEFS[name], [numbers(a, dtype), numbers(b, dtype, seed=1)])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64, np.int8, np.uint8, np.int16])
def test_integers_divide_toward_zero(dtype):
    a = numbers((50,), dtype) * np.array(7, dtype)
    b = np.where(numbers((50,), dtype, seed=1) == 0, 3, numbers((50,), dtype, seed=1)).astype(dtype)
    check = check_operator if dtype in _HERE else check_by_standard
    check(Div, [a, b])
    assert Div(np.array(-128, np.int8), np.array(2, np.int8)) == -64
    assert Div(np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])).tolist() == [3, -3, -3, 3]


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("dtype", INTEGERS)
def test_remainder_of_integers_is_that_of_onnx_runtime(dtype, fmod):
    a, b = numbers((40,), dtype), numbers((40,), dtype, seed=1)
    check_operator(Mod, [a, np.where(b == 0, 2, b).astype(dtype)], fmod=fmod)


@pytest.mark.parametrize("dtype", FLOATS)
def test_remainder_of_reals_has_the_sign_of_the_dividend(dtype):
    check_operator(Mod, [numbers((3, 5), dtype), numbers((5,), dtype, seed=1)], fmod=1)
    assert Mod(single(-5.5), single(2), fmod=1) == -1.5


@pytest.mark.parametrize("base", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("exponent", [np.float32, np.float64, np.int32, np.int64])
def test_power_is_that_of_onnx_runtime(base, exponent):
    x = np.abs(numbers((4, 5), base)) + np.array(1, base)
    y = numbers((5,), exponent, seed=1, scale=1)
    check_operator(Pow, [x, np.abs(y) if base in (np.int32, np.int64) else y])


def test_power_of_integers_is_exact_and_wraps():
    assert Pow(np.array([3, 2, -2]), np.array([39, 62, 63])).tolist() == [3**39, 2**62, -(2**63)]
    assert Pow(np.array([2, -1, -1, 1, 0], np.int32), np.array([-1, -3, -2, -5, 0])).tolist() == [0, -1, 1, 1, 1]
    assert Pow(np.array([3], np.int32), np.array([300], np.int64)).tolist() == [
        np.int64(pow(3, 300, 2**32)).astype(np.int32)
    ]


UNARY = {
    "Abs": [*FLOATS, *INTEGERS],
    "Neg": [np.float32, np.float16, np.float64, np.int8, np.int32, np.int64],
    "Reciprocal": [np.float32, np.float64],
    "Sqrt": [np.float32, np.float64],
    "Exp": [np.float32, np.float64],
    "Log": [np.float32, np.float64],
    "Erf": [np.float32],
    "Sin": [np.float32, np.float64],
    "Cos": [np.float32],
    "Tan": [np.float32],
    "Asin": [np.float32],
    "Acos": [np.float32],
    "Atan": [np.float32],
    "Sinh": [np.float32],
    "Cosh": [np.float32],
    "Asinh": [np.float32],
    "Acosh": [np.float32],
    "Atanh": [np.float32],
    "Sign": [np.float32, np.float64, np.int8, np.int64, np.uint8, np.uint64],
    "Floor": [np.float32, np.float64],
    "Ceil": [np.float32, np.float64],
    "Round": [np.float32, np.float64, np.float16],
}


@every(("name", "dtype"), [(name, dtype) for name, some in UNARY.items() for dtype in some])
def test_unary_arithmetic_is_that_of_onnx_runtime(name, dtype):
    op_def = OP_DEFS[name]
    for shape in ((3, 7), (), (2, 0)):
        x = numbers(shape, dtype)
        if name in ("Asin", "Acos", "Atanh"):
            x = (x / 10).astype(dtype)
        elif name in ("Acosh", "Log", "Sqrt"):
            x = np.abs(x) + np.array(1, dtype)
        check_operator(op_def, [np.asarray(x)])


@pytest.mark.parametrize("name", ["Floor", "Ceil", "Round", "Sqrt", "Exp", "Abs", "Neg", "Sign", "Reciprocal", "Tanh"])
def test_unary_arithmetic_accepts_infinities(name):
    x = single([-np.inf, np.inf, -0.0, 0.0, 0.5, 1.5, 2.5, -0.5, 3e38, 1e-40])
    check_operator(OP_DEFS[name], [x])


@every("name", [name for name, some in UNARY.items() if np.float32 in some])
@every("dtype", [np.float16, ml_dtypes.bfloat16, np.float64])
def test_every_float_dtype_rounds_the_float32_result(name, dtype):
    x = np.abs(numbers((30,), np.float32) / 20).astype(dtype)
    if name == "Acosh":
        x = (x.astype(np.float32) + 1).astype(dtype)
    found = run_operator(OP_DEFS[name], [x])[0]
    assert found.dtype == dtype
    expected = run_operator(OP_DEFS[name], [x.astype(np.float32)])[0]
    limit = {"float16": 1e-3, "bfloat16": 8e-3, "float64": 1e-6}[np.dtype(dtype).name]
    np.testing.assert_allclose(found.astype(np.float64), expected, rtol=limit, atol=limit)
    check_shapes(OP_DEFS[name], [x], [found])


@pytest.mark.parametrize("name", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Pow", "Sum", "Mean"])
def test_binary_arithmetic_supports_bfloat16(name):
    a, b = (np.abs(numbers((4, 5), ml_dtypes.bfloat16, seed=seed)) for seed in (0, 1))
    check_by_standard(OP_DEFS[name], [a, b], tolerance=8e-3)


@pytest.mark.parametrize("name", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("shapes", [[(3, 4)], [(3, 4), (4,)], [(2, 1, 4), (3, 1), ()]])
def test_variadic_arithmetic_broadcasts(name, shapes):
    dtypes = [np.float32, np.float64] + ([np.int32, np.int64, np.uint32, np.uint64] if name in ("Max", "Min") else [])
    for dtype in dtypes if name != "Mean" else [np.float32]:
        check_operator(OP_DEFS[name], [numbers(shape, dtype, seed=seed) for seed, shape in enumerate(shapes)])


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.float16])
def test_extremes_know_every_type(dtype):
    for op_def in (Max, Min):
        check_by_standard(op_def, [numbers((3, 4), dtype), numbers((4,), dtype, seed=1)])


def test_max_and_min_propagate_nan():
    a, b = single([np.nan, 1]), single([1, np.nan])
    assert np.isnan(Max(a, b)).all()
    assert np.isnan(Min(a, b)).all()


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shift_is_that_of_the_standard_and_empties_by_the_whole_width(dtype, direction):
    x = np.array([1, 3, 200, 255], dtype)
    check_by_standard(BitShift, [x, np.array([1, 2, 3, 7], dtype)], direction=direction)
    width = np.dtype(dtype).itemsize * 8
    assert not BitShift(x, np.array(width, dtype), direction=direction).any()


@every("name", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
@every("dtype", INTEGERS)
def test_bitwise_logic_is_that_of_onnx_runtime(name, dtype):
    check_operator(OP_DEFS[name], [numbers((3, 4), dtype), numbers((4,), dtype, seed=1)])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_bits_turn(dtype):
    check_operator(OP_DEFS["BitwiseNot"], [numbers((3, 4), dtype)])


# Shapes and dims


@pytest.mark.parametrize("name", ["Add", "Div", "Pow", "Max", "Mod", "BitShift"])
def test_operands_that_do_not_broadcast_are_refused(name):
    dtype = DType.UINT8 if name == "BitShift" else DType.INT32
    attributes = {"direction": "LEFT"} if name == "BitShift" else {}
    refuse(OP_DEFS[name], [fact(dtype, 3), fact(dtype, 4)], "do not broadcast", **attributes)


def test_attributes_are_checked():
    refuse(Mod, [fact(DType.FLOAT32, 3), fact(DType.FLOAT32, 3)], "fmod is 0 for operands of float32")
    refuse(BitShift, [fact(DType.UINT8, 3), fact(DType.UINT8, 3)], "unknown direction 'UP'", direction="UP")


N = Symbol("N", 1)


def elements(op_def, *operands, **attributes) -> Any:
    facts = [TensorFact(DType.INT64, (len(x),)).with_elements(x) for x in operands]
    (found,) = facts_of(op_def, facts, attributes, 1)
    return None if found.elements is None else [str(dim) for dim in found.elements]


def test_shapes_are_computed_with_dims():
    assert elements(Sub, [N, 8], [1, 3]) == ["N-1", "5"]
    assert elements(Mul, [N], [N]) == ["N*N"]
    assert elements(Div, [N, 7, -7], [2, 2, 2]) == ["N//2", "3", "-3"]
    assert elements(Div, [N], [-2]) == ["-(N//2)"]
    assert elements(Max, [N, 2], [8, 5]) == ["max(N,8)", "5"]
    assert elements(Min, [N, 2], [8, 5]) == ["min(N,8)", "2"]
    assert elements(Mod, [N], [4]) == ["N%4"]
    assert elements(Mod, [N, -7], [4, 4], fmod=1) == ["N%4", "-3"]


def test_quotients_of_dims_of_unknown_sign_are_unknown():
    assert elements(Div, [N - 5], [2]) is None
    assert elements(Mod, [N - 5], [2], fmod=1) is None
    assert elements(Div, [N], [0]) is None


@given(st.integers(-20, 20), st.integers(-6, 6).filter(bool))
def test_div_and_mod_of_dims_match_integers(a, b):
    assert elements(Div, [a, N], [b, 1])[0] == str(int(Div(np.array(a), np.array(b))))
    assert elements(Mod, [a, N], [b, 1], fmod=1)[0] == str(int(Mod(np.array(a), np.array(b), fmod=1)))


# Older forms


@every("name", ["Add", "Sub", "Mul", "Div"])
@every(("b", "axis"), [((3, 4), 1), ((3,), 1), ((2,), 0), ((5,), None), ((4, 5), -2), ((1, 1), 2)])
def test_older_arithmetic_broadcasts_from_an_axis(name, b, axis):
    x, y = numbers((2, 3, 4, 5), np.float32), np.abs(numbers(b, np.float32, seed=1)) + 1
    attributes: dict[str, Any] = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    start = 4 - len(b) if axis is None else axis % 4
    wide = np.broadcast_to(y.reshape(y.shape + (1,) * (4 - start - len(b))), x.shape)
    found = run_word("onnx", name, [x, y], opset=6, **attributes)[0]
    np.testing.assert_array_equal(found, run_operator(OP_DEFS[name], [x, wide])[0])
    same = run_word("onnx", name, [x, x], opset=1, consumed_inputs=(0, 0))[0]
    np.testing.assert_array_equal(same, run_operator(OP_DEFS[name], [x, x])[0])


def test_older_broadcasting_refuses_axes_that_do_not_fit():
    with pytest.raises(ShapeError, match="do not fit into rank 2"):
        run_word(
            "onnx", "Add", [numbers((2, 3), np.float32), numbers((3, 2), np.float32)], opset=6, broadcast=1, axis=1
        )


@pytest.mark.parametrize("name", ["Abs", "Ceil", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Sqrt"])
def test_opset_1_unary_arithmetic_ignores_consumed_inputs(name):
    x = np.abs(numbers((2, 3), np.float32)) + 1
    found = run_word("onnx", name, [x], opset=1, consumed_inputs=(0,))[0]
    np.testing.assert_array_equal(found, run_operator(OP_DEFS[name], [x])[0])


@pytest.mark.parametrize("name", ["Max", "Min", "Sum", "Mean"])
@pytest.mark.parametrize("opset", [1, 6, 7])
def test_older_variadic_arithmetic_is_that_of_equal_shapes(name, opset):
    xs = [numbers((3, 4), np.float32, seed=seed) for seed in range(3)]
    found = run_word("onnx", name, xs, opset=opset)[0]
    np.testing.assert_array_equal(found, run_operator(OP_DEFS[name], xs)[0])
    if opset >= 7:
        old_opset(name, opset, xs)


@every("name", ["Add", "Mul", "Pow", "Abs", "Exp", "Sqrt", "Floor", "Max", "Sum"])
@every("opset", [8, 9, 11, 12])
def test_op_types_that_are_unchanged_are_those_of_onnx_runtime(name, opset):
    xs = [np.abs(numbers((3, 4), np.float32, seed=seed)) for seed in range(1 if name in UNARY else 2)]
    old_opset(name, opset, xs)


def test_run_operator_suppresses_numpy_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run_operator(OP_DEFS["Reciprocal"], [np.zeros(3, np.float32)])
