"""A parsed graph as our own: scopes, values and nodes, with every finding about them."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, cast

from graphport.core.facts import UNKNOWN, TensorFact, named
from graphport.core.names import unique
from graphport.formats.onnx.container import types
from graphport.formats.onnx.container.attributes import properties, tensor_notes, text
from graphport.formats.onnx.container.findings import listed
from graphport.formats.onnx.container.notes import KEY, STATE, AttributeNotes, Declaration, GraphNotes
from graphport.formats.onnx.container.statements import NodeLocations, NodeNames
from graphport.formats.onnx.container.types import UnknownTypeError
from graphport.ir import rewrite, states
from graphport.ir.attributes import PlainAttributes
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from onnx import FunctionProto, GraphProto, NodeProto, TypeProto, ValueInfoProto

    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.formats.onnx.container.attributes import Bodies
    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.statements import Statements
    from graphport.formats.onnx.container.tensors import Tensors
    from graphport.ir.graph import Attribute

MOST_DEPTH = 32
"""Bodies within each other; the protobuf library reads no more either."""

_MOST_TYPES, _LONGEST_TYPE = 4096, 1024
"""Declared types that are remembered, and bytes of one."""

_SHORT = 128
"""Length from which a length prefix takes two bytes."""

_DONE: list[Any] = []
"""Placeholder for names that have been read."""

_NOTHING: tuple[Mapping[str, Attribute], Mapping[str, AttributeNotes]] = (MappingProxyType({}), MappingProxyType({}))


class Scope:
    """The names that the nodes of one graph may read: its own, then those around it."""

    __slots__ = ("depth", "graph", "is_unsorted", "names", "outer", "place")

    def __init__(self, graph: Graph, place: str, outer: Scope | None = None) -> None:
        self.graph = graph
        self.place = place
        self.outer = outer
        self.depth: int = 0 if outer is None else outer.depth + 1
        self.names: dict[str, Value] = {}
        self.is_unsorted = False

    def find(self, name: str) -> Value | None:
        """The value called `name` here or further out, `None` if there is none."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                if _is_pending(value):
                    scope.is_unsorted = True  # not computed yet
                return value
            scope = scope.outer
        return None

    def hidden_value(self, name: str) -> Value | None:
        """The value of an outer graph that `name` hides in this graph, `None` if there is none."""
        scope = self.outer
        while scope is not None:
            value = scope.names.get(name)
            if value is not None:
                return value
            scope = scope.outer
        return None


