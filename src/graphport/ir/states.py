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
    return told(value.notes) if value.has_notes else None


def told(notes: Mapping[str, object]) -> State | None:
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


def kept(graph: Graph) -> list[tuple[Value, Value, State]]:
    """Every input that is kept with the output that it is in the next run, as far as both are there."""
    outputs = {value.name: value for value in graph.outputs}
    found = [(value, state_of(value)) for value in graph.inputs]
    return [(value, outputs[s.output], s) for value, s in found if s is not None and s.output in outputs]
