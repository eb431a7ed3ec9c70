"""Tables that are initialized once become constant lookups; other tables are unchanged."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.tflite.graph_passes.hash_tables import fill_tables
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.verify import verify

KEYS, VALUES, OTHERS = np.array([3, 5, 9]), np.array([30, 50, 90]), np.array([7, 8, 9])
NUMBERS = itertools.count()
NAMES = ("table_id", "key_dtype", "value_dtype")


def put(graph: Any, op_type: str, *operands: Value, results=1, **told: Any) -> Any:
    made = [Value(f"v{next(NUMBERS)}", TensorFact(DType.INT64, None)) for _ in range(results)]
    return graph.append(Node(op_type, list(operands), made, told, dialect="tflite"))


def table(graph: Any, told: tuple[int, ...] = (7, 4, 4)) -> Value:
    return put(graph, "HASHTABLE", **dict(zip(NAMES, told, strict=True))).output


def constant(graph: Any, array: Any) -> Value:
    storage = storage_of(np.asarray(array))
    return graph.add_constant(f"c{next(NUMBERS)}", TensorFact.of(storage), storage)


def filling(*fills: Any, told: tuple[int, ...] = (7, 4, 4)) -> Any:
    """A subgraph that fills tables with keys and values."""
    body: Any = Graph()
    for keys, values in fills or ((KEYS, VALUES),):
        put(body, "HASHTABLE_IMPORT", table(body, told), constant(body, keys), constant(body, values), results=0)
    return body


class Net:
    """A net in which `y` is the lookup of `x` in a table, and `n` its number of keys."""

    def __init__(self, *bodies: Any, told: tuple[int, ...] = (7, 4, 4)) -> None:
        self.graph: Any = Graph()
        self.x = self.graph.add_input("x", TensorFact(DType.INT64, (2,)))
        self.default = constant(self.graph, [-1])
        for index, each in enumerate(bodies):
            put(self.graph, "CALL_ONCE", results=0, init_subgraph_index=each, place=index)
        self.found = put(self.graph, "HASHTABLE_FIND", table(self.graph, told), self.x, self.default)
        size = put(self.graph, "HASHTABLE_SIZE", table(self.graph, told)).output
        self.graph.set_outputs([self.found.output, size])

    def filled(self) -> list[str]:
        fill_tables(self.graph)
        verify(self.graph)
        return [node.op_type for node in self.graph]


def numbers(value: Value) -> list[int]:
    storage: Any = value.storage
    return storage.numpy().tolist()


def test_a_filled_table_is_two_constants():
    net = Net(filling())
    assert net.filled() == ["HASHTABLE_FIND"]
    keys, values, x, default = net.found.operands
    assert (numbers(keys), numbers(values), x, default) == (KEYS.tolist(), VALUES.tolist(), net.x, net.default)
    assert [str(value.fact) for value in (keys, values)] == ["int64[3]"] * 2
    size = net.graph.outputs[1]
    assert (numbers(size), str(size.fact)) == ([3], "int64[1]")


def test_texts_are_keys_too():
    net = Net(filling((np.array(["a", "bc"], object), VALUES[:2]), told=(7, 5, 4)), told=(7, 5, 4))
    assert net.filled() == ["HASHTABLE_FIND"]
    assert net.found.operands[0].fact == TensorFact(DType.STRING, (2,))
    assert numbers(net.graph.outputs[1]) == [2]


def test_an_initialized_value_is_not_initialized_again():
    net = Net(filling((KEYS, VALUES), (KEYS[:2], OTHERS[:2])))
    net.filled()
    assert numbers(net.found.operands[1]) == VALUES.tolist()


@pytest.mark.parametrize("place", range(3))
def test_a_table_is_its_number_and_its_types(place):
    other = tuple(each + (at == place) for at, each in enumerate((7, 4, 4)))
    stays = Net(filling(), told=other)
    before = [node.op_type for node in stays.graph]
    assert stays.filled() == before
    both = Net(filling((KEYS, OTHERS), told=other), filling())
    assert both.filled() == ["HASHTABLE_FIND"]
    assert numbers(both.found.operands[1]) == VALUES.tolist()
    assert numbers(both.found.operands[0]) == KEYS.tolist()


def test_tables_that_nobody_fills_and_numbers_that_is_unknown_stay():
    for net in (Net(), Net(Graph())):
        before = [node.op_type for node in net.graph]
        assert net.filled() == before
    for place in (1, 2):
        told = filling()
        told.last.set_input(place, told.add_input("given", TensorFact(DType.INT64, (3,))))
        net = Net(told)
        before = [node.op_type for node in net.graph]
        assert net.filled() == before
    net = Net(filling())
    handle = net.graph.add_input("handle", TensorFact(DType.INT64, ()))
    net.found.set_input(0, handle)
    before = [node.op_type for node in net.graph]
    assert net.filled() == before


def test_only_op_types_of_tflite_are_meant():
    for op_type in ("CALL_ONCE", "HASHTABLE"):
        net = Net(filling())
        next(node for node in net.graph if node.op_type == op_type).dialect = "custom"
        before = [node.op_type for node in net.graph]
        assert net.filled() == before
    net = Net(filling())
    net.found.dialect = "custom"
    assert net.filled() == ["HASHTABLE", "HASHTABLE_FIND"]  # its handle is still read


def test_what_else_runs_once_runs():
    told = filling()
    put(told, "ASSIGN_VARIABLE", put(told, "VAR_HANDLE").output, constant(told, [1]), results=0)
    net = Net(told)
    assert net.filled() == ["CALL_ONCE", "HASHTABLE_FIND"]
    (body,) = net.graph.first.bodies()
    assert [node.op_type for node in body] == ["VAR_HANDLE", "ASSIGN_VARIABLE"]
    empty = Net(Graph(), filling())
    assert empty.filled() == ["HASHTABLE_FIND"]


def test_a_body_searches_too():
    net = Net(filling())
    body: Any = Graph()
    given = body.add_input("given", TensorFact(DType.INT64, (2,)))
    found = put(body, "HASHTABLE_FIND", table(body), given, constant(body, [-1]))
    body.set_outputs([found.output])
    net.graph.set_outputs([put(net.graph, "WHILE", net.found.output, body=body).output])
    assert net.filled() == ["HASHTABLE_FIND", "WHILE"]
    assert [numbers(value) for value in found.operands[:2]] == [KEYS.tolist(), VALUES.tolist()]
    assert [node.op_type for node in body] == ["HASHTABLE_FIND"]
