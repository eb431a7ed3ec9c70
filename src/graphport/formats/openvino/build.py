"""The tree of an IR file as a graph in OpenVINO's own words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.dims import Symbol, bounds
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.formats.openvino import constants, elements, operators, subgraphs
from graphport.formats.openvino.notes import KEY, NAMES, Header
from graphport.formats.openvino.shapes import UnreadableError, leading_int, read_shape
from graphport.formats.openvino.xml import Element
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.dims import Dim
    from graphport.core.storage import MappedFile
    from graphport.formats.openvino.findings import Findings
    from graphport.formats.openvino.operators import Operator
    from graphport.ir.graph import Attribute

DIALECT = "openvino"
_NEEDED = ("id", "name", "type", "version")
_EDGE = ("from-layer", "from-port", "to-layer", "to-port")
_EXACT = {"const": "Const", "constant": "Const"}
_PLAIN = re.compile(r"0|[1-9]\d{0,17}")
_NUMBER = re.compile(r"\s*\+?0*(\d{1,19})")
_LARGEST = (1 << 63) - 1
_ESCAPED_COMMA = re.compile(r"(?<!\\),")
_NO_BROADCAST = ("numpy", "none")
_NO_OPERATIONS = ("Parameter", "Const", "Result")

_Key = tuple[str, str]


class _Complaint(NamedTuple):
    """A finding about attributes, made anew for each layer that has the same ones."""

    is_error: bool
    code: str
    message: str
    help: str | None


class _Read(NamedTuple):
    """What type, version and `data` of a layer say."""

    word: str
    attributes: dict[str, Attribute]
    complaints: tuple[_Complaint, ...]


class _Frame:
    """One network while its graph is made."""

    __slots__ = ("graph", "layers", "nodes", "results", "sources", "targets")

    def __init__(self, graph: Graph, layers: dict[str, Element]) -> None:
        self.graph = graph
        self.layers = layers
        self.sources: dict[_Key, Value] = {}
        self.targets: dict[_Key, tuple[list[Value | None], int]] = {}
        self.nodes: list[tuple[Element, list[Value | None], list[Value]]] = []
        self.results: list[tuple[Element, list[Value | None]]] = []


class Networks:
    """Makes the graphs of one file: of the network and of every body in it."""

    def __init__(self, findings: Findings, weights: MappedFile | None, *, names_tensors: bool) -> None:
        self._findings = findings
        self._constants = constants.Constants(findings, weights)
        self._weights = weights
        self._names_tensors = names_tensors
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}
        self._read: dict[tuple[Any, ...], _Read] = {}
        self._facts: dict[tuple[str, tuple[str, ...]], TensorFact | None] = {}
        self._numbered: dict[Element, tuple[str, ...]] = {}
        self._known_dims: set[str] = set()
        self._known_ports: set[str] = set()
        self._known_sets: set[tuple[str, str]] = set()

    def graph(self, root: Element) -> Graph:
        """The graph of a network; bodies, which read nothing of it, are made first."""
        order = [root]
        for network in order:
            order += [body for layer in _layers(network) for body in layer.children if body.tag in subgraphs.BODIES]
        made: dict[Element, Graph] = {}
        for network in reversed(order):
            made[network] = self._network(network, made)
        return made[root]

    def _network(self, network: Element, bodies: dict[Element, Graph]) -> Graph:
        frame = _Frame(Graph(network.attributes.get("name") or network.tag), self._identified(network))
        before = self._constants.count
        if sum(child.tag == "layers" for child in network.children) > 1:
            self._findings.error("OV0111", "there is more than one section of layers", None, "put them into one")
        for number, layer in frame.layers.items():
            self._values(frame, number, layer)
        edges = self._edges(network, frame)
        is_sorted = True
        for layer, operands, results in frame.nodes:
            is_sorted = is_sorted and all(value is None or value.graph is not None for value in operands)
            self._node(frame.graph, layer, operands, results, bodies)
        frame.graph.set_outputs([value for _, (value, *_) in frame.results if value is not None])
        if not is_sorted:
            self._order(frame.graph)
        kept = Element(network.tag, network.attributes)
        kept.children = [child for child in network.children if child.tag not in ("layers", "edges")]
        layers = tuple(layer for layer, (value, *_) in frame.results if value is not None)
        frame.graph.notes[KEY] = Header(kept, layers, edges, self._weights, self._constants.count - before)
        return frame.graph

    def _identified(self, network: Element) -> dict[str, Element]:
        """The layers of a network by number, in the order of the file."""
        found: dict[str, Element] = {}
        for layer in _layers(network):
            missing = [name for name in _NEEDED if name not in layer.attributes]
            number = _number(layer.attributes.get("id", ""))
            if missing:
                self._findings.error(
                    "OV0101", f"the layer has no {', no '.join(missing)}", layer, "every layer has them"
                )
            elif number is None:
                message = f"{layer.attributes['id'][:60]!r} is no number of a layer"
                self._findings.error("OV0102", message, layer, "number the layers from 0")
            elif number in found:
                self._findings.error(
                    "OV0103", f"two layers have the number {number}", layer, "give one of them another"
                )
            else:
                found[number] = layer
        return found

    # Values

    def _values(self, frame: _Frame, number: str, layer: Element) -> None:
        """The operands and results of a layer, not connected yet."""
        operands: list[Value | None] = []
        outputs: Sequence[Element] = ()
        for child in layer.children:
            if child.tag == "input":
                ports = self._numbered.get(child)
                if ports is None:
                    ports = self._numbered[child] = tuple(self._port(layer, port) for port in child.children)
                for index, port in enumerate(ports):
                    operands.append(None)
                    frame.targets[number, port] = operands, index
            elif child.tag == "output":
                outputs = child.children
        type = _kind(layer)
        if type in _NO_OPERATIONS and (type, layer.attributes["version"]) not in self._known_sets:
            self._check_set(type, layer)
        if type == "Result":
            operands = operands or [None]
            frame.results.append((layer, operands))
            return
        is_source = type in ("Const", "Parameter")
        results: list[Value] = []
        for index, port in enumerate(outputs):
            number_of_port = self._port(layer, port)
            value = self._result(layer, port, index if len(outputs) > 1 else None, knows_fact=not is_source)
            frame.sources[number, number_of_port] = value
            results.append(value)
        if not is_source:
            frame.nodes.append((layer, operands, results))
        elif type == "Const":
            self._constants.fill(frame.graph, layer, results)
        else:
            self._parameter(frame.graph, layer, results)
        if is_source:
            for port, value in zip(outputs, results, strict=True):
                self._hold_against(layer, port, value)

    def _check_set(self, type: str, layer: Element) -> None:
        version = layer.attributes["version"]
        self._known_sets.add((type, version))
        if operators.operator(type, version) is None:
            message = f"{version[:60]!r} is no operation set that has {type}"
            self._findings.warning("OV0201", message, layer, "say opset1")

    def _port(self, layer: Element, port: Element) -> str:
        """The number of a port, whose dims are numbers, too: nobody looks at them, and the runtime refuses others."""
        number = port.attributes.get("id", "")
        if number not in self._known_ports:
            if _PLAIN.fullmatch(number) is None and _number(number) is None:
                self._findings.error("OV0102", f"{number[:60]!r} is no number of a port", layer, "number them from 0")
            self._known_ports.add(number)
        for dim in port.dims or ():
            if dim not in self._known_dims:
                self._known_dims.add(dim)
                extent = leading_int(dim)
                if extent is None or not -1 <= extent <= _LARGEST:
                    message = f"{dim[:60]!r} is no dim"
                    self._findings.error("OV0108", message, layer, "dims are numbers from 0, -1 where open")
        return number

    def _hold_against(self, layer: Element, port: Element, value: Value) -> None:
        """Tell where the port of a Parameter or Const says what its `data` does not."""
        claim, fact = self._declared(layer, port, value.name), value.fact
        if not isinstance(fact, TensorFact) or fact.dtype is None:
            return
        if claim.dtype not in (None, fact.dtype):
            message = f"its port says {claim.dtype}, its data {fact.dtype}"
            self._findings.warning("OV0112", message, layer, "the port is not looked at")
        if claim.shape is not None and fact.shape is not None and not _agrees(claim.shape, fact.shape):
            message = f"its port says {TensorFact(fact.dtype, claim.shape)}, its data {fact}"
            self._findings.warning("OV0112", message, layer, "the port is not looked at")

    def _result(self, layer: Element, port: Element, index: int | None, *, knows_fact: bool) -> Value:
        said = port.attributes.get("names") if self._names_tensors else None
        names = _split(said) if said else ()
        name = names[0] if names else layer.attributes["name"]
        if index is not None and not names:
            name = f"{name}.{index}"
        taken = self._taken
        chosen = name if name and name not in taken else unique(name or "value", taken, self._counters)
        taken.add(chosen)
        value = Value(chosen, self._declared(layer, port, chosen)) if knows_fact else Value(chosen)
        if len(names) > 1 or (names and chosen != name):
            value.notes[NAMES] = names
        return value

    def _declared(self, layer: Element, port: Element, name: str) -> TensorFact:
        """What a port claims of its value; open dims are called after it."""
        dims = () if port.dims is None else tuple(port.dims)
        key = port.attributes.get("precision", ""), dims
        if key in self._facts:
            fact = self._facts[key]
        else:
            fact = self._facts[key] = self._fact(layer, *key)
        if fact is None or fact.shape is None or -1 not in fact.shape:
            return fact or TensorFact(None, None)
        shape = tuple(Symbol(f"{name}.{axis}") if dim == -1 else dim for axis, dim in enumerate(fact.shape))
        return TensorFact(fact.dtype, shape)

    def _fact(self, layer: Element, precision: str, dims: tuple[str, ...]) -> TensorFact | None:
        """The claim with -1 for open dims, or nothing where it cannot be read."""
        name = elements.name_of(precision)
        if not precision:
            self._findings.error("OV0107", "a port of the layer has no precision", layer, "say FP32, I64, …")
        elif not elements.is_known(name):
            self._findings.error("OV0107", f"a port has the precision {precision[:60]!r}", layer, "say FP32, I64, …")
        elif not elements.is_precision(precision):
            message = f"OpenVINO knows no precision {precision!r}, though it is plain what is meant"
            self._findings.warning("OV0107", message, layer, f"say {elements.precision_of(name)}")
        if not dims:
            # A scalar has no dims, and neither has what may be of any rank.
            return TensorFact(elements.held_as(name), None)
        return TensorFact(elements.held_as(name), tuple(max(-1, leading_int(dim) or 0) for dim in dims))

    def _parameter(self, graph: Graph, layer: Element, results: list[Value]) -> None:
        data = layer.child("data")
        attributes = {} if data is None else data.attributes
        if data is None or len(results) != 1:
            self._findings.error("OV0109", "a Parameter has one output port and an element `data`", layer)
            return
        (value,) = results
        if layer.attributes["type"] != "Parameter":
            message = f"{layer.attributes['type']!r} is taken for a Parameter"
            self._findings.warning("OV0201", message, layer, "spell it Parameter")
        name = attributes.get("element_type", "").lower()
        if not elements.is_known(name):
            self._findings.error("OV0203", f"element_type {name[:60]!r} is no element type", layer, "say f32, i64, …")
        if "shape" not in attributes:
            message = "the Parameter says no shape, and is taken for a scalar"
            self._findings.warning("OV0202", message, layer, 'say shape=""')
        try:
            value.fact = TensorFact(elements.held_as(name), read_shape(attributes.get("shape", ""), value.name))
        except UnreadableError as error:
            self._findings.error("OV0204", f"shape: {error}", layer, "write it as in 1,3,?,2..5")
        value.notes[KEY] = layer
        value.origin = self._findings.place(layer)
        graph.adopt_input(value)

    # Edges

    def _edges(self, network: Element, frame: _Frame) -> tuple[tuple[str, ...], ...]:
        found: list[tuple[str, ...]] = []
        sources, targets = frame.sources, frame.targets
        for element in network.children:
            for edge in element.children if element.tag == "edges" else ():
                if edge.tag != "edge":
                    continue
                said = edge.attributes
                try:
                    ends = said["from-layer"], said["from-port"], said["to-layer"], said["to-port"]
                except KeyError as error:
                    self._findings.error("OV0104", f"an edge has no {error.args[0]}")
                    continue
                found.append(ends)
                source, target = sources.get(ends[:2]), targets.get(ends[2:])
                if source is None or target is None:
                    ends = _number(ends[0]) or ends[0], ends[1], _number(ends[2]) or ends[2], ends[3]
                    source, target = sources.get(ends[:2]), targets.get(ends[2:])
                if source is None or target is None:
                    self._lost(frame, ends)
                elif target[0][target[1]] is not None:
                    message = f"two edges end at input port {ends[3]}"
                    self._findings.error("OV0105", message, frame.layers[ends[2]], "remove one of them")
                else:
                    target[0][target[1]] = source
        for layer, operands in (*((layer, operands) for layer, operands, _ in frame.nodes), *frame.results):
            for index, value in enumerate(operands):
                if value is None:
                    message = f"nothing is connected to its input {index}"
                    self._findings.error("OV0106", message, layer, "add the edge, or remove the port")
        return tuple(found)

    def _lost(self, frame: _Frame, ends: tuple[str, str, str, str]) -> None:
        """Say which end of an edge is not there."""
        for (number, port), known, what in ((ends[:2], frame.sources, "output"), (ends[2:], frame.targets, "input")):
            if (number, port) in known:
                continue
            layer = frame.layers.get(number)
            where = f"layer {number[:60]}" if layer is None else f"its {what} port {port[:60]}"
            message = f"an edge names {where}, which does not exist"
            self._findings.error("OV0104", message, layer, "an edge joins an output port to an input port")

    # Nodes

    def _node(
        self,
        graph: Graph,
        layer: Element,
        operands: list[Value | None],
        results: list[Value],
        bodies: dict[Element, Graph],
    ) -> None:
        said = layer.attributes
        data = None
        for child in layer.children:
            if child.tag == "data":
                data = child.attributes
                break
        key = said["type"], said["version"], *(() if data is None else data.items())
        read = self._read.get(key)
        if read is None:
            read = self._read[key] = _attributes(said["type"], said["version"], data or {})
        for complaint in read.complaints:
            report = self._findings.error if complaint.is_error else self._findings.warning
            report(complaint.code, complaint.message, layer, complaint.help)
        attributes = read.attributes
        if layer.children and layer.children[-1].tag in subgraphs.BODIES:
            attributes = attributes | subgraphs.attributes(layer, bodies, self._findings)
        node = Node(
            read.word,
            operands,
            results,
            attributes,
            dialect=DIALECT,
            name=said["name"],
            origin=self._findings.later(layer),
        )
        node.notes[KEY] = layer
        graph.append(node)

    def _order(self, graph: Graph) -> None:
        cycle = rewrite.sort(graph)
        if cycle:
            names = ", ".join(f'"{node.name}"' for node in cycle[:5])
            layer = cycle[0].notes[KEY]
            place = layer if isinstance(layer, Element) else None
            self._findings.error("OV0110", f"layers wait for each other: {names}", place, "a network has no cycles")


def _number(text: str) -> str | None:
    """The number that a text is, as it is spelled without blanks, sign and zeros in front; `None` if it is none."""
    if _PLAIN.fullmatch(text):
        return text
    match = _NUMBER.fullmatch(text)
    return None if match is None or int(match[1]) > _LARGEST else str(int(match[1]))


def _kind(layer: Element) -> str:
    """The type of a layer; a Parameter is one in any case, the others that are no operations are not."""
    type = layer.attributes["type"]
    return "Parameter" if type.lower() == "parameter" else type


def _agrees(claim: tuple[Dim, ...], shape: tuple[Dim, ...]) -> bool:
    """Whether a shape may be what a port says of it."""
    if len(claim) != len(shape):
        return False
    for said, dim in zip(claim, shape, strict=True):
        low, high = bounds(dim)
        if isinstance(said, int) and (said < (low or 0) or (high is not None and said > high)):
            return False
    return True


def _layers(network: Element) -> list[Element]:
    return [
        layer
        for element in network.children
        if element.tag == "layers"
        for layer in element.children
        if layer.tag == "layer"
    ]


def _split(names: str) -> tuple[str, ...]:
    """Names of a tensor: separated by commas, one inside of a name has a backslash in front."""
    if "," not in names:
        return (names,)
    found = (name.replace("\\,", ",") for name in _ESCAPED_COMMA.split(names))
    return tuple(name for name in found if name)


def _attributes(type: str, version: str, data: dict[str, str]) -> _Read:
    complaints: list[_Complaint] = []
    operator = operators.operator(type, version)
    exact = _EXACT.get(type.lower())
    if exact is not None:
        complaints.append(_Complaint(True, "OV0201", f"there is no type {type!r}", f"it is spelled {exact}"))  # noqa: FBT003
    elif type.lower() == "result":
        remedy = "spell it Result, or it is no output"
        complaints.append(_Complaint(False, "OV0201", f"{type!r} is not taken for an output", remedy))  # noqa: FBT003
    if operator is None:
        remedy = "it is kept as it stands"
        message = f"{version[:60]} has no operation {type[:60]!r}"
        complaints.append(_Complaint(False, "OV0201", message, remedy))  # noqa: FBT003
        kept: dict[str, Attribute] = {name.replace("-", "_"): text for name, text in data.items()}
        return _Read(f"{version}.{type}", kept, tuple(complaints))
    number = operators.set_of(version)
    if number is not None and number > operator.last:
        message = f"{version} has no {operator.type}; that of opset{operator.last} is taken"
        complaints.append(_Complaint(False, "OV0201", message, f"say opset{operator.first}"))  # noqa: FBT003
    return _Read(operator.word, _typed(operator, data, complaints), tuple(complaints))


def _typed(operator: Operator, data: dict[str, str], complaints: list[_Complaint]) -> dict[str, Attribute]:
    """All attributes that the operation has, each with its value of the file or its default."""
    attributes = dict(operator.defaults)
    known = {keyword.spelling: keyword for keyword in operator.keywords}
    for spelling, text in data.items():
        keyword = known.get(spelling)
        if keyword is None:
            message = f"{operator.type} has no attribute {spelling[:60]!r}, which is ignored"
            complaints.append(_Complaint(False, "OV0205", message, None))  # noqa: FBT003
            continue
        try:
            attributes[keyword.name] = operators.read(keyword, text)
        except operators.UnreadableError as error:
            # What is no bool is not read at all, and the default stands: that is how the runtime does it.
            is_error = keyword.kind != "bool"
            remedy = None if is_error else f"{keyword.text} is taken"
            complaints.append(_Complaint(is_error, "OV0203", f"{spelling}: {error}", remedy))
    for keyword in operator.keywords:
        if keyword.spelling in data:
            continue
        if keyword.text is None and not _is_padded(keyword.spelling, attributes):
            message = f"{operator.type} has no {keyword.spelling}, which it needs"
            complaints.append(_Complaint(True, "OV0202", message, f"add {keyword.spelling}=…"))  # noqa: FBT003
        elif (operator.type, keyword.spelling) == ("Reshape", "special_zero"):
            message = "Reshape has no special_zero, which it needs"
            complaints.append(_Complaint(False, "OV0202", message, "false is taken"))  # noqa: FBT003
    if attributes.get("auto_broadcast") in _NO_BROADCAST:
        del attributes["auto_broadcast"]
    return attributes


def _is_padded(spelling: str, attributes: dict[str, Attribute]) -> bool:
    """Whether the amounts of padding may be left out: they are computed."""
    return spelling.startswith("pads_") and attributes.get("auto_pad", "explicit") not in ("explicit", "notset")
