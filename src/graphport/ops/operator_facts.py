"""Facts of canonical operations: the only caller of shape rules."""

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
from graphport.ops.fact_symbols import FactSymbols
from graphport.ops.propagation import with_elements
from graphport.ops.renaming import CachedFacts, LookupKey, Renaming
from graphport.ops.requirements import collected
from graphport.ops.type_variables import bind, result_dtype, result_types

if TYPE_CHECKING:
    from collections.abc import Generator, Hashable, Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.core.dims import Constraint
    from graphport.core.dtypes import DType
    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Attribute
    from graphport.ops.declare import OpDef

_MOST_EXTENT = (1 << 63) - 1
_MAX_SHARED_ELEMENTS = 16
"""The maximum number of elements of a constant that is shared between nodes."""
MAX_CACHED_FACTS = 1 << 14
"""The maximum number of cached results of shape rules."""


class _SharedCache:
    """Cached results of shape rules without requirements, and the renaming of symbols."""

    __slots__ = ("answers", "renaming")

    def __init__(self) -> None:
        self.answers: dict[Any, CachedFacts] = {}
        self.renaming = Renaming()


_MEMORY: ContextVar[_SharedCache | None] = ContextVar("_MEMORY", default=None)


@contextmanager
def shared_inference_cache() -> Generator[None]:
    """Share one cache of shape-rule results among all inferences inside the block.

    A reader infers shapes to check a file, and legalization infers them again.
    """
    token = _MEMORY.set(_SharedCache())
    try:
        yield
    finally:
        _MEMORY.reset(token)


