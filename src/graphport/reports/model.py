"""A model as plain data: graphs, nodes, values, scopes."""

from __future__ import annotations

from dataclasses import asdict
from math import isfinite
from pathlib import PurePath
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from graphport.conversion.activations import live_bytes
from graphport.conversion.inspection import macs_of
from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact, Unknown
from graphport.core.storage import Storage
from graphport.ir.graph import Graph, walk
from graphport.ops import operator_manual, registry
from graphport.reports.scopes import find_scopes, is_constant
from graphport.reports.statistics import Budget, statistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from graphport.conversion.inspection import Inspection
    from graphport.core.diagnostics import Span
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node, Value

MAX_SAMPLED_ELEMENTS = 1 << 24
"""Limit of weight elements that the statistics of one report read."""
_MAX_TEXT_LENGTH = 200
_MAX_ATTRIBUTE_ENTRIES = 32
_MAX_ATTRIBUTE_DEPTH = 8
_MAX_LISTED_ELEMENTS = 8
"""Limit of elements of a constant that is listed element by element."""


class GraphDocument:
    """Plain data of a graph, and the indices of its nodes and values there."""

    def __init__(self, graph: Graph, *, has_statistics: bool = True) -> None:
        self.graph = graph
        self._graphs = {inner: number for number, inner in enumerate(walk(graph))}
        self.values: dict[Value, int] = {}
        self.nodes: dict[Node, int] = {}
        for inner in self._graphs:
            for value in inner.values():
                self.values[value] = len(self.values)
            for node in inner:
                self.nodes[node] = len(self.nodes)
        self._budget = Budget(MAX_SAMPLED_ELEMENTS if has_statistics else 0)

    def document(self, sizes: Mapping[str, int] = MappingProxyType({})) -> dict[str, Any]:
        """Return `graphs`, `nodes`, `values` and `scopes`, which refer to each other by index.

        `sizes` of the symbols determine `live_bytes`.
        """
        live = live_bytes(self.graph, self.graph.extents.evaluate_symbols(sizes))
        folded, positions = find_scopes(self.graph, list(self.nodes))
        return {
            "graphs": [self._graph(inner) for inner in self._graphs],
            "nodes": [self._node(node, positions[index], live[node]) for index, node in enumerate(self.nodes)],
            "values": [self._value(value) for value in self.values],
            "scopes": folded,
        }

    def with_file(self, file: str, found: Inspection) -> dict[str, Any]:
        """Return `document` together with file name, format, versions and inspection."""
        return {
            "file": file,
            "format": found.format,
            "versions": dict(found.versions),
            "inspection": {
                "operators": found.operators,
                "parameters": found.parameters,
                "bytes": found.weight_bytes,
                "macs": _dim(found.macs),
                "macs_by_operator": {op: _dim(macs) for op, macs in found.macs_by_operator.items()},
                **({} if found.activations is None else {"activations": asdict(found.activations)}),
            },
            **self.document({} if found.activations is None else found.activations.sizes),
        }

    def _graph(self, graph: Graph) -> dict[str, Any]:
        numbers = {
            "inputs": [self.values[value] for value in graph.inputs],
            "outputs": [self.values[value] for value in graph.outputs],
        }
        around = {} if graph.parent is None else {"node": self.nodes[graph.parent]}
        return {"name": graph.name, **around, **numbers}

    def _node(self, node: Node, scope: int | None, live: int) -> dict[str, Any]:
        op_def = None if node.dialect else registry.op_defs().get(node.op_type)
        found: dict[str, Any] = {"name": node.name, "op": node.op}
        if op_def is not None:
            found["family"] = operator_manual.family(op_def)
        if node.graph is not self.graph and node.graph is not None:
            found["graph"] = self._graphs[node.graph]
        if scope is not None:
            found["scope"] = scope
        if is_constant(node):
            found["constant"] = True
        found["inputs"] = [self._index(value) for value in node.inputs]
        found["outputs"] = [self._index(value) for value in node.outputs]
        if node.attributes:
            found["attributes"] = {name: self._attribute(entry) for name, entry in node.attributes.items()}
        try:
            macs = macs_of(node)
        except Unknown:
            macs = None
        if macs is not None:
            found["macs"] = _dim(macs)
        found["live_bytes"] = live
        return found | describe_location(node.origin)

    def _index(self, value: Value | None) -> int | None:
        # A body may use values that are not part of this graph; they are omitted.
        return None if value is None else self.values.get(value)

    def _attribute(self, attribute: Any, depth: int = 0) -> Any:
        match attribute:
            case Graph():
                return {"graph": self._graphs[attribute]}
            case Storage():
                return {"tensor": _tensor(attribute), **_small_elements(attribute)}
            case DType() | TensorFact() | SequenceFact() | OptionalFact():
                return str(attribute)
            case tuple():
                entries = cast("tuple[Any, ...]", attribute)
                if depth >= _MAX_ATTRIBUTE_DEPTH:
                    return "…"
                some = [self._attribute(entry, depth + 1) for entry in entries[:_MAX_ATTRIBUTE_ENTRIES]]
                return some if len(entries) <= _MAX_ATTRIBUTE_ENTRIES else [*some, f"… {len(entries)} in all"]
            case _:
                return to_json_value(attribute)

    def _value(self, value: Value) -> dict[str, Any]:
        found: dict[str, Any] = {"name": value.name, **describe_fact(value.fact)}
        if value.is_input:
            found["kind"] = "input"
        elif value.is_constant:
            found["kind"] = "constant"
        if value.storage is not None:
            found |= {"bytes": value.storage.nbytes, **self._weight(value.storage)}
        return found

    def _weight(self, storage: Storage) -> dict[str, Any]:
        numbers = _small_elements(storage)
        if numbers:
            return numbers
        found = statistics(storage, self._budget)
        return {} if found is None else {"statistics": found}


