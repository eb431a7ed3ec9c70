"""Facts of values: the one place that asks pages for shapes and sets what they answer."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dims import Extents, Symbolic, Undecided, symbols
from graphport.core.facts import (
    MOST_ELEMENTS,
    UNKNOWN,
    OptionalFact,
    SequenceFact,
    TensorFact,
    Unknown,
)
from graphport.core.faults import FOUND, stumbled
from graphport.core.storage import ArrayStorage
from graphport.ir.graph import Graph, Value, walk
from graphport.ops import registry
from graphport.ops.builder import Builder
from graphport.ops.declare import ElementTypeError, ShapeError, UnsupportedError
from graphport.ops.propagation import with_elements
from graphport.ops.requirements import collected
from graphport.ops.type_variables import bind, result_dtype, result_types
from graphport.ops.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping, Sequence

    from graphport.core.dims import Constraint, Contradiction
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute, Node
    from graphport.ops.declare import Page


_MOST_EXTENT = (1 << 63) - 1
_MOST_ALIKE = 16
"""Elements of a constant that rules make anew for every node."""
_NONE = frozenset[int]()
_MOST_REMEMBERED = 1 << 14
"""So many answers of pages are kept: networks repeat themselves, and what never comes again should not pile up."""


_MEMORY: ContextVar[dict[Any, tuple[Fact, ...]] | None] = ContextVar("_MEMORY", default=None)


@contextmanager
def one_memory() -> Generator[None]:
    """Let everybody inside remember together what pages answer that require nothing.

    A reader asks for shapes as it checks what stands in a file, and legalizing asks for the same again.
    """
    token = _MEMORY.set({})
    try:
        yield
    finally:
        _MEMORY.reset(token)


def is_foreign(error: ShapeError, dialect: str) -> bool:
    """Whether what ONNX forbids is a type that `dialect` has the operator in, so that its node stays as it is."""
    if not isinstance(error, ElementTypeError):
        return False
    record = registry.record(dialect)
    return record.infers_anew or (record.has_complex and error.dtype is not None and error.dtype.kind == "c")


class Inference:
    """Facts of operations, remembered by operator, operands' facts and attributes; findings are collected.

    Facts are told in the symbols of one graph, the first that is met.
    """

    def __init__(self) -> None:
        self._words: Wording | None = None
        self._depth = 0
        self.required: list[Constraint] = []
        """What rules have found that must hold, until the node is settled that they were asked for."""
        self.findings: list[Diagnostic] = []
        self._dialect: dict[Any, tuple[Fact, ...]] = {}
        self._pages: dict[Any, tuple[Fact, ...]] = {}
        self._memory = _MEMORY.get()
        # The same once more by the identity of the operands' facts, which are kept so that nothing else gets it:
        # answers are handed on from node to node, and need not be looked into each time.
        self._handed: dict[Any, tuple[Sequence[Fact | None], tuple[Fact, ...]]] = {}
        # Equal facts as one, so that what is remembered by identity is found.
        self._shared: dict[TensorFact, TensorFact] = {}
        # By the identity of a fact and a claim, which are kept for that, and of a dialect: what agrees.
        self._agreed: dict[tuple[int, int, str], tuple[Fact, Fact, Fact]] = {}
        # Axes, pads and targets of shapes come again and again.
        self._constants: dict[Any, tuple[Storage, TensorFact]] = {}

    @contextmanager
    def in_body(self) -> Generator[None]:
        """Errors found meanwhile are warnings: a body may never run, so they do not make the model useless."""
        before = len(self.findings)
        self._depth += 1
        yield
        self._depth -= 1
        self.findings[before:] = [replace(finding, severity=Severity.WARNING) for finding in self.findings[before:]]

    # Extents

    @property
    def words(self) -> Wording:
        """The symbols that facts are told in."""
        if self._words is None:
            self._words = Wording(Extents())
        return self._words

    def meet(self, graph: Graph) -> None:
        """Tell facts in the symbols of `graph` from now on, unless those of another one are taken already."""
        if self._words is not None:
            return
        extents = graph.extents
        for value in graph.inputs:
            self._one(value.fact)
            for dim in value.fact.shape or () if isinstance(value.fact, TensorFact) else ():
                for name, symbol in symbols(dim).items():
                    extents.declared.setdefault(name, symbol)
        self._words = Wording(extents, graph)

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
        for node in graph:
            self.settle(node, check_declared=check_declared)
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
                return (UNKNOWN,) * count if page is None else self.answer(page, operands, node.attributes, count)
            # Most nodes of a file are what they are called today: no graph of one node is made to find that out.
            if node.dialect == "onnx" and registry.is_verbatim(node.word, registry.version(node)):
                return self.answer(registry.pages()[node.word], operands, node.attributes, count)
            if (declared := registry.own(node)) is not None:
                return self.answer(declared, operands, node.attributes, count)
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
            self.answer(registry.pages()[node.word], operands, node.attributes, len(node.outputs))
        except ShapeError:
            return False
        except (UnsupportedError, Unknown, Undecided, *FOUND):
            return True
        finally:
            self.required.clear()
        return True

    def constant(self, data: object, dtype: DType | None) -> tuple[Storage, TensorFact]:
        """A storage of `data` (a number, a nested list, an array) and its fact; of short ones, the same again."""
        array = np.asarray(data, None if dtype is None else dtype.numpy)
        if array.size > _MOST_ALIKE or array.dtype.hasobject:
            storage = ArrayStorage(array, dtype)
            return storage, TensorFact.of(storage)
        key = dtype, array.dtype, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            storage = ArrayStorage(array.copy(), dtype)
            found = self._constants[key] = storage, TensorFact.of(storage)
            if len(self._constants) > _MOST_REMEMBERED:
                self._constants.clear()
        return found

    # Canonical operators

    def answer(
        self, page: Page, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], count: int
    ) -> tuple[Fact, ...]:
        """`page`, remembered from an operation with the same operands and attributes; a body is asked each time."""
        if attributes and Graph in map(type, attributes.values()):
            return self.page(page, operands, attributes, count)
        handed = (page.name, count, *map(id, operands), *attributes.items())
        found = self._handed.get(handed)
        if found is not None:
            return found[1]
        key = (page.name, count, tuple(operands), _frozen(attributes))
        facts = self._pages.get(key)
        if facts is None and self._memory is not None:
            facts = self._memory.get(key)
        if facts is None:
            if len(self._pages) >= _MOST_REMEMBERED:
                self._pages.clear()
                self._shared.clear()
            before = len(self.required)
            facts = tuple([self._one(fact) for fact in self.page(page, operands, attributes, count)])
            # What is required in a body is dropped, and would be missed where the same is asked for outside.
            if not self._depth or len(self.required) == before:
                self._pages[key] = facts
            if self._memory is not None and len(self.required) == before and len(self._memory) < _MOST_REMEMBERED:
                self._memory[key] = facts
        self._hand_on(handed, operands, facts)
        return facts

    def _one(self, fact: Fact) -> Fact:
        """The first fact that was equal to `fact`, if no run can tell the two apart."""
        return self._shared.setdefault(fact, fact) if isinstance(fact, TensorFact) and fact.is_plain else fact

    def page(
        self, page: Page, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], count: int
    ) -> tuple[Fact, ...]:
        """Facts of the first `count` results of a canonical operation.

        Raises:
            ShapeError: operands or attributes break a rule of the operator.
        """
        bound = bind(page, operands)
        known = page.signature.keywords
        for name in attributes:
            if name not in known:
                message = f"there is no attribute {name}"
                raise ShapeError(message, f"attributes: {', '.join(known) or 'none'}")
        for keyword in known.values():
            if keyword.is_required and keyword.name not in attributes:
                message = f"the attribute {keyword.name} is missing"
                raise ShapeError(message)
        arguments = {name: self._argument(attribute) for name, attribute in attributes.items()}
        try:
            with collected() as required:
                answer = page.shape(*operands, **arguments)
            self.required += required
        except (Unknown, Undecided):
            answer = [TensorFact(result_dtype(types, bound), None) for types in result_types(page, count)]
        facts = [answer] if isinstance(answer, TensorFact | SequenceFact | OptionalFact) else list(answer)
        for fact in facts:
            _check_extents(fact)
        facts += [UNKNOWN] * (count - len(facts))
        if not any(callable(argument) for argument in arguments.values()):
            facts = with_elements(page, operands, attributes, facts)
        return tuple(fact or UNKNOWN for fact in facts[:count])

    def _argument(self, attribute: Attribute) -> Any:
        return BodyFacts(self, attribute) if isinstance(attribute, Graph) else attribute

    # Words of dialects

    def _word(self, node: Node, operands: Sequence[Fact | None], count: int) -> tuple[Fact, ...]:
        dialect, word, version = node.dialect, node.word, registry.version(node)
        absent = absent_results(node)
        literals = () if registry.reads_facts_alone(dialect, word) else tuple(map(_literal, node.inputs))
        handed = (dialect, word, version, count, absent, literals, *map(id, operands), *node.attributes.items())
        same = self._handed.get(handed)
        if same is not None:
            return same[1]
        rule = registry.lowering(dialect, word, version)
        if rule is None:
            return (UNKNOWN,) * count
        key = (dialect, word, version, count, absent, tuple(operands), literals, _frozen(node.attributes))
        remembered = self._dialect.get(key)
        if remembered is not None:
            self._hand_on(handed, operands, remembered)
            return remembered
        # Open dims are called after a result: those of two nodes are not the same.
        stem = node.results[0].name if node.results else node.word
        builder = Builder(
            self,
            count=count,
            absent=absent,
            version=version,
            origin=node.unasked_origin,
            dialect=node.dialect,
            stem=stem,
        )
        values = [_stand_in(value) for value in node.inputs]
        results = registry.lowered(rule, builder, values, node.attributes)
        facts = tuple(UNKNOWN if value is None else value.fact for value in results[:count])
        # What only a run can tell differs between two nodes, even where all their facts agree.
        if not builder.is_open:
            self._dialect[key] = facts
            self._hand_on(handed, operands, facts)
        return facts

    def _hand_on(self, key: tuple[Any, ...], operands: Sequence[Fact | None], facts: tuple[Fact, ...]) -> None:
        if len(self._handed) >= _MOST_REMEMBERED:
            self._handed.clear()
        self._handed[key] = operands, facts

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
            if len(self._agreed) >= _MOST_REMEMBERED:
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


class BodyFacts:
    """A body as its operator's shape rule sees it: facts in, facts out."""

    def __init__(self, inference: Inference, graph: Graph) -> None:
        self._inference = inference
        self._graph = graph

    @property
    def facts(self) -> list[Fact]:
        """What is known of the outputs, after the last call."""
        return [value.fact for value in self._graph.outputs]

    def __call__(self, *given: Fact | None) -> list[Fact]:
        inputs = self._graph.inputs
        if len(given) != len(inputs):
            message = f"the body {self._graph.name} takes {len(inputs)} values, {len(given)} are given"
            raise ShapeError(message)
        for value, fact in zip(inputs, given, strict=True):
            if fact is not None:
                value.fact = fact
        with self._inference.in_body():
            self._inference.graph(self._graph)
        return self.facts


