"""Convert a graph of the dialect `openvino` to the XML tree of an IR file."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING, Any, cast

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.formats.openvino.container import elements, operators, subgraphs
from graphport.formats.openvino.container.notes import DECOMPRESSION, KEY, NAMES, Header
from graphport.formats.openvino.container.shapes import UnreadableError, read_shape, write_shape
from graphport.formats.openvino.container.weights import Coded
from graphport.formats.openvino.container.xml import PLAIN, Element, Ends, Layer, Spelling
from graphport.ir.attributes import as_key
from graphport.ir.graph import Graph, Node, walk

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.formats.openvino.container.blobs import ByteRange
    from graphport.ir.graph import Value

    Place = Callable[[Storage], ByteRange]

_END = 1 << 60


def tree(graph: Graph, place: Place | None, *, version: str | None = None) -> Element:
    """Return the element `net` of a graph.

    Args:
        graph: of the dialect `openvino`.
        place: stores the elements of a constant; `None` if all are still at the offsets in the notes.
        version: of the file; if `None`, that of the notes, else 11.

    Raises:
        DiagnosticError: OV0501 for values of types that IR files do not have.
    """
    header = graph.notes.get(KEY)
    noted = header.element.attributes.get("version") if isinstance(header, Header) else None
    chosen = version or noted or "11"
    made: dict[Graph, Element] = {}
    # Bodies first: the element of a body is nested in the element of its layer.
    for inner in reversed(list(walk(graph))):
        made[inner] = _Network(inner, place, chosen, made).element()
    return made[graph]


class _Network:
    def __init__(self, graph: Graph, place: Place | None, version: str, bodies: Mapping[Graph, Element]) -> None:
        found = graph.notes.get(KEY)
        self._graph = graph
        self._place = place
        self._version = version
        self._bodies = bodies
        self._owners = list(self._noted())
        is_noted = isinstance(found, Header) and len(found.results) == len(graph.outputs)
        is_noted = is_noted and all(noted is not None for _, noted, _ in self._owners)
        self._header = found if isinstance(found, Header) and is_noted else None
        stated = found.element.attributes.get("version") if isinstance(found, Header) else None
        self._forgets_names = version == "10" and stated not in (None, "10")
        self._renumbers = True
        self._names: set[str] = set()
        self._counters: dict[str, int] = {}
        self._ports: dict[Value, tuple[str, str]] = {}
        self._numbers: dict[int, tuple[object, list[str], list[str]]] = {}
        """Input and output port numbers by identity of a layer's children, which are kept alive by the entry."""
        self._unchanged: dict[tuple[object, ...], object] = {}
        """Children of layers of unmodified nodes, by everything that determines them; the keys keep objects alive."""
        self._claims: dict[int, int] = {}
        """Numbers of dtypes and shapes, by identity of facts, which the graph keeps alive."""
        self._numbered: dict[object, int] = {}
        self._spellings: dict[tuple[Any, ...], Spelling] = {}
        """Children of generated layers, by everything that determines them except names and the data of constants."""

    def element(self) -> Element:
        header = self._header
        layers = Element("layers")
        items = self._layers_in_order()
        if header is not None:
            items.sort(key=itemgetter(0))
        numbers = [None if noted is None else _layer_id(noted) for _, noted, _ in items]
        keeps_ids = header is not None and None not in numbers and len(set(numbers)) == len(items)
        self._renumbers = not keeps_ids
        written: list[tuple[str, Sequence[str], Any]] = []
        for position, (_, noted, item) in enumerate(items):
            number = cast("str", numbers[position]) if keeps_ids else str(position)
            made = self._layer(number, noted, item)
            layers.children.append(made)
            _, inputs, outputs = self._ports_of(made)
            self._remember(number, outputs, item)
            written.append((number, inputs, item))
        # Layers may appear in any order, so all ports are numbered before edges are written.
        edges: list[Ends] = []
        for number, ports, item in written:
            if ports:
                self._add_edges(edges, number, ports, item)
        return self._build_net(header, layers, self._sort_edges(edges, header))

    def _build_net(self, header: Header | None, layers: Element, edges: Element) -> Element:
        if header is not None:
            attributes = dict(header.element.attributes)
            others = header.element.children
            tag = header.element.tag
        else:
            is_body = self._graph.parent is not None
            tag = _tag(self._graph) if is_body else "net"
            attributes = {} if is_body else {"name": self._graph.name, "version": self._version}
            others = [Element("rt_info")]
        if "version" in attributes:
            attributes["version"] = self._version
        result = Element(tag, attributes)
        result.children = [layers, edges, *others]
        return result

    def _layers_in_order(self) -> list[tuple[int, Element | None, Any]]:
        """Return the layers in order: old position, old element, and the value or node (index of an output)."""
        header = self._header
        results = header.results if header is not None else (None,) * len(self._graph.outputs)
        returned = [(noted.at if noted is not None else _END, noted, index) for index, noted in enumerate(results)]
        return [*self._owners, *returned]

    def _noted(self) -> Iterator[tuple[int, Element | None, Any]]:
        """Yield position, original element and object of each layer but the outputs: inputs, constants, nodes."""
        graph = self._graph
        constants = graph.constants
        for value in graph.inputs:
            noted = _note(value)
            yield noted.at if noted is not None else -1, noted, value
        seen: set[Value] = set()
        for node in graph:
            for value in node.inputs:
                if value in constants and value not in seen:
                    seen.add(value)
                    noted = _note(value)
                    yield noted.at if noted is not None else 0, noted, value
            noted = _note(node)
            yield noted.at if noted is not None else 0, noted, node
        for value in constants:
            if value not in seen:
                noted = _note(value)
                yield noted.at if noted is not None else 0, noted, value

    # Layers

    def _layer(self, number: str, noted: Element | None, item: Any) -> Element:
        if noted is None:
            if type(item) is int:
                return self._result(number, item)
            return self._node(number, item) if type(item) is Node else self._source(number, item)
        made = noted
        if type(item) is Node:
            made = self._node_again(noted, item)
        elif type(item) is not int:
            made = self._updated(noted, item)
        if self._renumbers:
            made = self._renumbered(made, number)
        return self._nameless(made, item) if self._forgets_names else made

    def _source(self, number: str, value: Value) -> Element:
        if value in self._graph.constants:
            return self._make_layer(number, value.name, "Const", "opset1", self._stored(value), (), [value])
        data = {"shape": write_shape(_fact(value).shape), "element_type": _type_name(value)}
        return self._make_layer(number, value.name, "Parameter", "opset1", data, (), [value])

    def _remember(self, number: str, ports: Sequence[str], item: Any) -> None:
        """Record the layer id and the output port of each result of a layer."""
        if type(item) is int or not ports:
            return
        values = item.outputs if type(item) is Node else (item,)
        for port, value in zip(ports, values, strict=False):
            if value is not None:
                self._ports[value] = number, port

    def _ports_of(self, layer: Element) -> tuple[object, list[str], list[str]]:
        """Return a layer's children, the ids of all its input ports, and the port ids of its last element `output`."""
        children = layer.spelling.children if type(layer) is Layer else layer.children
        known = self._numbers.get(id(children))
        if known is None:
            inputs = [_id(port) for child in children if child.tag == "input" for port in child.children]
            outputs = [[_id(port) for port in child.children] for child in children if child.tag == "output"]
            known = self._numbers[id(children)] = children, inputs, outputs[-1] if outputs else []
        return known

    def _nameless(self, layer: Element, item: Any) -> Element:
        """Return the layer in the form of version 10: no tensor names, inputs and outputs named like layers."""
        attributes = {name: text for name, text in layer.attributes.items() if name != "output_names"}
        if not isinstance(item, int):
            value = next(iter(item.results), None) if isinstance(item, Node) else item
            attributes["name"] = unique(attributes["name"] if value is None else value.name, self._names)
            self._names.add(attributes["name"])
        children = [_without_names(child) if child.tag == "output" else child for child in layer.children]
        nameless = _with(layer, attributes=attributes, children=children)
        nameless.names = ()
        return nameless

    def _renumbered(self, layer: Element, number: str) -> Element:
        if _layer_id(layer) == number:
            return layer
        return _with(layer, attributes=layer.attributes | {"id": number})

    def _updated(self, noted: Element, value: Value) -> Element:
        """Update the element of a graph input or constant that was read from a file."""
        if value in self._graph.constants:
            return noted if self._place is None else _with_data(noted, self._stored(value))
        return _with_shape(noted, value)

    def _node_again(self, noted: Element, node: Node) -> Element:
        if node.has_bodies:
            return self._changed(noted, node)
        attributes = node.stated
        key = (id(noted.children), node.op_type, *(as_key(attributes) if attributes else ()))
        try:
            if key in self._unchanged:
                return noted
        except TypeError:
            return self._changed(noted, node)
        changed = self._changed(noted, node)
        if changed is noted:
            self._unchanged[key] = noted.children
        return changed

    def _changed(self, noted: Element, node: Node) -> Element:
        operator = operators.find_operator(node.op_type)
        element = noted
        if operator is not None:
            found = noted.child("data")
            old = dict(found.attributes) if found is not None else {}
            changed = _changes(operator, old, node)
            if changed:
                element = _with_data(element, old | changed)
        if any(child.tag in subgraphs.BODIES for child in noted.children):
            fresh = {tag: self._bodies[body] for tag, body in node.attributes.items() if isinstance(body, Graph)}
            element = _with(element, children=[fresh.get(child.tag, child) for child in element.children])
        return element

    def _node(self, number: str, node: Node) -> Element:
        version, _, type = node.op_type.partition(".")
        operator = operators.find_operator(node.op_type)
        if operator is None:
            data = {name: str(value) for name, value in node.attributes.items() if not isinstance(value, Graph)}
        else:
            data = _attribute_texts(operator, node)
        first = node.results[0].name if node.results else node.name or type
        name = node.name if node.name and self._version != "10" else first
        bodies = {tag: self._bodies[body] for tag, body in node.attributes.items() if isinstance(body, Graph)}
        decompresses = node.has_notes and bool(node.notes.get(DECOMPRESSION)) and self._version != "10"
        is_shared = not bodies and not decompresses
        layer = self._make_layer(number, name, type, version, data, node.inputs, node.outputs, is_shared=is_shared)
        if decompresses:
            mark = Element("rt_info")
            mark.children = [Element("attribute", {"name": "decompression", "version": "0"})]
            layer.children = [*layer.children[:1], mark, *layer.children[1:]]
        if bodies:
            _place_bodies(layer, node, bodies)
        return layer

    def _make_layer(
        self,
        number: str,
        name: str,
        type: str,
        version: str,
        data: Mapping[str, str],
        operands: Sequence[Value | None],
        results: Sequence[Value | None],
        *,
        is_shared: bool = True,
    ) -> Element:
        chosen = unique(name or type, self._names, self._counters)
        self._names.add(chosen)
        is_constant = type == "Const"
        has_names = not is_constant and self._version != "10"
        names = [_joined(value) for value in results if value is not None] if has_names else []
        if not is_shared or not all(map(PLAIN.fullmatch, (chosen, type, version, *names))):
            layer = Element("layer", {"id": number, "name": chosen, "type": type, "version": version})
            layer.children = self._contents(data, operands, results, has_names=has_names)
            return layer
        own = [Element("data", dict(data))] if is_constant else []
        shared: Mapping[str, str] = {} if is_constant else data
        claim = self._claim
        ports = tuple([claim(value) for value in operands]), tuple([claim(value) for value in results])
        key = type, version, tuple(shared.items()), *ports
        spelling = self._spellings.get(key)
        if spelling is None:
            children = self._contents(shared, operands, results, has_names=has_names)
            spelling = self._spellings[key] = Spelling(type, version, children, 0, 0, "")
        children = [*own, *spelling.children] if own else spelling.children
        return Layer.of(number, chosen, spelling, children, names, 0)

    def _claim(self, value: Value | None) -> int:
        """Number the dtype and shape of a value, which its port declares; -1 for an absent value."""
        if value is None:
            return -1
        found = self._claims.get(id(value.fact))
        if found is None:
            fact = _fact(value)
            found = self._claims[id(fact)] = self._numbered.setdefault((fact.dtype, fact.shape), len(self._numbered))
        return found

    def _contents(
        self,
        data: Mapping[str, str],
        operands: Sequence[Value | None],
        results: Sequence[Value | None],
        *,
        has_names: bool,
    ) -> list[Element]:
        found = [Element("data", dict(data))] if data else []
        for tag, values, start in (("input", operands, 0), ("output", results, len(operands))):
            if values:
                group = Element(tag)
                stated = has_names and tag == "output"
                group.children = [self._port(value, start + i, has_names=stated) for i, value in enumerate(values)]
                found.append(group)
        return found

    def _port(self, value: Value | None, position: int, *, has_names: bool) -> Element:
        fact = TensorFact(None, None) if value is None else _fact(value)
        name = "dynamic" if value is None or fact.dtype is None else _type_name(value)
        port = Element("port", {"id": str(position), "precision": elements.precision_of(name)})
        if has_names and value is not None:
            port.attributes["names"] = _joined(value)
        if fact.shape:
            port.dims = ["-1" if isinstance(dim, Symbolic) else str(dim) for dim in fact.shape]
        return port

    def _result(self, number: str, index: int) -> Element:
        value = self._graph.outputs[index]
        name = f"{value.name}/sink_port_0"
        layer = self._make_layer(number, name, "Result", "opset1", {}, [value], (), is_shared=False)
        if self._version != "10":
            layer.attributes["output_names"] = _joined(value)
        return layer

    def _stored(self, value: Value) -> dict[str, str]:
        storage = value.storage
        if storage is None or self._place is None:
            message = f"the elements of {value.name} are not available"
            raise DiagnosticError(Diagnostic("OV0502", message, value.origin, "load the model with its weights"))
        piece = self._place(storage)
        shape = ", ".join(map(str, storage.shape))
        name = storage.name if isinstance(storage, Coded) else _type_name(value)
        return {"element_type": name, "shape": shape, "offset": str(piece.offset), "size": str(piece.size)}

    # Edges

    def _add_edges(self, edges: list[Ends], number: str, inputs: Sequence[str], item: Any) -> None:
        """Append the edges that end at a layer."""
        if type(item) is Node:
            operands = item.inputs
        elif type(item) is int:
            operands = (self._graph.outputs[item],)
        else:
            return
        ports = self._ports
        for port, value in zip(inputs, operands, strict=False):
            if value is not None:
                edges.append((*ports[value], number, port))

    def _sort_edges(self, edges: list[Ends], header: Header | None) -> Element:
        if header is not None and (edges == list(header.edges) or set(edges) == set(header.edges)):
            order: Sequence[Ends] = header.edges
        else:
            order = sorted(edges, key=lambda edge: tuple(map(int, edge)))
        result = Element("edges")
        result.ends = order
        return result


