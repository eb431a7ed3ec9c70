"""Inputs that are kept from run to run."""

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import storage_of
from graphport.ir.graph import Graph, Node, Value
from graphport.ir.states import (
    KEPT,
    State,
    is_flag,
    mark,
    state_from_notes,
    state_of,
    state_pairs,
    unmark,
    waiting,
)
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


def test_state_pairs_lists_inputs_with_their_outputs():
    graph = counting()
    x, s = graph.inputs
    assert state_of(x) is None
    assert state_pairs(graph) == [(s, graph.outputs[0], State("y", "s", is_returned=True))]
    unmark(s)
    assert state_pairs(graph) == []


def test_an_output_that_is_gone_is_no_state():
    graph = counting()
    graph.set_outputs([])
    assert state_pairs(graph) == []


def test_incomplete_state_notes_are_ignored():
    assert state_from_notes({"state.output": "y"}) is None
    assert state_from_notes({"state.output": 3, "state.variable": "s"}) is None


def test_text_has_the_numbers_that_an_input_begins_with():
    graph = counting()
    verify(graph)
    text = to_text(graph)
    assert "%s: float32[2] = float32[2](0.5, 1.0)" in text
    again = from_text(text)
    assert again.inputs[1].storage is not None
    np.testing.assert_array_equal(again.inputs[1].storage.numpy(), [0.5, 1])
    assert to_text(again) == text


def test_state_notes_round_trip():
    for state in (State("y", "v"), State("y", "v", is_returned=True)):
        value = Value("x")
        mark(value, state)
        assert state_of(value) == state_from_notes(value.notes) == state
        value.notes["other"] = "note"
        unmark(value)
        assert (state_of(value), value.notes) == (None, {"other": "note"})


def flagged(operand, *, other=""):
    """A state that is read in a branch of a node that reads `operand`, and maybe elsewhere."""
    graph = from_text(
        f"""graph g(%flag, %other, %s) {{
            %b = If({operand}) {{then_branch = graph then() {{ %a = Neg(%s) return %a }}}}
            {other}
            return %b
        }}"""
    )
    flag, _, s = graph.inputs
    mark(flag, State("b", KEPT))
    mark(s, State("b", "s"))
    return graph


def test_waiting_lists_states_used_only_under_the_flag():
    graph = flagged("%flag")
    assert [is_flag(value) for value in (*graph.inputs, None)] == [True, False, False, False]
    assert waiting(graph) == {"s"}
    assert waiting(flagged("%flag", other="%z = Abs(%s)")) == set()
    assert waiting(flagged("%other")) == set()
    assert waiting(flagged("")) == set()
    unread = flagged("%flag")
    mark(unread.inputs[1], State("b", "unread"))
    assert waiting(unread) == {"s"}
    returned = flagged("%flag")
    returned.add_output(returned.inputs[2])
    assert waiting(returned) == {"s"}
