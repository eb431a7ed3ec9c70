"""A cache of rule results: networks repeat layers, so the result of a rule is replayed for every equal node.

Two nodes are equal if everything that a rule may read is equal: op type, facts of operands, elements of small
constants, attributes, and which results are used. A result that depends on anything else is never cached: bodies, new
symbols, requirements, findings, elements of large weights.
"""

from __future__ import annotations

from itertools import count, islice
from typing import TYPE_CHECKING, NamedTuple, cast

from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ir.attributes import PLAIN, PlainAttributes
from graphport.ir.graph import Node, Value
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute, Graph

_MAX_CACHED_TEMPLATES = 1 << 12
_MAX_STEPS = 32
"""The largest number of nodes in a cached result; larger ones are rare."""
_MAX_CONSTANTS = 4 * _MAX_STEPS
MAX_READ_BYTES = 4096
"""The size in bytes of the largest constant that a rule may read; legalization does not read larger ones."""
_MAX_COMPARED_BYTES = 64
"""The size in bytes of the largest constant compared by its elements: axes, exponents and shapes."""
_MAX_UNUSED = 1 << 10
"""Results of one op type that are cached without a replay before its nodes are no longer compared."""
_ABSENT, _UNKNOWN = -1, -2


class Step(NamedTuple):
    """A node to insert; `operands` index the operands of the replaced node, then the inserted values."""

    constants: tuple[tuple[Fact, Storage], ...]
    """Constants inserted before the node."""
    op_type: str
    dialect: str
    operands: tuple[int, ...]
    attributes: PlainAttributes
    facts: tuple[Fact, ...]


class Template(NamedTuple):
    """A recorded lowering: inserted nodes and the replacement of the node."""

    steps: tuple[Step, ...]
    last: Step
    is_in_order: bool
    """Whether the last step has the operands of the replaced node in their order."""
    is_single_step: bool
    """Whether the replacement consists of the last step alone, with the same operands."""
    values: int
    """The number of values inserted before the results."""


class CacheState(NamedTuple):
    """The state that a rule must leave unchanged for its result to be cached."""

    findings: int
    version: int
    symbols: int


