"""Networks repeat themselves: what a rule made of one node is made again of every node like it, without the rule.

Two nodes are alike where all that a rule may look at is the same: the word, the facts of operands, the numbers of small
constants, attributes, and which results there are. What depends on anything else is never remembered: bodies, symbols
that are new, requirements, findings, numbers of large weights.
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

_MOST_REMEMBERED = 1 << 12
_MOST_STEPS = 32
"""Nodes that one node may become; what becomes more is rare, and takes long by itself."""
_MOST_CONSTANTS = 4 * _MOST_STEPS
MOST_READ = 4096
"""Bytes of a constant whose numbers a rule may read; legalizing leaves larger ones alone."""
_MOST_COMPARED = 64
"""Bytes of a constant that is told by its numbers: axes, exponents and shapes are stored once for each node."""
_ABSENT, _UNKNOWN = -1, -2


class Step(NamedTuple):
    """A node to be made: operands by their place among those of the node, and behind these among what is made."""

    constants: tuple[tuple[Fact, Storage], ...]
    """Made in front of it."""
    word: str
    dialect: str
    operands: tuple[int, ...]
    attributes: PlainAttributes
    facts: tuple[Fact, ...]


class Template(NamedTuple):
    """What a node becomes: nodes in front of it, and what it is itself then."""

    steps: tuple[Step, ...]
    last: Step
    is_in_order: bool
    """Whether the last step reads what the node reads, as it reads it."""
    is_alone: bool
    """Whether that is all."""
    values: int
    """How many values are made in front of its results."""


class Moment(NamedTuple):
    """What a rule must leave as it is, if what it made is to be made again."""

    findings: int
    version: int
    symbols: int


class Repetition:
    """What has been made of which nodes of `graph` and its bodies."""

    def __init__(self, graph: Graph, findings: Sequence[Diagnostic] = ()) -> None:
        self._extents = graph.extents
        self._findings = findings
        # With what the keys name by identity, so that nothing else gets it.
        self._known: dict[Hashable, tuple[object, Template]] = {}
        self._exact: dict[Hashable, tuple[Hashable, object]] = {}
        self._compared: dict[int, tuple[Storage, Hashable]] = {}

    def key(self, node: Node, version: int | None) -> Hashable:
        """What nodes of a dialect that are read alike have in common; `None` where a node is like no other."""
        attributes = None if node.has_bodies else self._stated(node.stated)
        if attributes is None:
            return None
        operands = self._operands(node, are_facts_enough=registry.reads_facts_alone(node.dialect, node.word))
        if operands is None:
            return None
        wanted = tuple([value is not None for value in node.outputs])
        return node.dialect, node.word, version, wanted, attributes, operands

    def key_to_lift(self, node: Node) -> Hashable:
        """What canonical nodes that are written alike have in common; `None` where a node is like no other."""
        attributes = None if node.has_bodies else self._stated(node.stated)
        operands = None if attributes is None else self._operands(node)
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
                    # Liftings ask for numbers in more ways than that there are none.
                    return None
                makers.append(None)
            elif not maker.dialect:
                # What is still canonical may be a constant in steps, which rules look through.
                return None
            else:
                makers.append(maker.word)
            if value.has_notes:
                # Liftings leave numbers with values for those that come behind: the axis that a blob lacks.
                makers += [(name, note) for name, note in value.noted.items() if type(note) is int]
        wanted = tuple([None if value is None else (id(value.fact), value.returns > 0) for value in node.outputs])
        return node.word, wanted, attributes, operands, tuple(makers)

    def _stated(self, attributes: Mapping[str, Attribute]) -> Hashable:
        """`_exactly`; of objects that nodes have in common, as those of one form in a file, it is found once."""
        if not attributes:
            return ""
        is_shared = type(attributes) is PlainAttributes
        identity = id(attributes) if is_shared else (*attributes, *map(id, attributes.values()))
        found = self._exact.get(identity)
        if found is None:
            if len(self._exact) >= _MOST_REMEMBERED:
                self._exact.clear()
            kept = attributes if is_shared else tuple(attributes.values())
            found = self._exact[identity] = _exactly(attributes), kept
        return found[0]

    def _operands(self, node: Node, *, are_facts_enough: bool = False) -> Hashable:
        """What a rule may look at of the operands; `None` where one is a constant with many numbers."""
        inputs = node.inputs
        is_double = len(inputs) > 1 and len(set(inputs)) < len(inputs)
        operands: list[Hashable] = []
        for place, value in enumerate(inputs):
            if value is None:
                operands.append(None)
            elif is_double and (first := inputs.index(value)) < place:
                # The same value twice is not two that are alike.
                operands.append(first)
            elif value.producer is not None:
                operands.append((id(value.fact),))
            elif (storage := value.storage) is None:
                operands.append((id(value.fact), "constant" if value.is_constant else value.is_input))
            elif are_facts_enough:
                operands.append((id(value.fact), value.is_constant, value.is_literal))
            elif storage.nbytes <= MOST_READ:
                operands.append((id(value.fact), self._numbers(value.fact, storage), value.is_literal))
            elif value.is_constant:
                return None
            else:
                operands.append((id(value.fact), value.is_input))
        return tuple(operands)

    def _numbers(self, fact: Fact, storage: Storage) -> Hashable:
        """What tells a constant of few numbers from others with the same fact."""
        if isinstance(fact, TensorFact) and fact.elements is not None:
            return None  # the fact has all of them
        if not 0 < storage.nbytes <= _MOST_COMPARED:
            return id(storage)
        found = self._compared.get(id(storage))
        if found is None:
            if len(self._compared) >= _MOST_REMEMBERED:
                self._compared.clear()
            found = self._compared[id(storage)] = storage, storage.numpy().tobytes()
        return found[1]

    def find(self, key: Hashable) -> Template | None:
        """What nodes with this key become."""
        found = self._known.get(key)
        return None if found is None else found[1]

    def moment(self) -> Moment:
        """How things are before a rule is asked."""
        return Moment(len(self._findings), self._extents.version, len(self._extents.declared))

    def remember(
        self, key: Hashable, node: Node, made: Sequence[Node], answer: Sequence[Value | None], before: Moment
    ) -> None:
        """Keep what a rule `made` of `node`, if all nodes like it become the same; call it before names are given."""
        template = _template(node, made, answer) if before == self.moment() else None
        if template is None:
            return
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        kept = [None if value is None else (value.fact, value.storage) for value in (*node.inputs, *node.outputs)]
        self._known[key] = kept, template

    def repeat(self, graph: Graph, node: Node, template: Template) -> None:
        """Let `node` become what `template` says; the facts of its results are left as they are."""
        last = template.last
        if template.is_alone:
            node.restate(last.word, last.dialect, last.attributes)
            return
        made = list(node.inputs)
        stem = node.results[0].name if node.results else node.word
        origin = node.unasked_origin
        names = iter(graph.fresh_names(stem, template.values))
        adopt = graph.adopt_constant
        for step in template.steps:
            for fact, storage in step.constants:
                made.append(adopt(Value(next(names), fact, storage=storage, origin=origin)))
            results = [Value(next(names), fact) for fact in step.facts]
            operands = [None if place == _ABSENT else made[place] for place in step.operands]
            graph.append_new(step.word, operands, results, step.attributes, step.dialect, "", origin, before=node)
            made += results
        for fact, storage in last.constants:
            made.append(adopt(Value(next(names), fact, storage=storage, origin=origin)))
        if not template.is_in_order:
            node.inputs = [None if place == _ABSENT else made[place] for place in last.operands]
        node.restate(last.word, last.dialect, last.attributes)


def _exactly(attributes: Mapping[str, Attribute]) -> Hashable:
    """Attributes as a key: 1, 1.0 and `True` are three, and so are 0.0 and -0.0; `None` where there is none."""
    # What is equal need not be the same, but what has one text is: of these types alone.
    types = {name: each for name, each in attributes.items() if isinstance(each, DType)}
    rest = {name: each for name, each in attributes.items() if name not in types} if types else attributes
    if not all(map(_is_plain, rest.values())):
        return None
    return (repr(rest), *types.items()) if types else repr(rest)


def _is_plain(attribute: Attribute) -> bool:
    if type(attribute) is not tuple:
        return type(attribute) in PLAIN
    items = cast("tuple[Attribute, ...]", attribute)
    if PLAIN.issuperset(map(type, items)):
        return True
    # Pairs of numbers; what is nested deeper is rare.
    return all(
        type(item) is tuple and PLAIN.issuperset(map(type, cast("tuple[Attribute, ...]", item))) for item in items
    )


def _constants(made: Sequence[Node], given: Container[Value]) -> list[list[Value]] | None:
    """For each node the constants that were made before it and behind the one in front, in the order of the graph.

    `None` if one of them has no numbers of its own, or was there before.
    """
    found: list[list[Value]] = [[] for _ in made]
    first: dict[Value, int] = {}
    for index, node in enumerate(made):
        for value in node.operands:
            if value.producer is None and value not in given:
                if value.storage is None or value.storage.nbytes > MOST_READ or value.is_literal or value.has_notes:
                    return None
                first.setdefault(value, index)
    if not first:
        return found
    graph, step = made[-1].graph, len(made)
    for value in islice(reversed(graph.constants) if graph else (), _MOST_CONSTANTS):
        if value in first:
            step = min(step, first.pop(value))
            found[step].insert(0, value)
    return None if first else found


def _template(node: Node, made: Sequence[Node], answer: Sequence[Value | None]) -> Template | None:
    """What `node` has become, if its results are those of the last node made, in order."""
    if not 0 < len(made) <= _MOST_STEPS:
        return None
    last = made[-1]
    wanted = node.outputs
    if len(last.outputs) != len(wanted) or len(answer) < len(wanted):
        return None
    for index, (old, new) in enumerate(zip(wanted, last.outputs, strict=True)):
        if old is not None and (new is None or answer[index] is not new or old.graph is not new.graph):
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
        steps.append(Step(kept, each.word, each.dialect, operands, PlainAttributes(each.stated), facts))
        positions.update(zip(results, count(start), strict=False))
        start += len(results)
    is_in_order = steps[-1].operands == tuple(range(len(node.inputs)))
    values = start - len(node.inputs) - len(last.outputs)
    return Template(tuple(steps[:-1]), steps[-1], is_in_order, is_in_order and len(steps) == 1, values)