class GraphBuilder:
    """Build the graphs of a model or of one of its functions, which share one set of opsets."""

    def __init__(self, findings: Findings, tensors: Tensors, statements: Statements) -> None:
        self._findings = findings
        self._tensors = tensors
        self._statements = statements
        self._types: dict[bytes, tuple[Fact, bool]] = {}
        self._renamed: set[str] = set()
        # Facts of declarations with a type only, by the bytes after the name.
        self._known: dict[bytes | None, Fact] = {}

    def fill(self, proto: GraphProto, scope: Scope) -> None:
        """Read the content of `proto` into the graph of `scope`."""
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
        """Read the body of a model function into the graph of `scope`; only `value_info` declares types."""
        declarations: dict[tuple[str, str], Declaration] = {}
        for index, name in enumerate(proto.input):
            value = self._add_source(text(name), scope, f"{scope.place}.input[{index}]")
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
        """Return a function that reads the subgraphs of nodes in `scope`."""

        def body(proto: GraphProto, place: str) -> Graph:
            graph = Graph(text(proto.name))
            inner = Scope(graph, place, scope)
            if inner.depth > MOST_DEPTH:
                self._findings.error("ONNX0107", f"subgraphs are nested more than {MOST_DEPTH} levels deep", place)
                return graph
            self.fill(proto, inner)
            return graph

        return body

    # Inputs and constants

    def _givens(
        self, proto: GraphProto, scope: Scope, declarations: dict[tuple[str, str], Declaration]
    ) -> tuple[str, ...]:
        """Create inputs and constants; return the names of all declared inputs if some of them are constants."""
        constants = {text(tensor.name) for tensor in proto.initializer}
        constants.update(text(tensor.values.name) for tensor in proto.sparse_initializer)
        defaults: dict[str, Fact] = {}
        names: list[str] = []
        for index, declared in enumerate(proto.input):
            place = f"{scope.place}.input[{index}]"
            name = text(declared.name)
            names.append(name)
            notes = properties(declared.metadata_props)
            state = (
                states.state_from_notes({key.removeprefix(STATE): stated for key, stated in notes}) if notes else None
            )
            if name in constants and state is None:
                defaults[name] = self._declaration(declared, name, "input", place, declarations)
                continue
            value = self._add_source(name, scope, place)
            value.fact = self._declaration(declared, value.name, "input", place, declarations)
            scope.graph.adopt_input(value)
            if state is not None:
                states.mark(value, state)
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
        begun = scope.names.get(name)
        if begun is not None and begun.storage is None and states.state_of(begun) is not None:
            begun.storage = storage
            self._fit(name, begun.fact, storage, place)
            return begun
        value = self._add_source(name, scope, place)
        value.storage = storage
        if storage is not None:
            value.fact = TensorFact.of(storage)
            self._fit(name, defaults.get(name, UNKNOWN), storage, place)
        return scope.graph.adopt_constant(value)

    def _fit(self, name: str, declared: Fact, storage: Storage | None, place: str) -> None:
        if storage is not None and isinstance(declared, TensorFact) and not _may_be(declared, storage):
            message = f"{name} is declared as {declared}, but its data is {storage.dtype}{list(storage.shape)}"
            self._findings.error("ONNX0308", message, place)

    def _add_source(self, name: str, scope: Scope, place: str) -> Value:
        """A new input or constant called `name`; in a body it may hide a name from around it."""
        if not name:
            self._findings.error("ONNX0101", "the value has no name", place)
        if name in scope.names:
            self._findings.error("ONNX0101", f"duplicate value name {name!r}", place, "rename one of them")
            return Value(name)
        hidden = scope.hidden_value(name)
        if hidden is not None and not _is_pending(hidden):
            self._findings.warning(
                "ONNX0105", f"{name!r} shadows a value of the outer graph", place, "rename one of them"
            )
        value = Value(name if hidden is None else self._inner_name(name, scope, ()))
        scope.names[name] = value
        return value

    # Nodes

    def _nodes(self, protos: Sequence[NodeProto], scope: Scope) -> None:
        # A model may have 100,000 nodes, so this loop is short: rare cases are separate methods, and locations are
        # formatted on demand.
        graph, find, statements = scope.graph, scope.names.get, self._statements
        known, bodies = statements.known, self.bodies(scope)
        protos = protos[:]  # one object in Python for each, instead of a new one whenever it is walked over
        names = NodeNames.of(protos)
        locations = NodeLocations(self._findings.source, scope.place, names.nodes)
        # Results first: a node may use a value that a later node computes, which is sorted afterwards.
        results = self._results(names, scope)
        for index, key in enumerate(names.keys(protos)):
            statement = known.get(key) or statements.read(protos[index], key, bodies, locations, index)
            operator, attributes, notes = statement
            read, outputs = names.inputs[index], results[index]
            # Release each message as soon as its node exists.
            names.inputs[index] = results[index] = names.outputs[index] = _DONE
            inputs: list[Value | None] = list(map(find, read))
            for value in inputs:
                if value is None or (value.producer is None and value.graph is None):
                    inputs = [self._find_operand(name, scope, locations, index) for name in read]
                    break
            if operator.has_open_end and outputs and outputs[-1] is None:
                place = locations.text(index)
                outputs = [value or Value(f"{place}.output[{i}]") for i, value in enumerate(outputs)]
            origin = locations, index
            noted: dict[str, object] | None = None
            if notes is not None:
                noted = {KEY: notes}
                if notes.metadata:
                    locations.metadata[index] = notes.metadata
            name = names.nodes[index] if names.is_plain else text(names.nodes[index])
            if type(attributes) is PlainAttributes and None not in outputs and (not inputs or inputs[-1] is not None):
                wanted = cast("list[Value]", outputs)
                graph.append_new(operator.name, inputs, wanted, attributes, operator.dialect, name, origin, noted)
                continue
            dialect = operator.dialect
            node = Node(operator.name, inputs, outputs, attributes, dialect=dialect, name=name, origin=origin)
            if noted is not None:
                node.notes.update(noted)
            graph.append(node)

    def _find_operand(self, name: str, scope: Scope, locations: NodeLocations, index: int) -> Value | None:
        """Find an operand that the graph does not have yet: absent, computed later, in an outer graph, or undefined."""
        if not name:
            return None
        value = scope.find(name)
        if value is None:
            remedy = "add an input, an initializer or a node output of this name"
            if not self._findings.left_out:
                known = listed(other for other in scope.names if other.lower() == str(name).lower())
                remedy = f"did you mean {known}?" if known else remedy
            message = f"undefined input {name!r}: no graph input, initializer or node output has this name"
            self._findings.error("ONNX0102", message, locations.text(index), remedy)
        return value

    def _results(self, names: NodeNames, scope: Scope) -> list[list[Value | None]]:
        """Create the result values of all nodes, and add them to `scope.names`."""
        given, flat, taken = names.outputs, names.flat, scope.names
        is_text = names.is_plain or set(map(type, flat)) <= {str}
        values: dict[str, Value] = dict(zip(flat, map(Value, flat), strict=True)) if is_text else {}
        is_plain = len(values) == len(flat) and taken.keys().isdisjoint(flat)
        if not is_plain or (scope.outer is not None and any(map(scope.hidden_value, flat))):
            reserved = {name for name in cast("Sequence[object]", flat) if isinstance(name, str)}
            return [
                [self._result(name, index, scope, reserved) for name in outputs] for index, outputs in enumerate(given)
            ]
        taken.update(values)
        find = values.get
        return [list(map(find, outputs)) for outputs in given]

    def _result(self, name: str, index: int, scope: Scope, reserved: AbstractSet[str]) -> Value | None:
        """Create a result value; report an invalid or duplicate name.

        A result in a body may have the name of a value that an outer graph computes later, or of a result of the node
        with the body. The name then refers to the inner value, as in onnx.checker and ONNX Runtime; it is renamed.
        """
        if not name:
            return None
        place = f"{scope.place}.node[{index}].output"
        stated = text(name)
        value = Value(stated)
        if stated is not name:
            self._findings.error("ONNX0006", f"the name {stated!r} is not valid UTF-8", place)
        is_new = scope.names.setdefault(stated, value) is value
        hidden = scope.hidden_value(stated)
        if not is_new or (hidden is not None and not _is_pending(hidden)):
            self._findings.error("ONNX0101", f"duplicate value name {stated!r}", place, "rename one of them")
        elif hidden is not None:
            value.name = self._inner_name(stated, scope, reserved)
        return value

    def _inner_name(self, name: str, scope: Scope, reserved: Container[str]) -> str:
        """Return an unused name for the value `name` of a body, whose name an outer graph has, too."""
        attribute = scope.place.rpartition(".")[2]
        found = unique(f"{attribute}.{name}", self._renamed, reserved=reserved)
        while found in scope.names or scope.hidden_value(found) is not None:
            self._renamed.add(found)
            found = unique(f"{attribute}.{name}", self._renamed, reserved=reserved)
        self._renamed.add(found)
        return found

    def _order(self, scope: Scope) -> None:
        if not scope.is_unsorted:
            return
        cyclic = rewrite.sort_topologically(scope.graph)
        if not cyclic:
            message = "nodes are not sorted topologically: a node precedes the producer of one of its inputs"
            self._findings.warning("ONNX0103", message, scope.place, "the reader sorted the nodes")
            return
        names = listed(node.name or node.op_type for node in cyclic)
        self._findings.error(
            "ONNX0104", f"cyclic graph: {names}", scope.place, "remove the cycle: no node may depend on its own outputs"
        )

    # Declared types

    def _declared(
        self, protos: Sequence[ValueInfoProto], scope: Scope, declarations: dict[tuple[str, str], Declaration]
    ) -> tuple[str, ...]:
        # Equal declarations are read once: there may be as many as nodes.
        found: dict[str, None] = {}
        find, known = scope.names.get, self._known
        for index, declared in enumerate(protos):
            name = text(declared.name)
            value = find(name)
            if value is None or (value.producer is None and value.is_input):
                continue
            stated = declared.SerializeToString()[len(name) + 2 :] if len(name) < _SHORT and name.isascii() else None
            fact = known.get(stated)
            if fact is None:
                place = f'{scope.place}.value_info[{index}] "{name}"'
                fact = self._declaration(declared, value.name, "value_info", place, declarations)
                if stated is not None and self._is_static_tensor(declared) and len(known) < _MOST_TYPES:
                    known[stated] = fact
            if value.producer is not None:
                value.fact = fact
            found[value.name] = None
        return tuple(found)

    def _is_static_tensor(self, proto: ValueInfoProto) -> bool:
        """Whether a declaration has only an element type and a static shape; equal ones then share a fact."""
        known = self._types.get(proto.type.SerializeToString())
        return known is not None and known[1] and not proto.doc_string and not proto.metadata_props

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
            remedy = "add an input, an initializer or a node output of this name"
            self._findings.error(
                "ONNX0106",
                f"undefined graph output {name!r}: no graph input, initializer or node output has this name",
                place,
                remedy,
            )
            return None
        scope.graph.add_output(value)
        return value

    def _type(self, proto: TypeProto) -> tuple[Fact, bool]:
        """Return the result of `read_type`, cached by the serialized type."""
        key = proto.SerializeToString()
        found = self._types.get(key)
        if found is None:
            found = types.read_type(proto)
            if len(key) <= _LONGEST_TYPE and len(self._types) < _MOST_TYPES:
                self._types[key] = found
        return found

    def _declaration(
        self,
        proto: ValueInfoProto,
        name: str,
        section: str,
        place: str,
        declarations: dict[tuple[str, str], Declaration],
    ) -> Fact:
        """Return the declared fact of the value `name`; add a note if the declaration contains more."""
        fact: Fact = UNKNOWN
        is_all = False
        try:
            fact, is_all = self._type(proto.type)
        except UnknownTypeError as error:
            self._findings.error("ONNX0301", f"unknown element type {error}", place, "use an element type from 1 to 26")
        if not is_all:
            fact = named(fact, name, 1)
        if not is_all or proto.doc_string or proto.metadata_props:
            declarations[section, name] = Declaration(fact, proto.SerializeToString())
        return fact


def _is_pending(value: Value) -> bool:
    """Whether the node that computes `value` has not been read yet."""
    return value.graph is None and value.producer is None


def _may_be(declared: TensorFact, storage: Storage) -> bool:
    if declared.dtype not in (None, storage.dtype):
        return False
    if declared.shape is None:
        return True
    if len(declared.shape) != len(storage.shape):
        return False
    return all(not isinstance(d, int) or d == n for d, n in zip(declared.shape, storage.shape, strict=True))
