"""Conversion of node attributes to Python values, and notes on what these cannot represent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import AttributeProto

from graphport.core.facts import UNKNOWN
from graphport.formats.onnx.container import types
from graphport.formats.onnx.container.notes import AttributeNotes, Declaration, TensorNotes
from graphport.formats.onnx.container.types import DTYPES, UnknownTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from onnx import GraphProto, StringStringEntryProto, TensorProto, TypeProto

    from graphport.core.facts import Fact
    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.notes import Properties
    from graphport.formats.onnx.container.schema import Operator
    from graphport.formats.onnx.container.tensors import Tensors
    from graphport.ir.graph import Attribute, Graph

    Bodies = Callable[[GraphProto, str], Graph]

FLOAT = int(AttributeProto.FLOAT)
INT = int(AttributeProto.INT)
STRING = int(AttributeProto.STRING)
TENSOR = int(AttributeProto.TENSOR)
GRAPH = int(AttributeProto.GRAPH)
SPARSE_TENSOR = int(AttributeProto.SPARSE_TENSOR)
TYPE_PROTO = int(AttributeProto.TYPE_PROTO)
FLOATS = int(AttributeProto.FLOATS)
INTS = int(AttributeProto.INTS)
STRINGS = int(AttributeProto.STRINGS)
TENSORS = int(AttributeProto.TENSORS)
GRAPHS = int(AttributeProto.GRAPHS)
SPARSE_TENSORS = int(AttributeProto.SPARSE_TENSORS)
TYPE_PROTOS = int(AttributeProto.TYPE_PROTOS)

FIELDS: dict[int, str] = {
    FLOAT: "f",
    INT: "i",
    STRING: "s",
    TENSOR: "t",
    GRAPH: "g",
    SPARSE_TENSOR: "sparse_tensor",
    TYPE_PROTO: "tp",
    FLOATS: "floats",
    INTS: "ints",
    STRINGS: "strings",
    TENSORS: "tensors",
    GRAPHS: "graphs",
    SPARSE_TENSORS: "sparse_tensors",
    TYPE_PROTOS: "type_protos",
}
"""The field that holds an attribute of each type."""

LISTS: dict[int, int] = {
    FLOAT: FLOATS,
    INT: INTS,
    STRING: STRINGS,
    TENSOR: TENSORS,
    GRAPH: GRAPHS,
    SPARSE_TENSOR: SPARSE_TENSORS,
    TYPE_PROTO: TYPE_PROTOS,
}
"""The type of a list of attributes of each type."""


class Attributes:
    """Reads the attributes of one file's nodes."""

    def __init__(self, findings: Findings, tensors: Tensors) -> None:
        self._findings = findings
        self._tensors = tensors

    def read(
        self, proto: AttributeProto, name: str, operator: Operator, bodies: Bodies, place: str
    ) -> tuple[Attribute, AttributeNotes | None]:
        """Return the value of an attribute and its notes; errors are located at `place`, the node."""
        kind = proto.type or _infer_kind(proto)
        expected = operator.kinds.get(name)
        if expected is None:
            expected = 0 if not operator.is_known or name.startswith("__") else -1
        if expected not in (0, kind):
            self._misfit(name, kind, expected, operator, place)
            return None, None
        notes = AttributeNotes(doc_string=text(proto.doc_string)) if proto.doc_string else None
        if kind == INT:
            value = proto.i
            return (self._dtype(value, f"{place}.{name}") if name in operator.dtypes else value), notes
        if kind == INTS:
            ints = tuple(proto.ints[:])
            return ints, notes if ints else _empty(kind, expected, notes)
        if kind == FLOAT:
            return proto.f, notes
        if kind == FLOATS:
            floats = tuple(proto.floats[:])
            return floats, notes if floats else _empty(kind, expected, notes)
        if kind == STRING:
            return _string(proto.s), notes
        if kind == STRINGS:
            strings = tuple(map(_string, proto.strings))
            return strings, notes if strings else _empty(kind, expected, notes)
        return self._large(proto, kind, bodies, f"{place}.{name}")

    def _large(
        self, proto: AttributeProto, kind: int, bodies: Bodies, place: str
    ) -> tuple[Attribute, AttributeNotes | None]:
        doc_string = text(proto.doc_string)
        if kind == GRAPH:
            return bodies(proto.g, place), AttributeNotes(kind, doc_string) if doc_string else None
        if kind == GRAPHS:
            graphs = tuple(bodies(each, f"{place}[{index}]") for index, each in enumerate(proto.graphs))
            return graphs, AttributeNotes(kind, doc_string)
        if kind in (TENSOR, TENSORS):
            protos = [proto.t] if kind == TENSOR else proto.tensors
            values = tuple(self._tensors.read(each, _indexed(place, i, kind)) for i, each in enumerate(protos))
            noted = tuple(map(tensor_notes, protos))
            notes = AttributeNotes(kind, doc_string, tensors=noted) if any(noted) or doc_string or not values else None
            return (values[0] if kind == TENSOR else values), notes
        if kind in (SPARSE_TENSOR, SPARSE_TENSORS):
            sparse = [proto.sparse_tensor] if kind == SPARSE_TENSOR else proto.sparse_tensors
            found = tuple(self._tensors.read_sparse(each, _indexed(place, i, kind)) for i, each in enumerate(sparse))
            return (found[0] if kind == SPARSE_TENSOR else found), AttributeNotes(kind, doc_string)
        if kind in (TYPE_PROTO, TYPE_PROTOS):
            declared = [self._type(each, place) for each in ([proto.tp] if kind == TYPE_PROTO else proto.type_protos)]
            facts = tuple(each.fact for each in declared)
            return (facts[0] if kind == TYPE_PROTO else facts), AttributeNotes(kind, doc_string, types=tuple(declared))
        self._findings.error("ONNX0204", f"unknown attribute type {kind}", place)
        return None, None

    def _dtype(self, code: int, place: str) -> Attribute:
        if code == 0:
            return None
        found = DTYPES.get(code)
        if found is None:
            self._findings.error("ONNX0301", f"unknown element type {code}", place, "use an element type from 1 to 26")
        return found

    def _type(self, proto: TypeProto, place: str) -> Declaration:
        fact: Fact = UNKNOWN
        try:
            fact, _ = types.read_type(proto)
        except UnknownTypeError as error:
            self._findings.error("ONNX0301", f"unknown element type {error}", place, "use an element type from 1 to 26")
        return Declaration(fact, proto.SerializeToString())

    def _misfit(self, name: str, kind: int, expected: int, operator: Operator, place: str) -> None:
        if expected < 0:
            known = ", ".join(operator.kinds) or "none"
            self._findings.error(
                "ONNX0203", f"unknown attribute {name!r} of {operator.name}", place, f"attributes: {known}"
            )
            return
        message = f"attribute {name} of {operator.name} has type {_type_name(kind)}, expected {_type_name(expected)}"
        self._findings.error("ONNX0201", message, place)


