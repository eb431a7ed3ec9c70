"""Convert the XML tree of an IR file to a graph of the dialect `openvino`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.names import unique
from graphport.formats.openvino.container import constants, elements, operators, subgraphs
from graphport.formats.openvino.container.attributes import LayerAttributes, attributes
from graphport.formats.openvino.container.notes import KEY, NAMES, Header
from graphport.formats.openvino.container.ports import Claim, Output, PortReader, normalize_integer, split
from graphport.formats.openvino.container.shapes import UnreadableError, read_shape
from graphport.formats.openvino.container.xml import Element, Ends, Layer
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from graphport.core.storage import MappedFile
    from graphport.formats.openvino.container.findings import Findings

DIALECT = "openvino"
_NEEDED = ("id", "name", "type", "version")
_NEEDED_SET = frozenset(_NEEDED)
_EDGE = ("from-layer", "from-port", "to-layer", "to-port")
_NO_OPERATIONS = ("Parameter", "Const", "Result")
_NOTHING_STATED = LayerAttributes("", {}, ())


class _LayerKind(NamedTuple):
    """Properties shared by layers of one type and version with equal children."""

    type: str
    """`Parameter`, `Const`, `Result`, or empty for any operation."""
    stated: LayerAttributes
    """Op type and attributes of an operation."""
    inputs: dict[str, int]
    """The operand of each input port by number."""
    operands: tuple[Claim | None, ...]
    results: dict[str, int]
    """The result of each output port by number."""
    outputs: tuple[Output, ...]
    has_bodies: bool
    fact: TensorFact | None
    """The port's claim, for an operation with one result that is named like its layer and has no open dims."""


_Layer = tuple[Element, _LayerKind, list[Value | None], list[Value]]
"""A layer during graph construction: its unconnected operands and its results."""


