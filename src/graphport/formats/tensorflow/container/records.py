"""Nodes and functions of a GraphDef, with inputs as (node or argument, index of the tensor)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

from graphport.formats.tensorflow.container.operators import operator
from graphport.formats.tensorflow.container.schema import dtype_of
from graphport.formats.tensorflow.container.tensors import shape_of
from graphport.ops.declare import MAX_RESULTS

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.formats.tensorflow.container.findings import Findings
    from graphport.formats.tensorflow.container.wire import Message

Ref: TypeAlias = "tuple[str, int]"
"""A tensor: the name of a node or of an argument, and the index among the results of the node."""
CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall", "RemoteCall", "BatchFunction"})


class FunctionRef(NamedTuple):
    """The function that an attribute names."""

    name: str


class Record:
    """A node of a graph or of a function."""

    __slots__ = ("_attributes", "controls", "inputs", "message", "name", "op_type")

    def __init__(self, message: Message, name: str, op_type: str) -> None:
        self.message = message
        self.name = name
        self.op_type = op_type
        self.inputs: tuple[Ref, ...] = ()
        self.controls: tuple[str, ...] = ()
        self._attributes: dict[str, Message] | None = None

    @property
    def attribute_messages(self) -> dict[str, Message]:
        """The attributes as the file has them."""
        if self._attributes is None:
            self._attributes = self.message.map("attributes")
        return self._attributes

    def attribute(self, name: str, findings: Findings) -> Any:
        """One attribute; the default of the operator where the file leaves it out."""
        found = self.attribute_messages.get(name)
        if found is not None:
            return _attribute(found, findings, self.name)
        known = operator(self.op_type)
        return None if known is None else known.defaults.get(name)

    def attributes(self, findings: Findings) -> dict[str, Any]:
        """All attributes that have a value, without the private attributes that TensorFlow's passes add."""
        known = operator(self.op_type)
        found = {} if known is None else dict(known.defaults)
        for name, message in self.attribute_messages.items():
            if not name.startswith("_"):
                found[name] = _attribute(message, findings, self.name)
        return {name: value for name, value in found.items() if value is not None}

    def counts(self, findings: Findings) -> list[tuple[str, int]]:
        """The name and the number of tensors of each result.

        Raises:
            DiagnosticError: TF0201 an attribute has too large a number.
        """
        known = operator(self.op_type)
        if known is None:
            return [("output", 1)]
        found: list[tuple[str, int]] = []
        for name, attribute in known.results:
            stated = self.attribute(attribute, findings) if attribute else 1
            count = (
                stated
                if isinstance(stated, int)
                else len(cast("tuple[Any, ...]", stated))
                if type(stated) is tuple
                else 1
            )
            if not 0 <= count <= MAX_RESULTS:
                help = f"at most {MAX_RESULTS}"
                findings.refuse("TF0201", f"{attribute} is {count}", f"node {self.name}", help)
            found.append((name, count))
        return found

    def count(self, findings: Findings) -> int:
        """The number of tensors that the node computes."""
        return sum(count for _, count in self.counts(findings))


def _attribute(message: Message, findings: Findings, place: str) -> Any:
    """The value of an attribute; `None` for one that the reader has no use for."""
    if message.has("list"):
        inner = message.message("list")
        return () if inner is None else _list(inner, findings, place)
    if message.has("s"):
        return message.bytes("s").decode("utf-8", "backslashreplace")
    if message.has("i"):
        return message.integer("i")
    if message.has("f"):
        return message.float_value("f")
    if message.has("b"):
        return bool(message.integer("b"))
    if message.has("type"):
        return dtype_of(message.integer("type"))
    if message.has("shape"):
        return shape_of(message.message("shape"), findings, f"node {place}")
    function = message.message("func")
    return None if function is None else FunctionRef(function.string("name"))


def _list(message: Message, findings: Findings, place: str) -> tuple[Any, ...]:
    if message.has("s"):
        return tuple(message.strings("s"))
    if message.has("i"):
        return tuple(map(int, message.numeric_elements("i")))
    if message.has("f"):
        return tuple(map(float, message.numeric_elements("f")))
    if message.has("b"):
        return tuple(bool(each) for each in message.numeric_elements("b"))
    if message.has("type"):
        return tuple(dtype_of(int(each)) for each in message.numeric_elements("type"))
    if message.has("func"):
        return tuple(FunctionRef(each.string("name")) for each in message.messages("func"))
    return tuple(shape_of(each, findings, f"node {place}") for each in message.messages("shape"))