class RuleCache:
    """The cache of rule results for `graph` and its bodies."""

    def __init__(self, graph: Graph, findings: Sequence[Diagnostic] = ()) -> None:
        self._extents = graph.extents
        self._findings = findings
        # Contains the objects that keys identify by `id`, so that their ids are not reused.
        self._templates: dict[Hashable, tuple[object, Template]] = {}
        self._attribute_keys: dict[Hashable, tuple[Hashable, object]] = {}
        self._element_keys: dict[int, tuple[Storage, Hashable]] = {}
        self._unused: dict[str, int] = {}
        """Cached results less replays, by op type: where each node has a constant of its own, none are equal."""

    def key(self, node: Node, version: int | None) -> Hashable:
        """Return the key that equal nodes of a dialect share; `None` if the node cannot be cached."""
        attributes = self._attributes_key_of(node)
        if attributes is None:
            return None
        operands = self._operands_key(node, are_facts_enough=registry.reads_facts_alone(node.dialect, node.op_type))
        if operands is None:
            return None
        wanted = tuple([value is not None for value in node.outputs])
        return node.dialect, node.op_type, version, wanted, attributes, operands

    def export_key(self, node: Node) -> Hashable:
        """Return the key that equal canonical nodes share for export; `None` if the node cannot be cached."""
        attributes = self._attributes_key_of(node)
        operands = None if attributes is None else self._operands_key(node)
        if operands is None:
            return None
        makers: list[Hashable] = []
        for value in node.inputs:
            if value is None:
                makers.append(None)
                continue
            maker = value.producer
            if maker is None:
                if value.storage is None and value.is_constant:
                    # Export rules also read constants without storage.
                    return None
                makers.append(None)
            elif not maker.dialect:
                # A producer that is still canonical may be a chain of constant nodes, which rules follow.
                return None
            else:
                makers.append(maker.op_type)
            if value.has_notes:
                # Export rules attach integers to values for later rules, for example the axis that an ncnn blob lacks.
                makers += [(name, note) for name, note in value.noted.items() if type(note) is int]
        wanted = tuple([None if value is None else (id(value.fact), value.returns > 0) for value in node.outputs])
        return node.op_type, wanted, attributes, operands, tuple(makers)

    def _attributes_key_of(self, node: Node) -> Hashable:
        if node.has_bodies or self._unused.get(node.op_type, 0) > _MAX_UNUSED:
            return None
        return self._cached_attributes_key(node.stated)

    def _cached_attributes_key(self, attributes: Mapping[str, Attribute]) -> Hashable:
        """Return `_attributes_key(attributes)`, cached by identity for attribute objects that several nodes share."""
        if not attributes:
            return ""
        is_shared = type(attributes) is PlainAttributes
        identity = id(attributes) if is_shared else (*attributes, *map(id, attributes.values()))
        found = self._attribute_keys.get(identity)
        if found is None:
            if len(self._attribute_keys) >= _MAX_CACHED_TEMPLATES:
                self._attribute_keys.clear()
            kept = attributes if is_shared else tuple(attributes.values())
            found = self._attribute_keys[identity] = _attributes_key(attributes), kept
        return found[0]

    def _operands_key(self, node: Node, *, are_facts_enough: bool = False) -> Hashable:
        """Return the part of the key for the operands; `None` if one is a large constant."""
        inputs = node.inputs
        is_double = len(inputs) > 1 and len(set(inputs)) < len(inputs)
        operands: list[Hashable] = []
        for place, value in enumerate(inputs):
            if value is None:
                operands.append(None)
            elif is_double and (first := inputs.index(value)) < place:
                # A repeated operand differs from two equal operands.
                operands.append(first)
            elif value.producer is not None:
                operands.append((id(value.fact),))
            elif (storage := value.storage) is None:
                operands.append((id(value.fact), "constant" if value.is_constant else value.is_input))
            elif are_facts_enough:
                operands.append((id(value.fact), value.is_constant, value.is_literal))
            elif storage.nbytes <= MAX_READ_BYTES:
                operands.append((id(value.fact), self._elements_key(value.fact, storage), value.is_literal))
            elif value.is_constant:
                return None
            else:
                operands.append((id(value.fact), value.is_input))
        return tuple(operands)

    def _elements_key(self, fact: Fact, storage: Storage) -> Hashable:
        """Return what distinguishes a small constant from others with the same fact."""
        if isinstance(fact, TensorFact) and fact.elements is not None:
            return None  # the fact contains the elements
        if not 0 < storage.nbytes <= _MAX_COMPARED_BYTES:
            return id(storage)
        found = self._element_keys.get(id(storage))
        if found is None:
            if len(self._element_keys) >= _MAX_CACHED_TEMPLATES:
                self._element_keys.clear()
            found = self._element_keys[id(storage)] = storage, storage.numpy().tobytes()
        return found[1]

    def find(self, key: Hashable) -> Template | None:
        """Return the cached result for a key."""
        found = self._templates.get(key)
        return None if found is None else found[1]

    def state_before(self) -> CacheState:
        """Return the state before a rule runs."""
        return CacheState(len(self._findings), self._extents.version, len(self._extents.declared))

    def remember(
        self, key: Hashable, node: Node, made: Sequence[Node], answer: Sequence[Value | None], before: CacheState
    ) -> None:
        """Cache the nodes `made` from `node` if they are replayable. Call it before results are renamed."""
        template = _template(node, made, answer) if before == self.state_before() else None
        if template is None:
            return
        if len(self._templates) >= _MAX_CACHED_TEMPLATES:
            self._templates.clear()
        self._unused[node.op_type] = self._unused.get(node.op_type, 0) + 1
        kept = [None if value is None else (value.fact, value.storage) for value in (*node.inputs, *node.outputs)]
        self._templates[key] = kept, template

    def repeat(self, graph: Graph, node: Node, template: Template) -> None:
        """Replace `node` by the nodes of `template`; the facts of its results are not changed."""
        last = template.last
        self._unused[node.op_type] = self._unused.get(node.op_type, 0) - 1
        if template.is_single_step:
            node.restate(last.op_type, last.dialect, last.attributes)
            return
        made = list(node.inputs)
        stem = node.results[0].name if node.results else node.op_type
        origin = node.unasked_origin
        names = iter(graph.fresh_names(stem, template.values))
        adopt = graph.adopt_constant
        for step in template.steps:
            for fact, storage in step.constants:
                made.append(adopt(Value(next(names), fact, storage=storage, origin=origin)))
            results = [Value(next(names), fact) for fact in step.facts]
            operands = [None if place == _ABSENT else made[place] for place in step.operands]
            graph.append_new(step.op_type, operands, results, step.attributes, step.dialect, "", origin, before=node)
            made += results
        for fact, storage in last.constants:
            made.append(adopt(Value(next(names), fact, storage=storage, origin=origin)))
        if not template.is_in_order:
            node.inputs = [None if place == _ABSENT else made[place] for place in last.operands]
        node.restate(last.op_type, last.dialect, last.attributes)


