"""Running two models on the same inputs and holding one against the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.api.run import first_run, run
from graphport.comparison import Comparison, compare_outputs, difference

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.api.model import Model


def compare(
    a: Model,
    b: Model,
    inputs: Mapping[str, Any] | None = None,
    *,
    backend: str = "auto",
    every_value: bool = False,
) -> Comparison:
    """Run two models on the same inputs and hold `b` against `a`, output by output.

    Args:
        a: the model that is right.
        b: the other one; its inputs are paired with those of `a` by name, else by position.
        inputs: by the names of `a`; made up if `None`.
        backend: see `run`.
        every_value: compare all values that both compute under one name, in the order of `a`.
    """
    if inputs is None:
        given, first = first_run(a, backend, every_value=every_value)
    else:
        given, first = dict(inputs), run(a, inputs, backend=backend, every_value=every_value)
    return compared(a, first, b, given, backend, every_value=every_value)


def compared(
    a: Model, first: Mapping[str, Any], b: Model, given: Mapping[str, Any], backend: str, *, every_value: bool = False
) -> Comparison:
    """`b`, run on `given`, held against `first`, which `a` computed from it."""
    second = run(b, _paired(given, a, b), backend=backend, every_value=every_value)
    outputs = compare_outputs({n: first[n] for n in a.outputs}, {n: second[n] for n in b.outputs}, _originals(b))
    if not every_value:
        return outputs
    values = tuple(difference(name, x, second[name]) for name, x in first.items() if name in second)
    return Comparison(outputs.outputs, values, outputs.notes)


def _originals(model: Model) -> dict[str, str]:
    return {
        v.name: str(v.notes["original_name"])
        for v in model.graph.values()
        if v.has_notes and "original_name" in v.notes
    }


def _paired(given: Mapping[str, Any], a: Model, b: Model) -> dict[str, Any]:
    originals = {original: name for name, original in _originals(b).items()}
    free = [name for name in b.inputs if name not in a.inputs and name not in originals.values()]
    found: dict[str, Any] = {}
    for name, array in given.items():
        other = name if name in b.inputs else originals.get(name)
        if other is None and free:
            other = free.pop(0)
        found[other or name] = array
    return found
