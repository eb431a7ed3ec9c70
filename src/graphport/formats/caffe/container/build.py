"""Build a dialect graph from the layers of a network."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Span
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.blobs import storage_of_blob
from graphport.formats.caffe.container.message import FieldValue, Message
from graphport.formats.caffe.container.sources import SOURCES, fact_of_shape, facts_of_source
from graphport.formats.caffe.rules.binding import BOTTOMS, DIALECT, LAYERS
from graphport.ir.graph import Graph, Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.formats.caffe.container.findings import Findings
    from graphport.ir.graph import Attribute

LAYER_NOTE = "layer"
"""Note of a node: the fields of its layer that do not affect inference."""
BLOB_NOTE = "blob"
"""Note of a value: the name of its blob, if a later in-place layer overwrites the blob."""
SOURCE_NOTE = "source"
"""Note of an input: its data layer."""

PARAMETER = "Parameter"
"""The layer type that consists of a single blob."""

_STRUCTURE = frozenset({"name", "type", "bottom", "top", "blobs"})
_IDLE = frozenset({"force_nd_im2col", "stable_prod_grad", "save_output_param", "visualize", "visualize_threshold"})
"""Parameters that select an implementation and do not affect the result."""


class Building:
    """Builder of the graph of one network."""

    def __init__(self, findings: Findings, weights: Mapping[str, Sequence[Message]]) -> None:
        registry.load(DIALECT)
        self.findings = findings
        self.weights = weights
        self.graph = Graph()
        self.blobs: dict[str, Value] = {}
        self.read: set[str] = set()
        """Blobs whose present value some layer has read."""

    def build(self, net: Message, layers: Sequence[Message]) -> Graph:
        """Build the graph of `layers`, which are the inference layers in the format of version 2."""
        self.graph.name = net.text("name") or "main"
        self.graph.origin = net.span
        self._inputs(net)
        for layer in layers:
            self._layer(layer)
        if not layers:
            remedy = "add at least one 'layer { … }'"
            whole = net.span
            start = whole if whole is None or whole.start is None else Span(whole.source, 0, 0)
            self.findings.error("CAFFE0210", "the network has no layers", start, remedy)
        outputs = [value for name, value in self.blobs.items() if name not in self.read]
        computed = [value for value in outputs if value.producer is not None]
        self.graph.set_outputs(computed or outputs)
        return self.graph

    def _inputs(self, net: Message) -> None:
        """Create the inputs that a network declares outside layers."""
        names = net.all("input")
        shapes = [shape.integers("dim") for shape in net.messages("input_shape")]
        dims = net.integers("input_dim")
        if dims and not shapes:
            shapes = [dims[start : start + 4] for start in range(0, len(dims), 4)]
        span = names[0].span if names else net.span
        if shapes and (len(shapes) != len(names) or len(dims) % 4):
            given = f"{len(dims)} input_dim" if dims else f"{len(shapes)} shapes"
            message = f"{len(names)} inputs are declared, but {given}"
            self.findings.error("CAFFE0211", message, span, "add one input_shape, or four input_dim, per input")
            shapes = []
        for index, entry in enumerate(names):
            fact = fact_of_shape(shapes[index], str(entry.content)) if shapes else None
            self._input(str(entry.content), fact, entry.span)

    def _input(self, name: str, fact: TensorFact | None, span: Span | None) -> Value:
        if name in self.blobs:
            self.findings.error(
                "CAFFE0209", f"duplicate producer of the blob {name!r}", span, "rename one of the blobs"
            )
            return self.blobs[name]
        value = self.graph.add_input(name, fact or fact_of_shape([], name).with_shape(None), origin=span)
        self.blobs[name] = value
        return value

    def _layer(self, layer: Message) -> None:
        type, name = layer.text("type"), layer.text("name")
        tops = layer.texts("top")
        if not type:
            message = f"the layer {name!r} has no type"
            self.findings.error("CAFFE0207", message, layer.span, 'set its type, for example type: "Convolution"')
            return
        if type == PARAMETER:
            self._parameter(layer, name, tops)
            return
        if type in SOURCES or (type not in LAYERS and not layer.has("bottom") and tops and not layer.has("blobs")):
            for top, fact in zip(tops, facts_of_source(layer, tops), strict=True):
                self._input(top, fact, layer.span).notes[SOURCE_NOTE] = layer
            return
        node = self._node(layer, type, name)
        if node is not None:
            self.graph.append(node)
            self._name(node, tops, name)

    def _parameter(self, layer: Message, name: str, tops: Sequence[str]) -> None:
        """Create the constant of a Parameter layer."""
        blobs = self._blobs(layer, name)
        if len(tops) != 1 or len(blobs) > 1:
            message = f"the layer {name!r} has {len(tops)} tops and {len(blobs)} blobs"
            self.findings.error("CAFFE0212", message, layer.span, "use one top and one blob")
            return
        parameters = layer.message("parameter_param")
        shape = None if parameters is None else parameters.message("shape")
        value = blobs[0] if blobs else self.graph.add_constant(tops[0], UNKNOWN, origin=layer.span)
        if not blobs and shape is not None:
            value.fact = fact_of_shape(shape.integers("dim"), tops[0])
        self.graph.rename(value, self.graph.fresh(tops[0]) if blobs else value.name)
        self.blobs[tops[0]] = value
        self.read.add(tops[0])

    def _node(self, layer: Message, type: str, name: str) -> Node | None:
        bottoms = [self._bottom(entry, name) for entry in layer.all("bottom")]
        known = [value for value in bottoms if value is not None]
        tops = layer.texts("top")
        for index, entry in enumerate(layer.all("top")):
            top = str(entry.content)
            is_in_place = layer.texts("bottom")[index : index + 1] == [top]
            if (top in self.blobs and not is_in_place) or top in tops[:index]:
                message = f"duplicate producer of the blob {top!r}"
                self.findings.error(
                    "CAFFE0209",
                    message,
                    entry.span,
                    "rename the top; only a layer that also reads the blob may overwrite it",
                )
                return None
        if len(known) != len(bottoms):
            # Define the tops anyway, so that their consumers are not reported as well.
            for top in tops:
                self.blobs[top] = Value(top)
            return None
        blobs = self._blobs(layer, name)
        attributes, rest = attributes_of(layer)
        if blobs:
            attributes[BOTTOMS] = len(known)
        results = [Value(self._free_name(top, name)) for top in tops]
        node = Node(
            type, [*known, *blobs], results, attributes, dialect=DIALECT, name=name, origin=_layer_location(layer)
        )
        if rest.entries or rest.comments:
            node.notes[LAYER_NOTE] = rest
        return node

    def _free_name(self, top: str, layer: str) -> str:
        before = self.blobs.get(top)
        if before is None:
            return self.graph.fresh(top)
        # An in-place result takes over the name of a computed blob; an input keeps its name.
        return self.graph.fresh(f"{top}.{layer}") if before.producer is None else top

    def _bottom(self, entry: FieldValue, layer: str) -> Value | None:
        name = str(entry.content)
        value = self.blobs.get(name)
        if value is None:
            near = get_close_matches(name, self.blobs, n=1)
            remedy = f"did you mean {near[0]!r}?" if near else "order the layers topologically"
            message = f"the layer {layer!r} reads the blob {name!r}, which no earlier layer computes"
            self.findings.error("CAFFE0208", message, entry.span, remedy)
            return None
        self.read.add(name)
        return value if value.graph is not None else None

    def _blobs(self, layer: Message, name: str) -> list[Value]:
        found = layer.messages("blobs") or self.weights.get(name, ())
        values: list[Value] = []
        for index, blob in enumerate(found):
            storage = storage_of_blob(blob, self.findings, f"blob {index} of the layer {name!r}")
            if storage is not None:
                fact = TensorFact.of(storage)
                values.append(self.graph.add_constant(f"{name}.{index}", fact, storage, origin=blob.span))
        return values

    def _name(self, node: Node, tops: Sequence[str], layer: str) -> None:
        """Name each result like its blob; the blob's previous value is renamed unless it is an input."""
        for top, value in zip(tops, node.outputs, strict=True):
            if value is None:
                continue
            before = self.blobs.get(top)
            if before is not None and before.producer is not None:
                self.graph.rename(before, self.graph.fresh(f"{top}.{before.producer.name or layer}"))
                before.notes[BLOB_NOTE] = top
            elif value.name != top:
                value.notes[BLOB_NOTE] = top
            self.blobs[top] = value
            self.read.discard(top)


