"""State: inputs whose value in the next run is an output of the present run.

Variables of formats (NNEF's `variable` and `update`, OpenVINO's `ReadValue` and `Assign`) are read as a pair. The
storage of the input, if present, is the initial state. The pairing is recorded in notes of the input as strings and
numbers, so that files can store it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value

KEPT = "states_are_kept"
"""The variable that distinguishes the first run from later ones, for states initialized by the first run."""

OUTPUT, VARIABLE, IS_RETURNED = "state.output", "state.variable", "state.is_returned"
"""The notes: the name of the output, that of the variable in its file, and whether the file returns the output, too."""


@dataclass(frozen=True, slots=True)
class State:
    """The initial value of a state input in the next run."""

    output: str
    variable: str
    is_returned: bool = False

    def notes(self) -> dict[str, str]:
        """The notes of the input."""
        return {OUTPUT: self.output, VARIABLE: self.variable, IS_RETURNED: str(self.is_returned).lower()}


def mark(value: Value, state: State) -> None:
    """Record that an input is a state."""
    value.notes.update(state.notes())


def state_of(value: Value) -> State | None:
    """Return the state of an input, or None for an ordinary input."""
    return state_from_notes(value.notes) if value.has_notes else None


def state_from_notes(notes: Mapping[str, object]) -> State | None:
    """Return the state recorded in notes, or None."""
    output, variable = notes.get(OUTPUT), notes.get(VARIABLE)
    if not isinstance(output, str) or not isinstance(variable, str):
        return None
    return State(output, variable, notes.get(IS_RETURNED) == "true")


def unmark(value: Value) -> None:
    """Make a state input an ordinary one."""
    if value.has_notes:
        for name in (OUTPUT, VARIABLE, IS_RETURNED):
            value.notes.pop(name, None)


def is_flag(value: Value | None) -> bool:
    """Whether an input distinguishes the first run from later ones."""
    state = None if value is None else state_of(value)
    return state is not None and state.variable == KEPT


def waiting(graph: Graph) -> set[str]:
    """Return the names of the states that are used only after the first run."""
    found: set[str] = set()
    for value in graph.inputs:
        if state_of(value) is None or not value.users:
            continue
        makers = [None if user.graph is None else user.graph.parent for user in value.users]
        if all(maker is not None and maker.inputs and is_flag(maker.operand(0)) for maker in makers):
            found.add(value.name)
    return found


def state_pairs(graph: Graph) -> list[tuple[Value, Value, State]]:
    """Yield each state input with the output that holds its next value, as far as both exist."""
    outputs = {value.name: value for value in graph.outputs}
    found = [(value, state_of(value)) for value in graph.inputs]
    return [(value, outputs[s.output], s) for value, s in found if s is not None and s.output in outputs]
