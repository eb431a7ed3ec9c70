"""Inference of the facts of values by operator definitions and import rules."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dims import Symbolic, Undecided
from graphport.core.facts import UNKNOWN, TensorFact, Unknown
from graphport.core.faults import FOUND, stumbled
from graphport.ir.attributes import as_key
from graphport.ir.graph import Graph, Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ElementTypeError, ShapeError, UnsupportedError
from graphport.ops.fact_cache import FactCache, literal
from graphport.ops.operator_facts import MAX_CACHED_FACTS, OperatorFacts, frozen, signs
from graphport.ops.renaming import CachedFacts

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.dims import Contradiction
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node
    from graphport.ops.renaming import LookupKey

_NONE = frozenset[int]()


def is_foreign(error: ShapeError, dialect: str) -> bool:
    """Whether a dtype that ONNX forbids is valid for the operator in `dialect`; the node is then kept unchanged."""
    if not isinstance(error, ElementTypeError):
        return False
    record = registry.record(dialect)
    return record.infers_anew or (record.has_complex and error.dtype is not None and error.dtype.kind == "c")


class Inference(OperatorFacts):
    """Infers the facts of graphs, of nodes and of op types of dialects, and collects findings."""

    def __init__(self) -> None:
        super().__init__()
        self._dialect: dict[Any, CachedFacts] = {}
        # Agreeing facts by the ids of a fact and a declared fact, and by dialect; both facts are kept alive in the
        # value.
        self._agreed: dict[tuple[int, int, str], tuple[Fact, Fact, Fact]] = {}

    # Symbolic dims

    def record_requirements(self, node: Node) -> None:
        """Record the requirements collected for `node` as facts, unless the node may not be executed."""
        required = self.required[:]
        self.required.clear()
        for constraint in () if self._depth else required:
            contradiction = self.fact_symbols.extents.require(constraint, node.origin)
            if contradiction is not None:
                self._contradicts(node, contradiction)

    def _contradicts(self, node: Node, found: Contradiction) -> None:
        place = "" if found.origin is None else f" ({found.origin})"
        message = f"{node.op} needs {found.constraint}, but {found.other}{place}"
        self.findings.append(Diagnostic("SHAPE0004", message, node.origin, "no run can fulfil both", Severity.WARNING))

    def conclude(self, graph: Graph) -> None:
        """Rewrite the facts of all values, bodies included, in terms of the final symbols."""
        extents = self.fact_symbols.extents
        if not extents.version:
            return
        extents.conclude()
        for inner in walk(graph):
            for value in inner.values():
                fact = self.fact_symbols.fact(value.fact, value.name)
                # A dynamic input dim of the file remains dynamic.
                if fact is not value.fact and (
                    inner is not graph or not value.is_input or _has_no_new_constant(value.fact, fact)
                ):
                    value.fact = fact

    # Graphs and nodes

    def graph(self, graph: Graph, *, check_declared: bool = False) -> None:
        """Set the fact of every result in `graph`, in order; the facts of inputs and constants are set.

        A node that violates a rule of its operator gives a finding, and its results are unknown. With `check_declared`,
        the previous facts of results are declared facts: a contradiction is a finding, and a declared fact is kept
        where nothing can be inferred.
        """
        self.meet(graph)
        known = FactCache(self)
        for node in graph:
            if not known.reuse(node):
                known.begin(node)
                self.settle(node, check_declared=check_declared)
                known.learn(node)
        if graph.parent is None:
            self.conclude(graph)

    def settle(self, node: Node, *, check_declared: bool = False) -> None:
        """Set the facts of one node's results from the facts of its operands."""
        facts = self.node(node)
        if self.required:
            self.record_requirements(node)
        words = self._words or self.fact_symbols
        for value, fact in zip(node.outputs, facts, strict=True):
            if value is None:
                continue
            claim = value.fact
            value.fact = words.fact(fact, value.name, claim)
            if claim is not UNKNOWN and (check_declared or value.fact == UNKNOWN):
                value.fact = self.agreement(value, value.fact, claim, node.dialect)
            elif isinstance(value.fact, TensorFact) and value.fact.dtype is None and isinstance(claim, TensorFact):
                # After an opaque node, a rule may infer dims only; the dtype is unchanged.
                value.fact = replace(value.fact, dtype=claim.dtype)

    def node(self, node: Node) -> tuple[Fact, ...]:
        """Return the facts of the node's results; a violated rule is a finding and gives unknown facts."""
        operands = [None if value is None else value.fact for value in node.inputs]
        count = len(node.outputs)
        try:
            if not node.dialect:
                op_def = registry.op_defs().get(node.op_type)
                return (UNKNOWN,) * count if op_def is None else self.answer(op_def, operands, node.stated, count)
            # Most nodes of a file have their current op type, which needs no conversion.
            if node.dialect == "onnx" and registry.is_verbatim(node.op_type, registry.version(node)):
                return self.answer(registry.op_defs()[node.op_type], operands, node.stated, count)
            if (declared := registry.user_definition(node)) is not None:
                return self.answer(declared, operands, node.stated, count)
            return self._op_type_facts(node, operands, count)
        except ShapeError as error:
            if not is_foreign(error, node.dialect) and not registry.is_of_later_opset(node):
                self.findings.append(Diagnostic("SHAPE0001", f"{node.op}: {error.message}", node.origin, error.help))
        except (UnsupportedError, Unknown, Undecided):
            pass
        except FOUND as error:
            self.findings.append(stumbled(f"the rule of {node.op}", error, node.origin, Severity.WARNING))
        self.required.clear()
        return (UNKNOWN,) * count

    def allows(self, node: Node) -> bool:
        """Whether a node satisfies the operator definition of its name, without findings or changes."""
        operands = [None if value is None else value.fact for value in node.inputs]
        try:
            self.answer(registry.op_defs()[node.op_type], operands, node.stated, len(node.outputs))
        except ShapeError:
            return False
        except (UnsupportedError, Unknown, Undecided, *FOUND):
            return True
        finally:
            self.required.clear()
        return True

    # Op types of dialects

    def _op_type_facts(self, node: Node, operands: Sequence[Fact | None], count: int) -> tuple[Fact, ...]:
        dialect, op_type, version = node.dialect, node.op_type, registry.version(node)
        absent = absent_results(node)
        literals = () if registry.reads_facts_alone(dialect, op_type) else tuple(map(literal, node.inputs))
        handed = (dialect, op_type, version, count, absent, literals, *map(id, operands), *as_key(node.stated))
        same = self._handed.get(handed)
        if same is not None:
            return same[1]
        rule = registry.lowering(dialect, op_type, version) or registry.expansion(dialect, op_type)
        if rule is None:
            return (UNKNOWN,) * count
        alike = self.renaming.alike(operands, node.stated)
        key: Any = (dialect, op_type, version, count, absent, literals, frozen(node.stated))
        key = *key, *((tuple(operands), signs(operands)) if alike is None else (alike.key,))
        known = self._dialect.get(key)
        before = len(self.required)
        facts, is_same = None, True
        if known is not None:
            facts = known.facts if alike is None else self.renamed(known, key, alike)
        if facts is None:
            facts, is_same = self._lowered(node, rule, count, absent, key, alike)
        requires = len(self.required) > before or (known is not None and bool(known.required))
        # Requirements in a body are dropped, so they must not be cached for uses outside of it.
        if is_same and not (requires and self._depth):
            self.hand_on(handed, operands, facts, requires=requires)
        return facts

    def _lowered(
        self,
        node: Node,
        rule: registry.Lower,
        count: int,
        absent: frozenset[int],
        key: Hashable,
        alike: LookupKey | None,
    ) -> tuple[tuple[Fact, ...], bool]:
        """Return the result of an import rule, and whether it is the same for all equal nodes."""
        # Dynamic dims are named after a result, so they differ between nodes.
        stem = node.results[0].name if node.results else node.op_type
        builder = Builder(
            self,
            count=count,
            absent=absent,
            version=registry.version(node),
            origin=node.unasked_origin,
            dialect=node.dialect,
            stem=stem,
        )
        before, withheld = len(self.required), self.withheld
        self.withheld = False
        results = registry.lowered(rule, builder, [_stand_in(value) for value in node.inputs], node.attributes)
        facts = tuple(UNKNOWN if value is None else value.fact for value in results[:count])
        # Data-dependent dims differ between nodes even if all facts agree.
        if builder.is_open:
            self.withheld = withheld
            return facts, False
        required = self.required[before:]
        if not (required and self._depth):
            if alike is None or not self.withheld:
                self._dialect[key] = CachedFacts(facts, required, alike)
            if required and alike is not None:
                self.hold_from_now_on(key, alike)
        self.withheld = withheld
        return facts, True

    # Declared facts

    def agreement(self, value: Value, fact: Fact, claim: Fact, dialect: str) -> Fact:
        """Return the result of `reconcile`, cached if it had no finding."""
        key = id(fact), id(claim), dialect
        known = self._agreed.get(key)
        if known is not None:
            return known[2]
        before = len(self.findings)
        found = self.reconcile(value, fact, claim, dialect)
        if len(self.findings) == before:
            if len(self._agreed) >= MAX_CACHED_FACTS:
                self._agreed.clear()
            self._agreed[key] = fact, claim, found
        return found

    def reconcile(self, value: Value, fact: Fact, claim: Fact, dialect: str = "") -> Fact:
        """Combine an inferred fact with the declared fact of `value` in `dialect`; a contradiction is a finding."""
        if not isinstance(fact, TensorFact) or not isinstance(claim, TensorFact):
            declared = self.fact_symbols.declared(claim) if isinstance(claim, TensorFact) else claim
            return declared if fact == UNKNOWN else fact
        claim = self.fact_symbols.declared(claim)
        if claim.dtype is not None and claim.dtype.kind == "c" and registry.record(dialect).has_complex:
            # Complex values are pairs of floats after legalization; the fact is not converted yet.
            return claim
        dtype = claim.dtype if fact.dtype is None else fact.dtype
        if claim.dtype not in (None, dtype):
            severity = Severity.WARNING if registry.record(dialect).infers_anew else Severity.ERROR
            self._contradiction(value, f"the file declares it as {claim.dtype}, it is {dtype}", severity)
        if fact.shape is None:
            return TensorFact(dtype, claim.shape)
        if claim.shape is not None and not _may_equal(fact.shape, claim.shape):
            message = f"the file declares its shape as {claim}, it is {fact}"
            severity = Severity.ERROR if registry.record(dialect).records_facts else Severity.WARNING
            self._contradiction(value, message, severity)
        elif claim.shape is not None and registry.record(dialect).records_facts and fact.shape != claim.shape:
            return TensorFact(dtype, _recorded_dims(fact.shape, claim.shape), fact.elements)
        return fact if dtype is fact.dtype else TensorFact(dtype, fact.shape, fact.elements)

    def _contradiction(self, value: Value, message: str, severity: Severity) -> None:
        span = value.origin or (value.producer.origin if value.producer else None)
        self.findings.append(
            Diagnostic("SHAPE0002", f"{value.name}: {message}", span, "correct or remove the declaration", severity)
        )


