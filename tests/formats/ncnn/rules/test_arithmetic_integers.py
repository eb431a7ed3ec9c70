"""Integers of ncnn's blobs of real numbers: each type wraps at its own width, or is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from graphport.core.diagnostics import DiagnosticError
from tests.formats.ncnn.rules.written import check, saved
from tests.models import node

pytest.importorskip("ncnn")

PLACED = np.eye(5, dtype=np.float32)[[3, 2, 4]].T[None].copy()
"""Of which the largest stand at 3, 2 and 4."""
FAR = {"x": PLACED}


def of_places(*steps, dtype):
    """Places as integers of a type, and what `steps` make of `i`."""
    first = [
        node("ArgMax", ["x"], ["p"], axis=1, keepdims=0),
        node("Cast", ["p"], ["i"], to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype))),
    ]
    return [*first, *steps, node("Cast", ["r"], ["y"], to=TensorProto.FLOAT)]


@pytest.mark.parametrize(
    ("dtype", "op", "number"),
    [
        ("int8", "Mul", 100),
        ("int8", "Add", 126),
        ("int8", "Sub", -126),
        ("uint8", "Sub", 10),
        ("uint8", "Mul", 200),
        ("uint16", "Sub", 10),
        ("int16", "Mul", 20000),
        ("int32", "Sub", 10),
        ("int64", "Mul", 70000),
        ("uint8", "Max", 3),
        ("uint32", "Add", 7),
    ],
)
def test_arithmetic_wraps_at_the_width_of_its_type(tmp_path, dtype, op, number):
    check(tmp_path, of_places(node(op, ["i", "k"], ["r"]), dtype=dtype), FAR, {"k": np.array(number, dtype)})


@pytest.mark.parametrize("op", ["Neg", "Abs"])
def test_the_least_integer_has_no_opposite(tmp_path, op):
    nodes = of_places(node("Add", ["i", "k"], ["j"]), node(op, ["j"], ["r"]), dtype="int8")
    check(tmp_path, nodes, FAR, {"k": np.array(124, np.int8)})


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "int32"])
@pytest.mark.parametrize("factor", [-1, 200, 40000])
def test_another_type_wraps_at_its_own_width(tmp_path, dtype, factor):
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    steps = [node("Mul", ["i", "k"], ["m"]), node("Cast", ["m"], ["r"], to=to)]
    check(tmp_path, of_places(*steps, dtype="int64"), FAR, {"k": np.array(factor, np.int64)})


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_short_integers_that_are_given_are_computed_with(tmp_path, dtype):
    ends = np.iinfo(dtype)
    given = {"i": np.array([[ends.min, ends.max, 7, 100]], dtype)}
    nodes = [
        node("Mul", ["i", "k"], ["m"]),
        node("Add", ["m", "i"], ["r"]),
        node("Cast", ["r"], ["y"], to=TensorProto.FLOAT),
    ]
    check(tmp_path, nodes, given, {"k": np.array(3, dtype)})


@pytest.mark.parametrize("dtype", ["uint32", "uint64"])
def test_what_wraps_to_integers_that_single_precision_lacks_is_refused(tmp_path, dtype):
    constants = {"k": np.array(5, dtype), "five": np.array(5, np.int64)}
    with pytest.raises(DiagnosticError, match=f"wrap around in {dtype}"):
        saved(tmp_path, of_places(node("Sub", ["i", "k"], ["r"]), dtype=dtype), FAR, constants)
    to = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    steps = [node("Sub", ["i", "five"], ["j"]), node("Cast", ["j"], ["r"], to=to)]
    with pytest.raises(DiagnosticError, match=f"wrap around in {dtype}"):
        saved(tmp_path, of_places(*steps, dtype="int64"), FAR, constants)


@pytest.mark.parametrize("given", ["k,x", "x,k"])
def test_a_remainder_knows_which_operand_is_the_number(tmp_path, given):
    x = np.array([[1.5, 2.25, -3.25, 4.0]], np.float32)
    check(tmp_path, [node("Mod", given.split(","), ["y"], fmod=1)], {"x": x}, {"k": np.float32(7)})


@pytest.mark.parametrize("length", [1, 4, 16, 19])
def test_remainders_of_multiples_are_zero(length, tmp_path):
    x = np.resize(np.float32([0.5, 3, -2, 7.5, 5, -5]), (1, length))
    y = np.resize(np.float32([0.5, 3, -2, 2.5, 3, 3]), (1, length))
    check(tmp_path, [node("Mod", ["x", "y"], ["z"], fmod=1)], {"x": x, "y": y})


@pytest.mark.parametrize("keepdims", [0, 1])
def test_logarithms_of_sums_of_large_exponentials_are_finite(keepdims, tmp_path):
    x = np.float32([[[300, 200, -5], [-300, -400, -300.5]]])
    check(
        tmp_path, [node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=keepdims)], {"x": x}, {"axes": np.array([2])}
    )


def test_a_tile_without_result_is_refused(tmp_path):
    with pytest.raises(DiagnosticError, match=r"NCNN0305.*y has no elements"):
        saved(tmp_path, [node("Tile", ["x", "n"], ["y"])], {"x": np.ones((1, 2), np.float32)}, {"n": np.array([1, 0])})


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_logarithms_of_sums_are_written_along_every_axis(axis, tmp_path):
    x = np.random.default_rng(0).normal(size=(3, 5, 7)).astype(np.float32)
    nodes = [node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=0), node("ReduceSum", ["x", "first"], ["z"])]
    check(tmp_path, nodes, {"x": x}, {"axes": np.array([axis]), "first": np.array([0])})
