"""Insert casts to and from half precision, and convert graphs to single precision."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.spill import store_converted
from graphport.core.storage import Storage
from graphport.ir import rewrite
from graphport.ir.graph import Node, Value, walk
from graphport.quantization.placement import is_float32

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Attribute, Graph

NARROW = frozenset({DType.FLOAT16, DType.BFLOAT16})


def insert_casts(
    graph: Graph, halves: Collection[Node], to: DType, *, keep_io: bool, wide: Collection[Value] = ()
) -> Graph:
    """Return a copy of `graph` whose nodes `halves` compute in `to`; inputs and outputs as well, unless they are kept.

    Outputs that are `wide` keep their type in any case.
    """
    twin = rewrite.copy(graph)
    chosen = {new for old, new in zip(graph, twin, strict=True) if old in halves}
    kept = {new for old, new in zip(graph.outputs, twin.outputs, strict=True) if old in wide}
    return _Halving(twin, chosen, to, keep_io=keep_io, kept=kept).run()


class _Halving:
    """Rewriter of one graph: each float value has at most one narrow and one wide form."""

    def __init__(self, graph: Graph, chosen: set[Node], to: DType, *, keep_io: bool, kept: set[Value]) -> None:
        self.graph = graph
        self.chosen = chosen
        self.to = to
        self.keep_io = keep_io
        self.kept = kept
        self.narrow: dict[Value, Value] = {}
        self.wide: dict[Value, Value] = {}

    def run(self) -> Graph:
        nodes = list(self.graph)
        outputs = [value for value in self.graph.outputs if not value.is_input]
        reals = {value for value in outputs if is_float32(value)}
        if not self.keep_io:
            for value in self.graph.inputs:
                if is_float32(value) and any(user in self.chosen for user in value.users):
                    self._retype(value)
        for node in nodes:
            if node in self.chosen:
                self._half(node)
            else:
                self._single(node)
        for value in dict.fromkeys(outputs):
            if value not in reals:
                continue
            is_narrow = value.fact.dtype is self.to if isinstance(value.fact, TensorFact) else False
            if is_narrow and self.keep_io:
                self._deliver(value, self._widened(value))
            elif not is_narrow and not self.keep_io and value not in self.kept:
                self._deliver(value, self._narrowed(value))
        rewrite.remove_dead(self.graph)
        for value in [value for value in self.graph.constants if not value.uses and value in self.narrow]:
            self.graph.remove_constant(value)
        return self.graph

    def _half(self, node: Node) -> None:
        for index, value in enumerate(node.inputs):
            if value is not None and is_float32(value):
                node.set_input(index, self._narrowed(value))
        for value in node.results:
            if is_float32(value):
                self._retype(value)
        for name, attribute in node.attributes.items():
            if attribute is DType.FLOAT32:
                node.attributes[name] = self.to

    def _single(self, node: Node) -> None:
        for index, value in enumerate(node.inputs):
            if value is not None and _is(value, self.to):
                node.set_input(index, self._widened(value))
        for value in rewrite.captured(node):
            if _is(value, self.to):
                other = self._widened(value)
                for inner in [inner for body in node.bodies() for inner in walk(body)]:
                    for reader in inner:
                        for index, operand in enumerate(reader.inputs):
                            if operand is value:
                                reader.set_input(index, other)

    def _retype(self, value: Value) -> None:
        value.fact = _typed(value, self.to)

    def _narrowed(self, value: Value) -> Value:
        if value not in self.narrow:
            if value.is_constant and value.storage is not None:
                stored = store_converted(value.storage.numpy(), self.to)
                made = self.graph.add_constant(f"{value.name}_half", TensorFact.of(stored), stored)
            else:
                made = self._cast(value, self.to, "half")
            self.narrow[value] = made
        return self.narrow[value]

    def _widened(self, value: Value) -> Value:
        if value not in self.wide:
            self.wide[value] = self._cast(value, DType.FLOAT32, "single")
        return self.wide[value]

    def _cast(self, value: Value, to: DType, name: str) -> Value:
        made = Value(self.graph.fresh(f"{value.name}_{name}"), _typed(value, to))
        node = Node("Cast", [value], [made], {"to": to})
        self.graph.insert_after(value.producer if value.graph is self.graph else None, node)
        return made

    def _deliver(self, value: Value, other: Value) -> None:
        """Return `other` in place of output `value`, with its name."""
        for index, output in enumerate(self.graph.outputs):
            if output is value:
                self.graph.set_output(index, other)
        rewrite.swap_names(value, other)


def widened(graph: Graph, *, keep_io: bool) -> Graph:
    """Return a copy of `graph` with all narrow types, also in bodies, replaced by single precision."""
    twin = rewrite.copy(graph)
    given = {value: value.fact for value in [*twin.inputs, *twin.outputs] if isinstance(value.fact, TensorFact)}
    for inner in list(walk(twin)):
        for value in list(inner.values()):
            if not isinstance(value.fact, TensorFact) or value.fact.dtype not in NARROW:
                continue
            if value.storage is not None:
                value.storage = store_converted(value.storage.numpy(), DType.FLOAT32)
            value.fact = _typed(value, DType.FLOAT32)
        for node in list(inner):
            for name, attribute in list(node.attributes.items()):
                node.attributes[name] = _widen_attribute(attribute)
            source = node.operand(0)
            if node.op_type == "Cast" and not node.dialect and source is not None and _is(source, DType.FLOAT32):
                _skip(node)
    if keep_io:
        _restore(twin, {value: fact for value, fact in given.items() if fact.dtype in NARROW})
    rewrite.remove_dead(twin)
    return twin


def narrow_interface(graph: Graph, source: Graph) -> None:
    """Insert casts at float32 inputs and outputs of `graph` that are float16 or bfloat16 in `source`."""
    types = {value.name: value.fact for value in [*source.inputs, *source.outputs]}
    given = {value: types.get(value.name) for value in [*graph.inputs, *graph.outputs] if is_float32(value)}
    _restore(graph, {x: fact for x, fact in given.items() if isinstance(fact, TensorFact) and fact.dtype in NARROW})


def _skip(node: Node) -> None:
    """Remove a cast that has no effect any more."""
    if node.attributes.get("to") is DType.FLOAT32 and not node.output.is_output:
        node.output.replace_uses(node.operands[0])


def _restore(graph: Graph, facts: dict[Value, TensorFact]) -> None:
    """Restore the narrow types of inputs and outputs."""
    for value, fact in facts.items():
        dtype = fact.dtype
        if dtype is None:
            continue
        other = Value(graph.fresh(f"{value.name}_single"), value.fact)
        if value.is_input:
            readers = Node("Cast", [value], [other], {"to": DType.FLOAT32})
            if graph.first_node is None:
                continue
            graph.insert_before(graph.first_node, readers)
            value.replace_uses(other, keep=[readers])
        else:
            graph.append(Node("Cast", [value], [other], {"to": dtype}))
            for index, output in enumerate(graph.outputs):
                if output is value:
                    graph.set_output(index, other)
            rewrite.swap_names(value, other)
            other.fact = _typed(other, dtype)
            continue
        value.fact = _typed(value, dtype)


def _widen_attribute(attribute: Attribute) -> Attribute:
    if isinstance(attribute, DType):
        return DType.FLOAT32 if attribute in NARROW else attribute
    if isinstance(attribute, Storage) and attribute.dtype in NARROW:
        return store_converted(attribute.numpy(), DType.FLOAT32)
    return attribute


def _is(value: Value, dtype: DType) -> bool:
    return value.dtype is dtype


def _typed(value: Value, dtype: DType) -> TensorFact:
    fact = value.fact
    if not isinstance(fact, TensorFact):
        return TensorFact(dtype, None)
    return replace(fact, dtype=dtype, reals=None)
