"""A parsed graph as our own: scopes, values and nodes, with every finding about them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Span
from graphport.core.facts import UNKNOWN, TensorFact, named
from graphport.formats.onnx import domains, schema, types
from graphport.formats.onnx.attributes import properties, tensor_notes, text
from graphport.formats.onnx.findings import listed
from graphport.formats.onnx.notes import KEY, AttributeNotes, Declaration, GraphNotes, NodeNotes
from graphport.formats.onnx.types import UnknownTypeError
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from onnx import FunctionProto, GraphProto, NodeProto, ValueInfoProto

    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.formats.onnx.attributes import Attributes, Bodies
    from graphport.formats.onnx.findings import Findings
    from graphport.formats.onnx.schema import Operator
    from graphport.formats.onnx.tensors import Tensors
    from graphport.ir.graph import Attribute

MOST_DEPTH = 32
"""Bodies within each other; the protobuf library reads no more either."""

_NOTHING: tuple[Mapping[str, Attribute], Mapping[str, AttributeNotes]] = (MappingProxyType({}), MappingProxyType({}))


class Scope:
    """The names that the nodes of one graph may read: its own, then those around it."""

    __slots__ = ("depth", "graph", "is_unsorted", "names", "outer", "place", "references")

    def __init__(
        self, graph: Graph, place: str, outer: Scope | None = None, references: frozenset[str] | None = None
    ) -> None:
        self.graph = graph
        self.place = place
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.names: dict[str, Value] = {}
        self.references = references  # attributes of the function around it, None outside of functions
        self.is_unsorted = False

    def find(self, name: str) -> Value | None:
        """The value called `name` here or further out, `None` if there is none."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                if value.graph is None:
                    scope.is_unsorted = True  # nobody has computed it yet
                return value
            scope = scope.outer
        return None


