"""Node contents besides names: operator, attributes, strings; equal contents are read once."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Span
from graphport.core.dtypes import DType
from graphport.formats.onnx.container import domains, schema, wire
from graphport.formats.onnx.container.attributes import properties, text
from graphport.formats.onnx.container.module_scopes import module_scope
from graphport.formats.onnx.container.notes import AttributeNotes, NodeNotes
from graphport.ir.attributes import PLAIN, PlainAttributes
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from onnx import NodeProto, StringStringEntryProto

    from graphport.core.diagnostics import Source
    from graphport.formats.onnx.container.attributes import Attributes, Bodies
    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.notes import Properties
    from graphport.formats.onnx.container.schema import Operator
    from graphport.ir.attributes import Attribute

Key = tuple[bytes, int, int]
"""Encoded content of a node without names, and its numbers of operands and results."""

_MOST_KNOWN = 4096
"""Statements that are remembered: networks repeat themselves, and what never comes again should not pile up."""

_LONGEST = 1024
"""Bytes of a statement that is remembered."""

_SHORT = 128
"""Length from which a length prefix takes two bytes."""

_METADATA = 9
"""The field of a node's metadata; only device configurations follow it."""

_NO_NOTES: Mapping[str, AttributeNotes] = MappingProxyType({})
_IMMUTABLE = PLAIN | {DType}


class Statement(NamedTuple):
    """Content of a node besides its name, operands and results."""

    operator: Operator
    attributes: Mapping[str, Attribute]
    notes: NodeNotes | None

    def noting(self, metadata: Properties) -> Statement:
        """Return the statement with other metadata, which is usually different for each node."""
        if not metadata:
            return self
        if self.notes is None:
            return Statement(self.operator, self.attributes, NodeNotes(metadata=metadata, attributes=_NO_NOTES))
        notes = replace(self.notes, metadata=metadata)
        return Statement(self.operator, self.attributes, notes)


class NodeLocations:
    """Locations of the nodes of one graph: their indices and names."""

    def __init__(self, source: Source, prefix: str, names: Sequence[str]) -> None:
        self._source = source
        self._prefix = prefix
        self._names = names
        self.metadata: dict[int, Properties] = {}
        """Metadata of the nodes that have any."""

    def text(self, index: int) -> str:
        """Return the location of node `index` as text."""
        return f'{self._prefix}.node[{index}] "{self._names[index]}"'

    def span(self, index: int) -> Span:
        """The place of node `index` in its file."""
        name = self._names[index]
        is_text = isinstance(name, str)  # pyright: ignore[reportUnnecessaryIsInstance]  bytes if it is not UTF-8
        scope = module_scope(name, self.metadata.get(index, ())) if is_text else None
        return Span(self._source, place=self.text(index), scope=scope)


class NodeNames(NamedTuple):
    """The texts of the nodes of one graph, read at once; bytes where they are no UTF-8."""

    nodes: list[str]
    inputs: list[list[str]]
    outputs: list[list[str]]
    flat: list[str]
    """The names of all results that have one."""
    is_plain: bool
    """Whether all are short and ASCII, so that each takes two bytes more in the file than it has characters."""

    @classmethod
    def of(cls, protos: Sequence[NodeProto]) -> NodeNames:
        """Read the names, inputs and outputs of `protos`."""
        nodes = [proto.name for proto in protos]
        # A slice of a repeated field costs a third of going through it.
        inputs = [proto.input[:] for proto in protos]
        outputs = [proto.output[:] for proto in protos]
        flat = [name for names in outputs for name in names if name]
        everything = [*nodes, *flat, *(name for names in inputs for name in names)]
        is_plain = (
            set(map(type, everything)) <= {str}
            and max(map(len, everything), default=0) < _SHORT
            and "".join(everything).isascii()
        )
        return cls(nodes, inputs, outputs, flat, is_plain)

    def keys(self, protos: Sequence[NodeProto]) -> Iterator[Key | None]:
        """Yield the key of each node; `None` if it is long or a name is not a string."""
        # Messages are encoded in field order, and these three fields come first.
        for proto, name, inputs, outputs in zip(protos, self.nodes, self.inputs, self.outputs, strict=True):
            count = len(inputs) + len(outputs)
            if self.is_plain:
                length = len(name) + len("".join(inputs)) + len("".join(outputs))
                begin = length + 2 * (count + 1 if name else count)
            else:
                texts = [*inputs, *outputs, *([name] if name else [])]
                if not set(map(type, texts)) <= {str}:
                    yield None
                    continue
                lengths = [len(each.encode()) for each in texts]
                begin = sum(len(wire.head(1, length)) + length for length in lengths)
            stated = proto.SerializeToString()[begin:]
            yield (stated, len(inputs), len(outputs)) if len(stated) <= _LONGEST else None


