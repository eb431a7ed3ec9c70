"""Comparison and logic against ONNX Runtime, in NNEF, and over dims."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from graphport.core.dims import Symbol
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops import registry
from graphport.ops.declare import ShapeError
from graphport.ops.definitions.comparison import And, Equal, IsInf, IsNaN, Less, Not, Where
from tests.every import every
from tests.ops.facts import facts_of, single
from tests.ops.oracle import check_operator, compare, old_opset, run_operator, run_word, there_and_back
from tests.ops.standard import check_by_standard

OP_DEFS = registry.op_defs()
ORDER = ["Less", "Greater", "LessOrEqual", "GreaterOrEqual"]
LOGIC = ["And", "Or", "Xor"]


def numbers(shape, dtype, seed=0):
    rng = np.random.default_rng([seed, *shape])
    return np.asarray(rng.integers(0, 4, shape)).astype(dtype)


@every("name", [*ORDER, "Equal"])
@every("dtype", [np.float32, np.float64, np.int32, np.int64])
@every("shapes", [((3, 4), (3, 4)), ((2, 1, 4), (3, 1)), ((3,), ()), ((0, 2), (2,))])
def test_comparison_is_that_of_onnx_runtime(name, dtype, shapes):
    check_operator(OP_DEFS[name], [numbers(shape, dtype, seed) for seed, shape in enumerate(shapes)])


@every("name", [*ORDER, "Equal"])
@every("dtype", [np.int8, np.uint8, np.int16, np.uint16, np.uint32, np.uint64, np.float16, ml_dtypes.bfloat16])
def test_comparison_supports_every_dtype(name, dtype):
    check_by_standard(OP_DEFS[name], [numbers((3, 4), dtype), numbers((4,), dtype, 1)])


def test_text_and_logical_values_are_equal_or_not():
    check_operator(Equal, [np.array([["a", "b"]], object), np.array([["a"], ["b"]], object)])
    check_operator(Equal, [np.array([True, False]), np.array([True, True])])


def test_nan_is_neither_equal_nor_less():
    x = single([np.nan, 1])
    assert Equal(x, x).tolist() == [False, True]
    check_operator(Less, [x, x[::-1].copy()])


@pytest.mark.parametrize("name", LOGIC)
def test_logic_is_that_of_onnx_runtime(name):
    check_operator(OP_DEFS[name], [numbers((2, 1, 4), bool), numbers((3, 1), bool, 1)])
    check_operator(Not, [numbers((2, 3), bool)])


SPECIAL = single([np.nan, np.inf, -np.inf, 0, 1, 3e38])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_isnan_matches_onnx_runtime(dtype):
    with np.errstate(over="ignore"):
        x = SPECIAL.astype(dtype)
    check_operator(IsNaN, [x])


@pytest.mark.parametrize(
    "dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fnuz]
)
def test_isnan_supports_every_float_dtype(dtype):
    x = SPECIAL[[0, 3, 4]].astype(dtype)
    assert run_operator(IsNaN, [x])[0].tolist() == [True, False, False]
    assert run_operator(IsInf, [x])[0].tolist() == [False, False, False]


@pytest.mark.parametrize("sides", [(1, 1), (1, 0), (0, 1), (0, 0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_isinf_honors_detect_negative_and_detect_positive(sides, dtype):
    check_operator(IsInf, [SPECIAL.astype(dtype)], detect_negative=sides[0], detect_positive=sides[1])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8, object])
@pytest.mark.parametrize("shapes", [((3, 4), (3, 4), (3, 4)), ((4,), (3, 1), ()), ((2, 1, 1), (3, 1), (4,))])
def test_choice_is_that_of_onnx_runtime(dtype, shapes):
    condition, x, y = (numbers(shape, np.int64, seed) for seed, shape in enumerate(shapes))
    x, y = (each.astype(str).astype(object) if dtype is object else each.astype(dtype) for each in (x, y))
    check_operator(Where, [condition > 1, np.asarray(x, dtype), np.asarray(y, dtype)])


@pytest.mark.parametrize("dtype", [np.float16, np.bool_, np.int8, np.uint64, np.complex64])
def test_where_supports_every_dtype(dtype):
    check_by_standard(Where, [numbers((3, 4), bool), numbers((3, 4), dtype, 1), numbers((4,), dtype, 2)])


def test_operands_that_do_not_broadcast_are_refused():
    b, f = (TensorFact(dtype, (3,)) for dtype in (DType.BOOL, DType.FLOAT32))
    with pytest.raises(ShapeError, match="3 and 4 do not broadcast"):
        facts_of(Where, [b, f, TensorFact(DType.FLOAT32, (4,))], {}, 1)
    with pytest.raises(ShapeError, match="y is float64, another operand float32"):
        facts_of(Where, [b, f, TensorFact(DType.FLOAT64, (3,))], {}, 1)
    with pytest.raises(ShapeError, match="a is float32"):
        facts_of(And, [f, b], {}, 1)


N = Symbol("N", 1)


def elements(op_def, *operands):
    facts = [TensorFact(dtype, (len(x),)).with_elements(x) for dtype, x in operands]
    return facts_of(op_def, facts, {}, 1)[0].elements


def test_dims_are_compared_and_chosen():
    int64 = DType.INT64
    assert elements(Equal, (int64, [N, 3, 0]), (int64, [-1, 3, 1])) == (0, 1, 0)
    assert elements(Less, (int64, [N]), (int64, [0])) == (0,)
    assert elements(Less, (int64, [N]), (int64, [5])) is None
    assert elements(Where, (DType.BOOL, [1, 0]), (int64, [N, 3]), (int64, [7, N])) == (N, N)
    assert elements(Not, (DType.BOOL, [1, 0])) == (0, 1)


# Older forms


@pytest.mark.parametrize("name", ["Equal", "Less", "Greater"])
@pytest.mark.parametrize(("shape", "axis"), [((3,), 1), ((2,), 0), ((4,), None), ((3, 4), 1)])
def test_older_comparison_broadcasts_from_an_axis(name, shape, axis):
    x, y = numbers((2, 3, 4), np.float32), numbers(shape, np.float32, 1)
    start = 3 - len(shape) if axis is None else axis
    wide = np.broadcast_to(y.reshape(shape + (1,) * (3 - start - len(shape))), x.shape)
    attributes: dict[str, Any] = {"broadcast": 1} | ({} if axis is None else {"axis": axis})
    compare(run_word("onnx", name, [x, y], opset=6, **attributes)[0], run_operator(OP_DEFS[name], [x, wide])[0])


@pytest.mark.parametrize("name", LOGIC)
def test_older_logic_broadcasts_from_an_axis(name):
    x, y = numbers((2, 3, 4), bool), numbers((3,), bool, 1)
    wide = np.broadcast_to(y[:, None], x.shape)
    compare(run_word("onnx", name, [x, y], opset=1, broadcast=1, axis=1)[0], run_operator(OP_DEFS[name], [x, wide])[0])


@pytest.mark.parametrize("opset", [7, 9, 11, 12])
def test_unchanged_forms_are_those_of_onnx_runtime(opset):
    x, y = numbers((2, 3), np.float32), numbers((3,), np.float32, 1)
    old_opset("Less", opset, [x, y])
    old_opset("Equal", opset, [x.astype(np.int64), y.astype(np.int64)])
    old_opset("And", opset, [x > 1, y > 1])
    if opset >= 9:
        old_opset("Where", opset, [x > 1, x, y])


# NNEF

WORDS = {
    "lt": np.less, "gt": np.greater, "le": np.less_equal, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


@every("op_type", WORDS)
@every("shape", [(), (2,), (2, 3), (1, 3), (2, 3, 4)])
def test_comparison_op_type_aligns_at_the_first_axis(op_type, shape):
    x, y = numbers((2, 3, 4), np.float32), numbers(shape, np.float32, 1)
    wide = y.reshape(shape + (1,) * (3 - len(shape)) if shape else ())
    for symbolic in (False, True):
        compare(run_word("nnef", op_type, [x, y], symbolic=symbolic)[0], WORDS[op_type](x, wide))


@pytest.mark.parametrize(("op_type", "function"), [("and", np.logical_and), ("or", np.logical_or)])
def test_logic_op_type_aligns_at_the_first_axis(op_type, function):
    x, y = numbers((2, 3, 4), bool), numbers((2,), bool, 1)
    compare(run_word("nnef", op_type, [x, y])[0], function(x, y[:, None, None]))
    compare(run_word("nnef", "not", [x])[0], ~x)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 3, 4), ()), ((2,), (2, 3), (2, 3, 4)), ((2, 3), (2, 3), (2, 3))])
def test_select_aligns_at_the_first_axis(shapes):
    condition, x, y = (numbers(shape, np.float32, seed) for seed, shape in enumerate(shapes))
    rank = max(map(len, shapes))
    c, a, b = (
        each.reshape(each.shape + (1,) * (rank - each.ndim) if each.ndim else ()) for each in (condition > 1, x, y)
    )
    for symbolic in (False, True):
        compare(run_word("nnef", "select", [condition > 1, x, y], symbolic=symbolic)[0], np.where(c, a, b))


@pytest.mark.parametrize("name", [*ORDER, "Equal"])
@pytest.mark.parametrize("shapes", [((2, 3, 4), (4,)), ((3, 1), (2, 3, 4)), ((2, 3), ())])
def test_exporting_a_comparison_preserves_its_semantics(name, shapes):
    operands = [numbers(shape, np.float32, seed) for seed, shape in enumerate(shapes)]
    for constants in ((), (1,)):
        assert there_and_back(OP_DEFS[name], operands, constants=constants, symbolic=True)


@pytest.mark.parametrize("name", LOGIC)
def test_exporting_logic_preserves_its_semantics(name):
    assert there_and_back(OP_DEFS[name], [numbers((2, 3, 4), bool), numbers((4,), bool, 1)], symbolic=True)
    assert there_and_back(Not, [numbers((2, 3), bool)]) == ["not"]


def test_exporting_a_choice_preserves_its_semantics():
    condition = numbers((3, 1), bool)
    for shapes in (((2, 3, 4), (4,)), ((4,), ()), ((), ())):
        x, y = (numbers(shape, np.float32, seed) for seed, shape in enumerate(shapes))
        assert there_and_back(Where, [condition, x, y], symbolic=True)


def test_isnan_is_exported_as_a_self_comparison():
    assert there_and_back(IsNaN, [SPECIAL]) == ["ne"]
    assert there_and_back(IsInf, [SPECIAL]) == ["abs", "gt"]
