"""Encode graphs as ONNX messages: nodes through the protobuf library, elements of tensors streamed."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from onnx import (
    AttributeProto,
    FunctionProto,
    GraphProto,
    NodeDeviceConfigurationProto,
    NodeProto,
    OperatorSetIdProto,
    SparseTensorProto,
    StringStringEntryProto,
    TensorProto,
    ValueInfoProto,
)

from graphport.core.dtypes import DType
from graphport.core.names import unique
from graphport.core.storage import Storage
from graphport.formats.onnx.container import attributes as kinds
from graphport.formats.onnx.container import domains, schema, types
from graphport.formats.onnx.container.attributes import text
from graphport.formats.onnx.container.build import MOST_DEPTH
from graphport.formats.onnx.container.encoded import Encoded
from graphport.formats.onnx.container.notes import STATE, AttributeNotes, GraphNotes, NodeNotes, TensorNotes, noted
from graphport.formats.onnx.container.sparse import SparseStorage
from graphport.formats.onnx.container.values import (
    AttributeMismatchError,
    attribute_kind,
    list_items,
    set_value,
    to_bytes,
)
from graphport.ir.graph import Graph
from graphport.ir.states import state_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from graphport.formats.onnx.container.findings import Findings
    from graphport.formats.onnx.container.notes import Function, Properties
    from graphport.formats.onnx.container.placement import Placement
    from graphport.ir.graph import Attribute, Node, Value

_NO_NOTES = NodeNotes()
_NO_ATTRIBUTE_NOTES = AttributeNotes()
_NO_GRAPH_NOTES = GraphNotes()


class Encoder:
    """Encode graphs that share one set of opsets.

    `with_defaults` declares constants as inputs with default if the file did; `with_sparse` writes sparse tensors;
    `taken` are reserved names.
    """

    def __init__(
        self,
        findings: Findings,
        placement: Placement,
        opsets: Mapping[str, int],
        *,
        with_defaults: bool,
        with_sparse: bool,
        taken: Iterable[str] = (),
        keeps_names: bool = True,
    ) -> None:
        self._findings = findings
        self._placement = placement
        self._opsets = opsets
        self._with_defaults = with_defaults
        self._with_sparse = with_sparse
        self._taken = set(taken)
        self._keeps_names = keeps_names

    # Graphs

    def graph(self, graph: Graph, place: str, depth: int = 0) -> Encoded:
        """Encode a graph as a `GraphProto`."""
        encoded = Encoded()
        if depth > MOST_DEPTH:
            self._findings.error("ONNX0107", f"subgraphs are nested more than {MOST_DEPTH} levels deep", place)
            return encoded
        notes = noted(graph, GraphNotes) or _NO_GRAPH_NOTES
        self._nodes(encoded, 1, graph, place, depth)
        outputs, copies = self._returned(graph, depth)
        for copy in copies:
            encoded.add_field(1, copy.SerializeToString())
        encoded.add(GraphProto(name=graph.name or "graph").SerializeToString())
        sparse: list[Value] = []
        for value in graph.inputs if depth == 0 else ():
            if value.storage is not None:
                self._constant(encoded, value, place)
        for value in graph.constants:
            if self._with_sparse and isinstance(value.storage, SparseStorage):
                sparse.append(value)
            else:
                self._constant(encoded, value, place)
        rest = GraphProto()
        if notes.doc_string:
            rest.doc_string = notes.doc_string
        rest.input.extend(self._inputs(graph, notes, place))
        rest.output.extend(outputs)
        rest.value_info.extend(_value_info(graph, notes))
        for annotation in notes.quantization:
            rest.quantization_annotation.add().ParseFromString(annotation)
        encoded.add(rest.SerializeToString())
        for value in sparse:
            encoded.add_field(15, self._sparse(cast("SparseStorage", value.storage), value.name))
        encoded.add(GraphProto(metadata_props=encode_properties(notes.metadata)).SerializeToString())
        return encoded

    def function(self, function: Function, place: str) -> Encoded:
        """Encode a model function as a `FunctionProto`."""
        encoded = Encoded()
        notes = noted(function.body, GraphNotes) or _NO_GRAPH_NOTES
        first = FunctionProto(
            name=function.name,
            input=[value.name for value in function.body.inputs],
            output=[value.name for value in function.body.outputs],
            attribute=function.attributes,
        )
        encoded.add(first.SerializeToString())
        self._nodes(encoded, 7, function.body, place, 0)
        opsets = [
            OperatorSetIdProto(domain=domains.domain_of(dialect), version=version)
            for dialect, version in function.body.opsets.items()
            if dialect != domains.FUTURE
        ]
        second = FunctionProto(opset_import=opsets, domain=function.domain)
        if notes.doc_string:
            second.doc_string = notes.doc_string
        encoded.add(second.SerializeToString())
        for name, value in function.defaults.items():
            noted_default = function.notes.get(name, _NO_ATTRIBUTE_NOTES)
            stated = self._attribute(name, value, 0, noted_default, f"{place}.{name}", 0)
            if stated is not None:
                encoded.add_field(11, _content(stated))
        third = FunctionProto(
            value_info=_value_info(function.body, notes), metadata_props=encode_properties(notes.metadata)
        )
        if function.overload:
            third.overload = function.overload
        encoded.add(third.SerializeToString())
        return encoded

    def _inputs(self, graph: Graph, notes: GraphNotes, place: str) -> list[ValueInfoProto]:
        values = {value.name: value for value in graph.inputs}
        if self._with_defaults and notes.inputs:
            both = values | {value.name: value for value in graph.constants}
            values = {name: both[name] for name in [*notes.inputs, *values] if name in both}
        if graph.parent is None:
            for value in values.values():
                self._check_type(value, f"{place}.input")
        return [_noted(_value_info_of(value, "input", notes), value) for value in values.values()]

    def _returned(self, graph: Graph, depth: int) -> tuple[list[ValueInfoProto], list[NodeProto]]:
        """Return outputs, and copies of outer values that a body returns, which runtimes refuse otherwise."""
        notes = noted(graph, GraphNotes) or _NO_GRAPH_NOTES
        outputs: list[ValueInfoProto] = []
        copies: list[NodeProto] = []
        for value in graph.outputs:
            if depth == 0:
                self._check_type(value, "output")
            declared = _value_info_of(value, "output", notes)
            if value.graph is not graph:
                name = unique(value.name, self._taken)
                self._taken.add(name)
                copies.append(NodeProto(op_type="Identity", input=[value.name], output=[name]))
                declared.name = name
            outputs.append(declared)
        return outputs, copies

    def _check_type(self, value: Value, place: str) -> None:
        if types.has_type(value.fact):
            return
        notes = noted(value.graph, GraphNotes) if value.graph is not None else None
        if notes is None or not any(name == value.name for _, name in notes.declarations):
            message = f"unknown element type of {value.name!r}: ONNX requires it for inputs and outputs"
            self._findings.error("ONNX0606", message, place)

    # Tensors

    def _constant(self, encoded: Encoded, value: Value, place: str) -> None:
        if value.storage is None:
            message = f"the elements of the constant {value.name!r} are missing"
            self._findings.error("ONNX0604", message, f"{place}.initializer", "load the model with its weights")
            return
        notes = noted(value, TensorNotes)
        try:
            encoded.add_field(5, self._tensor(value.storage, value.name, notes, is_attribute=False))
        except AttributeMismatchError as error:
            self._findings.error("ONNX0605", f"{value.name!r} cannot be written: {error}", f"{place}.initializer")

    def _tensor(self, storage: Storage, name: str, notes: TensorNotes | None, *, is_attribute: bool) -> Encoded:
        encoded = Encoded()
        first = TensorProto(dims=storage.shape, data_type=types.CODES[storage.dtype])
        if storage.dtype is DType.STRING:
            first.string_data.extend(map(to_bytes, storage.numpy().reshape(-1).tolist()))
        if name:
            first.name = name
        encoded.add(first.SerializeToString())
        outside = (
            None if storage.dtype is DType.STRING else self._placement.place_storage(storage, is_attribute=is_attribute)
        )
        if outside is None and storage.dtype is not DType.STRING:
            encoded.add_numbers(9, storage)
        second = TensorProto()
        if notes is not None and notes.doc_string:
            second.doc_string = notes.doc_string
        if outside is not None:
            second.external_data.extend(encode_properties(outside))
            second.data_location = TensorProto.EXTERNAL
        second.metadata_props.extend(encode_properties(notes.metadata if notes is not None else ()))
        encoded.add(second.SerializeToString())
        return encoded

    def _sparse(self, storage: SparseStorage, name: str = "") -> Encoded:
        encoded = Encoded()
        encoded.add_field(1, self._tensor(storage.values, name, None, is_attribute=True))
        encoded.add_field(2, self._tensor(storage.indices, "", None, is_attribute=True))
        encoded.add(SparseTensorProto(dims=storage.shape).SerializeToString())
        return encoded

    # Nodes

    def _nodes(self, encoded: Encoded, field: int, graph: Graph, place: str, depth: int) -> None:
        names = [node.name for node in graph]
        if not self._keeps_names:
            names = _unique_names(names)
        for index, (node, name) in enumerate(zip(graph, names, strict=True)):
            encoded.add_field(field, self._node(node, name, f"{place}.node[{index}]", depth))

    def _node(self, node: Node, name: str, place: str, depth: int) -> bytes | Encoded:
        notes = noted(node, NodeNotes) or _NO_NOTES
        first = NodeProto(
            input=["" if value is None else value.name for value in node.inputs],
            output=["" if value is None else value.name for value in node.outputs],
            op_type=node.op_type,
        )
        if name:
            first.name = name
        stated = self._stated_attributes(node, notes, place, depth)
        is_small = all(isinstance(each, AttributeProto) for each in stated)
        if is_small:
            first.attribute.extend(cast("list[AttributeProto]", stated))
        else:
            # A Loop without condition has an empty operand in its place.
            least, _ = self._operator(node).inputs
            first.input.extend([""] * (least - len(first.input)))
        second = first if is_small else NodeProto()
        domain = domains.domain_of(node.dialect)
        if domain:
            second.domain = domain
        if notes is not _NO_NOTES:
            _annotate(second, notes)
        if is_small:
            return first.SerializeToString()
        encoded = Encoded()
        encoded.add(first.SerializeToString())
        for each in stated:
            encoded.add_field(5, _content(each))
        encoded.add(second.SerializeToString())
        return encoded

    def _stated_attributes(
        self, node: Node, notes: NodeNotes, place: str, depth: int
    ) -> list[AttributeProto | Encoded]:
        if not node.stated and not notes.attributes:
            return []
        operator = self._operator(node)
        found: list[AttributeProto | Encoded] = []
        for name, value in node.stated.items():
            # An element type of 0 means none: the reader converts it to `None`.
            given = 0 if value is None and name in operator.dtypes else value
            if given is None:
                continue
            remembered = notes.attributes.get(name, _NO_ATTRIBUTE_NOTES)
            stated = self._attribute(name, given, operator.kinds.get(name, 0), remembered, f"{place}.{name}", depth)
            if stated is not None:
                found.append(stated)
        for name, remembered in notes.attributes.items():
            if remembered.reference:
                found.append(_reference(name, remembered))
        return found

    def _operator(self, node: Node) -> schema.Operator:
        dialect = domains.DEFAULT if domains.is_default(node.dialect) else node.dialect
        return schema.operator(domains.domain_of(node.dialect) or "", node.op_type, self._opsets.get(dialect, 1))

    def _attribute(
        self, name: str, value: Attribute, kind: int, notes: AttributeNotes, place: str, depth: int
    ) -> AttributeProto | Encoded | None:
        try:
            kind = kind or (notes.kind if value == () else 0) or attribute_kind(value)
            if kind in (kinds.INT, kinds.FLOAT, kinds.STRING, kinds.INTS, kinds.FLOATS, kinds.STRINGS):
                proto = AttributeProto(name=name)
                set_value(proto, kind, value)
                if notes.doc_string:
                    proto.doc_string = notes.doc_string
                return proto
            return self._large(name, value, kind, notes, place, depth)
        except AttributeMismatchError as error:
            self._findings.error("ONNX0605", f"the attribute {name} cannot be written: {error}", place)
            return None

    def _large(self, name: str, value: Attribute, kind: int, notes: AttributeNotes, place: str, depth: int) -> Encoded:
        """Encode an attribute that contains tensors, graphs or types."""
        encoded = Encoded()
        encoded.add(AttributeProto(name=name).SerializeToString())
        is_list = kind in kinds.LISTS.values()
        given = list_items(value) if is_list else (value,)
        field = AttributeProto.DESCRIPTOR.fields_by_name[kinds.FIELDS[kind]].number
        stated = [self._encode_attribute(each, kind, notes, index, place, depth) for index, each in enumerate(given)]
        last = AttributeProto(type=cast("AttributeProto.AttributeType", kind))
        if notes.doc_string:
            last.doc_string = notes.doc_string
        if field > AttributeProto.TYPE_FIELD_NUMBER:
            encoded.add(last.SerializeToString())
        for each in stated:
            encoded.add_field(field, each)
        if field < AttributeProto.TYPE_FIELD_NUMBER:
            encoded.add(last.SerializeToString())
        return encoded

    def _encode_attribute(
        self, value: Attribute, kind: int, notes: AttributeNotes, index: int, place: str, depth: int
    ) -> bytes | Encoded:
        if kind in (kinds.TENSOR, kinds.TENSORS) and isinstance(value, Storage):
            remembered = notes.tensors[index] if index < len(notes.tensors) else None
            return self._tensor(value, remembered.name if remembered is not None else "", remembered, is_attribute=True)
        if kind in (kinds.SPARSE_TENSOR, kinds.SPARSE_TENSORS) and isinstance(value, SparseStorage):
            return self._sparse(value)
        if kind in (kinds.GRAPH, kinds.GRAPHS) and isinstance(value, Graph):
            return self.graph(value, place, depth + 1)
        if kind in (kinds.TYPE_PROTO, kinds.TYPE_PROTOS) and types.is_fact(value):
            declared = notes.types[index] if index < len(notes.types) else None
            if declared is not None and declared.fact == value:
                return declared.proto
            return types.write_type(value).SerializeToString()
        raise AttributeMismatchError(f"the operator does not accept a {type(value).__name__}")


def _unique_names(names: list[str]) -> list[str]:
    """The names of the nodes of a graph, each once: ONNX Runtime refuses two nodes of one name."""
    reserved = set(names)
    if len(reserved) == len(names):
        return names
    taken: set[str] = set()
    counters: dict[str, int] = {}
    found: list[str] = []
    for name in names:
        chosen = name if not name or name not in taken else unique(name, taken, counters, reserved)
        taken.add(chosen)
        found.append(chosen)
    return found


def encode_properties(properties: Properties) -> list[StringStringEntryProto]:
    """Encode key-value pairs (`metadata_props`)."""
    return [StringStringEntryProto(key=key, value=value) for key, value in properties]


def _content(stated: AttributeProto | Encoded) -> bytes | Encoded:
    return stated.SerializeToString() if isinstance(stated, AttributeProto) else stated


def _reference(name: str, notes: AttributeNotes) -> AttributeProto:
    return AttributeProto(
        name=name, ref_attr_name=notes.reference, type=cast("AttributeProto.AttributeType", notes.kind)
    )


def _annotate(proto: NodeProto, notes: NodeNotes) -> None:
    if notes.doc_string:
        proto.doc_string = notes.doc_string
    if notes.overload:
        proto.overload = notes.overload
    proto.metadata_props.extend(encode_properties(notes.metadata))
    proto.device_configurations.extend(map(NodeDeviceConfigurationProto.FromString, notes.devices))


def _value_info(graph: Graph, notes: GraphNotes) -> list[ValueInfoProto]:
    """Return the original declarations of results and constants that still exist."""
    if not notes.value_info:
        return []
    values = {value.name: value for value in graph.constants}
    values.update((value.name, value) for node in graph for value in node.results)
    found = [values[name] for name in notes.value_info if name in values]
    stated = (_value_info_of(value, "value_info", notes) for value in found)
    # A declaration must have a type, which is unknown for operators without rules.
    return [proto for proto in stated if proto.HasField("type")]


def _noted(proto: ValueInfoProto, value: Value) -> ValueInfoProto:
    """Add the state that an input represents to the metadata of its declaration."""
    state = state_of(value)
    if state is not None:
        kept = {entry.key: entry.value for entry in proto.metadata_props}
        kept |= {f"{STATE}{name}": text for name, text in state.notes().items()}
        del proto.metadata_props[:]
        proto.metadata_props.extend(encode_properties(tuple(kept.items())))
    return proto


def _value_info_of(value: Value, section: str, notes: GraphNotes) -> ValueInfoProto:
    declared = notes.declarations.get((section, value.name))
    if declared is not None and types.is_same_type(declared.fact, value.fact):
        return ValueInfoProto.FromString(declared.proto)
    proto = ValueInfoProto(name=value.name)
    if declared is not None:
        before = ValueInfoProto.FromString(declared.proto)
        if before.doc_string:  # an empty one that is set takes bytes, and the next reader does not keep it
            proto.doc_string = text(before.doc_string)
        proto.metadata_props.extend(before.metadata_props)
    if types.has_type(value.fact):
        proto.type.CopyFrom(types.write_type(value.fact, value.name))
    return proto
