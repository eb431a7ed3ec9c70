"""Arithmetic in OpenVINO: import rules agree with its results, and exports compute equal results."""

from itertools import product

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops import registry
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(7)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32) * 3
Y = RANDOM.normal(size=(3, 1)).astype(np.float32) * 2
UNIT = np.tanh(X).astype(np.float32)
ABOVE = (np.abs(X) + 1).astype(np.float32)
WHOLE = RANDOM.integers(-50, 50, (2, 3, 4)).astype(np.int32)
DIVISORS = np.array([[-7], [3], [5]], np.int32)

UNARY = [
    ("opset1.Abs", X),
    ("opset1.Acos", UNIT),
    ("opset4.Acosh", ABOVE),
    ("opset1.Asin", UNIT),
    ("opset4.Asinh", X),
    ("opset1.Atan", X),
    ("opset4.Atanh", UNIT * np.float32(0.9)),
    ("opset1.Ceiling", X),
    ("opset1.Cos", X),
    ("opset1.Cosh", X),
    ("opset1.Erf", X),
    ("opset1.Exp", X),
    ("opset1.Floor", X),
    ("opset1.Floor", WHOLE),
    ("opset1.Log", ABOVE),
    ("opset1.Negative", X),
    ("opset1.Sign", X),
    ("opset1.Sin", X),
    ("opset1.Sinh", X),
    ("opset1.Sqrt", ABOVE),
    ("opset1.Tan", X),
    ("opset5.Round", np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 0.49999997, 2.4], np.float32)),
]


@at_once(("op_type", "x"), UNARY, ids=[f"{number}-{case[0]}" for number, case in enumerate(UNARY)])
def test_op_type_of_one_operand(op_type, x):
    check_word(op_type, [x], tolerance=1e-5)


@at_once(
    ("name", "dtype"),
    [("Neg", np.int8), *((name, dtype) for name in ("Add", "Sub", "Mul", "Abs") for dtype in (np.int8, np.uint8))],
)
def test_bytes_wrap_as_other_integers_do(name, dtype):
    every = np.arange(256, dtype=np.uint8).astype(dtype)
    others = RANDOM.permutation(every)
    operands = [every] if name in ("Neg", "Abs") else [every, others]
    assert check_operator(registry.op_defs()[name], operands) is not None


@at_once(
    ("name", "dtype", "is_open"),
    list(product(("Div", "Mod", "Max", "Min", "Einsum"), (np.int8, np.uint8, np.int16), (False, True))),
)
def test_small_integers_are_computed_as_whole_numbers(name, dtype, is_open):
    every = np.arange(256, dtype=np.uint8).astype(dtype).reshape(64, 4)
    others = RANDOM.permutation(every.ravel()).reshape(64, 4)
    others[others == 0] = 7
    flags = {"equation": "ij,kj->ik"} if name == "Einsum" else {}
    assert check_operator(registry.op_defs()[name], [every, others], symbolic=is_open, **flags) is not None


@at_once("op_type", ["opset1.Exp", "opset1.Sin", "opset1.Erf", "opset4.Asinh", "opset1.Sigmoid", "opset1.Elu"])
def test_a_function_of_reals_rounds_that_of_integers(op_type):
    flags = {"alpha": 1.0} if op_type.endswith("Elu") else {}
    check_word(op_type, [np.arange(-3, 5, dtype=np.int32)], **flags)
    check_word(op_type, [np.arange(4, dtype=np.uint8)], **flags)


def test_round_goes_away_from_zero_where_it_is_reported_to():
    # The plugin adds a half and rounds 0.49999997 up; the specification does not.
    x = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.4, -0.0], np.float32)
    check_word("opset5.Round", [x], mode="half_away_from_zero")


BINARY = ["Add", "Subtract", "Multiply", "Divide", "Maximum", "Minimum", "SquaredDifference", "Mod", "FloorMod"]


@at_once("op_type", BINARY)
@at_once("symbolic", [False, True])
def test_op_type_of_two_operands_broadcasts(op_type, symbolic):
    check_word(f"opset1.{op_type}", [X, Y], tolerance=1e-5, symbolic=symbolic)


@at_once("op_type", [op_type for op_type in BINARY if op_type != "Divide"])
def test_op_type_of_two_integers(op_type):
    check_word(f"opset1.{op_type}", [WHOLE, DIVISORS])


def test_integers_are_divided_as_python_does_unless_reported_otherwise():
    quotient = np.floor_divide(WHOLE, DIVISORS)
    check_word("opset1.Divide", [WHOLE, DIVISORS], expected=[quotient])
    toward_zero = np.trunc(WHOLE / DIVISORS).astype(np.int32)
    check_word("opset1.Divide", [WHOLE, DIVISORS], expected=[toward_zero], m_pythondiv=False)


def test_power():
    check_word("opset1.Power", [ABOVE, Y], tolerance=1e-4)
    check_word("opset1.Power", [np.array([1, 2, 3], np.uint8), np.array([2], np.uint8)])


CASTS = [DType.INT32, DType.INT64, DType.UINT8, DType.FLOAT16, DType.FLOAT64, DType.BOOL]


