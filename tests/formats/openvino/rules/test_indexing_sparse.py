"""Tables of which only some entries are named, in OpenVINO."""

import numpy as np

from graphport.conversion.legalize import legalize
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.graph import Graph, Node, Value
from tests.at_once import at_once
from tests.ops.openvino_oracle import check_word

PLACES = np.array([[3, 1], [0, 3], [0, 1], [2, 0], [3, 0]])
VALUES = np.array([1.5, -2, 3, 4, 7], np.float32)
WORD = "opset16.SparseFillEmptyRows"


@at_once("kind", ["int32", "int64"])
@at_once("dtype", ["float32", "int32"])
def test_rows_are_filled_and_sorted(kind, dtype):
    operands = [VALUES.astype(dtype), np.array([6, 4], kind), PLACES.astype(kind), np.array(9, dtype)]
    places, values, empty = check_word(WORD, operands, outputs=3)
    assert places.tolist() == [[0, 1], [0, 3], [1, 0], [2, 0], [3, 0], [3, 1], [4, 0], [5, 0]]
    assert values.tolist() == [3, -2, 9, 4, 7, VALUES.astype(dtype)[0], 9, 9]
    assert empty.tolist() == [False, True, False, False, True, True]
    check_word(WORD, operands, constants=(1, 3), outputs=3)
    check_word(WORD, operands, outputs=3, symbolic=True, constants=(1,))


@at_once("rows", [0, 3])
def test_tables_without_entries(rows):
    operands = [VALUES[:0], np.array([rows, 4]), PLACES[:0], np.array(9, np.float32)]
    expected = [np.array([[row, 0] for row in range(rows)], np.int64).reshape(-1, 2)]
    expected += [np.full(rows, 9, np.float32), np.ones(rows, bool)]
    check_word(WORD, operands, outputs=3, expected=expected)


def test_no_row_is_empty():
    operands = [VALUES[:3], np.array([2, 4]), np.array([[0, 3], [1, 1], [0, 2]]), np.array(9, np.float32)]
    places, values, empty = check_word(WORD, operands, outputs=3)
    assert places.tolist() == [[0, 2], [0, 3], [1, 1]]
    assert values.tolist() == [3, 1.5, -2]
    assert not empty.any()


def test_a_table_of_dynamic_shape():
    operands = [VALUES, np.array([6, 4]), PLACES, np.array(9, np.float32)]
    check_word(WORD, operands, outputs=3, symbolic=True)


def test_values_without_places_are_reported():
    graph = Graph("one")
    kinds = (DType.FLOAT32, DType.INT64, DType.INT64, DType.FLOAT32)
    facts = [TensorFact(kind, shape) for kind, shape in zip(kinds, ((4,), (2,), (5, 2), ()), strict=True)]
    values = [graph.add_input(f"i{number}", fact) for number, fact in enumerate(facts)]
    node = Node(WORD, values, [Value(f"o{number}") for number in range(3)], {}, dialect="openvino")
    graph.append(node)
    for result in node.outputs:
        assert result is not None
        graph.add_output(result)
    _, findings = legalize(graph)
    assert any("4 values for 5 indices" in finding.message for finding in findings), findings