def _layer_location(layer: Message) -> Span | None:
    """Return the location of a layer's name, else of its type, else of the layer."""
    found = layer.all("name") or layer.all("type")
    span = found[0].span if found else None
    return span if span is not None and span.start is not None else layer.span


def attributes_of(layer: Message) -> tuple[dict[str, Attribute], Message]:
    """Return the attributes of a layer, and its fields without effect.

    For a type with an import rule, these are the fields of its parameters; for others, each message by name.
    """
    known = LAYERS.get(layer.text("type"))
    attributes: dict[str, Attribute] = {}
    rest = Message(layer.kind, layer.span, comments=layer.comments)
    for name, entries in layer.entries.items():
        if name in _STRUCTURE:
            continue
        if known is not None and name in known.parameters:
            for entry in entries:
                _add_entry(entry, name, attributes, rest)
        elif _is_ignored(name, is_known=known is not None):
            rest.entries[name] = list(entries)
        else:
            field = schema.fields(schema.LAYER).get(name)
            attributes[name] = _attribute(entries, is_repeated=_repeats(field, entries))
    return attributes, rest


def _is_ignored(name: str, *, is_known: bool) -> bool:
    """Whether a field of a layer does not affect the result."""
    if name not in schema.fields(schema.LAYER):
        return False
    return is_known or not name.endswith("_param") or name == "transform_param"


