"""Bodies of TensorIterator, Loop and If: how their inputs and outputs are connected, by position."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from graphport.formats.openvino.container.notes import KEY, Header
from graphport.formats.openvino.container.xml import Element

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.openvino.container.findings import Findings
    from graphport.ir.graph import Attribute, Graph, Node

BODIES = {"body": "", "then_body": "then_", "else_body": "else_"}
"""Elements that are networks, and the prefix of their maps' names."""

_SLICE = (("start", 0), ("end", -1), ("stride", 1), ("part_size", 1))
_NUMBER = re.compile(r"\s*([+-]?\d{1,19})\s*")
_NOWHERE = -1


def attributes(layer: Element, bodies: dict[Element, Graph], findings: Findings) -> dict[str, Attribute]:
    """Return the attributes of a layer with bodies.

    For each body: `body`; `inputs`, tuples of operand index, body input index and, for a sliced operand, axis, start,
    end, stride and part size; `outputs`, the same for results and body outputs, which are concatenated along the axis;
    for loops also `back_edges` (pairs of body output and input), `current_iteration` and `execution_condition` (indices
    or `None`). The attributes of branches have the prefixes `then_` and `else_`.
    """
    found: dict[str, Attribute] = {}
    for child in layer.children:
        prefix = BODIES.get(child.tag)
        if prefix is not None:
            found[child.tag] = bodies[child]
            found |= _Maps(layer, bodies[child], prefix, findings).attributes()
    return found


class _Maps:
    def __init__(self, layer: Element, body: Graph, prefix: str, findings: Findings) -> None:
        self._layer = layer
        self._prefix = prefix
        self._findings = findings
        header = body.notes.get(KEY)
        results = header.results if isinstance(header, Header) else ()
        parameters = [value.notes.get(KEY) for value in body.inputs]
        self._internal = {
            "input": {p.attributes.get("id"): i for i, p in enumerate(parameters) if isinstance(p, Element)},
            "output": {result.attributes.get("id"): i for i, result in enumerate(results)},
        }
        self._external: dict[str, dict[str | None, int]] = {"input": {}, "output": {}}
        for child in layer.children:
            if child.tag in self._external:
                self._external[child.tag] = {port.attributes.get("id"): i for i, port in enumerate(child.children)}

    def attributes(self) -> dict[str, Attribute]:
        maps: dict[str, list[Attribute]] = {"input": [], "output": []}
        special: dict[str, int | None] = {}
        if not self._prefix:
            special = {"current_iteration": None, "execution_condition": None}
        port_map = self._layer.child(f"{self._prefix}port_map")
        for entry in () if port_map is None else port_map.children:
            if entry.tag not in maps:
                continue
            inner = self._position(self._internal[entry.tag], entry.attributes.get("internal_layer_id"), "layer")
            if inner is None:
                continue
            purpose = entry.attributes.get("purpose")
            if purpose in special:
                special[purpose] = inner
            if _integer(entry.attributes.get("external_port_id", "")) != _NOWHERE:
                outer = self._position(self._external[entry.tag], entry.attributes.get("external_port_id"), "port")
                if outer is not None:
                    maps[entry.tag].append((outer, inner, *self._slice(entry)))
        names = {f"{self._prefix}inputs": tuple(maps["input"]), f"{self._prefix}outputs": tuple(maps["output"])}
        if self._prefix:
            return dict(names)
        return {**names, "back_edges": self._back_edges(), **special}

    def _back_edges(self) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        element = self._layer.child("back_edges")
        for edge in () if element is None else element.children:
            source = self._position(self._internal["output"], edge.attributes.get("from-layer"), "layer")
            target = self._position(self._internal["input"], edge.attributes.get("to-layer"), "layer")
            if source is not None and target is not None:
                found.append((source, target))
        return tuple(found)

    def _slice(self, entry: Element) -> tuple[int, ...]:
        axis = entry.attributes.get("axis")
        if axis is None:
            return ()
        numbers = [_integer(axis), *(_integer(entry.attributes.get(name, str(default))) for name, default in _SLICE)]
        if any(number is None for number in numbers):
            self._findings.error("OV0401", "a port map has an attribute that is not an integer", self._layer)
        return tuple(number or 0 for number in numbers)

    def _position(self, known: dict[str | None, int], number: str | None, what: str) -> int | None:
        found = known.get(number)
        if found is None:
            message = f"a port map refers to {what} {str(number)[:60]}, which does not exist"
            self._findings.error(
                "OV0401", message, self._layer, "connect ports of the layer to Parameters and Results of the body"
            )
        return found


def _integer(text: str) -> int | None:
    match = _NUMBER.fullmatch(text)
    return None if match is None else int(match[1])


def elements(node: Node, tag: str, body: Element, operands: int) -> Iterator[Element]:
    """Yield the port map of one body, then its other elements; `operands` is the number of input ports of the layer."""
    prefix = BODIES[tag]
    layers = [layer for group in body.children if group.tag == "layers" for layer in group.children]
    inner = {
        "input": [layer.attributes["id"] for layer in layers if layer.attributes["type"] == "Parameter"],
        "output": [layer.attributes["id"] for layer in layers if layer.attributes["type"] == "Result"],
    }
    port_map = Element(f"{prefix}port_map")
    for kind, offset in (("input", 0), ("output", operands)):
        for outer, position, *slice_ in _map_rows(node, f"{prefix}{kind}s"):
            stated = {"external_port_id": str(outer + offset), "internal_layer_id": inner[kind][position]}
            if slice_:
                stated = {"axis": str(slice_[0]), **stated}
                stated |= {name: str(number) for (name, _), number in zip(_SLICE, slice_[1:], strict=True)}
            port_map.children.append(Element(kind, stated))
    for purpose, kind in (("current_iteration", "input"), ("execution_condition", "output")):
        position = node.attributes.get(purpose)
        if isinstance(position, int):
            stated = {"external_port_id": "-1", "internal_layer_id": inner[kind][position], "purpose": purpose}
            port_map.children.append(Element(kind, stated))
    yield port_map
    if not prefix:
        back_edges = Element("back_edges")
        for source, target in _map_rows(node, "back_edges"):
            stated = {"from-layer": inner["output"][source], "to-layer": inner["input"][target]}
            back_edges.children.append(Element("edge", stated))
        yield back_edges


def _map_rows(node: Node, name: str) -> tuple[tuple[int, ...], ...]:
    return cast("tuple[tuple[int, ...], ...]", node.attributes.get(name, ()))
