"""Reductions, running sums and places in OpenVINO."""

import numpy as np

from graphport.core.dtypes import DType
from graphport.ops import registry
from graphport.ops.definitions.reduction import ArgMax, ArgMin, CumProd, CumSum, Einsum, TopK
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_operator, check_word

RANDOM = np.random.default_rng(9)
X = RANDOM.normal(size=(2, 3, 4)).astype(np.float32)
WHOLE = RANDOM.integers(-5, 6, (2, 3, 4)).astype(np.int32)


def ints(*numbers):
    return np.array(numbers, np.int64)


WORDS = ["opset1.ReduceSum", "opset1.ReduceMean", "opset1.ReduceMax", "opset1.ReduceMin", "opset1.ReduceProd"]
WORDS += ["opset4.ReduceL1", "opset4.ReduceL2"]


@at_once("op_type", WORDS)
@at_once("axes", [ints(1), ints(-1, 0), np.array(2, np.int64)], ids=["one", "two", "number"])
@at_once("keep", [False, True])
@at_once("symbolic", [False, True])
def test_reduction(op_type, axes, keep, symbolic):
    check_word(op_type, [X, axes], constants=(1,), tolerance=1e-5, symbolic=symbolic, keep_dims=keep)


@at_once("op_type", ["opset1.ReduceSum", "opset1.ReduceMax", "opset1.ReduceProd"])
def test_reduction_of_integers(op_type):
    check_word(op_type, [WHOLE, ints(1)], constants=(1,))
    check_word(op_type, [(WHOLE[:1] % 3).astype(np.int8), ints(1)], constants=(1,))


@at_once("op_type", ["opset1.ReduceLogicalAnd", "opset1.ReduceLogicalOr"])
def test_logical_reduction(op_type):
    check_word(op_type, [X > 0, ints(1)], constants=(1,), keep_dims=True)


@at_once("op_type", WORDS)
@at_once("dtype", [np.float16, np.float32, np.int32])
def test_reduction_over_no_axis_leaves_numbers_alone_and_makes_norms_magnitudes(op_type, dtype):
    x = (X * 3).astype(dtype)
    check_word(op_type, [x, ints()], constants=(1,), keep_dims=True)
    # The plugin does not compile this one without keep_dims.
    check_word(op_type, [x, ints()], constants=(1,), expected=[np.abs(x) if "L" in op_type[8:] else x])


@at_once("exclusive", [False, True])
@at_once("reverse", [False, True])
def test_cum_sum(exclusive, reverse):
    check_word("opset3.CumSum", [X, np.array(1)], constants=(1,), tolerance=1e-5, exclusive=exclusive, reverse=reverse)


@at_once("op_type", ["opset1.TopK", "opset3.TopK", "opset11.TopK"])
@at_once("mode", ["max", "min"])
@at_once("sort", ["value", "index"])
def test_top_k(op_type, mode, sort):
    check_word(op_type, [X, np.array(2)], constants=(1,), outputs=2, axis=2, mode=mode, sort=sort)


def test_top_k_of_a_count_that_is_fed():
    check_word("opset11.TopK", [X, np.array(2, np.int32)], outputs=2, axis=2, mode="max", sort="value")


def test_top_k_counts_in_int64_if_reported_to():
    flags = {"axis": 1, "mode": "max", "sort": "value", "index_element_type": DType.INT64}
    check_word("opset11.TopK", [X, np.array(2)], constants=(1,), outputs=2, **flags)


@at_once("equation", ["abc,cd->abd", "abc->ca", "abc,abc->b", "a...,a...->..."])
def test_einsum(equation):
    operands = {"abc,cd->abd": [X, X[0].T], "abc->ca": [X]}.get(equation, [X, X])
    check_word("opset7.Einsum", operands, tolerance=1e-4, equation=equation)


REDUCTIONS = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
]


@at_once("name", REDUCTIONS)
@at_once("keepdims", [0, 1])
def test_exporting_a_reduction(name, keepdims):
    op_def = registry.op_defs()[name]
    x = np.abs(X)
    assert check_operator(op_def, [x, ints(1)], constants=(1,), tolerance=1e-5, keepdims=keepdims) is not None
    assert check_operator(op_def, [x], tolerance=1e-5, keepdims=keepdims) is not None
    if name in ("ReduceSum", "ReduceMax", "ReduceSumSquare"):
        assert check_operator(op_def, [x], tolerance=1e-5, noop_with_empty_axes=1) is not None


@at_once("name", ["ReduceL1", "ReduceL2", "ReduceSum"])
@at_once("axes", [[], [ints()]], ids=["absent", "empty"])
@at_once("dtype", [np.float16, np.float32])
def test_exporting_a_reduction_over_no_axis(name, axes, dtype):
    op_def = registry.op_defs()[name]
    assert check_operator(op_def, [X.astype(dtype), *axes], constants=(1,), noop_with_empty_axes=1) is not None


@at_once("name", ["ReduceMax", "ReduceMin"])
def test_exporting_a_logical_reduction(name):
    assert check_operator(registry.op_defs()[name], [X > 0, ints(1)], constants=(1,)) is not None


@at_once("op_def", [CumSum, CumProd], ids=lambda op_def: op_def.name)
@at_once("exclusive", [0, 1])
@at_once("reverse", [0, 1])
def test_exporting_running_results(op_def, exclusive, reverse):
    operands = [X, np.array(1)]
    said = check_operator(op_def, operands, constants=(1,), tolerance=1e-5, exclusive=exclusive, reverse=reverse)
    assert said is not None


@at_once("op_def", [ArgMax, ArgMin], ids=lambda op_def: op_def.name)
@at_once("keepdims", [0, 1])
@at_once("last", [0, 1])
@at_once("symbolic", [False, True])
def test_exporting_where_the_largest_is(op_def, keepdims, last, symbolic):
    x = np.array([[1, 3, 3, 2, 1], [5, 5, 5, 5, 5]], np.float32)
    said = check_operator(op_def, [x], axis=1, keepdims=keepdims, select_last_index=last, symbolic=symbolic)
    assert said is not None


@at_once("largest", [0, 1])
def test_exporting_top_k(largest):
    assert check_operator(TopK, [X, ints(2)], constants=(1,), outputs=2, largest=largest, axis=1) is not None


def test_exporting_einsum():
    assert check_operator(Einsum, [X, X[0].T], tolerance=1e-5, equation="abc, cd -> abd") is not None