class Networks:
    """Build the graphs of one file: the network and every body."""

    def __init__(self, findings: Findings, weights: MappedFile | None, *, names_tensors: bool) -> None:
        self._findings = findings
        self._constants = constants.Constants(findings, weights)
        self._weights = weights
        self._ports = PortReader(findings, names_tensors=names_tensors)
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}
        self._stated: dict[tuple[Any, ...], LayerAttributes] = {}
        self._forms: dict[tuple[int, str, str], _LayerKind] = {}
        self._known_sets: set[tuple[str, str]] = set()

    def graph(self, root: Element) -> Graph:
        """Build the graph of a network. Bodies are built first; they do not refer to values of the outer graph."""
        order = [root]
        for network in order:
            order += [body for layer in _layers(network) for body in layer.children if body.tag in subgraphs.BODIES]
        made: dict[Element, Graph] = {}
        for network in reversed(order):
            made[network] = self._network(network, made)
        return made[root]

    def _network(self, network: Element, bodies: dict[Element, Graph]) -> Graph:
        graph = Graph(network.attributes.get("name") or network.tag)
        before = self._constants.count
        if sum(child.tag == "layers" for child in network.children) > 1:
            self._findings.error("OV0111", "duplicate section: layers", None, "merge them into one section")
        layers = self._identified(network, graph)
        edges = self._edges(network)
        self._connect(layers, edges)
        results = self._nodes(layers, graph, bodies)
        graph.set_outputs([value for _, value in results])
        kept = Element(network.tag, network.attributes)
        kept.children = [child for child in network.children if child.tag not in ("layers", "edges")]
        outputs = tuple(layer for layer, _ in results)
        graph.notes[KEY] = Header(kept, outputs, edges, self._weights, self._constants.count - before)
        return graph

    # Layers and their values

    def _identified(self, network: Element, graph: Graph) -> dict[str, _Layer]:
        """Create the layers of a network with their results; return them by layer id, in the order of the file."""
        found: dict[str, _Layer] = {}
        taken = self._taken
        for element in _layers(network):
            if type(element) is Layer and element.number not in found:
                number, name = element.number, element.name
                form = element.spelling.form
                if type(form) is not _LayerKind:
                    form = element.spelling.form = self._read_kind(element)
                if form.fact is not None and not element.names and name and name not in taken:
                    taken.add(name)
                    found[number] = element, form, [None] * len(form.operands), [Value(name, form.fact)]
                    continue
            else:
                stated = element.attributes
                number = normalize_integer(stated.get("id", ""))
                if number is None or number in found or not stated.keys() >= _NEEDED_SET:
                    self._refuse(element, number)
                    continue
                form, name = self._find_kind(element), stated["name"]
            results = self._results(form, name, element.names)
            found[number] = element, form, [None] * len(form.operands), results
            if form.type:
                self._source(graph, element, form, results)
        return found

    def _find_kind(self, layer: Element) -> _LayerKind:
        key = id(layer.children), layer.attributes["type"], layer.attributes["version"]
        form = self._forms.get(key)
        if form is None:
            form = self._forms[key] = self._read_kind(layer)
        return form

    def _refuse(self, layer: Element, number: str | None) -> None:
        missing = [name for name in _NEEDED if name not in layer.attributes]
        if missing:
            message = f"missing attributes of the layer: {', '.join(missing)}"
            self._findings.error("OV0101", message, layer, "add them: every layer has id, type and version")
        elif number is None:
            message = f"layer id {layer.attributes['id'][:60]!r} is not an integer of 0 or more"
            self._findings.error("OV0102", message, layer, "set the id to an unused integer")
        else:
            message = f"duplicate layer id {number}"
            self._findings.error("OV0103", message, layer, "change the id of one of the layers")

    def _read_kind(self, layer: Element) -> _LayerKind:
        type, version = layer.attributes["type"], layer.attributes["version"]
        # Only `Parameter` is matched in any letter case.
        kind = "Parameter" if type.lower() == "parameter" else type if type in _NO_OPERATIONS else ""
        if kind and (type, version) not in self._known_sets:
            self._known_sets.add((type, version))
            if operators.operator(type, version) is None:
                message = f"{version[:60]!r} is not an operation set that defines {type}"
                self._findings.warning("OV0201", message, layer, "say opset1")
        inputs, operands, positions, outputs = self._ports.ports(layer)
        if kind == "Result":
            operands, positions, outputs = operands or (None,), {}, ()
        stated = _NOTHING_STATED if kind else self._attributes(layer, type, version)
        has_bodies = any(child.tag in subgraphs.BODIES for child in layer.children)
        return _LayerKind(
            kind, stated, inputs, operands, positions, outputs, has_bodies, None if kind else _fact_of(outputs)
        )

    def _attributes(self, layer: Element, type: str, version: str) -> LayerAttributes:
        element = layer.child("data")
        data = {} if element is None else element.attributes
        key = type, version, *data.items()
        found = self._stated.get(key)
        if found is None:
            found = self._stated[key] = attributes(type, version, data)
        return found

    def _results(self, form: _LayerKind, layer: str, stated: Sequence[str]) -> list[Value]:
        """Create the results of layer `layer`, named by their tensor names; open dims get symbols named after them."""
        taken, outputs = self._taken, form.outputs
        results: list[Value] = []
        for names, claim, place in outputs:
            if stated and place >= 0:
                names = split(stated[place])  # noqa: PLW2901  the others are those of the layer that it is like
            name = names[0] if names else layer if len(outputs) == 1 else f"{layer}.{len(results)}"
            chosen = name if name and name not in taken else unique(name or "value", taken, self._counters)
            taken.add(chosen)
            value = Value(chosen, UNKNOWN if form.type else claim.of(chosen) if claim.is_open else claim.fact)
            if len(names) > 1 or (names and chosen != name):
                value.notes[NAMES] = names
            results.append(value)
        return results

    def _source(self, graph: Graph, layer: Element, form: _LayerKind, results: list[Value]) -> None:
        if form.type == "Const":
            self._constants.fill(graph, layer, results)
        elif form.type == "Parameter":
            self._parameter(graph, layer, results)
        for output, value in zip(form.outputs, results, strict=True):
            if output.claim.fact == value.fact:
                # One fact for all that are alike: much is remembered by identity.
                value.fact = output.claim.fact
            else:
                self._ports.hold_against(layer, output, value)

    def _parameter(self, graph: Graph, layer: Element, results: list[Value]) -> None:
        data = layer.child("data")
        stated = {} if data is None else data.attributes
        if data is None or len(results) != 1:
            self._findings.error("OV0109", "a Parameter has one output port and an element `data`", layer)
            return
        (value,) = results
        if layer.attributes["type"] != "Parameter":
            message = f"the reader treats a layer of type {layer.attributes['type']!r} as a Parameter"
            self._findings.warning("OV0201", message, layer, "write Parameter")
        name = stated.get("element_type", "").lower()
        if not elements.is_element_type(name):
            self._findings.error("OV0203", f"unknown element_type {name[:60]!r}", layer, "say f32, i64, …")
        if "shape" not in stated:
            message = "the Parameter declares no shape; the reader treats it as a scalar"
            self._findings.warning("OV0202", message, layer, 'say shape=""')
        try:
            value.fact = TensorFact(elements.storage_dtype(name), read_shape(stated.get("shape", ""), value.name))
        except UnreadableError as error:
            self._findings.error("OV0204", f"shape: {error}", layer, "write a shape such as 1,3,?,2..5")
        value.notes[KEY] = layer
        value.origin = self._findings.location(layer)
        graph.adopt_input(value)

    # Edges

    def _edges(self, network: Element) -> tuple[Ends, ...]:
        found: list[Ends] = []
        for element in network.children:
            if element.tag == "edges":
                found += element.ends
                found += self._expanded(element)
        return tuple(found)

    def _expanded(self, element: Element) -> Iterator[Ends]:
        """Yield the ends of each `edge` among the children of an element."""
        for edge in element.children:
            if edge.tag != "edge":
                continue
            missing = [name for name in _EDGE if name not in edge.attributes]
            if missing:
                self._findings.error("OV0104", f"missing attributes of an edge: {', '.join(missing)}")
                continue
            a, b, c, d = map(edge.attributes.__getitem__, _EDGE)
            yield a, b, c, d

    def _connect(self, layers: dict[str, _Layer], edges: tuple[Ends, ...]) -> None:
        for ends in edges:
            source, output, target, input = ends
            try:
                _, form, _, results = layers[source]
                index = form.results[output]
                _, other, operands, _ = layers[target]
                place = other.inputs[input]
            except KeyError:
                # A port number has several spellings (`7`, `07`, `+7`).
                a, b, c, d = (normalize_integer(end) or end for end in ends)
                try:
                    self._join(layers, a, b, c, d)
                except KeyError:
                    self._lost(layers, a, b, c, d)
                continue
            claim, value = other.operands[place], results[index]
            # Most input ports claim exactly what the output port claims.
            if operands[place] is None and (claim is None or claim.fact is value.fact):
                operands[place] = value
            else:
                self._join(layers, source, output, target, input)

    def _join(self, layers: dict[str, _Layer], source: str, output: str, target: str, input: str) -> None:
        """Connect the operand at the end of an edge to the value at its start.

        Raises:
            KeyError: one of the two does not exist.
        """
        _, form, _, results = layers[source]
        index = form.results[output]
        element, other, operands, _ = layers[target]
        place = other.inputs[input]
        value = results[index]
        if operands[place] is not None:
            self._findings.error(
                "OV0105", f"several edges connect to input port {input}", element, "remove all but one"
            )
        operands[place] = value
        claim = other.operands[place]
        if claim is not None and (form.type or claim is not form.outputs[index].claim):
            self._ports.hold_together(element, input, claim, value)

    def _lost(self, layers: dict[str, _Layer], source: str, output: str, target: str, input: str) -> None:
        """Report the missing layer or port of an edge: a warning if the target layer is missing, else an error."""
        if target not in layers:
            # The runtime traverses from the results backwards and never reaches this edge.
            message = f"an edge connects to the undefined layer {target[:60]}"
            self._findings.warning(
                "OV0104",
                message,
                layers[source][0] if source in layers else None,
                "remove the edge; the reader ignores it",
            )
            return
        for number, port, what in ((source, output, "output"), (target, input, "input")):
            layer, form = layers[number][:2] if number in layers else (None, None)
            if form is not None and port in (form.results if what == "output" else form.inputs):
                continue
            where = f"layer {number[:60]}" if layer is None else f"its {what} port {port[:60]}"
            message = f"an edge refers to {where}, which does not exist"
            self._findings.error("OV0104", message, layer, "connect an output port to an input port")

    # Nodes

    def _nodes(
        self, layers: dict[str, _Layer], graph: Graph, bodies: dict[Element, Graph]
    ) -> list[tuple[Element, Value]]:
        """Append the operations to `graph`; return each Result layer with its operand."""
        findings, append = self._findings, graph.append_new
        returned: list[tuple[Element, Value]] = []
        is_sorted = True
        first = findings.deferred_locations([layer[0] for layer in layers.values()])
        for number, (element, form, operands, results) in enumerate(layers.values(), first):
            if form.type:
                if form.type == "Result":
                    self._check_connected(element, operands)
                    returned += [(element, value) for value in operands[:1] if value is not None]
                continue
            for value in operands:
                if value is None:
                    self._check_connected(element, operands)
                    break
                if value.graph is None:
                    is_sorted = False
            op_type, stated, complaints = form.stated
            for complaint in complaints:
                complaint.report(findings, element)
            origin = findings, number
            name = element.name if type(element) is Layer else element.attributes["name"]
            if not form.has_bodies and None not in operands:
                append(op_type, operands, results, stated, DIALECT, name, origin, {KEY: element})
                continue
            if form.has_bodies:
                stated = {**stated, **subgraphs.attributes(element, bodies, findings)}
            graph.append(
                Node(
                    op_type, operands, results, stated, dialect=DIALECT, name=name, origin=origin, notes={KEY: element}
                )
            )
        if not is_sorted:
            self._order(graph)
        return returned

    def _check_connected(self, layer: Element, operands: list[Value | None]) -> None:
        for index, value in enumerate(operands):
            if value is None:
                message = f"input port {index} is not connected"
                self._findings.error("OV0106", message, layer, "add the edge, or remove the port")

    def _order(self, graph: Graph) -> None:
        cycle = rewrite.sort_topologically(graph)
        if cycle:
            names = ", ".join(f'"{node.name}"' for node in cycle[:5])
            layer = cycle[0].notes[KEY]
            place = layer if isinstance(layer, Element) else None
            self._findings.error(
                "OV0110", f"cyclic graph: {names}", place, "remove the cycle: no layer may depend on its own outputs"
            )


def _fact_of(outputs: Sequence[Output]) -> TensorFact | None:
    """Return the claim of the only output if its tensor is named after the layer and no dim is open."""
    if len(outputs) != 1:
        return None
    (output,) = outputs
    return None if output.names or output.claim.is_open else output.claim.fact


def _layers(network: Element) -> list[Element]:
    return [
        layer
        for element in network.children
        if element.tag == "layers"
        for layer in element.children
        if layer.tag == "layer"
    ]