def describe_fact(of: Fact) -> dict[str, Any]:
    """Return the known part of dtype and shape; symbolic dims are strings."""
    if not isinstance(of, TensorFact):
        return {"type": str(of)}
    found: dict[str, Any] = {} if of.dtype is None else {"type": str(of.dtype)}
    if of.shape is not None:
        found["shape"] = [dim if isinstance(dim, int) else str(dim) for dim in TensorFact(None, of.shape).dims]
    return found


def describe_location(span: Span | None) -> dict[str, Any]:
    """Return the source location, with line and excerpt for a text source; of the file its name alone."""
    if span is None:
        return {}
    found: dict[str, Any] = {"origin": str(span).replace(span.file, PurePath(span.file).name, 1)}
    if span.start is not None and span.source.text is not None and span.line is not None:
        found["line"] = span.line
        found["excerpt"] = truncate(span.source.line(span.line))
    return found


def truncate(text: str) -> str:
    """Truncate `text` to the length that a report card shows."""
    return text if len(text) <= _MAX_TEXT_LENGTH else text[:_MAX_TEXT_LENGTH] + "…"


def to_json_value(stated: Any) -> Any:
    """Convert to a JSON value: other objects become strings, and long strings are truncated."""
    match stated:
        case None | bool() | int():
            return stated
        case float():
            return stated if isfinite(stated) else str(stated)
        case str():
            return truncate(stated)
        case bytes():
            return truncate(stated.decode("utf-8", "backslashreplace"))
        case _:
            return truncate(str(stated))


def _dim(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _tensor(storage: Storage) -> str:
    return f"{storage.dtype}[{', '.join(map(str, storage.shape))}]"


def _small_elements(storage: Storage) -> dict[str, Any]:
    """Return the elements of a small tensor."""
    if storage.count > _MAX_LISTED_ELEMENTS:
        return {}
    return {
        "numbers": [to_json_value(number.item() if hasattr(number, "item") else number) for number in _flatten(storage)]
    }


def _flatten(storage: Storage) -> Any:
    array = storage.numpy().reshape(-1)
    # Floats below 16 bits are NumPy objects, not Python floats.
    return array.astype("float64") if storage.dtype.is_floating else array
