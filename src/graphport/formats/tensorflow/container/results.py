"""Results of branches and loops: values that a body computes itself, and no writes of variables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.formats.tensorflow.container.evaluator import Evaluator
    from graphport.formats.tensorflow.container.records import Record
    from graphport.ir.graph import Graph, Value


def isolate_results(building: Evaluator, graph: Graph, values: Sequence[Value], prefix: str) -> list[Value]:
    """Values that the graph computes itself, each once: a body returns no others."""
    found: list[Value] = []
    for value in values:
        is_own = value.producer is not None and value.graph is graph and value not in found
        found.append(value if is_own else building.emit("Identity", [value], {}, f"{prefix}result", dialect="")[0])
    return found


def states(building: Evaluator) -> dict[str, Any]:
    """The values of all variables at this point."""
    return {name: each.value for name, each in building.variables.items()}


def refuse_writes(building: Evaluator, before: dict[str, Any], record: Record) -> None:
    """Refuse a branch or loop that wrote a variable.

    Raises:
        DiagnosticError: TF0207.
    """
    for name, each in building.variables.items():
        if each.value is not (before.get(name) or each.first):
            text = f"unsupported: {record.op_type} writes the variable {name} in a branch or a loop"
            building.refuse("TF0207", text, f"node {record.name}", "return the new value from the branch or loop")