def absent_results(node: Node) -> frozenset[int]:
    """Return the indices of results that a node lacks although it has later ones."""
    outputs = node.outputs
    return frozenset(place for place, value in enumerate(outputs) if value is None) if None in outputs else _NONE


def infer(graph: Graph) -> list[Diagnostic]:
    """Set the facts of all values that `graph` computes. Return the violated rules as findings."""
    inference = Inference()
    inference.graph(graph)
    return list(dict.fromkeys(inference.findings))


def _may_equal(inferred: Sequence[Any], declared: Sequence[Any]) -> bool:
    if len(inferred) != len(declared):
        return False
    return all(a == b for a, b in zip(inferred, declared, strict=True) if isinstance(a, int) and isinstance(b, int))


def _recorded_dims(inferred: Sequence[Any], recorded: Sequence[Any]) -> tuple[Any, ...]:
    """Return the recorded dims where inference leaves them dynamic."""
    return tuple(b if isinstance(a, Symbolic) else a for a, b in zip(inferred, recorded, strict=True))


def _has_no_new_constant(before: Fact, after: Fact) -> bool:
    """Whether no symbolic dim has become an integer."""
    if not isinstance(before, TensorFact) or not isinstance(after, TensorFact):
        return False
    pairs = zip(before.shape or (), after.shape or (), strict=True)
    return all(type(a) is type(b) for a, b in pairs)


def _stand_in(value: Value | None) -> Value | None:
    if value is None:
        return None
    stand_in = Value(value.name, value.fact, storage=value.storage if value.is_constant else None)
    stand_in.is_literal = value.is_literal
    return stand_in
