"""Values that a model keeps from run to run: inputs that begin with what an output was in the run before.

Formats that have variables (NNEF's `variable` and `update`, OpenVINO's `ReadValue` and `Assign`) are read with such a
pair in the place of each. The numbers of the input, where it has some, are what the first run begins with. What belongs
together is told by notes of the input that are plain text and numbers, so that files have room for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.ir.graph import Graph, Value

KEPT = "states_are_kept"
"""The variable that tells the first run from those that go on, where states begin with what the first run computes."""

OUTPUT, VARIABLE, IS_RETURNED = "state.output", "state.variable", "state.is_returned"
"""The notes: the name of the output, that of the variable in its file, and whether the file returns the output, too."""


@dataclass(frozen=True, slots=True)
class State:
    """What an input that is kept begins the next run with."""

    output: str
    variable: str
    is_returned: bool = False

    def notes(self) -> dict[str, str]:
        """The notes of the input."""
        return {OUTPUT: self.output, VARIABLE: self.variable, IS_RETURNED: str(self.is_returned).lower()}


def mark(value: Value, state: State) -> None:
    """Note that an input is kept from run to run."""
    value.notes.update(state.notes())


def state_of(value: Value) -> State | None:
    """What an input is kept as; `None` of one that is given anew for every run."""
    return noted_state(value.notes) if value.has_notes else None


def noted_state(notes: Mapping[str, object]) -> State | None:
    """The state that notes tell; `None` where they tell none."""
    output, variable = notes.get(OUTPUT), notes.get(VARIABLE)
    if not isinstance(output, str) or not isinstance(variable, str):
        return None
    return State(output, variable, notes.get(IS_RETURNED) == "true")


def forget(value: Value) -> None:
    """Make an input that was kept one like any other."""
    if value.has_notes:
        for name in (OUTPUT, VARIABLE, IS_RETURNED):
            value.notes.pop(name, None)


def is_flag(value: Value | None) -> bool:
    """Whether an input tells the first run from those that go on."""
    state = None if value is None else state_of(value)
    return state is not None and state.variable == KEPT


def waiting(graph: Graph) -> set[str]:
    """The names of the states that are read only where the flag says that they are kept."""
    found: set[str] = set()
    for value in graph.inputs:
        if state_of(value) is None or not value.users:
            continue
        makers = [None if user.graph is None else user.graph.parent for user in value.users]
        if all(maker is not None and maker.inputs and is_flag(maker.operand(0)) for maker in makers):
            found.add(value.name)
    return found


def kept(graph: Graph) -> list[tuple[Value, Value, State]]:
    """Every input that is kept with the output that it is in the next run, as far as both are there."""
    outputs = {value.name: value for value in graph.outputs}
    found = [(value, state_of(value)) for value in graph.inputs]
    return [(value, outputs[s.output], s) for value, s in found if s is not None and s.output in outputs]
