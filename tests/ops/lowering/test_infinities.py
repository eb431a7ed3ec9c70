"""Which infinite numbers are found among the constants of a value."""

from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, Node, Value
from graphport.ops.lowering.infinities import infinities


class Unread(ArrayStorage):
    def numpy(self) -> np.ndarray[Any, Any]:
        pytest.fail("its numbers are read")


def constant(storage: ArrayStorage) -> Value:
    return Graph().add_constant("c", TensorFact(storage.dtype, storage.shape), storage)


@pytest.mark.parametrize(
    ("numbers", "found"),
    [
        ([0, 1], []),
        ([0, -np.inf], [-np.inf]),
        ([np.nan, np.inf, -np.inf], [-np.inf, np.inf]),
    ],
)
def test_infinities_of_a_constant_are_found(numbers: list[float], found: list[float]):
    assert infinities(constant(ArrayStorage(np.array(numbers, np.float32))), ()) == found


def test_a_large_constant_is_not_read():
    assert infinities(constant(Unread(np.zeros((4097, 1024), np.float16))), ()) == []


def test_infinities_are_found_through_the_named_op_types_only():
    wide = constant(ArrayStorage(np.array([-1e300, 0])))
    assert wide.graph is not None
    y = Value("y", TensorFact(DType.FLOAT32, (2,)))
    wide.graph.append(Node("CAST", [wide], [y], dialect="tflite"))
    assert infinities(y, {"CAST"}) == [-np.inf]
    assert infinities(y, {"ADD"}) == []