class GraphBuilder:
    """Builds the graphs of one model, or of one of its functions: what shares one set of opsets."""

    def __init__(
        self,
        findings: Findings,
        tensors: Tensors,
        attributes: Attributes,
        opsets: Mapping[str, int],
        functions: frozenset[tuple[str, str, str]],
    ) -> None:
        self._findings = findings
        self._tensors = tensors
        self._attributes = attributes
        self._opsets = opsets
        self._functions = functions
        # Operators by domain and name; `_shared` holds those, too, of which some overload is a function.
        self._operators: dict[tuple[str, str], Operator] = {}
        self._shared: dict[tuple[str, str], Operator] = {}
        self._missing: set[str] = set()

    def fill(self, proto: GraphProto, scope: Scope) -> None:
        """Put everything of `proto` into the graph of `scope`."""
        declarations: dict[tuple[str, str], Declaration] = {}
        inputs = self._givens(proto, scope, declarations)
        self._nodes(proto.node, scope)
        declared = self._declared(proto.value_info, scope, declarations)
        self._outputs(proto.output, scope, declarations)
        self._order(scope)
        notes = GraphNotes(
            doc_string=text(proto.doc_string),
            metadata=properties(proto.metadata_props),
            inputs=inputs,
            value_info=declared,
            declarations=declarations,
            quantization=tuple(each.SerializeToString() for each in proto.quantization_annotation),
        )
        if notes != GraphNotes():
            scope.graph.notes[KEY] = notes

    def fill_function(self, proto: FunctionProto, scope: Scope) -> None:
        """Put the body of a function into the graph of `scope`; its values have no declared types but `value_info`."""
        declarations: dict[tuple[str, str], Declaration] = {}
        for index, name in enumerate(proto.input):
            value = self._new(text(name), scope, f"{scope.place}.input[{index}]")
            scope.graph.adopt_input(value)
        self._nodes(proto.node, scope)
        declared = self._declared(proto.value_info, scope, declarations)
        for index, name in enumerate(proto.output):
            self._output(text(name), scope, f"{scope.place}.output[{index}]")
        self._order(scope)
        scope.graph.notes[KEY] = GraphNotes(
            doc_string=text(proto.doc_string),
            metadata=properties(proto.metadata_props),
            value_info=declared,
            declarations=declarations,
        )

    def bodies(self, scope: Scope) -> Bodies:
        """What reads the bodies of nodes in `scope`."""

        def body(proto: GraphProto, place: str) -> Graph:
            graph = Graph(text(proto.name))
            inner = Scope(graph, place, scope, scope.references)
            if inner.depth > MOST_DEPTH:
                self._findings.error("ONNX0107", f"graphs stand in each other more than {MOST_DEPTH} times", place)
                return graph
            self.fill(proto, inner)
            return graph

        return body

    # Inputs and constants

    def _givens(
        self, proto: GraphProto, scope: Scope, declarations: dict[tuple[str, str], Declaration]
    ) -> tuple[str, ...]:
        """Make inputs and constants; return the names of all declared inputs if some of them are constants."""
        constants = {text(tensor.name) for tensor in proto.initializer}
        constants.update(text(tensor.values.name) for tensor in proto.sparse_initializer)
        defaults: dict[str, Fact] = {}
        names: list[str] = []
        for index, declared in enumerate(proto.input):
            place = f"{scope.place}.input[{index}]"
            name = text(declared.name)
            names.append(name)
            if name in constants:
                defaults[name] = self._declaration(declared, name, "input", place, declarations)
                continue
            value = self._new(name, scope, place)
            value.fact = self._declaration(declared, value.name, "input", place, declarations)
            scope.graph.adopt_input(value)
        self._constants(proto, scope, defaults)
        return tuple(names) if defaults else ()

    def _constants(self, proto: GraphProto, scope: Scope, defaults: Mapping[str, Fact]) -> None:
        for index, tensor in enumerate(proto.initializer):
            name = text(tensor.name)
            place = f'{scope.place}.initializer[{index}] "{name}"'
            value = self._constant(name, self._tensors.read(tensor, place), scope, place, defaults)
            notes = tensor_notes(tensor)
            if notes is not None and (notes.doc_string or notes.metadata):
                value.notes[KEY] = notes
        for index, sparse in enumerate(proto.sparse_initializer):
            name = text(sparse.values.name)
            place = f'{scope.place}.sparse_initializer[{index}] "{name}"'
            self._constant(name, self._tensors.read_sparse(sparse, place), scope, place, defaults)

    def _constant(
        self, name: str, storage: Storage | None, scope: Scope, place: str, defaults: Mapping[str, Fact]
    ) -> Value:
        value = self._new(name, scope, place)
        value.storage = storage
        if storage is not None:
            value.fact = TensorFact.of(storage)
            declared = defaults.get(name, UNKNOWN)
            if isinstance(declared, TensorFact) and not _may_be(declared, storage):
                message = f"{name} is declared as {declared}, its numbers are {storage.dtype}{list(storage.shape)}"
                self._findings.error("ONNX0308", message, place)
        return scope.graph.adopt_constant(value)

    def _new(self, name: str, scope: Scope, place: str) -> Value:
        """A new input or constant called `name`; in a body it may hide a name from around it."""
        if not name:
            self._findings.error("ONNX0101", "it has no name", place)
        if name in scope.names:
            self._findings.error("ONNX0101", f"the name {name!r} is given twice", place, "rename one of both")
            return Value(name)
        value = Value(name)
        if scope.outer is not None and scope.outer.find(name) is not None:
            self._findings.warning(
                "ONNX0105", f"{name!r} hides a value of the graph around it", place, "rename one of both"
            )
            value.name = f"{place}.{name}"
        scope.names[name] = value
        return value

    # Nodes

    def _nodes(self, protos: Sequence[NodeProto], scope: Scope) -> None:
        # A model may have 100,000 nodes, and whatever is done here is done for each: what is rare has a method of its
        # own, and a slice of a repeated field costs a third of going through it.
        graph, find, operators, source = scope.graph, scope.names.get, self._operators, self._findings.source
        bodies, prefix = self.bodies(scope), f"{scope.place}.node["
        # Names first: a node may read what a later one computes, which is set right afterwards.
        results = self._results(protos, scope)
        for index, proto in enumerate(protos):
            place = f'{prefix}{index}] "{proto.name}"'
            operator = operators.get((proto.domain, proto.op_type)) or self._operator(proto, place)
            inputs = [find(name) for name in proto.input[:]]
            for value in inputs:
                if value is None or value.graph is None:
                    inputs = [self._found(name, scope, place) for name in proto.input]
                    break
            outputs = results[index]
            if operator.has_open_end and outputs and outputs[-1] is None:
                outputs = [value or Value(f"{place}.output[{i}]") for i, value in enumerate(outputs)]
            if not operator.takes(len(inputs), len(outputs)):
                self._miscounted(operator, len(inputs), len(outputs), place)
            attributes, noted = _NOTHING
            if operator.required or proto.attribute:
                attributes, noted = self._read_attributes(proto, operator, bodies, scope, place)
            node = Node(
                operator.name,
                inputs,
                outputs,
                attributes,
                dialect=operator.dialect,
                name=text(proto.name),
                origin=Span(source, None, None, place),
            )
            if noted or proto.doc_string or proto.metadata_props or proto.overload or proto.device_configurations:
                node.notes[KEY] = _node_notes(proto, noted)
            graph.append(node)

    def _found(self, name: str, scope: Scope, place: str) -> Value | None:
        """What a node reads that its own graph may not have yet: it may be absent, later, around it, or nowhere."""
        if not name:
            return None
        value = scope.find(name)
        if value is None:
            remedy = "it is no input, initializer or result of a node"
            if not self._findings.left_out:
                known = listed(other for other in scope.names if other.lower() == str(name).lower())
                remedy = f"there is {known}" if known else remedy
            self._findings.error("ONNX0102", f"it reads {name!r}, which nothing defines", place, remedy)
        return value

    def _results(self, protos: Sequence[NodeProto], scope: Scope) -> list[list[Value | None]]:
        """New values for the results of all nodes, in `scope.names` from now on."""
        names = scope.names
        given = [proto.output[:] for proto in protos]
        flat = [name for outputs in given for name in outputs if name]
        values = dict(zip(flat, map(Value, flat), strict=True))
        is_plain = len(values) == len(flat) and names.keys().isdisjoint(flat) and set(map(type, flat)) <= {str}
        if not is_plain or (scope.outer is not None and any(map(scope.outer.find, flat))):
            return [[self._result(name, index, scope) for name in outputs] for index, outputs in enumerate(given)]
        names.update(values)
        find = values.get
        return [[find(name) for name in outputs] for outputs in given]

    def _result(self, name: str, index: int, scope: Scope) -> Value | None:
        """A new value for a result, with a finding if its name is none or somebody else's."""
        if not name:
            return None
        place = f"{scope.place}.node[{index}].output"
        said = text(name)
        value = Value(said)
        if said is not name:
            self._findings.error("ONNX0006", f"the name {said!r} is no UTF-8", place)
        is_new = scope.names.setdefault(said, value) is value
        if not is_new or (scope.outer is not None and scope.outer.find(said) is not None):
            self._findings.error("ONNX0101", f"the name {said!r} is given twice", place, "rename one of both")
        return value

    def _operator(self, proto: NodeProto, place: str) -> Operator:
        domain, name = text(proto.domain), text(proto.op_type)
        if (domain, name, text(proto.overload)) in self._functions:
            return schema.Operator(domains.dialect_of_function(domain), name)
        found = self._shared.get((domain, name))
        if found is None:
            found = self._shared[domain, name] = self._looked_up(domain, name, place)
            if not any(key[:2] == (domain, name) for key in self._functions):
                self._operators[proto.domain, proto.op_type] = found
        return found

    def _looked_up(self, domain: str, name: str, place: str) -> Operator:
        """An operator that is met for the first time, with the findings about all its nodes."""
        dialect = domains.dialect_of(domain)
        version = self._opsets.get(dialect)
        if not name:
            self._findings.error("ONNX0207", "the node says no operator", place)
        if version is None and dialect not in self._missing:
            self._missing.add(dialect)
            message = f"no opset_import says the version of the domain {domain or 'ai.onnx'!r}"
            report = self._findings.error if dialect == domains.DEFAULT else self._findings.warning
            report("ONNX0003", message, place)
        found = schema.operator(domain, name, version)
        if dialect == domains.DEFAULT and version is not None and version <= schema.newest():
            if not found.is_known and registry.lowering(dialect, name, version) is None:
                remedy = "it is kept as it stands; correct its name or import the domain that it belongs to"
                self._findings.warning("ONNX0207", f"ai.onnx {version} has no operator {name!r}", place, remedy)
            elif found.is_known and found.is_deprecated:
                self._findings.warning("ONNX0207", f"ai.onnx {version} has given {name} up", place)
        return found

    def _read_attributes(
        self, proto: NodeProto, operator: Operator, bodies: Bodies, scope: Scope, place: str
    ) -> tuple[dict[str, Attribute], dict[str, AttributeNotes]]:
        read = self._attributes.read
        attributes: dict[str, Attribute] = {}
        noted: dict[str, AttributeNotes] = {}
        for each in proto.attribute[:]:
            name = text(each.name)
            if name in attributes or name in noted:
                self._findings.error("ONNX0205", f"the attribute {name} stands twice", place)
            elif each.ref_attr_name:
                noted[name] = self._reference(text(each.ref_attr_name), each.type, scope, f"{place}.{name}")
            else:
                attributes[name], notes = read(each, name, operator, bodies, place)
                if notes is not None:
                    noted[name] = notes
        for name in operator.required:
            if name not in attributes and name not in noted:
                self._findings.error("ONNX0202", f"{operator.name} has no attribute {name}, which it needs", place)
        return attributes, noted

    def _reference(self, name: str, kind: int, scope: Scope, place: str) -> AttributeNotes:
        if scope.references is None:
            self._findings.error("ONNX0206", f"it refers to {name!r} of a function, and stands in none", place)
        elif name not in scope.references:
            self._findings.error("ONNX0206", f"the function around it has no attribute {name!r}", place)
        return AttributeNotes(kind, reference=name)

    def _miscounted(self, operator: Operator, inputs: int, outputs: int, place: str) -> None:
        counts = (("operands", inputs, operator.inputs), ("results", outputs, operator.outputs))
        for what, count, (least, most) in counts:
            if not least <= count <= most:
                message = f"{operator.name} has {count} {what}, should be {_range(least, most)}"
                self._findings.error("ONNX0208", message, place)

    def _order(self, scope: Scope) -> None:
        if not scope.is_unsorted:
            return
        cyclic = rewrite.sort(scope.graph)
        if not cyclic:
            message = "a node stands before one that it reads from"
            self._findings.warning("ONNX0103", message, scope.place, "the nodes were put in order")
            return
        names = listed(node.name or node.word for node in cyclic)
        self._findings.error("ONNX0104", f"nodes wait for each other: {names}", scope.place, "a graph has no cycles")

    # Declared types

    def _declared(
        self, protos: Sequence[ValueInfoProto], scope: Scope, declarations: dict[tuple[str, str], Declaration]
    ) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for index, declared in enumerate(protos):
            name = text(declared.name)
            value = scope.names.get(name)
            if value is None or value.is_input:
                continue
            place = f'{scope.place}.value_info[{index}] "{name}"'
            fact = self._declaration(declared, value.name, "value_info", place, declarations)
            if value.producer is not None:
                value.fact = fact
            found[value.name] = None
        return tuple(found)

    def _outputs(
        self, protos: Iterable[ValueInfoProto], scope: Scope, declarations: dict[tuple[str, str], Declaration]
    ) -> None:
        for index, declared in enumerate(protos):
            name = text(declared.name)
            place = f"{scope.place}.output[{index}]"
            value = self._output(name, scope, place)
            if value is None:
                continue
            fact = self._declaration(declared, value.name, "output", place, declarations)
            if value.producer is not None and value.graph is scope.graph:
                value.fact = fact if fact != UNKNOWN else value.fact

    def _output(self, name: str, scope: Scope, place: str) -> Value | None:
        value = scope.find(name)
        if value is None:
            remedy = "it is no input, initializer or result of a node"
            self._findings.error("ONNX0106", f"the graph returns {name!r}, which nothing defines", place, remedy)
            return None
        scope.graph.add_output(value)
        return value

    def _declaration(
        self,
        proto: ValueInfoProto,
        name: str,
        section: str,
        place: str,
        declarations: dict[tuple[str, str], Declaration],
    ) -> Fact:
        """The fact that is declared of the value `name`; noted if the declaration says more."""
        fact: Fact = UNKNOWN
        is_all = False
        try:
            fact, is_all = types.read_type(proto.type)
        except UnknownTypeError as error:
            self._findings.error("ONNX0301", f"element type {error}", place, "known are 1 to 26")
        if not is_all:
            fact = named(fact, name)
        if not is_all or proto.doc_string or proto.metadata_props:
            declarations[section, name] = Declaration(fact, proto.SerializeToString())
        return fact


def _may_be(declared: TensorFact, storage: Storage) -> bool:
    if declared.dtype not in (None, storage.dtype):
        return False
    if declared.shape is None:
        return True
    if len(declared.shape) != len(storage.shape):
        return False
    return all(not isinstance(d, int) or d == n for d, n in zip(declared.shape, storage.shape, strict=True))


def _node_notes(proto: NodeProto, attributes: Mapping[str, AttributeNotes]) -> NodeNotes:
    return NodeNotes(
        doc_string=text(proto.doc_string),
        metadata=properties(proto.metadata_props),
        overload=text(proto.overload),
        devices=tuple(each.SerializeToString() for each in proto.device_configurations),
        attributes=attributes,
    )


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"at least {least}" if most > 1 << 30 else f"{least} to {most}"
