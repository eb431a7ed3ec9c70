"""Construction of canonical or dialect operations: as nodes in a graph, or as facts alone."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact, Unknown, named
from graphport.core.sequences import is_sequence
from graphport.core.storage import Storage
from graphport.ir.graph import Node, Value
from graphport.ops.declare import ShapeError, UnsupportedError
from graphport.ops.types import INDICES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Span
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Attribute, Graph
    from graphport.ir.notes import Spans
    from graphport.ops.declare import OpDef
    from graphport.ops.declare import Operand as OperandDef
    from graphport.ops.operator_facts import OperatorFacts

    Operand: TypeAlias = Value | float | Sequence[int] | np.ndarray[Any, Any] | None
    """An operand of an operation: a value, or a literal for a constant; `None` if it is absent."""


class Builder:
    """The builder that import rules and export rules receive.

    With a graph it inserts nodes before `before` (or at the end). Without a graph the same calls return values that
    only have a fact; facts of dialect nodes are inferred in this way.
    """

    def __init__(
        self,
        inference: OperatorFacts,
        graph: Graph | None = None,
        before: Node | None = None,
        *,
        dialect: str = "",
        count: int = 1,
        absent: frozenset[int] = frozenset(),
        version: int | None = None,
        origin: Span | tuple[Spans, int] | None = None,
        stem: str = "value",
    ) -> None:
        """Create a builder.

        Args:
            inference: infers the facts of new values.
            graph: the graph that receives nodes; `None` to infer facts only.
            before: the node before which nodes are inserted; `None` for the end.
            dialect: the dialect of nodes created by `emit`.
            version: the version of the dialect of the node being rewritten, if the dialect is versioned.
            count: the number of results of the node being rewritten.
            absent: the indices of results that are absent.
            origin: the source location of new nodes, or a function that returns it.
            stem: the prefix of the names of new values.
        """
        self.inference = inference
        self.graph = graph
        self.before = before
        self.dialect = dialect
        self.count = count
        self.absent = absent
        self.version = version
        self._origin = origin
        self.stem = stem
        self.made = 0
        self.is_open = False
        self.looks_around = False
        """Whether the rule has inspected more than its operands: their producers or consumers."""
        if graph is not None:
            inference.meet(graph.root)

    @property
    def origin(self) -> Span | None:
        """The source location of new nodes."""
        if isinstance(self._origin, tuple):
            locations, index = self._origin
            self._origin = locations.span(index)
        return self._origin

    def __call__(self, op_def: OpDef, *operands: Operand, **attributes: Attribute) -> Value:
        """Create a canonical operation and return its first result; operands as in `results`."""
        return self.results(op_def, 1, *operands, **attributes)[0]

    def results(self, op_def: OpDef, count: int, *operands: Operand, **attributes: Attribute) -> tuple[Value, ...]:
        """Create a canonical operation and return its first `count` results; attributes that are `None` are omitted.

        Literals are converted to constants: a list of integers to an int64 vector, an index to int64, a number to the
        dtype of the first operand of that type variable, else of the first operand without a fixed dtype.

        Raises:
            UnsupportedError: no operand determines the dtype of a float.
        """
        given = {name: attribute for name, attribute in attributes.items() if attribute is not None}
        values = self._constants(op_def, operands)
        facts = self.inference.answer(op_def, [None if x is None else x.fact for x in values], given, count)
        return self._node(op_def.name, "", values, given, facts)

    def _constants(self, op_def: OpDef, operands: Sequence[Operand]) -> list[Value | None]:
        """Replace the literals among the operands of an operation by constants."""
        values = [x for x in operands if x is None or isinstance(x, Value)]
        if len(values) == len(operands):
            return values
        declared = [op_def.signature.operand(index) for index in range(len(operands))]
        return [
            x if x is None or isinstance(x, Value) else self._literal(x, own, operands, declared)
            for x, own in zip(operands, declared, strict=True)
        ]

    def _literal(
        self, data: Any, own: OperandDef | None, operands: Sequence[Operand], declared: Sequence[OperandDef | None]
    ) -> Value:
        types = None if own is None else own.types
        if types is not None and len(types.dtypes) == 1:
            (only,) = types.dtypes
            return self.integers(data) if only is DType.INT64 else self.constant(np.array(data, only.numpy), only)
        is_index = types is not None and types.dtypes <= INDICES
        if is_index or (is_sequence(data) and all(isinstance(each, int | np.integer) for each in data)):
            return self.integers(data)
        others = [(x, each.types) for x, each in zip(operands, declared, strict=True) if isinstance(x, Value) and each]
        alike = [x for x, each in others if each is not None and each == types]
        # An operand with one permitted dtype, such as a condition, does not determine the dtype of another operand.
        alike += [x for x, each in others if each is None or len(each.dtypes) > 1]
        if alike:
            return self.like(alike[0], data)
        if isinstance(data, int):
            return self.integers(data)
        message = f"there is no tensor whose type {data} could have"
        raise UnsupportedError(message)

    def emit(
        self, op_type: str, *operands: Value | None, facts: Sequence[Fact] = (UNKNOWN,), **attributes: Attribute
    ) -> tuple[Value, ...]:
        """Create a node of the builder's dialect with one result for each fact in `facts`.

        Raises:
            UnsupportedError: the builder has no dialect; only canonical operators are permitted.
        """
        if not self.dialect:
            message = "no export rule exists"
            raise UnsupportedError(message)
        return self._node(op_type, self.dialect, operands, attributes, facts)

    word = emit  # deprecated name

    @property
    def outcome(self) -> TensorFact:
        """The fact of the first result of the node being rewritten."""
        found = UNKNOWN if self.before is None else self.before.results[0].fact
        return found if isinstance(found, TensorFact) else UNKNOWN

    def wants(self, place: int) -> bool:
        """Whether the node being rewritten has a result at this index."""
        return place < self.count and place not in self.absent

    def constant(self, data: object, dtype: DType | None = None, name: str | None = None) -> Value:
        """Create a constant; `data` is a storage, an array, a number or a nested list.

        Raises:
            ShapeError: a number of dtype string.
        """
        if dtype is DType.STRING and isinstance(data, (int, float)):
            message = f"a tensor of strings, expected a numeric type: {data}"
            raise ShapeError(message)
        known = isinstance(data, Storage)
        storage, fact = (data, TensorFact.of(data)) if known else self.inference.constant(data, dtype)
        if self.graph is None:
            return Value(name or self.stem, fact, storage=storage)
        return self.graph.add_constant(name or self.stem, fact, storage, origin=self._origin)

    def integers(self, numbers: int | Sequence[int]) -> Value:
        """Create an int64 constant: a vector, or a scalar for one number.

        Raises:
            ShapeError: an element of an attribute is not a 64-bit integer.
        """
        try:
            return self.constant(np.array(numbers, np.int64))
        except (OverflowError, TypeError, ValueError) as error:
            given: Any = numbers
            entries = given if is_sequence(given) else [given]
            if not all(each is None or isinstance(each, int | float | str | tuple) for each in entries):
                raise
            message = f"an attribute is {given!r:.60}, expected 64-bit integers"
            raise ShapeError(message) from error

    def like(self, value: Value, data: object) -> Value:
        """Create a constant of the dtype of `value`; raises `Unknown` if it is not known."""
        dtype = value.dtype
        if dtype is None:
            raise Unknown
        return self.constant(data, dtype)

    def reshaped(self, value: Value, shape: Sequence[int]) -> Value | None:
        """Reshape the constant `value` without a copy; `None` if it is not a stored constant.

        Raises:
            ShapeError: the shape has another number of elements.
        """
        if value.storage is None or (value.graph is not None and not value.is_constant):
            return None
        if value.storage.count != prod(shape):
            message = f"{value.storage.count} elements cannot have shape {list(shape)}"
            raise ShapeError(message)
        return self.constant(value.storage.reshaped(shape), name=value.name)

    def dims(self, value: Value | None, rank: int | None = None, *, at_least: int = 0) -> tuple[Dim, ...]:
        """Return the shape of `value`, which must have `rank` dims or `at_least` that many.

        Raises:
            Unknown: its rank is not known.
            ShapeError: the rank is wrong, or the operand is absent.
        """
        if value is None:
            message = "an operand is absent that must be there"
            raise ShapeError(message)
        fact = value.fact
        dims = fact.dims if isinstance(fact, TensorFact) else UNKNOWN.dims
        if rank not in (None, len(dims)) or len(dims) < at_least:
            message = f"{value.name} has rank {len(dims)}, expected {f'at least {at_least}' if rank is None else rank}"
            raise ShapeError(message)
        return dims

    def _value(self, fact: Fact) -> Value:
        self.made += 1
        name = f"{self.stem}#{self.made}" if self.graph is None else self.graph.fresh(self.stem)
        own = named(fact, name) if self.graph is None else self.inference.fact_symbols.fact(fact, self.stem)
        self.is_open = self.is_open or own is not fact
        return Value(name, own)

    def _node(
        self,
        op_type: str,
        dialect: str,
        operands: Sequence[Value | None],
        attributes: dict[str, Any],
        facts: Sequence[Fact | None],
    ) -> tuple[Value, ...]:
        results = [self._value(fact or UNKNOWN) for fact in facts]
        if self.graph is None:
            return tuple(results)
        node = Node(op_type, operands, results, attributes, dialect=dialect, origin=self._origin)
        if self.before is None:
            self.graph.append(node)
        else:
            self.graph.insert_before(self.before, node)
        return tuple(results)