@at_once("dtype", CASTS, ids=str)
def test_convert(dtype):
    x = np.array([0, 0.4, 1.6, 3.5, 100], np.float32)
    check_word("opset1.Convert", [x], expected=[x.astype(dtype.numpy)], destination_type=dtype)
    check_word("opset1.ConvertLike", [x, np.zeros(2, dtype.numpy)], expected=[x.astype(dtype.numpy)])


PROMOTED = [
    (np.float32, np.int32, np.float32),
    (np.int8, np.uint8, np.int16),
    (np.uint32, np.int16, np.int64),
    (np.int16, np.int64, np.int64),
    (np.uint64, np.int8, np.float32),
    (np.bool_, np.int8, np.int8),
    (np.float16, np.float64, np.float64),
]


@at_once(("a", "b", "common"), PROMOTED, ids=lambda dtype: np.dtype(dtype).name)
def test_two_types_are_promoted_to_one(a, b, common):
    x, y = np.ones(2, a), np.ones(3, b)
    check_word("opset14.ConvertPromoteTypes", [x, y], outputs=2, expected=[x.astype(common), y.astype(common)])


def test_promotion_of_a_number_with_a_tensor_follows_the_tensor():
    x, y = np.ones(2, np.int8), np.array(3, np.int64)
    expected = [x, y.astype(np.int8)]
    check_word("opset14.ConvertPromoteTypes", [x, y], outputs=2, expected=expected, pytorch_scalar_promotion=True)


BITS = RANDOM.integers(-100, 100, (2, 5)).astype(np.int32)


@at_once("op_type", ["BitwiseAnd", "BitwiseOr", "BitwiseXor"])
def test_bits_of_two_integers_and_of_boolean_values(op_type):
    check_word(f"opset13.{op_type}", [BITS, BITS[:1]])
    flags = BITS > 0
    check_word(f"opset13.{op_type}", [flags, flags[:1]])


def test_bits_turned_around():
    check_word("opset13.BitwiseNot", [BITS])
    check_word("opset13.BitwiseNot", [BITS > 0])


@at_once("dtype", [np.int32, np.uint8, np.int8])
def test_shifts_keep_the_sign(dtype):
    x = np.array([-100, -1, 0, 1, 77], np.int64).astype(dtype)
    by = np.array([1, 2, 3, 0, 4], dtype)
    check_word("opset15.BitwiseRightShift", [x, by], expected=[x >> by])
    check_word("opset15.BitwiseLeftShift", [x, by], expected=[x << by])


OP_DEFS = [
    *((name, [X]) for name in ("Abs", "Asinh", "Atan", "Ceil", "Cos", "Erf", "Floor", "Neg", "Round", "Sign", "Sin")),
    *((name, [X]) for name in ("Cosh", "Exp", "Sinh", "Tan")),
    *((name, [ABOVE]) for name in ("Acosh", "Log", "Sqrt", "Reciprocal")),
    *((name, [UNIT * np.float32(0.9)]) for name in ("Acos", "Asin", "Atanh")),
    *((name, [X, Y]) for name in ("Add", "Sub", "Mul", "Div")),
    *((name, [X, Y, X]) for name in ("Max", "Min", "Sum", "Mean")),
    *((name, [X]) for name in ("Max", "Sum")),
    *((name, [WHOLE, DIVISORS]) for name in ("Add", "Sub", "Mul", "Div", "Mod", "BitwiseAnd", "BitwiseOr")),
    ("Pow", [ABOVE, Y]),
    ("Pow", [ABOVE, np.array([2], np.int64)]),
    ("Pow", [np.array([2, 3], np.int32), np.array([2.0, 0.5], np.float32)]),
    ("BitwiseXor", [BITS, BITS[:1]]),
    ("BitwiseNot", [BITS]),
]


@at_once(("name", "inputs"), OP_DEFS, ids=[f"{number}-{case[0]}" for number, case in enumerate(OP_DEFS)])
def test_exporting_a_page_preserves_its_semantics(name, inputs):
    assert check_operator(registry.op_defs()[name], inputs, tolerance=1e-4) is not None


def test_exporting_what_has_attributes():
    op_defs = registry.op_defs()
    assert check_operator(op_defs["Mod"], [X, Y], fmod=1, tolerance=1e-5) == ["opset1.Mod"]
    assert check_operator(op_defs["Cast"], [X], to=DType.INT32) == ["opset1.Convert"]
    assert check_operator(op_defs["CastLike"], [X, WHOLE]) == ["opset1.Convert"]
    bits = np.array([1, 200], np.uint8)
    for direction in ("LEFT", "RIGHT"):
        assert check_operator(op_defs["BitShift"], [bits, np.array([1, 3], np.uint8)], direction=direction) is not None


@at_once("dtype", ["int16", "uint16", "int32", "uint8"])
def test_shifted_bits_are_run(dtype):
    x, by = np.array([[1, 9, 100], [77, 0, 3]], dtype), np.array([1, 3, 2], dtype)
    for op_type in ("Left", "Right"):
        check_word(f"opset15.Bitwise{op_type}Shift", [x, by])