@dataclass(slots=True)
class Body:
    """A graph or a function."""

    name: str
    nodes: dict[str, Record] = field(default_factory=dict[str, Record])
    arguments: list[str] = field(default_factory=list[str])
    returns: list[Ref] = field(default_factory=list["Ref"])
    control_returns: list[str] = field(default_factory=list[str])
    loops: Any = None
    """The frames of its loops of TensorFlow 1, found when they are needed."""


def graph_body(message: Message, findings: Findings) -> Body:
    """The nodes of a GraphDef.

    Raises:
        DiagnosticError: TF0201 two nodes have one name, or an input is no tensor.
    """
    body = Body("graph")
    _add_nodes(body, message, findings)

    def read_ref(text: str) -> Ref:
        return _graph_ref(text, findings)

    for record in body.nodes.values():
        _connect(record, read_ref)
    return body


def function_body(message: Message, findings: Findings) -> Body:
    """The nodes, arguments and results of a FunctionDef.

    Raises:
        DiagnosticError: TF0201 as for a graph, or a result is missing.
    """
    signature = message.message("signature")
    body = Body("" if signature is None else signature.string("name"))
    inputs, outputs = ([], []) if signature is None else (signature.messages("inputs"), signature.messages("outputs"))
    body.arguments = [each.string("name") for each in inputs]
    _add_nodes(body, message, findings)

    def read_ref(text: str) -> Ref:
        return _function_ref(body, text, findings)

    for record in body.nodes.values():
        _connect(record, read_ref)
    returns = message.string_map("returns")
    for each in outputs:
        name = each.string("name")
        if name not in returns:
            findings.refuse("TF0201", f"the function output {name} is undefined", f"function {body.name}", _WRITE_AGAIN)
        body.returns.append(_function_ref(body, returns[name], findings))
    body.control_returns = list(message.string_map("control_returns").values())
    return body


_WRITE_AGAIN = "write the file again: the graph is malformed"


def _add_nodes(body: Body, message: Message, findings: Findings) -> None:
    for each in message.messages("nodes"):
        name, op_type = each.string("name"), each.string("op")
        if name in body.nodes or not name or not op_type:
            text = f"duplicate node name {name!r}" if name in body.nodes else "a node has no name or op type"
            findings.refuse("TF0201", text, body.name, _WRITE_AGAIN)
        body.nodes[name] = Record(each, name, op_type)


def _connect(record: Record, parse: Callable[[str], Ref]) -> None:
    inputs: list[Ref] = []
    controls: list[str] = []
    for text in record.message.strings("inputs"):
        if text.startswith("^"):
            controls.append(text[1:])
        else:
            inputs.append(parse(text))
    record.inputs, record.controls = tuple(inputs), tuple(controls)


def _graph_ref(text: str, findings: Findings) -> Ref:
    name, colon, index = text.rpartition(":")
    return (name, _index(index, text, findings)) if colon else (text, 0)


def graph_ref(text: str, findings: Findings) -> Ref:
    """The tensor that a name of a GraphDef means, `node` or `node:1`."""
    return _graph_ref(text, findings)


def _index(text: str, whole: str, findings: Findings) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6:
        findings.refuse("TF0201", f"{whole!r} is not a tensor name", "an input of a node", "write NODE or NODE:INDEX")
    return int(text)


def _function_ref(body: Body, text: str, findings: Findings) -> Ref:
    parts = text.split(":")
    if len(parts) == 1:
        return text, 0
    record = body.nodes.get(parts[0])
    if record is None:
        return parts[0], 0
    index = _index(parts[2], text, findings) if len(parts) > 2 else 0
    for name, count in record.counts(findings):
        if name == parts[1]:
            return parts[0], index
        index += count
    if operator(record.op_type) is None:
        return parts[0], _index(parts[2], text, findings) if len(parts) > 2 else 0
    return findings.refuse("TF0201", f"{record.op_type} has no output {parts[1]!r}", f"node {parts[0]}", _WRITE_AGAIN)