def _note(owner: Value | Node) -> Element | None:
    found = owner.note(KEY)
    return found if isinstance(found, Element) else None


def _layer_id(layer: Element) -> str:
    return layer.number if type(layer) is Layer else layer.attributes["id"]


def _id(port: Element) -> str:
    return port.attributes.get("id", "")


def _fact(value: Value) -> TensorFact:
    fact: Fact = value.fact
    if isinstance(fact, TensorFact):
        return fact
    message = f"{value.name} is {fact}, but OpenVINO IR supports only tensors"
    raise DiagnosticError(Diagnostic("OV0501", message, value.origin, "choose another format"))


def _type_name(value: Value) -> str:
    dtype = _fact(value).dtype
    if dtype is None:
        return "dynamic"
    name = elements.NAMES.get(dtype)
    if name is None:
        message = f"{value.name} is {dtype}, which OpenVINO IR does not support"
        raise DiagnosticError(Diagnostic("OV0501", message, value.origin, "choose another format"))
    return name


def _joined(value: Value) -> str:
    noted = cast("tuple[str, ...]", value.notes.get(NAMES, ())) if value.has_notes else ()
    names = noted if value.name in noted else (value.name,)
    return ",".join(name.replace(",", "\\,") for name in names)


def _with(
    element: Element, *, attributes: dict[str, str] | None = None, children: list[Element] | None = None
) -> Element:
    twin = Element(element.tag, element.attributes if attributes is None else attributes, element.at)
    twin.children = element.children if children is None else children
    twin.dims = element.dims
    twin.names = element.names
    twin.text = element.text
    return twin


