"""Facts of values: what pages and rules answer is set here."""

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
from graphport.ops.operator_facts import MOST_REMEMBERED, OperatorFacts, frozen, signs
from graphport.ops.renaming import Answer

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

    from graphport.core.dims import Contradiction
    from graphport.core.facts import Fact
    from graphport.ir.graph import Node
    from graphport.ops.renaming import Likeness

_NONE = frozenset[int]()


def is_foreign(error: ShapeError, dialect: str) -> bool:
    """Whether what ONNX forbids is a type that `dialect` has the operator in, so that its node stays as it is."""
    if not isinstance(error, ElementTypeError):
        return False
    record = registry.record(dialect)
    return record.infers_anew or (record.has_complex and error.dtype is not None and error.dtype.kind == "c")


class Inference(OperatorFacts):
    """Facts of graphs, nodes and words of dialects; findings are collected."""

    def __init__(self) -> None:
        super().__init__()
        self._dialect: dict[Any, Answer] = {}
        # By the identity of a fact and a claim, which are kept for that, and of a dialect: what agrees.
        self._agreed: dict[tuple[int, int, str], tuple[Fact, Fact, Fact]] = {}

    # Extents

    def hold(self, node: Node) -> None:
        """Take as facts what the rules asked for `node` have required, unless it may never run."""
        required = self.required[:]
        self.required.clear()
        for constraint in () if self._depth else required:
            contradiction = self.words.extents.require(constraint, node.origin)
            if contradiction is not None:
                self._contradicts(node, contradiction)

    def _contradicts(self, node: Node, found: Contradiction) -> None:
        place = "" if found.origin is None else f" ({found.origin})"
        message = f"{node.op} needs {found.constraint}, but {found.other}{place}"
        self.findings.append(Diagnostic("SHAPE0004", message, node.origin, "no run can fulfil both", Severity.WARNING))

    def conclude(self, graph: Graph) -> None:
        """Say the facts of all values, bodies included, in the symbols that stand for their equals by now."""
        extents = self.words.extents
        if not extents.version:
            return
        extents.conclude()
        for inner in walk(graph):
            for value in inner.values():
                fact = self.words.fact(value.fact, value.name)
                # What a file lets open stays open to those who feed it.
                if fact is not value.fact and (
                    inner is not graph or not value.is_input or _is_as_open(value.fact, fact)
                ):
                    value.fact = fact

    # Graphs and nodes

    def graph(self, graph: Graph, *, check_declared: bool = False) -> None:
        """Set the fact of every result in `graph`, in order; inputs and constants have theirs.

        A node that breaks a rule of its operator becomes a finding, and its results are unknown. With `check_declared`,
        the facts that results had before are claims: a contradiction is a finding, and where nothing can be inferred
        the claim stands.
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
        """Set the facts of one node's results; its operands have theirs."""
        facts = self.node(node)
        if self.required:
            self.hold(node)
        words = self._words or self.words
        for value, fact in zip(node.outputs, facts, strict=True):
            if value is None:
                continue
            claim = value.fact
            value.fact = words.fact(fact, value.name, claim)
            if claim is not UNKNOWN and (check_declared or value.fact == UNKNOWN):
                value.fact = self.agreement(value, value.fact, claim, node.dialect)
            elif isinstance(value.fact, TensorFact) and value.fact.dtype is None and isinstance(claim, TensorFact):
                # Behind an opaque node a rule may tell extents alone: the element type is what it was.
                value.fact = replace(value.fact, dtype=claim.dtype)

    def node(self, node: Node) -> tuple[Fact, ...]:
        """The facts of a node's results; unknown ones where it breaks a rule, which is a finding."""
        operands = [None if value is None else value.fact for value in node.inputs]
        count = len(node.outputs)
        try:
            if not node.dialect:
                page = registry.pages().get(node.word)
                return (UNKNOWN,) * count if page is None else self.answer(page, operands, node.stated, count)
            # Most nodes of a file are what they are called today: no graph of one node is made to find that out.
            if node.dialect == "onnx" and registry.is_verbatim(node.word, registry.version(node)):
                return self.answer(registry.pages()[node.word], operands, node.stated, count)
            if (declared := registry.own(node)) is not None:
                return self.answer(declared, operands, node.stated, count)
            return self._word(node, operands, count)
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
        """Whether a node keeps the rules of the page that has its name; nothing is told and nothing set."""
        operands = [None if value is None else value.fact for value in node.inputs]
        try:
            self.answer(registry.pages()[node.word], operands, node.stated, len(node.outputs))
        except ShapeError:
            return False
        except (UnsupportedError, Unknown, Undecided, *FOUND):
            return True
        finally:
            self.required.clear()
        return True

    # Words of dialects

    def _word(self, node: Node, operands: Sequence[Fact | None], count: int) -> tuple[Fact, ...]:
        dialect, word, version = node.dialect, node.word, registry.version(node)
        absent = absent_results(node)
        literals = () if registry.reads_facts_alone(dialect, word) else tuple(map(literal, node.inputs))
        handed = (dialect, word, version, count, absent, literals, *map(id, operands), *as_key(node.stated))
        same = self._handed.get(handed)
        if same is not None:
            return same[1]
        rule = registry.lowering(dialect, word, version)
        if rule is None:
            return (UNKNOWN,) * count
        alike = self.renaming.alike(operands, node.stated)
        key: Any = (dialect, word, version, count, absent, literals, frozen(node.stated))
        key = *key, *((tuple(operands), signs(operands)) if alike is None else (alike.key,))
        known = self._dialect.get(key)
        before = len(self.required)
        facts, is_same = None, True
        if known is not None:
            facts = known.facts if alike is None else self.renamed(known, key, alike)
        if facts is None:
            facts, is_same = self._lowered(node, rule, count, absent, key, alike)
        requires = len(self.required) > before or (known is not None and bool(known.required))
        # What is required in a body is dropped, and would be missed where the same is asked for outside.
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
        alike: Likeness | None,
    ) -> tuple[tuple[Fact, ...], bool]:
        """What the rule of a word answers, and whether it does so wherever the same is asked for."""
        # Open dims are called after a result: those of two nodes are not the same.
        stem = node.results[0].name if node.results else node.word
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
        # What only a run can tell differs between two nodes, even where all their facts agree.
        if builder.is_open:
            self.withheld = withheld
            return facts, False
        required = self.required[before:]
        if not (required and self._depth):
            if alike is None or not self.withheld:
                self._dialect[key] = Answer(facts, required, alike)
            if required and alike is not None:
                self.hold_from_now_on(key, alike)
        self.withheld = withheld
        return facts, True

    # Claims

    def agreement(self, value: Value, fact: Fact, claim: Fact, dialect: str) -> Fact:
        """`reconcile`, remembered where there is nothing to find: networks repeat themselves."""
        key = id(fact), id(claim), dialect
        known = self._agreed.get(key)
        if known is not None:
            return known[2]
        before = len(self.findings)
        found = self.reconcile(value, fact, claim, dialect)
        if len(self.findings) == before:
            if len(self._agreed) >= MOST_REMEMBERED:
                self._agreed.clear()
            self._agreed[key] = fact, claim, found
        return found

    def reconcile(self, value: Value, fact: Fact, claim: Fact, dialect: str = "") -> Fact:
        """`fact`, completed by what the file claims of `value` in `dialect`; a contradiction is a finding."""
        if not isinstance(fact, TensorFact) or not isinstance(claim, TensorFact):
            return claim if fact == UNKNOWN else fact
        if claim.dtype is not None and claim.dtype.kind == "c" and registry.record(dialect).has_complex:
            # Rules are about pairs of real numbers, which nobody has made of it yet.
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
            return TensorFact(dtype, _narrowed(fact.shape, claim.shape), fact.elements)
        return fact if dtype is fact.dtype else TensorFact(dtype, fact.shape, fact.elements)

    def _contradiction(self, value: Value, message: str, severity: Severity) -> None:
        span = value.origin or (value.producer.origin if value.producer else None)
        self.findings.append(
            Diagnostic("SHAPE0002", f"{value.name}: {message}", span, "correct or remove the declaration", severity)
        )


def absent_results(node: Node) -> frozenset[int]:
    """Places of the results that a node does not have although it has later ones."""
    outputs = node.outputs
    return frozenset(place for place, value in enumerate(outputs) if value is None) if None in outputs else _NONE


def infer(graph: Graph) -> list[Diagnostic]:
    """Set the facts of every value that `graph` computes; return what breaks a rule."""
    inference = Inference()
    inference.graph(graph)
    return list(dict.fromkeys(inference.findings))


def _may_equal(inferred: Sequence[Any], declared: Sequence[Any]) -> bool:
    if len(inferred) != len(declared):
        return False
    return all(a == b for a, b in zip(inferred, declared, strict=True) if isinstance(a, int) and isinstance(b, int))


def _narrowed(inferred: Sequence[Any], recorded: Sequence[Any]) -> tuple[Any, ...]:
    """The extents that are recorded, where inference leaves them open."""
    return tuple(b if isinstance(a, Symbolic) else a for a, b in zip(inferred, recorded, strict=True))


def _is_as_open(before: Fact, after: Fact) -> bool:
    """Whether no dim has become a number that was none."""
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