def text(value: str | bytes) -> str:
    """Return a string of the file; bytes (invalid UTF-8) are decoded with replacement characters."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")


def properties(entries: Iterable[StringStringEntryProto]) -> Properties:
    """Return `metadata_props`, or another field of key-value entries, as pairs."""
    return tuple([(text(entry.key), text(entry.value)) for entry in entries])


def tensor_notes(proto: TensorProto) -> TensorNotes | None:
    """Return the name, doc string and metadata of a tensor; `None` if it has none."""
    name, doc_string, metadata = text(proto.name), text(proto.doc_string), properties(proto.metadata_props)
    return TensorNotes(doc_string, metadata, name) if name or doc_string or metadata else None


def _string(value: bytes) -> str | bytes:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value


def _empty(kind: int, expected: int, notes: AttributeNotes | None) -> AttributeNotes | None:
    """Return notes that record the type of an empty list if the schema does not declare it."""
    return notes if expected else AttributeNotes(kind, "" if notes is None else notes.doc_string)


def _indexed(place: str, index: int, kind: int) -> str:
    return place if kind in (TENSOR, SPARSE_TENSOR) else f"{place}[{index}]"


def _infer_kind(proto: AttributeProto) -> int:
    """Return the type of an attribute in a file of an early version, which does not declare it."""
    return next((kind for kind, field in FIELDS.items() if _is_set(proto, field)), 0)


def _is_set(proto: AttributeProto, field: str) -> bool:
    found = proto.DESCRIPTOR.fields_by_name[field]
    return bool(getattr(proto, field)) if found.is_repeated else proto.HasField(field)


def _type_name(kind: int) -> str:
    return AttributeProto.AttributeType.Name(kind) if kind in FIELDS else f"of type {kind}"
