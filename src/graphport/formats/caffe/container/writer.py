"""Write graphs of the dialect `caffe` to a text and a weight file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from graphport.core.atomic_write import together
from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.core.dims import Symbolic, example
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.core.storage import Storage
from graphport.core.write_errors import write_remedy
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.blobs import blob_of_storage
from graphport.formats.caffe.container.build import BLOB_NOTE, LAYER_NOTE, PARAMETER, SOURCE_NOTE
from graphport.formats.caffe.container.message import Identifier, Message
from graphport.formats.caffe.container.printer import to_text
from graphport.formats.caffe.container.reader import TEXT
from graphport.formats.caffe.container.recognition import WEIGHTS
from graphport.formats.caffe.container.wire import encode, size
from graphport.formats.caffe.rules.binding import BOTTOMS, DIALECT, LAYERS
from graphport.ops import registry

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from graphport.formats.caffe.container.message import Content
    from graphport.formats.caffe.container.schema import Field
    from graphport.ir.graph import Attribute, Graph, Node, Value

MOST_BYTES = (1 << 31) - 1
"""Bytes of a file of weights that protobuf reads."""

_PARAMETERS = "_param"


def write(graph: Graph, path: str | os.PathLike[str]) -> None:
    """Write a graph of the dialect `caffe`: the text to `path`, weights to the same path with suffix `.caffemodel`.

    Raises:
        DiagnosticError: CAFFE0401 to CAFFE0405, Caffe cannot represent the graph, and nothing is written; CAFFE0406
            a file
            cannot be written.
    """
    target = Path(path)
    text, weights = target.with_suffix(TEXT), target.with_suffix(WEIGHTS)
    if target.suffix not in (TEXT, WEIGHTS):
        text = target
    net = _Writing(graph).net()
    pieces = encode(net)
    total = size(pieces)
    if total > MOST_BYTES:
        message = f"the weights have {total} bytes, the limit of Caffe is {MOST_BYTES}"
        raise DiagnosticError(Diagnostic("CAFFE0405", message, graph.origin, "choose another format"))
    has_weights = any(isinstance(piece, Storage) for piece in pieces)
    try:
        with together(target) as files:
            if has_weights:
                stored = files.open_file(weights)
                for piece in pieces:
                    for chunk in piece.chunks() if isinstance(piece, Storage) else (piece,):
                        stored.write(chunk)
            files.open_file(text).write(to_text(_without_blobs(net)).encode("utf-8", "surrogateescape"))
    except OSError as error:
        message = f"{path} cannot be written: {error.strerror or error}"
        raise DiagnosticError(Diagnostic("CAFFE0406", message, Span(Source(str(path))), write_remedy(error))) from error


def _without_blobs(net: Message) -> Message:
    copy = Message(net.kind, entries=dict(net.entries))
    copy.entries.pop("layer", None)
    for layer in net.messages("layer"):
        entries = {name: found for name, found in layer.entries.items() if name != "blobs"}
        copy.add("layer", Message(layer.kind, entries=entries, comments=layer.comments))
    return copy


class _Writing:
    """Builder of the network message of a graph."""

    def __init__(self, graph: Graph) -> None:
        registry.load(DIALECT)
        self.graph = graph
        self.findings: list[Diagnostic] = []
        self.names: set[str] = set()
        self.blobs = _blob_names(graph)

    def net(self) -> Message:
        """Build the network message.

        Raises:
            DiagnosticError: everything that Caffe cannot represent.
        """
        net = Message(schema.NET)
        net.add("name", self.graph.name)
        for layer in [*self._inputs(), *self._parameters()]:
            net.add("layer", layer)
        for node in self.graph:
            if node.dialect != DIALECT:
                self._find(
                    "CAFFE0401",
                    f"{node.op} is not a Caffe layer",
                    node.origin,
                    "export the graph to the dialect caffe first",
                )
                continue
            net.add("layer", self._layer(node))
        self._check_outputs()
        silenced = [value for node in self.graph for value in node.results if not value.uses]
        if silenced:
            net.add("layer", self._new_layer("Silence", "silence", bottoms=[self.blobs[value] for value in silenced]))
        if self.findings:
            raise DiagnosticError(*self.findings)
        return net

    def _find(self, code: str, message: str, span: Span | None, help: str) -> None:
        self.findings.append(Diagnostic(code, message, span, help))

    def _new_layer(self, type: str, name: str, *, bottoms: Sequence[str] = (), tops: Sequence[str] = ()) -> Message:
        layer = Message(schema.LAYER)
        found = unique(name, self.names)
        self.names.add(found)
        layer.add("name", found)
        layer.add("type", type)
        for bottom in bottoms:
            layer.add("bottom", bottom)
        for top in tops:
            layer.add("top", top)
        return layer

    def _inputs(self) -> list[Message]:
        layers: dict[int, Message] = {}
        names = {value.name for value in self.graph.inputs}
        for value in self.graph.inputs:
            source = value.notes.get(SOURCE_NOTE) if value.has_notes else None
            # What brought the data still does, unless the inputs were changed since.
            if isinstance(source, Message) and names.issuperset(source.texts("top")):
                layers.setdefault(id(source), source)
                self.names.add(source.text("name"))
                continue
            layers[id(value)] = self._input(value)
        return list(layers.values())

    def _input(self, value: Value) -> Message:
        layer = self._new_layer("Input", value.name, tops=[self.blobs[value]])
        fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
        if fact.dtype not in (DType.FLOAT32, None):
            self._find(
                "CAFFE0403",
                f"Caffe supports only float32 blobs, but {value.name} is {fact}",
                value.origin,
                "choose another format",
            )
        parameters = Message("InputParameter")
        if fact.shape is not None:
            if any(isinstance(dim, Symbolic) for dim in fact.shape):
                message = f"the input {value.name} is {fact}, but Caffe requires static shapes"
                self._find(
                    "CAFFE0402", message, value.origin, f"set the shape: --input {value.name}={example(fact.shape)}"
                )
            parameters.add("shape", _shape([dim for dim in fact.shape if isinstance(dim, int)]))
        layer.add("input_param", parameters)
        return layer

    def _parameters(self) -> list[Message]:
        """Return a Parameter layer for each constant that is a bottom or an output."""
        layers: list[Message] = []
        read = {value for node in self.graph for value in node.operands[: _bottoms(node)]}
        for value in self.graph.constants:
            if value not in read and not value.is_output:
                continue
            layer = self._new_layer(PARAMETER, value.name, tops=[self.blobs[value]])
            blob = self._blob(value)
            if blob is not None:
                parameters = Message("ParameterParameter")
                parameters.add("shape", _shape(value.storage.shape if value.storage else ()))
                layer.add("parameter_param", parameters)
                layer.add("blobs", blob)
            layers.append(layer)
        return layers

    def _blob(self, value: Value) -> Message | None:
        if value.storage is None:
            self._find(
                "CAFFE0404",
                f"the elements of {value.name} are missing",
                value.origin,
                "load the model with its weights",
            )
            return None
        if value.storage.dtype is not DType.FLOAT32:
            message = f"Caffe supports only float32 blobs, but {value.name} is {value.storage.dtype}"
            self._find("CAFFE0403", message, value.origin, "choose another format")
            return None
        return blob_of_storage(value.storage)

    def _layer(self, node: Node) -> Message:
        count = _bottoms(node)
        bottoms = [self.blobs[value] for value in node.operands[:count]]
        tops = [self.blobs[value] for value in node.results]
        layer = self._new_layer(
            node.op_type, node.name or (tops[0] if tops else node.op_type), bottoms=bottoms, tops=tops
        )
        rest = node.notes.get(LAYER_NOTE) if node.has_notes else None
        if isinstance(rest, Message):
            layer.comments = rest.comments
            layer.entries |= {name: list(entries) for name, entries in rest.entries.items()}
        _add_attributes(layer, node)
        for value in node.operands[count:]:
            blob = self._blob(value)
            if blob is not None:
                layer.add("blobs", blob)
        return layer

    def _check_outputs(self) -> None:
        """Check outputs: Caffe returns the unused blobs."""
        for value in self.graph.outputs:
            if value.is_input or value.is_constant:
                message = f"the output {value.name} is not computed by a layer"
                self._find("CAFFE0401", message, value.origin, "remove it from the outputs")


def _bottoms(node: Node) -> int:
    count = node.attributes.get(BOTTOMS)
    return count if isinstance(count, int) else len(node.operands)


def _blob_names(graph: Graph) -> dict[Value, str]:
    """Return the blob of each value; in-place layers are kept if no later layer uses the overwritten value."""
    wished: dict[Value, str] = {}
    plain: dict[Value, str] = {}
    for value in graph.values():
        noted = value.notes.get(BLOB_NOTE) if value.has_notes else None
        plain[value] = value.name
        wished[value] = noted if isinstance(noted, str) else value.name
    return wished if _is_readable(graph, wished) else plain


def _is_readable(graph: Graph, names: Mapping[Value, str]) -> bool:
    """Whether the blob name of each bottom refers to the right value at its layer: no name is reused too early."""
    current: dict[str, Value] = {}
    for value in [*graph.inputs, *graph.constants]:
        if current.setdefault(names[value], value) is not value:
            return False
    for node in graph:
        bottoms = node.operands[: _bottoms(node)]
        if any(current.get(names[value]) is not value for value in bottoms):
            return False
        for index, value in enumerate(node.results):
            name = names[value]
            is_in_place = index < len(bottoms) and names[bottoms[index]] == name
            if name in current and not is_in_place:
                return False
            current[name] = value
    return all(current.get(names[value]) is value for value in graph.outputs)


def _add_attributes(layer: Message, node: Node) -> None:
    known = LAYERS.get(node.op_type)
    for name, attribute in node.attributes.items():
        if name == BOTTOMS:
            continue
        home = _home(name, () if known is None else known.parameters)
        if home is None:
            _add_attribute(layer, name, attribute, schema.fields(schema.LAYER).get(name))
            continue
        parameters = layer.message(home.name)
        if parameters is None:
            parameters = Message(home.type)
            layer.add(home.name, parameters)
        _add_attribute(parameters, name, attribute, schema.fields(home.type).get(name))


def _home(name: str, parameters: Sequence[str]) -> Field | None:
    """Return the layer field of the parameter message that contains the field `name`; the first one if none does."""
    if name.endswith(_PARAMETERS) and name in schema.fields(schema.LAYER):
        return None
    fields = [schema.fields(schema.LAYER)[parameter] for parameter in parameters]
    fitting = [field for field in fields if name in schema.fields(field.type)]
    return (fitting or fields or [None])[0]


def _add_attribute(message: Message, name: str, attribute: Attribute, field: Field | None) -> None:
    is_list = isinstance(attribute, tuple) and (field.is_repeated if field else not _is_pairs(attribute))
    for item in attribute if is_list and isinstance(attribute, tuple) else (attribute,):
        message.add(name, _content(item, field))


def _content(item: Attribute, field: Field | None) -> Content:
    if isinstance(item, tuple):
        kind = field.type if field is not None else ""
        if kind == schema.SHAPE:
            return _shape([n for n in item if isinstance(n, int)])
        inner = Message(kind)
        for pair in item:
            if isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str):
                _add_attribute(inner, pair[0], pair[1], schema.fields(kind).get(pair[0]))
        return inner
    if field is not None and field.type in schema.ENUMS and isinstance(item, str):
        return Identifier(item)
    if isinstance(item, bool | int | float | str | bytes):
        return item
    message = f"{item!r} cannot be stored in a Caffe message"
    raise TypeError(message)


def _is_pairs(attribute: tuple[Attribute, ...]) -> bool:
    """Whether an attribute is a message, a tuple of (field, value) pairs, and not a list."""
    return all(isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str) for pair in attribute)


def _shape(dims: Sequence[int]) -> Message:
    shape = Message(schema.SHAPE)
    for extent in dims:
        shape.add("dim", extent)
    return shape
