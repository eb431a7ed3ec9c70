"""Builder: literals as operands of canonical operations."""

from __future__ import annotations

import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Value
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import UnsupportedError
from graphport.ops.infer import Inference

OP_DEFS = registry.op_defs()
X = ("x", DType.FLOAT16, (4, 3))
INT32 = ("i", DType.INT32, (4, 3))
CONDITION = ("c", DType.BOOL, (4, 3))


def build(op, *operands, **attributes):
    """Return the operands of one operation; tuples (name, dtype, shape) become graph inputs."""
    graph = Graph("literals")
    values = [
        graph.add_input(each[0], TensorFact(each[1], each[2])) if each in (X, INT32, CONDITION) else each
        for each in operands
    ]
    y = Builder(Inference(), graph)(OP_DEFS[op], *values, **attributes)
    return y.producer.operands


def elements(value: Value):
    """Return dtype, shape and elements of a constant."""
    return value.dtype, value.storage.shape, value.storage.numpy().ravel().tolist()


@pytest.mark.parametrize(
    ("op", "operands", "index", "expected"),
    [
        pytest.param("Reshape", (X, [-1]), 1, (DType.INT64, (1,), [-1]), id="a list is an int64 vector"),
        pytest.param("ReduceMax", (X, []), 1, (DType.INT64, (0,), []), id="an empty list too"),
        pytest.param("Gather", (X, 2), 1, (DType.INT64, (), [2]), id="an index is an int64 scalar"),
        pytest.param("Add", (X, 1.5), 1, (DType.FLOAT16, (), [1.5]), id="a number has the dtype of its sibling"),
        pytest.param("Sub", (1, INT32), 0, (DType.INT32, (), [1]), id="also of a later sibling"),
        pytest.param("Pow", (X, 2), 1, (DType.FLOAT16, (), [2]), id="the base determines an exponent"),
        pytest.param("Where", (CONDITION, 0, X), 1, (DType.FLOAT16, (), [0]), id="a condition determines nothing"),
        pytest.param("Where", (CONDITION, 0, 1), 1, (DType.INT64, (), [0]), id="without a sibling int64"),
    ],
)
def test_literal_operands(op, operands, index, expected):
    assert elements(build(op, *operands)[index]) == expected


def test_a_float_without_a_sibling_is_ambiguous():
    with pytest.raises(UnsupportedError, match=r"no tensor whose type 0\.5 could have"):
        build("Where", CONDITION, 0.5, 1.5)
