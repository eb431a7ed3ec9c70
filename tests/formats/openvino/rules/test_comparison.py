"""Comparisons, logic and choices in OpenVINO."""

import numpy as np

from graphport.ops import registry
from graphport.ops.definitions.comparison import IsInf, IsNaN, Not, Where
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

X = np.array([[1, 2, 3], [3, 2, 1]], np.float32)
Y = np.array([2, 2, 2], np.float32)
FLAGS, OTHERS = X > 1, np.array([True, False, True])
ODD = np.array([0, np.inf, -np.inf, np.nan], np.float32)


@at_once("op_type", ["Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"])
@at_once("symbolic", [False, True])
def test_comparison(op_type, symbolic):
    check_word(f"opset1.{op_type}", [X, Y], symbolic=symbolic)
    check_word(f"opset1.{op_type}", [X.astype(np.int32), Y.astype(np.int32)])


@at_once("op_type", ["LogicalAnd", "LogicalOr", "LogicalXor", "Xor"])
def test_logic(op_type):
    check_word(f"opset1.{op_type}", [FLAGS, OTHERS])


def test_not():
    check_word("opset1.LogicalNot", [FLAGS])


def test_select_broadcasts():
    check_word("opset1.Select", [FLAGS, Y, X])


def test_what_is_not_finite():
    check_word("opset10.IsNaN", [ODD])
    check_word("opset10.IsInf", [ODD])
    check_word("opset10.IsInf", [ODD], detect_negative=False)
    check_word("opset10.IsInf", [ODD], detect_positive=False)
    check_word("opset10.IsFinite", [ODD])


@at_once("name", ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"])
def test_exporting_a_comparison(name):
    assert check_operator(registry.op_defs()[name], [X, Y]) is not None


@at_once("name", ["And", "Or", "Xor"])
def test_exporting_logic(name):
    assert check_operator(registry.op_defs()[name], [FLAGS, OTHERS]) is not None


def test_exporting_the_rest():
    assert check_operator(Not, [FLAGS]) is not None
    assert check_operator(Where, [FLAGS, X, Y]) is not None
    assert check_operator(IsNaN, [ODD]) is not None
    assert check_operator(IsInf, [ODD]) is not None
    assert check_operator(IsInf, [ODD], detect_negative=0) is not None


@at_once("op_type", ["Less", "LessEqual", "Greater", "GreaterEqual"])
def test_false_stands_before_true(op_type):
    x, y = np.array([[False], [True]]), np.array([False, True])
    check_word(f"opset1.{op_type}", [x, y])
    check_word(f"opset1.{op_type}", [x, y], symbolic=True)
