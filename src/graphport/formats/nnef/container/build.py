"""Flat operations to the nodes of a graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, cast

import numpy as np

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.nnef.container.editions import final_words
from graphport.formats.nnef.container.operation import Tensor
from graphport.formats.nnef.container.types import ArrayOf, TensorOf, is_generic
from graphport.ir.attributes import PlainAttributes
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.core.diagnostics import Span
    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.operation import Operand, Operation, Origin, Pattern
    from graphport.ir.graph import Attribute

DIALECT = "nnef"
CALL, GENERIC = "call", "generic"
"""Notes of nodes: a `CallForm` if the declaration does not determine it, and the type argument in < >."""
CONSTANT, QUANTIZED = "constant", "quantized"
"""Notes of constants: it was written as an operation `constant`; its elements are quantized codes."""
DTYPE = "dtype"
"""The attribute of operations whose result has an element type that no argument shows."""

DTYPES = {"scalar": DType.FLOAT32, "integer": DType.INT64, "logical": DType.BOOL}
"""The element type of tensors of each data-type."""


Structure: TypeAlias = "tuple[Structure, ...] | None"
"""Grouping of tensors: `None` for one, a tuple for an array or tuple of them."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """The operands of each parameter, and the nesting of the results, of a call."""

    operands: dict[str, Structure]
    results: tuple[Structure, ...]


def call_form(node: Node) -> CallForm | None:
    """Return the grouping of the tensors of `node`, if the declaration does not determine it."""
    found = node.notes.get(CALL) if node.has_notes else None
    return found if isinstance(found, CallForm) else None


class Builder:
    """Append a node per operation, in order; the values of inputs and constants are registered with `define`."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._values: dict[Tensor, Value] = {}
        self._literals: dict[tuple[DType, str], Value] = {}
        self._plain: dict[Declaration, bool] = {}
        self._quick: dict[Pattern, bool] = {}

    def define(self, tensor: Tensor, value: Value) -> None:
        """Register `value` as the value of `tensor`."""
        self._values[tensor] = value

    def value(self, tensor: Tensor) -> Value:
        """Return the value of `tensor`."""
        return self._values[tensor] if tensor.literal is None else self._literal(tensor, tensor.literal)

    def add(self, operation: Operation) -> Node:
        """Append the node of an operation."""
        if operation.pattern is not None and self.is_quick(operation, operation.pattern):
            return self._repeat(operation, operation.pattern)
        operands = [self.value(tensor) for tensor in operation.inputs()]
        span = call_span(operation.origin)
        results: list[Value] = []
        for tensor in operation.outputs():
            value = Value(tensor.name, _claim(operation, tensor), origin=span)
            results.append(value)
            self._values[tensor] = value
        declaration = operation.declaration
        op_type, given = operation.name, operation.attributes
        if declaration is not None and declaration.is_provisional:
            op_type, given = final_words(operation)
        # A symbolic dim has the same form in attributes and in shapes.
        attributes = cast("dict[str, Attribute]", given)
        node = Node(op_type, operands, results, attributes, dialect=DIALECT, origin=span)
        self._annotate(node, operation)
        return self.graph.append(node)

    def is_quick(self, operation: Operation, pattern: Pattern) -> bool:
        """Whether nodes of `pattern` need no notes and have one tensor per parameter."""
        known = self._quick.get(pattern)
        if known is None:
            declaration = pattern.declaration
            is_noted = operation.generic is not None and _needs_generic(declaration)
            are_single = all(isinstance(operand, Tensor) for operand in operation.operands.values())
            known = are_single and not is_noted and not declaration.is_provisional and self._is_unambiguous(declaration)
            self._quick[pattern] = known
        return known

    def _repeat(self, operation: Operation, pattern: Pattern) -> Node:
        values, span = self._values, operation.origin.span
        operands = [
            values[tensor] if tensor.literal is None else self._literal(tensor, tensor.literal)
            for tensor in cast("Iterable[Tensor]", operation.operands.values())
        ]
        tensor = cast("Tensor", operation.results[0])
        value = values[tensor] = Value(tensor.name, _claim(operation, tensor), origin=span)
        attributes = PlainAttributes(cast("dict[str, Attribute]", pattern.attributes))
        return self.graph.append(Node(pattern.name, operands, (value,), attributes, dialect=DIALECT, origin=span))

    def _annotate(self, node: Node, operation: Operation) -> None:
        declaration = operation.declaration
        if operation.generic is not None and _needs_generic(declaration):
            node.notes[GENERIC] = operation.generic
            node.set_attribute(DTYPE, DTYPES.get(operation.generic))
        if declaration is None or not self._is_unambiguous(declaration):
            operands = {name: _structure(operand) for name, operand in operation.operands.items()}
            node.notes[CALL] = CallForm(operands, tuple(map(_structure, operation.results)))

    def _is_unambiguous(self, declaration: Declaration) -> bool:
        """Whether the numbers of operands and results determine their parameters."""
        known = self._plain.get(declaration)
        if known is None:
            lists = [f.type for f in declaration.formals if f.takes_tensors and not isinstance(f.type, TensorOf)]
            lists += [of for _, of in declaration.results if not isinstance(of, TensorOf)]
            are_flat = all(isinstance(of, ArrayOf) and isinstance(of.item, TensorOf) for of in lists)
            is_one = len(declaration.results) == 1 or not any(isinstance(of, ArrayOf) for _, of in declaration.results)
            arrays = sum(isinstance(f.type, ArrayOf) for f in declaration.formals if f.takes_tensors)
            known = self._plain[declaration] = are_flat and is_one and arrays < 2
        return known

    def _literal(self, tensor: Tensor, number: float) -> Value:
        dtype = DTYPES.get(tensor.data) or _own_dtype(number)
        key = dtype, repr(number)
        value = self._literals.get(key)
        if value is None:
            with np.errstate(over="ignore"):
                storage = ArrayStorage(np.asarray(number, dtype.numpy), dtype)
            # Identifiers never look like numbers, so the name cannot collide with a later one.
            text = f"`{number}`".lower() if isinstance(number, bool) else repr(number)
            value = self.graph.add_constant(text, TensorFact.of(storage), storage)
            value.is_literal = True
            self._literals[key] = value
        return value