def _attributes_key(attributes: Mapping[str, Attribute]) -> Hashable:
    """Return a key that separates 1, 1.0 and `True`, and 0.0 and -0.0; `None` if an attribute is not plain."""
    # `repr` separates values of these types that compare equal.
    types = {name: each for name, each in attributes.items() if isinstance(each, DType)}
    rest = {name: each for name, each in attributes.items() if name not in types} if types else attributes
    if not all(map(_is_plain_data, rest.values())):
        return None
    return (repr(rest), *types.items()) if types else repr(rest)


def _is_plain_data(attribute: Attribute) -> bool:
    if type(attribute) is not tuple:
        return type(attribute) in PLAIN
    items = cast("tuple[Attribute, ...]", attribute)
    if PLAIN.issuperset(map(type, items)):
        return True
    # Pairs are common (NNEF padding); deeper nesting is rare.
    return all(
        type(item) is tuple and PLAIN.issuperset(map(type, cast("tuple[Attribute, ...]", item))) for item in items
    )


def _constants(made: Sequence[Node], given: Container[Value]) -> list[list[Value]] | None:
    """For each node, return the constants created directly before it, in the order of the graph.

    Returns `None` if a constant has no storage, is too large or existed before.
    """
    found: list[list[Value]] = [[] for _ in made]
    first: dict[Value, int] = {}
    for index, node in enumerate(made):
        for value in node.operands:
            if value.producer is None and value not in given:
                if (
                    value.storage is None
                    or value.storage.nbytes > MAX_READ_BYTES
                    or value.is_literal
                    or value.has_notes
                ):
                    return None
                first.setdefault(value, index)
    if not first:
        return found
    graph, step = made[-1].graph, len(made)
    for value in islice(reversed(graph.constants) if graph else (), _MAX_CONSTANTS):
        if value in first:
            step = min(step, first.pop(value))
            found[step].insert(0, value)
    return None if first else found


def _template(node: Node, made: Sequence[Node], answer: Sequence[Value | None]) -> Template | None:
    """Return the replacement of `node` as a template; `None` unless the last new node computes its results."""
    if not 0 < len(made) <= _MAX_STEPS:
        return None
    last = made[-1]
    wanted = node.outputs
    if len(last.outputs) != len(wanted) or len(answer) < len(wanted):
        return None
    for index, (old, new) in enumerate(zip(wanted, last.outputs, strict=True)):
        # An unused result of `node` would be absent in a replay, also where the new operator requires it (TopK).
        if old is None or new is None or answer[index] is not new or old.graph is not new.graph:
            return None
    positions: dict[Value, int] = {}
    for index, value in enumerate(node.inputs):
        if value is not None:
            positions.setdefault(value, index)
    start = len(node.inputs)
    steps: list[Step] = []
    made_for = _constants(made, positions)
    if made_for is None:
        return None
    for each, constants in zip(made, made_for, strict=True):
        if each.has_bodies or each.has_notes or each.name or None in each.outputs:
            return None
        positions.update(zip(constants, count(start), strict=False))
        start += len(constants)
        operands = tuple([_ABSENT if value is None else positions.get(value, _UNKNOWN) for value in each.inputs])
        results = each.results
        if _UNKNOWN in operands or any(value.has_notes for value in results):
            return None
        facts = tuple([value.fact for value in results])
        kept = tuple([(value.fact, cast("Storage", value.storage)) for value in constants])
        steps.append(Step(kept, each.op_type, each.dialect, operands, PlainAttributes(each.stated), facts))
        positions.update(zip(results, count(start), strict=False))
        start += len(results)
    is_in_order = steps[-1].operands == tuple(range(len(node.inputs)))
    values = start - len(node.inputs) - len(last.outputs)
    return Template(tuple(steps[:-1]), steps[-1], is_in_order, is_in_order and len(steps) == 1, values)
