"""Facts of canonical operations: the one place that asks pages for shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from graphport.core.diagnostics import Severity
from graphport.core.dims import Extents, Undecided, symbols
from graphport.core.facts import UNKNOWN, OptionalFact, SequenceFact, TensorFact, Unknown
from graphport.core.storage import ArrayStorage
from graphport.ir.attributes import as_key
from graphport.ir.graph import Graph
from graphport.ops.attribute_types import is_of_type, type_name
from graphport.ops.declare import ShapeError
from graphport.ops.propagation import with_elements
from graphport.ops.renaming import Answer, Likeness, Renaming
from graphport.ops.requirements import collected
from graphport.ops.type_variables import bind, result_dtype, result_types
from graphport.ops.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.dims import Constraint
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute
    from graphport.ops.declare import Page

_MOST_EXTENT = (1 << 63) - 1
_MOST_ALIKE = 16
"""Elements of a constant that rules make anew for every node."""
MOST_REMEMBERED = 1 << 14
"""So many answers of pages are kept: networks repeat themselves, and what never comes again should not pile up."""


class _Memory:
    """What pages answer that require nothing, and how operands are told there."""

    __slots__ = ("answers", "renaming")

    def __init__(self) -> None:
        self.answers: dict[Any, Answer] = {}
        self.renaming = Renaming()


_MEMORY: ContextVar[_Memory | None] = ContextVar("_MEMORY", default=None)


@contextmanager
def one_memory() -> Generator[None]:
    """Let everybody inside remember together what pages answer that require nothing.

    A reader asks for shapes as it checks what stands in a file, and legalizing asks for the same again.
    """
    token = _MEMORY.set(_Memory())
    try:
        yield
    finally:
        _MEMORY.reset(token)


class OperatorFacts(ABC):
    """What pages answer, remembered by operator, operands' facts and attributes.

    Facts are told in the symbols of one graph, the first that is met.
    """

    def __init__(self) -> None:
        self._words: Wording | None = None
        self._depth = 0
        self.required: list[Constraint] = []
        """What rules have found that must hold, until the node is settled that they were asked for."""
        self.findings: list[Diagnostic] = []
        self._memory = _MEMORY.get()
        self.renaming = Renaming() if self._memory is None else self._memory.renaming
        # Where operands are alike but for names, and where names may matter.
        self._pages: dict[Any, Answer] = {}
        self._exact: dict[Any, tuple[Fact, ...]] = {}
        # The same once more by the identity of the operands' facts, which are kept so that nothing else gets it:
        # answers are handed on from node to node, and need not be looked into each time.
        self._handed: dict[Any, tuple[Sequence[Fact | None], tuple[Fact, ...], bool]] = {}
        # What has been required, by what was asked in which names: it holds from then on.
        self._held: set[tuple[Hashable, Hashable]] = set()
        self.withheld = False
        """Whether something was asked again, of which what it requires holds already and has not been said again."""
        # Equal facts as one, so that what is remembered by identity is found.
        self._shared: dict[TensorFact, TensorFact] = {}
        # Axes, pads and targets of shapes come again and again.
        self._constants: dict[Any, tuple[Storage, TensorFact]] = {}

    @abstractmethod
    def graph(self, graph: Graph) -> None:
        """Set the fact of every result in `graph`, in order; inputs and constants have theirs."""

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
        self.renaming.expect(len(extents.declared))
        self._words = Wording(extents, graph)

    def constant(self, data: object, dtype: DType | None) -> tuple[Storage, TensorFact]:
        """A storage of `data` (a number, a nested list, an array) and its fact; of short ones, the same again.

        Raises:
            ShapeError: the element type does not hold the numbers: NaN is no integer.
        """
        try:
            array = np.asarray(data, None if dtype is None else dtype.numpy)
        except (ValueError, OverflowError, TypeError) as error:
            message = f"{data!r:.60} cannot be {dtype}"
            raise ShapeError(message) from error
        if array.size > _MOST_ALIKE or array.dtype.hasobject:
            storage = ArrayStorage(array, dtype)
            return storage, TensorFact.of(storage)
        key = dtype, array.dtype, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            storage = ArrayStorage(array.copy(), dtype)
            found = self._constants[key] = storage, TensorFact.of(storage)
            if len(self._constants) > MOST_REMEMBERED:
                self._constants.clear()
        return found

    # Canonical operators

    def answer(
        self, page: Page, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], count: int
    ) -> tuple[Fact, ...]:
        """`page`, remembered from an operation with the same operands and attributes; a body is asked each time."""
        if attributes and Graph in map(type, attributes.values()):
            return self.page(page, operands, attributes, count)
        handed = (page.name, count, *map(id, operands), *as_key(attributes))
        found = self._handed.get(handed)
        if found is not None:
            self.withheld = self.withheld or found[2]
            return found[1]
        before = len(self.required)
        alike = self.renaming.alike(operands, attributes)
        facts = None
        key: Any = (page.name, count, frozen(attributes), None if alike is None else alike.key)
        requires = False
        if alike is None:
            key = *key, tuple(operands), signs(operands)
            facts = self._exact.get(key)
            requires = facts is not None
        else:
            known = self._pages.get(key)
            if known is None and self._memory is not None:
                known = self._memory.answers.get(key)
            if known is not None:
                facts = self.renamed(known, key, alike)
                requires = bool(known.required)
        if facts is None:
            facts = self._ask(page, operands, attributes, count, key, alike)
            requires = len(self.required) > before
        elif requires and len(self.required) == before:
            self.withheld = True
        if not requires or not self._depth:
            self.hand_on(handed, operands, facts, requires=requires)
        return facts

    def renamed(self, known: Answer, key: Hashable, alike: Likeness) -> tuple[Fact, ...] | None:
        """What is known by `key`, of operands that are alike; what it requires is required, unless it is already."""
        facts = known.renamed(alike, self.renaming)
        if facts is not None and known.required and (key, alike.names) not in self._held:
            self.required += known.requirements(alike)
            self.hold_from_now_on(key, alike)
        return facts

    def hold_from_now_on(self, key: Hashable, alike: Likeness) -> None:
        """Take note that what is known by `key` was required, if it will be: in a body it is dropped."""
        if not self._depth:
            if len(self._held) >= MOST_REMEMBERED:
                self._held.clear()
            self._held.add((key, alike.names))

    def _ask(
        self,
        page: Page,
        operands: Sequence[Fact | None],
        attributes: Mapping[str, Attribute],
        count: int,
        key: Any,
        alike: Likeness | None,
    ) -> tuple[Fact, ...]:
        if len(self._pages) + len(self._exact) >= MOST_REMEMBERED:
            self._pages.clear()
            self._exact.clear()
            self._shared.clear()
        before = len(self.required)
        facts = tuple([self._one(fact) for fact in self.page(page, operands, attributes, count)])
        required = self.required[before:]
        # What is required in a body is dropped, and would be missed where the same is asked for outside.
        if self._depth and required:
            return facts
        if alike is None:
            self._exact[key] = facts
            return facts
        answer = self._pages[key] = Answer(facts, required, alike)
        if required:
            self.hold_from_now_on(key, alike)
        elif self._memory is not None and len(self._memory.answers) < MOST_REMEMBERED:
            self._memory.answers[key] = answer
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
        if count > len(page.outputs) and not page.is_variadic_output:
            message = f"{count} results, at most {len(page.outputs)} are known"
            raise ShapeError(message)
        known = page.signature.keywords
        for name, attribute in attributes.items():
            if name not in known:
                message = f"there is no attribute {name}"
                raise ShapeError(message, f"attributes: {', '.join(known) or 'none'}")
            if not is_of_type(attribute, known[name].annotation):
                message = f"the attribute {name} is {attribute!r:.60}, expected {type_name(known[name].annotation)}"
                raise ShapeError(message)
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
        if len(facts) < count:
            message = f"{count} results, with these attributes it computes {len(facts)}"
            raise ShapeError(message)
        if not any(callable(argument) for argument in arguments.values()):
            facts = with_elements(page, operands, attributes, facts)
        return tuple(fact or UNKNOWN for fact in facts[:count])

    def _argument(self, attribute: Attribute) -> Any:
        return BodyFacts(self, attribute) if isinstance(attribute, Graph) else attribute

    def hand_on(
        self, key: tuple[Any, ...], operands: Sequence[Fact | None], facts: tuple[Fact, ...], *, requires: bool
    ) -> None:
        """Remember `facts` by the identity of the operands' facts, which `key` has, and whether they need anything."""
        if len(self._handed) >= MOST_REMEMBERED:
            self._handed.clear()
        self._handed[key] = operands, facts, requires


class BodyFacts:
    """A body as its operator's shape rule sees it: facts in, facts out."""

    def __init__(self, facts: OperatorFacts, graph: Graph) -> None:
        self._asked = facts
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
        with self._asked.in_body():
            self._asked.graph(self._graph)
        return self.facts


def _check_extents(fact: Fact | None) -> None:
    if isinstance(fact, TensorFact) and fact.shape is not None:
        for extent in fact.shape:
            if isinstance(extent, int) and not 0 <= extent <= _MOST_EXTENT:
                message = f"its result has an extent of {extent if abs(extent) < 1 << 70 else 'more than 2^70'}"
                raise ShapeError(message, "extents lie between 0 and 2^63 - 1")


def signs(operands: Sequence[Fact | None]) -> tuple[str, ...]:
    """What tells facts apart that are equal: those of 0.0 and -0.0."""
    return tuple([repr(fact.reals) for fact in operands if isinstance(fact, TensorFact) and fact.reals is not None])


def frozen(attributes: Mapping[str, Attribute]) -> tuple[Any, ...]:
    """Attributes as what can be looked up."""
    if len(attributes) > 1:
        attributes = dict(sorted(attributes.items()))
    return as_key(attributes)