class Statements:
    """Read the contents of the nodes of a model or function."""

    def __init__(
        self,
        findings: Findings,
        attributes: Attributes,
        opsets: Mapping[str, int],
        functions: frozenset[tuple[str, str, str]],
        references: frozenset[str] | None,
    ) -> None:
        self._findings = findings
        self._attributes = attributes
        self._opsets = opsets
        self._functions = functions
        self._references = references  # attributes of the function around, None outside of functions
        self._operators: dict[tuple[str, str], Operator] = {}
        self._missing: set[str] = set()
        self.known: dict[Key | None, Statement] = {}
        """Valid contents by key, which need not be read again."""

    def read(
        self, proto: NodeProto, key: Key | None, bodies: Bodies, locations: NodeLocations, index: int
    ) -> Statement:
        """Read `proto`, node `index` of its graph; remember it under `key` without metadata."""
        metadata = proto.metadata_props[:]
        if metadata and key is not None:
            key = None if proto.device_configurations else _without(metadata, key)
            known = self.known.get(key)
            if known is not None:
                return known.noting(properties(metadata))
        findings, place = self._findings, locations.text(index)
        before = len(findings.diagnostics) + findings.left_out
        operator = self._operator(proto, place)
        _, operands, results = key or (b"", len(proto.input), len(proto.output))
        if not operator.accepts(operands, results):
            self._miscounted(operator, operands, results, place)
        attributes, noted = self._read_attributes(proto, operator, bodies, place)
        if operator.newer and not operator.newer.isdisjoint((*attributes, *noted)):
            operator = replace(operator, dialect=domains.FUTURE)
        notes = None
        if noted or proto.doc_string or proto.overload or proto.device_configurations:
            notes = _node_notes(proto, noted)
        if not all(map(_is_shareable, attributes.values())):
            return Statement(operator, attributes, notes).noting(properties(metadata))
        statement = Statement(operator, PlainAttributes(attributes), notes)
        is_clean = before == len(findings.diagnostics) + findings.left_out
        if is_clean and key is not None and len(self.known) < _MOST_KNOWN:
            self.known[key] = statement
        return statement.noting(properties(metadata))

    def _operator(self, proto: NodeProto, place: str) -> Operator:
        domain, name = text(proto.domain), text(proto.op_type)
        if (domain, name, text(proto.overload)) in self._functions:
            return schema.Operator(domains.dialect_of_function(domain), name)
        found = self._operators.get((domain, name))
        if found is None:
            found = self._operators[domain, name] = self._looked_up(domain, name, place)
        return found

    def _looked_up(self, domain: str, name: str, place: str) -> Operator:
        """Look up an operator on its first occurrence, and report findings that concern all its nodes."""
        dialect = domains.dialect_of(domain)
        version = self._opsets.get(dialect)
        if not name:
            self._findings.error("ONNX0207", "missing op_type", place)
        if version is None and dialect not in self._missing:
            self._missing.add(dialect)
            message = f"missing opset_import for the domain {domain or 'ai.onnx'!r}"
            report = self._findings.error if dialect == domains.DEFAULT else self._findings.warning
            report("ONNX0003", message, place)
        found = schema.operator(domain, name, version)
        if dialect == domains.DEFAULT and version is not None and version <= schema.newest():
            if not found.is_known and registry.lowering(dialect, name, version) is None:
                remedy = "correct the op type or import its domain; the reader keeps the node unchanged"
                self._findings.warning("ONNX0207", f"unknown op type {name!r} in ai.onnx {version}", place, remedy)
            elif found.is_known and found.is_deprecated:
                self._findings.warning("ONNX0207", f"{name} is deprecated in ai.onnx {version}", place)
        return found

    def _read_attributes(
        self, proto: NodeProto, operator: Operator, bodies: Bodies, place: str
    ) -> tuple[dict[str, Attribute], Mapping[str, AttributeNotes]]:
        attributes: dict[str, Attribute] = {}
        noted: dict[str, AttributeNotes] = {}
        for each in proto.attribute:
            name = text(each.name)
            if name in attributes or name in noted:
                self._findings.error("ONNX0205", f"duplicate attribute {name}", place)
            elif each.ref_attr_name:
                noted[name] = self._reference(text(each.ref_attr_name), each.type, f"{place}.{name}")
            else:
                attributes[name], notes = self._attributes.read(each, name, operator, bodies, place)
                if notes is not None:
                    noted[name] = notes
        for name in operator.required:
            if name not in attributes and name not in noted:
                self._findings.error("ONNX0202", f"missing required attribute {name} of {operator.name}", place)
        return attributes, noted or _NO_NOTES

    def _reference(self, name: str, kind: int, place: str) -> AttributeNotes:
        if self._references is None:
            self._findings.error(
                "ONNX0206", f"reference to the function attribute {name!r} outside of a function", place
            )
        elif name not in self._references:
            self._findings.error(
                "ONNX0206", f"reference to the attribute {name!r}, which the enclosing function does not declare", place
            )
        return AttributeNotes(kind, reference=name)

    def _miscounted(self, operator: Operator, inputs: int, outputs: int, place: str) -> None:
        counts = (("inputs", inputs, operator.inputs), ("outputs", outputs, operator.outputs))
        for what, count, (least, most) in counts:
            if not least <= count <= most:
                message = f"{operator.name} has {count} {what}, expected {_range(least, most)}"
                self._findings.error("ONNX0208", message, place)


def _is_shareable(attribute: Attribute) -> bool:
    """Whether nodes may share it: not a graph or a storage."""
    if isinstance(attribute, tuple):
        return _IMMUTABLE.issuperset(map(type, attribute))
    return type(attribute) in _IMMUTABLE


def _without(metadata: Sequence[StringStringEntryProto], key: Key) -> Key:
    """Return `key` without the encoded metadata at its end."""
    stated, operands, results = key
    sizes = [entry.ByteSize() for entry in metadata]
    # A short one has a head of two bytes.
    heads = sum([2 if size < _SHORT else len(wire.head(_METADATA, size)) for size in sizes])
    return stated[: len(stated) - sum(sizes) - heads], operands, results


def _node_notes(proto: NodeProto, attributes: Mapping[str, AttributeNotes]) -> NodeNotes:
    return NodeNotes(
        doc_string=text(proto.doc_string),
        overload=text(proto.overload),
        devices=tuple(each.SerializeToString() for each in proto.device_configurations),
        attributes=attributes,
    )


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most > 1 << 30 else f"{least} to {most}"