def call_span(origin: Origin) -> Span:
    """Return the location of a call, with the chain of fragment calls that leads to it."""
    route = origin.route()
    return origin.span if route is None else replace(origin.span, place=route, scope=origin.scope())


SOURCES = frozenset(("external", "variable", "constant"))
"""Operations that make no nodes: an input, and two kinds of constants."""


def is_source(operation: Operation) -> bool:
    """Whether `operation` makes an input or a constant of the graph."""
    declaration = operation.declaration
    return operation.name in SOURCES and declaration is not None and declaration.is_standard


def source_fact(operation: Operation) -> TensorFact:
    """Return the declared fact of an input or a constant."""
    return TensorFact(DTYPES.get(operation.generic or "scalar"), cast("tuple[Dim, ...]", operation.attributes["shape"]))


def _claim(operation: Operation, tensor: Tensor) -> Fact:
    """Return the declared fact of a result; for standard operations the operator definition infers it."""
    declaration = operation.declaration
    if (declaration is not None and declaration.is_standard) or tensor.data not in DTYPES:
        return UNKNOWN
    return TensorFact(DTYPES[tensor.data], None)


def _needs_generic(declaration: Declaration | None) -> bool:
    """Whether the type of `?` cannot be inferred from the arguments."""
    return declaration is None or not any(is_generic(formal.type) for formal in declaration.formals)


def _own_dtype(number: float) -> DType:
    return DType.BOOL if isinstance(number, bool) else DType.FLOAT32 if isinstance(number, float) else DType.INT64


def _structure(operand: Operand) -> Structure:
    return None if isinstance(operand, Tensor) else tuple(map(_structure, operand))
