"""Const layers: pieces of the `.bin`, each checked against its size before anything is read."""

from __future__ import annotations

import re
from math import prod
from typing import TYPE_CHECKING

from graphport.core import budget
from graphport.core.facts import TensorFact
from graphport.formats.openvino import elements, weights
from graphport.formats.openvino.notes import KEY

if TYPE_CHECKING:
    from graphport.core.storage import MappedFile, Storage
    from graphport.formats.openvino.findings import Findings
    from graphport.formats.openvino.xml import Element
    from graphport.ir.graph import Graph, Value

_NEEDED = ("element_type", "shape", "offset", "size")
_NEEDED_SET = frozenset(_NEEDED)
_NUMBER = re.compile(r"\s*\+?(\d{1,40})\s*")
_MOST_DIMS = 1 << 16


class Constants:
    """The constants of one file."""

    def __init__(self, findings: Findings, file: MappedFile | None) -> None:
        self._findings = findings
        self._file = file
        self.count = 0
        self._facts: dict[TensorFact, TensorFact] = {}
        self._shapes: dict[str, tuple[int, ...] | None] = {}

    def fill(self, graph: Graph, layer: Element, results: list[Value]) -> None:
        """Make the value of a Const layer a constant of `graph`."""
        if len(results) != 1:
            self._findings.error("OV0109", "a Const has one output port", layer)
            return
        (value,) = results
        value.notes[KEY] = layer
        value.origin = self._findings.later(layer)
        value.storage = self._storage(layer)
        self.count += 1
        if value.storage is not None:
            fact = TensorFact.of(value.storage)
            # One fact for all that are alike: whoever infers shapes looks at identities first.
            value.fact = self._facts.setdefault(fact, fact)
        graph.adopt_constant(value)

    def _storage(self, layer: Element) -> Storage | None:
        data = layer.child("data")
        stated = {} if data is None else data.attributes
        if not stated.keys() >= _NEEDED_SET:
            missing = [name for name in _NEEDED if name not in stated]
            self._findings.error("OV0202", f"Const has no {', no '.join(missing)}", layer, "a Const has all of them")
            return None
        name = stated["element_type"].lower()
        if elements.held_as(name) is None:
            self._findings.error("OV0203", f"element_type: {name[:60]!r} is none of a Const", layer, "say f32, i64, …")
            return None
        text = stated["shape"]
        if text not in self._shapes:
            self._shapes[text] = _shape(text)
        shape = self._shapes[text]
        start, size = _number(stated["offset"]), _number(stated["size"])
        for what, found in (("shape", shape), ("offset", start), ("size", size)):
            if found is None:
                self._findings.error(
                    "OV0303", f"{what} {stated[what][:60]!r} cannot be read", layer, "give numbers from 0"
                )
        if shape is None or start is None or size is None:
            return None
        return self._checked(layer, name, shape, start, size)

    def _checked(self, layer: Element, name: str, shape: tuple[int, ...], start: int, size: int) -> Storage | None:
        count = prod(shape)
        needed = weights.length_of(name, count)
        if not budget.is_held(shape):
            message = f"no memory holds the shape {list(shape)}"
            self._findings.error("OV0304", message, layer, "correct its shape or size")
            return None
        if needed is not None and needed > size:
            message = f"{budget.shown(count)} elements of {name} take {budget.shown(needed)} bytes, {size} are given"
            self._findings.error("OV0304", message, layer, "correct its shape or size")
            return None
        if self._file is None:
            if size == 0 and needed == 0:
                return weights.nothing(name, shape)
            self._findings.error(
                "OV0301", "its numbers are in a .bin that is not there", layer, "put it beside the .xml"
            )
            return None
        if start + size > self._file.size:
            message = f"bytes {start} to {start + size} are not in the .bin, which has {self._file.size}"
            self._findings.error("OV0302", message, layer, "the .bin belongs to another model, or is cut")
            return None
        try:
            return weights.storage(self._file, start, size, name, shape)
        except weights.DamagedError as error:
            self._findings.error("OV0305", f"the texts are damaged: {error}", layer, "write the model again")
            return None


def _shape(text: str) -> tuple[int, ...] | None:
    if not text.strip():
        return ()
    dims = text.removesuffix(",").split(",", _MOST_DIMS)
    if len(dims) > _MOST_DIMS:
        return None
    numbers = [_number(dim) for dim in dims]
    found = tuple(number for number in numbers if number is not None)
    return found if len(found) == len(numbers) else None


def _number(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    return None if match is None else int(match[1])
