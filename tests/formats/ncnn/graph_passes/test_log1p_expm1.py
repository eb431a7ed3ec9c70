"""Functions that ncnn identifies by a number are recognized by their complete decomposition only."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.formats.ncnn.graph_passes.log1p_expm1 import note_functions
from graphport.formats.ncnn.rules.annotations import FUNCTION
from graphport.ir.graph import Graph, Node, Value

LOG1P = """
near = Add x one
logarithm = Log near
less = Sub near one
ratio = Div x less
corrected = Mul logarithm ratio
same = Equal near one
endless = IsInf x
either = Or same endless
y = Where either x corrected
"""
EXPM1 = """
grown = Exp x
less = Sub grown one
logarithm = Log grown
ratio = Div x logarithm
corrected = Mul less ratio
settled = Where c less corrected
same = Equal grown one
y = Where same x settled
"""
FUNCTIONS = ((LOG1P, 27), (EXPM1, 21))
Rows = list[tuple[str, str, list[str]]]


def lines(text: str) -> Rows:
    found = []
    for line in text.split("\n"):
        if line:
            name, _, op, *operands = line.split()
            found.append((name, op, operands))
    return found


def graph_of(rows: Rows, one: Any = 1.0, infinite: Any = MappingProxyType({"detect_negative": 0})) -> Graph:
    """Return a graph of `rows`: `x` and `z` are float inputs, `c` is a boolean one."""
    graph = Graph()
    values = {name: graph.add_input(name, TensorFact(DType.FLOAT32, (2, 3))) for name in "xz"}
    values["c"] = graph.add_input("c", TensorFact(DType.BOOL, (2, 3)))
    storage = storage_of(np.asarray(one, np.float32))
    values["one"] = graph.add_constant("one", TensorFact.of(storage), storage)
    for name, op, operands in rows:
        values[name] = Value(name)
        told = infinite if op == "IsInf" else {}
        graph.append(Node(op, [values[each] for each in operands], [values[name]], told))
    graph.set_outputs([values["y"]])
    return graph


def noted(graph: Graph) -> list[Any]:
    """Return the numbers of the recognized functions, and check their count."""
    count = note_functions(graph)
    found = [node.notes[FUNCTION] for node in graph if node.has_notes and FUNCTION in node.notes]
    assert len(found) == count
    return found


def test_a_function_is_known_wherever_it_is_made():
    for text, number in FUNCTIONS:
        graph = graph_of(lines(text), one=[[1.0]])
        assert noted(graph) == [number]
        assert graph.last_node.notes[FUNCTION] == number
    both = [
        *lines(LOG1P),
        *[(f"{a}2", op, [f"{o}2" if o not in "xcone" else o for o in os]) for a, op, os in lines(EXPM1)],
    ]
    assert noted(graph_of(both)) == [27, 21]


def unlike(change: Callable[[Rows, int], Rows | None]) -> list[str]:
    """Return the rows whose change does not prevent the recognition of a function."""
    found = []
    for text, _ in FUNCTIONS:
        for place in range(len(lines(text))):
            told = change(lines(text), place)
            if told is not None and noted(graph_of(told)):
                found.append(" ".join(map(str, told[place])))
    return found


def test_no_operator_is_another_one():
    others = {"Add": "Mul", "Mul": "Add", "Sub": "Add", "Div": "Mul", "Log": "Exp", "Exp": "Log", "Or": "And"}

    def other(told: Rows, place: int) -> Rows:
        name, op, operands = told[place]
        told[place] = (name, others.get(op, "Max"), operands)
        return told

    assert not unlike(other)


def test_no_operand_is_another_one():
    def other(told: Rows, place: int, index: int, new: str) -> Rows | None:
        name, op, operands = told[place]
        if index >= len(operands) or operands[index] == new:
            return None
        told[place] = (name, op, [new if at == index else each for at, each in enumerate(operands)])
        return told

    for index in range(3):
        for new in ("z", "x", "one"):
            # The selection between two equivalent expressions does not matter.
            found = unlike(lambda told, place, index=index, new=new: other(told, place, index, new))
            assert [each for each in found if not each.startswith("settled Where") or index] == []


def test_the_number_is_one():
    for text, _ in FUNCTIONS:
        for number in (0.0, 2.0, -1.0, [1.0, 1.0], [1.0, 2.0], []):
            assert noted(graph_of(lines(text), one=number)) == []
        graph = graph_of(lines(text))
        given = graph.add_input("number", TensorFact(DType.FLOAT32, ()))
        next(value for value in graph.constants).replace_uses(given)
        assert noted(graph) == []


def test_infinity_alone_is_itself():
    for told in ({}, {"detect_negative": 1}, {"detect_positive": 0, "detect_negative": 0}, {"detect_positive": 0}):
        assert noted(graph_of(lines(LOG1P), infinite=told)) == []
    assert noted(graph_of(lines(LOG1P), infinite={"detect_positive": 1, "detect_negative": 0})) == [27]
