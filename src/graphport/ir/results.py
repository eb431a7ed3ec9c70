"""Results of a graph by position: a value that is listed twice is two of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.ir.graph import Value


class Outputs(dict[str, Any]):
    """What a run gave by name, and by position in `ordered`. A result that is listed again is called `name:2`."""

    def __init__(self, found: Mapping[str, Any], results: Iterable[Value]) -> None:
        values = list(results)
        named = {label: found[value.name] for label, value in zip(labels(values), values, strict=True)}
        is_all = found.keys() <= named.keys()
        super().__init__(named if is_all else {**found, **named})
        self.ordered: tuple[Any, ...] = tuple(found[value.name] for value in values)


def labels(results: Iterable[Value]) -> list[str]:
    """A name for each result, all different: that of the value, and `name:2`, `name:3`, … where it is listed again."""
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