class OperatorFacts(ABC):
    """Infers facts by shape rules, cached by operator, facts of operands and attributes.

    Facts use the symbols of one graph, the first one passed to `meet`.
    """

    def __init__(self) -> None:
        self._words: FactSymbols | None = None
        self._depth = 0
        self.required: list[Constraint] = []
        """Constraints required by rules since the last settled node."""
        self.findings: list[Diagnostic] = []
        self._memory = _MEMORY.get()
        self.renaming = Renaming() if self._memory is None else self._memory.renaming
        # Results by operands that are equal up to the names of symbols, or by exact operands where names matter.
        self._op_defs: dict[Any, CachedFacts] = {}
        self._exact: dict[Any, tuple[Fact, ...]] = {}
        # A second level keyed by the ids of the operands' facts (kept alive in the value), which avoids hashing.
        self._handed: dict[Any, tuple[Sequence[Fact | None], tuple[Fact, ...], bool]] = {}
        # Requirements that are already recorded, by key and names.
        self._held: set[tuple[Hashable, Hashable]] = set()
        self.withheld = False
        """Whether a cached result was returned whose requirements were recorded before and not reported again."""
        # Interns equal facts, so that lookups by identity succeed.
        self._shared: dict[TensorFact, TensorFact] = {}
        # Axes, pads and target shapes repeat.
        self._constants: dict[Any, tuple[Storage, TensorFact]] = {}

    @abstractmethod
    def graph(self, graph: Graph) -> None:
        """Set the fact of every result in `graph`, in order; the facts of inputs and constants are set."""

    @contextmanager
    def in_body(self) -> Generator[None]:
        """Downgrade errors inside the block to warnings: a body may never be executed."""
        before = len(self.findings)
        self._depth += 1
        yield
        self._depth -= 1
        self.findings[before:] = [replace(finding, severity=Severity.WARNING) for finding in self.findings[before:]]

    # Symbolic dims

    @property
    def fact_symbols(self) -> FactSymbols:
        """The symbol table of facts."""
        if self._words is None:
            self._words = FactSymbols(Extents())
        return self._words

    def meet(self, graph: Graph) -> None:
        """Use the symbols of `graph` from now on, unless another graph's symbols are already in use."""
        if self._words is not None:
            return
        extents = graph.extents
        for value in graph.inputs:
            self._interned(value.fact)
            for dim in value.fact.shape or () if isinstance(value.fact, TensorFact) else ():
                for name, symbol in symbols(dim).items():
                    extents.declared.setdefault(name, symbol)
        self.renaming.expect(len(extents.declared))
        self._words = FactSymbols(extents, graph)

    def constant(self, data: object, dtype: DType | None) -> tuple[Storage, TensorFact]:
        """Return a storage of `data` (a number, a nested list, an array) and its fact; short ones are shared.

        Raises:
            ShapeError: the dtype cannot represent the elements, for example NaN as an integer.
        """
        try:
            array = np.asarray(data, None if dtype is None else dtype.numpy)
        except (ValueError, OverflowError, TypeError) as error:
            message = f"{data!r:.60} cannot be {dtype}"
            raise ShapeError(message) from error
        if array.size > _MAX_SHARED_ELEMENTS or array.dtype.hasobject:
            storage = ArrayStorage(array, dtype)
            return storage, TensorFact.of(storage)
        key = dtype, array.dtype, array.shape, array.tobytes()
        found = self._constants.get(key)
        if found is None:
            storage = ArrayStorage(array.copy(), dtype)
            found = self._constants[key] = storage, TensorFact.of(storage)
            if len(self._constants) > MAX_CACHED_FACTS:
                self._constants.clear()
        return found

    def start_rule(self) -> None:
        """Clear requirements and constants; keep cached facts."""
        self.required.clear()
        self._constants.clear()

    # Canonical operators

    def answer(
        self, op_def: OpDef, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], count: int
    ) -> tuple[Fact, ...]:
        """Evaluate `op_def` with a cache by operands and attributes; operators with bodies are always evaluated."""
        if attributes and Graph in map(type, attributes.values()):
            return self.infer_operator(op_def, operands, attributes, count)
        handed = (op_def.name, count, *map(id, operands), *as_key(attributes))
        found = self._handed.get(handed)
        if found is not None:
            self.withheld = self.withheld or found[2]
            return found[1]
        before = len(self.required)
        alike = self.renaming.alike(operands, attributes)
        facts = None
        key: Any = (op_def.name, count, frozen(attributes), None if alike is None else alike.key)
        requires = False
        if alike is None:
            key = *key, tuple(operands), signs(operands)
            facts = self._exact.get(key)
            requires = facts is not None
        else:
            known = self._op_defs.get(key)
            if known is None and self._memory is not None:
                known = self._memory.answers.get(key)
            if known is not None:
                facts = self.renamed(known, key, alike)
                requires = bool(known.required)
        if facts is None:
            facts = self._ask(op_def, operands, attributes, count, key, alike)
            requires = len(self.required) > before
        elif requires and len(self.required) == before:
            self.withheld = True
        if not requires or not self._depth:
            self.hand_on(handed, operands, facts, requires=requires)
        return facts

    def renamed(self, known: CachedFacts, key: Hashable, alike: LookupKey) -> tuple[Fact, ...] | None:
        """Return a cached result for operands equal up to names; require its unrecorded constraints."""
        facts = known.renamed(alike, self.renaming)
        if facts is not None and known.required and (key, alike.names) not in self._held:
            self.required += known.requirements(alike)
            self.hold_from_now_on(key, alike)
        return facts

    def hold_from_now_on(self, key: Hashable, alike: LookupKey) -> None:
        """Record that the constraints cached for `key` have been added to `required`; does nothing in a body."""
        if not self._depth:
            if len(self._held) >= MAX_CACHED_FACTS:
                self._held.clear()
            self._held.add((key, alike.names))

    def _ask(
        self,
        op_def: OpDef,
        operands: Sequence[Fact | None],
        attributes: Mapping[str, Attribute],
        count: int,
        key: Any,
        alike: LookupKey | None,
    ) -> tuple[Fact, ...]:
        if len(self._op_defs) + len(self._exact) >= MAX_CACHED_FACTS:
            self._op_defs.clear()
            self._exact.clear()
            self._shared.clear()
        before = len(self.required)
        facts = tuple([self._interned(fact) for fact in self.infer_operator(op_def, operands, attributes, count)])
        required = self.required[before:]
        # Requirements in a body are dropped, so the result must not be cached for uses outside of it.
        if self._depth and required:
            return facts
        if alike is None:
            self._exact[key] = facts
            return facts
        answer = self._op_defs[key] = CachedFacts(facts, required, alike)
        if required:
            self.hold_from_now_on(key, alike)
        elif self._memory is not None and len(self._memory.answers) < MAX_CACHED_FACTS:
            self._memory.answers[key] = answer
        return facts

    def _interned(self, fact: Fact) -> Fact:
        """Return the interned fact equal to `fact`, if both denote the same dims in every run."""
        return self._shared.setdefault(fact, fact) if isinstance(fact, TensorFact) and fact.is_interchangeable else fact

    def infer_operator(
        self, op_def: OpDef, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute], count: int
    ) -> tuple[Fact, ...]:
        """Return the facts of the first `count` results of a canonical operation.

        Raises:
            ShapeError: operands or attributes violate a rule of the operator.
        """
        bound = bind(op_def, operands)
        if count > len(op_def.outputs) and not op_def.is_variadic_output:
            message = f"{count} results, expected at most {len(op_def.outputs)}"
            raise ShapeError(message)
        known = op_def.signature.keywords
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
                answer = op_def.shape(*operands, **arguments)
            self.required += required
        except (Unknown, Undecided):
            answer = [TensorFact(result_dtype(types, bound), None) for types in result_types(op_def, count)]
        facts = [answer] if isinstance(answer, TensorFact | SequenceFact | OptionalFact) else list(answer)
        for fact in facts:
            _check_extents(fact)
        if len(facts) < count:
            message = f"the node has {count} results, the operator computes {len(facts)} with its attributes"
            raise ShapeError(message)
        if not any(callable(argument) for argument in arguments.values()):
            facts = with_elements(op_def, operands, attributes, facts)
        return tuple(fact or UNKNOWN for fact in facts[:count])

    def _argument(self, attribute: Attribute) -> Any:
        return BodyFacts(self, attribute) if isinstance(attribute, Graph) else attribute

    def hand_on(
        self, key: tuple[Any, ...], operands: Sequence[Fact | None], facts: tuple[Fact, ...], *, requires: bool
    ) -> None:
        """Cache `facts` by the ids of the operands' facts, and whether they have requirements."""
        if len(self._handed) >= MAX_CACHED_FACTS:
            self._handed.clear()
        self._handed[key] = operands, facts, requires


class BodyFacts:
    """A body as a shape rule sees it: a function from facts to facts."""

    def __init__(self, facts: OperatorFacts, graph: Graph) -> None:
        self._asked = facts
        self._graph = graph

    @property
    def facts(self) -> list[Fact]:
        """The facts of the outputs after the last call."""
        return [value.fact for value in self._graph.outputs]

    def __call__(self, *given: Fact | None) -> list[Fact]:
        inputs = self._graph.inputs
        if len(given) != len(inputs):
            message = f"the body {self._graph.name} takes {len(inputs)} values, got {len(given)}"
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
    """Return the texts of float elements, a cache key that distinguishes 0.0 from -0.0 (facts compare them equal)."""
    return tuple([repr(fact.reals) for fact in operands if isinstance(fact, TensorFact) and fact.reals is not None])


def frozen(attributes: Mapping[str, Attribute]) -> tuple[Any, ...]:
    """Return attributes in hashable form."""
    if len(attributes) > 1:
        attributes = dict(sorted(attributes.items()))
    return as_key(attributes)