def _without_names(group: Element) -> Element:
    ports = [
        _with(port, attributes={name: text for name, text in port.attributes.items() if name != "names"})
        for port in group.children
    ]
    return _with(group, children=ports)


def _with_data(layer: Element, data: dict[str, str]) -> Element:
    old = layer.child("data")
    if old is None:
        return _with(layer, children=[Element("data", data), *layer.children])
    if old.attributes == data:
        return layer
    twin = _with(old, attributes=old.attributes | data)
    return _with(layer, children=[twin if child is old else child for child in layer.children])


def _with_shape(noted: Element, value: Value) -> Element:
    data = noted.child("data")
    fact = _fact(value)
    try:
        shape = None if data is None else read_shape(data.attributes.get("shape", ""), value.name)
    except UnreadableError:
        shape = None
    if data is None or shape == fact.shape:
        return noted
    return _with_data(noted, {"shape": write_shape(fact.shape)})


def _changes(operator: operators.Operator, old: Mapping[str, str], node: Node) -> dict[str, str]:
    """Return the text of each attribute whose value differs from the value in the file."""
    found: dict[str, str] = {}
    for keyword in operator.keywords:
        if keyword.name not in node.attributes:
            continue
        value, text = node.attributes[keyword.name], old.get(keyword.spelling, keyword.text)
        try:
            before = None if text is None else operators.read(keyword, text)
        except operators.UnreadableError as error:
            before = operator.defaults.get(keyword.name) if error.taken is None else error.taken
        if before != value and not (value != value and before != before):  # noqa: PLR0124  two NaN are the same here
            found[keyword.spelling] = operators.format_attribute(keyword, value)
    return found


def _attribute_texts(operator: operators.Operator, node: Node) -> dict[str, str]:
    """Return the text of each attribute of a node that was not read from an OpenVINO file; defaults are included."""
    found: dict[str, str] = {}
    for keyword in operator.keywords:
        if keyword.name in node.attributes:
            found[keyword.spelling] = operators.format_attribute(keyword, node.attributes[keyword.name])
        elif keyword.text is not None and keyword.spelling != operators.BROADCAST_AXIS:
            found[keyword.spelling] = operators.format_attribute(
                keyword, operator.defaults.get(keyword.name, keyword.text)
            )
    return found


def _tag(body: Graph) -> str:
    attributes = {} if body.parent is None else body.parent.attributes
    return next((name for name, value in attributes.items() if value is body), "body")


def _place_bodies(layer: Element, node: Node, bodies: Mapping[str, Element]) -> None:
    """Insert port maps before the ports of a layer and append its bodies, as OpenVINO does."""
    count = len(node.inputs)
    maps = [element for tag, body in bodies.items() for element in subgraphs.elements(node, tag, body, count)]
    layer.children = [*maps, *layer.children, *bodies.values()]
