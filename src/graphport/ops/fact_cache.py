"""Facts that are found again at once: those of a node's results, where a node before was alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.core.facts import MOST_ELEMENTS, TensorFact
from graphport.ir.attributes import as_key
from graphport.ops import registry
from graphport.ops.operator_facts import MOST_REMEMBERED

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.dims import Extents
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node, Value
    from graphport.ops.operator_facts import OperatorFacts

_NOTHING = (None, False)


class FactCache:
    """Facts of results, by what decides them: operator, attributes, facts of operands and claims, literals that count.

    Facts are told by their identity. What depends on anything else is not remembered: findings, requirements, symbols
    of a value's own, bodies. While nodes are asked for in turn, a node is `reused`, or `begin` and `learn` stand around
    what finds its facts.
    """

    _extents: Extents
    """The symbols in which the facts are told, once something is known: a graph brings its own."""

    def __init__(self, inference: OperatorFacts) -> None:
        self._inference = inference
        self._version = 0
        # What the keys name by identity is kept with them, so that nothing else gets it.
        self._known: dict[Hashable, tuple[tuple[Fact, ...], object]] = {}
        # Words of which something is known: of which dialect, and whether rules read numbers of their operands.
        self._reads: dict[str, tuple[str, bool]] = {}
        self._asked: Node | None = None
        self._begun: _Begun | None = None

    def reuse(self, node: Node) -> bool:
        """Set the facts of the results of a node like one before; `False` if there was none."""
        self._asked = node
        dialect, reads = self._reads.get(node.word, _NOTHING)
        if dialect != node.dialect:
            return False
        outputs = node.outputs
        try:
            known = self._known.get(_key(node, outputs, reads=reads))
        except TypeError:
            # An attribute of a file's own operator that cannot be looked up.
            return False
        if known is None or self._extents.version != self._version:
            return False
        if len(outputs) == 1 and outputs[0] is not None:
            outputs[0].fact = known[0][0]
            return True
        for value, fact in zip(outputs, known[0], strict=True):
            if value is not None:
                value.fact = fact
        return True

    def begin(self, node: Node) -> None:
        """Take down what a node is of which `reuse` has just known nothing, before its facts are found."""
        is_asked = node is self._asked
        self._asked = self._begun = None
        if is_asked and node.outputs and None not in node.outputs and not node.has_bodies:
            dialect, reads = self._reads.get(node.word, _NOTHING)
            if dialect != node.dialect:
                reads = _reads_numbers(node)
            kept = [None if value is None else value.fact for value in (*node.inputs, *node.outputs)]
            self._begun = _Begun(
                node.dialect, node.word, reads, _key(node, node.outputs, reads=reads), kept, self._moment()
            )

    def learn(self, node: Node) -> None:
        """Remember the facts that a node was given, if all nodes like it are given them."""
        begun, self._begun = self._begun, None
        if begun is None or begun.moment != self._moment():
            return
        words = self._inference.words
        facts = tuple([value.fact for value in node.results])
        if not all(map(words.is_settled, facts)):
            return
        self._extents = words.extents
        if self._extents.version != self._version or len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
            self._version = self._extents.version
        try:
            self._known[begun.key] = facts, begun.kept
        except TypeError:
            return
        self._reads[begun.word] = begun.dialect, begun.reads

    def _moment(self) -> tuple[int, int, int]:
        extents = self._inference.words.extents
        return len(self._inference.findings), extents.version, len(extents.declared)


class _Begun(NamedTuple):
    dialect: str
    word: str
    reads: bool
    key: Hashable
    kept: object
    moment: tuple[int, int, int]


def _key(node: Node, outputs: Sequence[Value | None], *, reads: bool) -> Hashable:
    """What nodes have to have in common; the number of results tells their facts from those of operands."""
    attributes = node.stated
    key: list[Hashable] = [node.dialect, node.word, len(outputs)]
    key += [None if value is None else id(value.fact) for value in outputs]
    if not reads:
        key += [None if value is None else id(value.fact) for value in node.inputs]
    else:
        for value in node.inputs:
            key.append(None if value is None else id(value.fact))
            if value is not None and value.storage is not None:
                key.append((literal(value),))
    if attributes:
        key += as_key(attributes)
    return tuple(key)


def _reads_numbers(node: Node) -> bool:
    """Whether the rule of an operator may read numbers of its operands, and not their facts alone."""
    dialect, word = node.dialect, node.word
    if not dialect or registry.reads_facts_alone(dialect, word):
        return False
    return dialect != "onnx" or not registry.is_verbatim(word, registry.version(node))


def literal(value: Value | None) -> object:
    """What a lowering may read of an operand besides its fact: a literal, or a small constant's numbers."""
    if value is None or value.storage is None or not value.is_constant:
        return None
    if value.is_literal and value.storage.count == 1:
        return value.storage.numpy().tobytes()
    fact = value.fact
    is_known = isinstance(fact, TensorFact) and (fact.elements is not None or fact.reals is not None)
    return True if is_known or value.storage.count > MOST_ELEMENTS else value.storage
