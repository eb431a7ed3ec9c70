"""Convert a parsed model to a graph: imports, functions, and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.formats.onnx.container import domains, schema
from graphport.formats.onnx.container.attributes import Attributes, properties, text
from graphport.formats.onnx.container.build import GraphBuilder, Scope
from graphport.formats.onnx.container.notes import MODEL, AttributeNotes, Function, ModelNotes
from graphport.formats.onnx.container.schema import Operator
from graphport.formats.onnx.container.statements import Statements
from graphport.ir.graph import Graph
from graphport.ops.declare import OPSET

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from onnx import FunctionProto, ModelProto, OperatorSetIdProto

    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.tensors import Tensors
    from graphport.ir.graph import Attribute

_FIRST_IMPORTS = 3
"""The version of the file format from which on `opset_import` must be there; before, there was one opset."""

_ANY = Operator("", "a function")
"""Placeholder operator for the attribute defaults of a function, which belong to no operator."""


class ModelBuilder:
    """Builds the graph of one model."""

    def __init__(self, findings: Findings, tensors: Tensors) -> None:
        self._findings = findings
        self._tensors = tensors
        self._attributes = Attributes(findings, tensors)

    def build(self, proto: ModelProto) -> Graph:
        """The graph of `proto`, with everything else of the model in its notes."""
        if proto.ir_version < 1:
            self._findings.error("ONNX0002", "missing ir_version", "ir_version")
        opsets = self._opsets(proto.opset_import, "opset_import")
        if 0 < proto.ir_version < _FIRST_IMPORTS and not opsets:
            opsets[domains.DEFAULT] = 1
        graph = Graph(text(proto.graph.name), opsets=opsets)
        if not proto.HasField("graph"):
            self._findings.error("ONNX0002", "the model has no graph", "", "check that the file is an ONNX model")
            return graph
        keys = frozenset((text(each.domain), text(each.name), text(each.overload)) for each in proto.functions)
        self._builder(opsets, keys).fill(proto.graph, Scope(graph, "graph"))
        graph.notes[MODEL] = ModelNotes(
            ir_version=proto.ir_version,
            opset=opsets.get(domains.DEFAULT),
            producer_name=text(proto.producer_name),
            producer_version=text(proto.producer_version),
            domain=text(proto.domain),
            model_version=proto.model_version,
            doc_string=text(proto.doc_string),
            metadata=properties(proto.metadata_props),
            functions=self._functions(proto.functions, keys),
            training=tuple(each.SerializeToString() for each in proto.training_info),
            devices=tuple(each.SerializeToString() for each in proto.configuration),
            has_external_data=self._tensors.has_external_data,
        )
        return graph

    def _builder(
        self,
        opsets: dict[str, int],
        functions: frozenset[tuple[str, str, str]],
        references: frozenset[str] | None = None,
    ) -> GraphBuilder:
        statements = Statements(self._findings, self._attributes, opsets, functions, references)
        return GraphBuilder(self._findings, self._tensors, statements)

    def _opsets(self, imports: Iterable[OperatorSetIdProto], place: str) -> dict[str, int]:
        """Versions by dialect."""
        opsets: dict[str, int] = {}
        for index, entry in enumerate(imports):
            dialect = domains.dialect_of(text(entry.domain))
            known = opsets.setdefault(dialect, entry.version)
            where = f"{place}[{index}]"
            if known != entry.version:
                message = f"conflicting opset imports: domain {dialect} has version {known} and version {entry.version}"
                self._findings.error("ONNX0005", message, where, "keep one of them")
            if entry.version < 1:
                self._findings.error(
                    "ONNX0003", f"invalid version {entry.version} of domain {dialect}: versions start at 1", where
                )
        version = opsets.get(domains.DEFAULT, 0)
        if version > OPSET:
            opsets[domains.FUTURE] = version
        if version > schema.newest():
            message = (
                f"opset {version} is newer than {schema.newest()}, the newest that the installed onnx package supports"
            )
            remedy = "update the onnx package; until then the reader keeps unknown nodes unchanged"
            self._findings.warning("ONNX0004", message, place, remedy)
        return opsets

    def _functions(
        self, protos: Sequence[FunctionProto], keys: frozenset[tuple[str, str, str]]
    ) -> tuple[Function, ...]:
        found: dict[tuple[str, str, str], Function] = {}
        for index, proto in enumerate(protos):
            place = f'functions[{index}] "{text(proto.name)}"'
            function = self._function(proto, keys, place)
            if found.setdefault(function.key, function) is not function:
                self._findings.error("ONNX0503", f"duplicate function {function.name}", place)
        return tuple(found.values())

    def _function(self, proto: FunctionProto, keys: frozenset[tuple[str, str, str]], place: str) -> Function:
        opsets = self._opsets(proto.opset_import, f"{place}.opset_import")
        graph = Graph(text(proto.name), opsets=opsets)
        given = [*proto.attribute, *(each.name for each in proto.attribute_proto)]
        scope = Scope(graph, place)
        builder = self._builder(opsets, keys, frozenset(map(text, given)))
        builder.fill_function(proto, scope)
        defaults: dict[str, Attribute] = {}
        noted: dict[str, AttributeNotes] = {}
        for each in proto.attribute_proto:
            name = text(each.name)
            defaults[name], notes = self._attributes.read(each, name, _ANY, builder.bodies(scope), place)
            if notes is not None:
                noted[name] = notes
        return Function(
            domain=text(proto.domain),
            name=text(proto.name),
            overload=text(proto.overload),
            attributes=tuple(map(text, proto.attribute)),
            defaults=defaults,
            body=graph,
            notes=noted,
        )
