"""Build dialect graphs from the graphs of a program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.names import unique
from graphport.formats.pytorch.pt2.arguments import ArgumentReader, Arguments
from graphport.formats.pytorch.pt2.facts import Recorded
from graphport.formats.pytorch.pt2.schema import SchemaError, fail, fields, list_of, name_of, text, union
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.facts import Fact
    from graphport.formats.pytorch.pt2.spans import Spans
    from graphport.formats.pytorch.pt2.symbolic_sizes import Extents
    from graphport.ir.graph import Attribute

DIALECT = "pytorch"
KEYS = "$"
LAYOUT = "pt2.layout"
"""Note of a tensor with known strides: whether it is dense, and the element offset in its storage."""
STRIDED = "pt2.strided"
"""Note of a value that is not contiguous; set only if the program writes in place."""
OVERLOADED = "torch.ops."
_ON_TENSORS = "torch.ops.aten."
_CAST = "aten.to.dtype"
MOST_NESTED = 32
MOST_VALUES = 1 << 22
_ELEMENTS = ("aten.item.default", "aten._local_scalar_dense.default")
_PLAIN_OUTPUTS = ("as_int", "as_float", "as_bool", "as_string", "as_none", "as_complex")


def _is_inplace_operator(node: Any) -> bool:
    """Whether a node calls an in-place operator, by the trailing underscore of its name."""
    target = fields(node, "a node").get("target")
    parts = target.split(".") if isinstance(target, str) else []
    return len(parts) > 3 and parts[3].endswith("_") and not parts[3].endswith("__")


def _takes_strides(node: Any) -> bool:
    target = fields(node, "a node").get("target")
    return isinstance(target, str) and target.startswith("torch.ops.aten.as_strided")


def _dtype(value: Value | None) -> DType | None:
    return value.fact.dtype if value is not None and isinstance(value.fact, TensorFact) else None


def _element(number: Value) -> Value:
    """Return the rank-0 tensor from which a scalar was extracted by `item()`; otherwise the scalar."""
    node = number.producer
    operand = node.operand(0) if node is not None and node.op_type in _ELEMENTS else None
    fact = None if operand is None else operand.fact
    return operand if operand is not None and isinstance(fact, TensorFact) and fact.shape == () else number


WITH_EFFECTS = "torch.ops.higher_order.with_effects"


class Builder:
    """Shared state of all graphs of one program: names, symbolic dims, source locations."""

    def __init__(self, extents: Extents, spans: Spans) -> None:
        self.extents = extents
        self.places = spans
        self.known: dict[Any, TensorFact] = {}
        self._taken: set[str] = set()
        self._counters: dict[str, int] = {}
        self._depth = 0

    def name(self, wanted: str) -> str:
        """Return `wanted`, or a similar name if a graph of the program already uses it."""
        found = unique(wanted or "value", self._taken, self._counters)
        self._taken.add(found)
        if len(self._taken) > MOST_VALUES:
            fail(f"the program has more than {MOST_VALUES} values")
        return found

    def body(self, found: Any) -> Graph:
        """Read a graph that is an argument of a node."""
        named = fields(found, "a graph")
        self._depth += 1
        if self._depth > MOST_NESTED:
            fail(f"graphs are nested more than {MOST_NESTED} levels deep")
        reader = GraphReader(self, fields(named.get("graph"), "a graph"), text(named.get("name", ""), "its name"))
        for argument in list_of(reader.document.get("inputs"), "the inputs of a body"):
            reader.adopt(argument)
        reader.nodes()
        for argument in list_of(reader.document.get("outputs"), "the outputs of a body"):
            reader.made.add_output(reader.output(argument))
        self._depth -= 1
        return reader.made


def _without_token(node: dict[str, Any]) -> dict[str, Any]:
    """Replace `with_effects` by the operator that it calls; the order of the nodes replaces the effect tokens."""
    given, results = list_of(node.get("inputs"), "its arguments"), list_of(node.get("outputs"), "its results")
    kind, operator = union(fields(given[1], "the operator").get("arg"), "the operator") if len(given) > 1 else ("", "")
    if kind != "as_operator" or not results:
        fail("the node does not call an operator")
    rest = [fields(argument, "an argument") for argument in given[2:]]
    named = [argument | {"name": argument.get("name") or f"#{place}"} for place, argument in enumerate(rest)]
    return node | {"target": operator, "inputs": named, "outputs": results[1:]}


class GraphReader:
    """Reader of one graph of a program."""

    def __init__(self, builder: Builder, document: dict[str, Any], name: str) -> None:
        self.document = document
        self.made = Graph(name or "main")
        self._builder = builder
        self.recorded = Recorded(document, builder.extents, builder.known)
        self._values: dict[str, Value] = {}
        self._narrowed: dict[Value, Value] = {}
        self._writes = any(_is_inplace_operator(node) for node in list_of(document.get("nodes"), "the nodes"))
        self._takes_strides = any(_takes_strides(node) for node in list_of(document.get("nodes"), "the nodes"))
        self._arguments = ArgumentReader(self.lookup, self._constant, builder.body)

    # Values

    def lookup(self, name: str) -> Value:
        """Return the value with this name in the program.

        Raises:
            SchemaError: no input and no earlier node defines it.
        """
        value = self._values.get(name)
        return value if value is not None else fail(f"undefined value {name!r}")

    def value(self, name: str, fact: Fact, own: str | None = None) -> Value:
        """Create the value for `name` of the program; its name in the graph is `own`.

        Raises:
            SchemaError: the name is already defined.
        """
        if name in self._values:
            fail(f"duplicate value {name!r}")
        found = self._values[name] = Value(self._builder.name(own or name), fact)
        if self._takes_strides:
            found.notes[LAYOUT] = self.recorded.is_dense(name), self.recorded.offset(name)
        return found

    def adopt(self, argument: Any) -> Value:
        """Add an input of a subgraph."""
        found = self._result(argument)
        return self.made.adopt_input(found) if found is not None else fail("an input of a subgraph is not a value")

    def output(self, argument: Any) -> Value:
        """Return an output of a subgraph as a value; a static scalar is a constant."""
        kind, value = union(argument, "an output")
        if kind in ("as_tensor", "as_custom_obj"):
            return self.lookup(name_of(value, "an output"))
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            inner, chosen = union(value, "an output")
            if inner == "as_name":
                return self.lookup(text(chosen, "an output"))
            kind, value = inner, chosen
        if kind in ("as_int", "as_float", "as_bool"):
            from graphport.core.storage import storage_of

            storage = storage_of(value)
            return self._constant(TensorFact.of(storage), storage)
        return fail(f"a subgraph returns {kind}, which is not supported")

    def _constant(self, fact: TensorFact, storage: Any) -> Value:
        return self.made.adopt_constant(Value(self._builder.name("number"), fact, storage=storage))

    # Nodes

    def nodes(self) -> None:
        """Read all nodes, in topological order.

        Raises:
            SchemaError: an entry is not a node.
        """
        for index, found in enumerate(list_of(self.document.get("nodes"), "the nodes")):
            node = fields(found, f"node {index}")
            name = node.get("name") or f"node {index}"
            try:
                self._node(node, str(name))
            except SchemaError as error:
                message = (
                    str(error) if getattr(error, "is_placed", False) else f"{name} ({node.get('target')}): {error}"
                )
                placed = SchemaError(message)
                placed.is_placed = True  # pyright: ignore[reportAttributeAccessIssue]  reported once, by the innermost
                raise placed from error

    def _node(self, node: dict[str, Any], name: str) -> None:
        target = text(node.get("target"), "the target")
        if target == WITH_EFFECTS:
            node = _without_token(node)
            target = text(node.get("target"), "the target")
        arguments = Arguments()
        for place, argument in enumerate(list_of(node.get("inputs"), "its arguments")):
            self._arguments.read(argument, arguments, place)
        results = self._results(node)
        attributes: dict[str, Attribute] = arguments.attributes
        if arguments.operands:
            attributes[KEYS] = tuple(arguments.keys)
        origin = self._builder.places, self._builder.places.add(name, node.get("metadata"))
        if target.startswith(_ON_TENSORS):
            self._cast_scalars_to_float32(arguments, results)
        op_type = target.removeprefix(OVERLOADED)
        self.made.append(
            Node(op_type, arguments.operands, results, attributes, dialect=DIALECT, name=name, origin=origin)
        )

    def _cast_scalars_to_float32(self, arguments: Arguments, results: Sequence[Value | None]) -> None:
        """Cast run-time Python floats, which have 64 bits, to float32 before operators on tensors, like PyTorch.

        Does not apply if an operand is a float64 tensor, if the results are integers, or if no operand is a tensor.
        """
        tensors = [x for place, x in enumerate(arguments.operands) if place not in arguments.numbers]
        result = _dtype(results[0]) if results else None
        if result is None or result is DType.FLOAT64 or result.is_integer or not tensors:
            return
        if any(_dtype(value) is DType.FLOAT64 for value in tensors):
            return
        for place in sorted(arguments.numbers):
            value = arguments.operands[place]
            if value is not None and _dtype(value) is DType.FLOAT64:
                arguments.operands[place] = self._single(value)

    def _single(self, number: Value) -> Value:
        found = self._narrowed.get(number)
        if found is None:
            fact = TensorFact(DType.FLOAT32, ())
            found = self._narrowed[number] = Value(self._builder.name(f"{number.name}_single"), fact)
            source = _element(number)
            self.made.append(
                Node(_CAST, [source], [found], {KEYS: ("self",), "dtype": "torch.float32"}, dialect=DIALECT)
            )
        return found

    def _results(self, node: dict[str, Any]) -> list[Value | None]:
        found: list[Value | None] = []
        for argument in list_of(node.get("outputs"), "its results"):
            kind, value = union(argument, "a result")
            if kind == "as_tensors":
                found += [self._tensor(name_of(item, "a result")) for item in list_of(value, "a result")]
            elif kind == "as_optional_tensors":
                found += [self._result(item) for item in list_of(value, "a result")]
            else:
                found.append(self._result(argument))
        return found

    def _tensor(self, name: str) -> Value:
        found = self.value(name, self.recorded.tensor(name))
        if self._writes and not self.recorded.is_dense(name):
            found.notes[STRIDED] = True
        return found

    def _result(self, argument: Any) -> Value | None:
        kind, value = union(argument, "a result")
        match kind:
            case "as_tensor" | "as_custom_obj":
                return self._tensor(name_of(value, "a result"))
            case "as_none":
                return None
            case "as_sym_int" | "as_sym_bool" | "as_sym_float":
                inner, name = union(value, "a result")
                if inner != "as_name":
                    return None
                named = text(name, "a result")
                facts = {"as_sym_int": self.recorded.integer, "as_sym_bool": self.recorded.flag}
                return self.value(named, facts.get(kind, self.recorded.float_fact)(named))
            case _ if kind in _PLAIN_OUTPUTS:
                return None
            case _:
                return fail(f"a result is {kind}")