def absent_results(node: Node) -> frozenset[int]:
    """Places of the results that a node does not have although it has later ones."""
    outputs = node.outputs
    return frozenset(place for place, value in enumerate(outputs) if value is None) if None in outputs else _NONE


def infer(graph: Graph) -> list[Diagnostic]:
    """Set the facts of every value that `graph` computes; return what breaks a rule."""
    inference = Inference()
    inference.graph(graph)
    return list(dict.fromkeys(inference.findings))


def _check_extents(fact: Fact | None) -> None:
    if isinstance(fact, TensorFact) and fact.shape is not None:
        for extent in fact.shape:
            if isinstance(extent, int) and not 0 <= extent <= _MOST_EXTENT:
                message = f"its result has an extent of {extent if abs(extent) < 1 << 70 else 'more than 2^70'}"
                raise ShapeError(message, "extents lie between 0 and 2^63 - 1")


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


def _literal(value: Value | None) -> object:
    """What a lowering may read of an operand besides its fact: a literal, or a small constant's numbers."""
    if value is None or value.storage is None or not value.is_constant:
        return None
    if value.is_literal and value.storage.count == 1:
        return value.storage.numpy().tobytes()
    fact = value.fact
    is_told = isinstance(fact, TensorFact) and (fact.elements is not None or fact.reals is not None)
    return True if is_told or value.storage.count > MOST_ELEMENTS else value.storage


def _frozen(attributes: Mapping[str, Attribute]) -> tuple[Any, ...]:
    return tuple(sorted(attributes.items())) if len(attributes) > 1 else tuple(attributes.items())