def _add_entry(entry: FieldValue, name: str, attributes: dict[str, Attribute], rest: Message) -> None:
    parameters = entry.content
    if not isinstance(parameters, Message):
        return
    idle = Message(parameters.kind, parameters.span)
    fields = schema.fields(parameters.kind)
    for inner, entries in parameters.entries.items():
        field = fields.get(inner)
        if field is not None and (field.type in (schema.FILLER, schema.ENGINE) or inner in _IDLE):
            idle.entries[inner] = list(entries)
        else:
            attributes[inner] = _attribute(entries, is_repeated=_repeats(field, entries))
    if idle.entries:
        rest.add(name, idle, parameters.span)


def _attribute(entries: Sequence[FieldValue], *, is_repeated: bool) -> Attribute:
    """Return the value of a field; a message becomes pairs of its fields, a shape its dims.

    The last value of a repeated scalar field counts, as in protobuf.
    """
    return tuple(map(_content, entries)) if is_repeated else _content(entries[-1])


def _repeats(field: schema.Field | None, entries: Sequence[FieldValue]) -> bool:
    """Whether a field is a list; an unknown one is if it occurs more than once."""
    return len(entries) != 1 if field is None else field.is_repeated


def _content(entry: FieldValue) -> Attribute:
    content = entry.content
    if not isinstance(content, Message):
        return content
    if content.kind == schema.SHAPE:
        return tuple(content.integers("dim"))
    fields = schema.fields(content.kind)
    pairs = [(n, _attribute(e, is_repeated=_repeats(fields.get(n), e))) for n, e in content.entries.items()]
    return tuple(pairs)


def weights_of(layers: Sequence[Message]) -> dict[str, list[Message]]:
    """Return the blobs of each layer by layer name."""
    return {layer.text("name"): layer.messages("blobs") for layer in layers if layer.has("blobs")}
