"""A cache of inferred facts: equal nodes get the facts inferred for the first one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from graphport.core.facts import MOST_ELEMENTS, TensorFact
from graphport.ir.attributes import as_key
from graphport.ops import registry
from graphport.ops.operator_facts import MAX_CACHED_FACTS
from graphport.ops.shapes import Broadcasting

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.dims import Extents
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node, Value
    from graphport.ops.operator_facts import OperatorFacts

_NOTHING = (None, False, False)


class FactCache:
    """Facts of results by operator, attributes, facts of operands, declared facts and relevant literals.

    Facts are compared by identity. A result that depends on anything else is not cached: findings, requirements, new
    symbols, bodies. For each node, call `reuse`; if it returns `False`, call `begin` before the inference and `learn`
    after it.
    """

    _extents: Extents
    """The symbol table that cached facts refer to; the cache is cleared for another graph."""

    def __init__(self, inference: OperatorFacts) -> None:
        self._inference = inference
        self._version = 0
        # Values contain the objects whose `id` is in the key, so that their ids are not reused.
        self._known: dict[Hashable, tuple[tuple[Fact, ...], object]] = {}
        # The op types with at least one cached result: dialect, whether rules read elements of operands, and whether
        # the elements of float constants have no influence.
        self._reads: dict[str, tuple[str, bool, bool]] = {}
        self._asked: Node | None = None
        self._begun: _Begun | None = None

    def reuse(self, node: Node) -> bool:
        """Set the facts of the results of a node from the cache; `False` if it is not cached."""
        self._asked = node
        dialect, reads, ignores_floats = self._reads.get(node.op_type, _NOTHING)
        if dialect != node.dialect:
            return False
        outputs = node.outputs
        try:
            known = self._known.get(_key(node, outputs, reads=reads, ignores_floats=ignores_floats))
        except TypeError:
            # An unhashable attribute of a custom operator.
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
        """Record the state of a node that is not cached, before its facts are inferred."""
        is_asked = node is self._asked
        self._asked = self._begun = None
        if is_asked and node.outputs and None not in node.outputs and not node.has_bodies:
            dialect, reads, ignores_floats = self._reads.get(node.op_type, _NOTHING)
            if dialect != node.dialect:
                reads, ignores_floats = _reads_numbers(node), _ignores_float_elements(node)
            kept = [None if value is None else value.fact for value in (*node.inputs, *node.outputs)]
            key = _key(node, node.outputs, reads=reads, ignores_floats=ignores_floats)
            self._begun = _Begun((node.dialect, reads, ignores_floats), node.op_type, key, kept, self._moment())

    def learn(self, node: Node) -> None:
        """Cache the inferred facts of the node if they hold for all equal nodes."""
        begun, self._begun = self._begun, None
        if begun is None or begun.moment != self._moment():
            return
        words = self._inference.fact_symbols
        facts = tuple([value.fact for value in node.results])
        if not all(map(words.needs_no_rewriting, facts)):
            return
        self._extents = words.extents
        if self._extents.version != self._version or len(self._known) >= MAX_CACHED_FACTS:
            self._known.clear()
            self._version = self._extents.version
        try:
            self._known[begun.key] = facts, begun.kept
        except TypeError:
            return
        self._reads[begun.op_type] = begun.reads

    def _moment(self) -> tuple[int, int, int]:
        extents = self._inference.fact_symbols.extents
        return len(self._inference.findings), extents.version, len(extents.declared)


class _Begun(NamedTuple):
    reads: tuple[str, bool, bool]
    op_type: str
    key: Hashable
    kept: object
    moment: tuple[int, int, int]


def _key(node: Node, outputs: Sequence[Value | None], *, reads: bool, ignores_floats: bool) -> Hashable:
    """Return the key that equal nodes share; the number of results separates the facts of results and operands."""
    attributes = node.stated
    key: list[Hashable] = [node.dialect, node.op_type, len(outputs)]
    key += [None if value is None else id(value.fact) for value in outputs]
    if ignores_floats:
        key += [None if value is None else _shape_key(value.fact) for value in node.inputs]
    elif not reads:
        key += [None if value is None else id(value.fact) for value in node.inputs]
    else:
        for value in node.inputs:
            key.append(None if value is None else id(value.fact))
            if value is not None and value.storage is not None:
                key.append((literal(value),))
    if attributes:
        key += as_key(attributes)
    return tuple(key)


def _shape_key(fact: Fact) -> Hashable:
    """Return the key of a fact whose float elements have no influence."""
    if isinstance(fact, TensorFact) and fact.reals is not None and fact.elements is None:
        return fact.dtype, fact.shape
    return id(fact)


def _ignores_float_elements(node: Node) -> bool:
    """Whether the facts of the results depend on the dtypes and shapes of float constants alone."""
    if _reads_numbers(node):
        return False
    op_def = registry.op_defs().get(node.op_type)
    return op_def is not None and isinstance(op_def.shape, Broadcasting) and not op_def.moves_data


def _reads_numbers(node: Node) -> bool:
    """Whether the rule of an operator may read elements of its operands."""
    dialect, op_type = node.dialect, node.op_type
    if not dialect or registry.reads_facts_alone(dialect, op_type):
        return False
    return dialect != "onnx" or not registry.is_verbatim(op_type, registry.version(node))


def literal(value: Value | None) -> object:
    """Return the data that a rule may read besides the operand's fact: a literal, or a small constant's elements."""
    if value is None or value.storage is None or not value.is_constant:
        return None
    if value.is_literal and value.storage.count == 1:
        return value.storage.numpy().tobytes()
    fact = value.fact
    is_known = isinstance(fact, TensorFact) and (fact.elements is not None or fact.reals is not None)
    return True if is_known or value.storage.count > MOST_ELEMENTS else value.storage
