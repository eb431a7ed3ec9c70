"""Results of a run by position and name (a value listed twice is two results), and node results by element type."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.short_repr import MAX_LENGTH, abridge_text
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.core.dtypes import DType
    from graphport.ir.graph import Graph, Value


class Outputs(dict[str, Any]):
    """Outputs of a run by name, and by position in `ordered`. A repeated output is named `name:2`."""

    def __init__(self, found: Mapping[str, Any], results: Iterable[Value]) -> None:
        values = list(results)
        named = {label: found[value.name] for label, value in zip(labels(values), values, strict=True)}
        is_all = found.keys() <= named.keys()
        super().__init__(named if is_all else {**found, **named})
        self.ordered: tuple[Any, ...] = tuple(found[value.name] for value in values)

    def __repr__(self) -> str:
        text = super().__repr__()
        if len(text) <= MAX_LENGTH:
            return text
        sizes = ", ".join(f"{name}: {_type_text(array)}" for name, array in self.items())
        return f"{{{abridge_text(sizes, MAX_LENGTH - 2)}}}"


def _type_text(array: Any) -> str:
    return f"{array.dtype}{list(array.shape)}" if hasattr(array, "dtype") else f"list of {len(array)}"


def labels(results: Iterable[Value]) -> list[str]:
    """Return a unique name for each result: its name, then `name:2`, `name:3`, … for repetitions."""
    values = list(results)
    taken = {value.name for value in values}
    found: dict[str, None] = {}
    for value in values:
        label, number = value.name, 1
        while label in found or (number > 1 and label in taken):
            number += 1
            label = f"{value.name}:{number}"
        found[label] = None
    return list(found)


def results_of(graph: Graph, dtype: DType) -> list[Value]:
    """Return the node results with element type `dtype`, including results in bodies."""
    values = (value for inner in walk(graph) for node in inner for value in node.results)
    return [value for value in values if value.dtype is dtype]
