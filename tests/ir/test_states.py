"""Inputs that are kept from run to run."""

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import State, forget, kept, mark, state_of, told
from graphport.ir.text import from_text, to_text
from graphport.ir.verify import verify


def counting():
    graph = Graph("counting")
    fact = TensorFact(DType.FLOAT32, (2,))
    x, s = graph.add_input("x", fact), graph.add_input("s", fact)
    s.storage = storage_of(np.array([0.5, 1], np.float32))
    y = Value("y", fact)
    graph.append(Node("Add", [x, s], [y]))
    graph.add_output(y)
    mark(s, State("y", "s", is_returned=True))
    return graph


def test_what_is_kept_is_found_with_its_output():
    graph = counting()
    x, s = graph.inputs
    assert state_of(x) is None
    assert kept(graph) == [(s, graph.outputs[0], State("y", "s", is_returned=True))]
    forget(s)
    assert kept(graph) == []


def test_an_output_that_is_gone_is_no_state():
    graph = counting()
    graph.set_outputs([])
    assert kept(graph) == []


def test_notes_that_say_half_are_none():
    assert told({"state.output": "y"}) is None
    assert told({"state.output": 3, "state.variable": "s"}) is None


def test_text_has_the_numbers_that_an_input_begins_with():
    graph = counting()
    verify(graph)
    text = to_text(graph)
    assert "%s: float32[2] = float32[2](0.5, 1.0)" in text
    again = from_text(text)
    np.testing.assert_array_equal(again.inputs[1].storage.numpy(), [0.5, 1])
    assert to_text(again) == text
