"""Construction of nodes and constants: numbers become tensors, symbolic expressions are computed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span
from graphport.core.dims import Symbolic
from graphport.core.dims.terms import MAXIMUM, Extreme, Quotient, Variable
from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.core.storage import ArrayStorage
from graphport.formats.nnef.container.syntax import Array, Binary, Name, Tuple
from graphport.formats.nnef.container.tract.argument_values import GivenError, array_of
from graphport.ir import rewrite
from graphport.ir.graph import Graph, Node, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.dims.terms import Atom, Terms
    from graphport.formats.nnef.container.syntax import Assignment, Expression
    from graphport.formats.nnef.container.tract.parser import Document, Fragment
    from graphport.ir.graph import Attribute

T = TypeVar("T")

DIALECT = "tract"
_MOST_NODES = 500_000
_SMALL = 4096


class GraphBuilder(ABC):
    """A graph that grows: `graph` is where nodes go at the time, `home` the outermost one."""

    def __init__(self, document: Document, dialect: str) -> None:
        self.document = document
        self.graph = self.home = Graph(document.name)
        self._dialect = dialect
        self._literals: dict[tuple[DType, str], Value] = {}
        self._statement: Assignment | None = None
        self._count = 0
        self._given: dict[tuple[Atom, ...], tuple[Value, int, int]] = {}
        """Input, axis and factor by the symbol of a dim that is a multiple of it."""
        self._looked_at = 0
        # Arrays by identity, with the total number of nested items: names can make one array an item of many.
        self._arrays: dict[int, tuple[Any, int]] = {}

    @abstractmethod
    def expanded(self, fragment: Fragment, names: dict[str, Any], depth: int, node: Expression) -> Any:
        """Evaluate a fragment's body with the parameter values `names`; return its result or a tuple of results."""

    def tensor(self, value: Any, name: str | None = None) -> Value:
        """Convert `value` to a tensor: numbers and arrays become constants, symbolic expressions are computed."""
        if isinstance(value, Value):
            return value
        if isinstance(value, Symbolic):
            return self._sum(value.terms)
        if is_list(value):
            if holds_wires(value):
                return self.vector(value)
            array = self.checked(lambda: array_of(value), None)
            is_real = array.dtype.kind == "f" or array.size == 0
            dtype = DType.FLOAT32 if is_real else DType.BOOL if array.dtype.kind == "b" else DType.INT64
            if array.dtype.kind == "O":
                return self.constant(array, DType.STRING, name)
            return self.constant(array, dtype, name)
        if isinstance(value, str):
            return self.constant(np.array(value, object), DType.STRING, name)
        return self._literal(value)

    def _literal(self, number: float) -> Value:
        is_real = isinstance(number, float)
        dtype = DType.BOOL if isinstance(number, bool) else DType.FLOAT32 if is_real else DType.INT64
        key = dtype, repr(number)
        if key not in self._literals:
            value = self.constant(np.asarray(number), dtype, repr(number))
            value.is_literal = True
            self._literals[key] = value
        return self._literals[key]

    def constant(self, array: Any, dtype: DType, name: str | None = None) -> Value:
        """A constant of the document, which all bodies may read."""
        with np.errstate(over="ignore"):
            storage = ArrayStorage(np.ascontiguousarray(array, dtype.numpy).reshape(np.shape(array)), dtype)
        home = self.home
        return home.add_constant(home.fresh(name or "constant"), TensorFact.of(storage), storage)

    def vector(self, items: Sequence[Any]) -> Value:
        """Build a vector of integers, some of which are known only at run time."""
        parts: list[Value | None] = []
        for item in items:
            value = self.tensor(item)
            parts.append(value)
        return self.node("pack", parts, 1, dialect=DIALECT)[0]

    def node(
        self,
        op_type: str,
        operands: Sequence[Value | None],
        count: int,
        *,
        dialect: str | None = None,
        names: Sequence[str] = (),
        **attributes: Attribute,
    ) -> tuple[Value, ...]:
        """Append a node and return its results."""
        self.count(1)
        origin = self.span(self._statement)
        stems = [names[place] if place < len(names) else op_type for place in range(count)]
        results = [Value(self.graph.fresh(stem), UNKNOWN, origin=origin) for stem in stems]
        target = self._dialect if dialect is None else dialect
        self.graph.append(Node(op_type, list(operands), results, attributes, dialect=target, origin=origin))
        return tuple(results)

    def count(self, number: int) -> None:
        """Count `number` new operations or fragment calls.

        Raises:
            DiagnosticError: NNEF0506, it is more than a document may make.
        """
        self._count += number
        if self._count > _MOST_NODES:
            raise self.fault("NNEF0506", f"the document expands to more than {_MOST_NODES} operations", None)

    def array(self, items: Sequence[Any], node: Expression) -> Any:
        """Return `items` as an array, after checking its nested number of items.

        Raises:
            DiagnosticError: NNEF0506, it is.
        """
        size = sum(self._arrays[id(item)][1] if id(item) in self._arrays else 1 for item in items)
        if size > _MOST_NODES:
            raise self.fault("NNEF0506", f"an array has more than {_MOST_NODES} items", node)
        self._arrays[id(items)] = items, max(size, 1)
        return items

    def inlined(self, inner: Graph, operands: Sequence[Value]) -> list[Value]:
        """Copy the nodes of another graph with these operands, and return its outputs."""
        moved: dict[Value, Value] = dict(zip(inner.inputs, operands, strict=True))
        for value in inner.constants:
            moved[value] = self.home.add_constant(self.home.fresh(value.name), value.fact, value.storage)
        for node in inner:
            self.count(1)
            results = [
                None if value is None else Value(self.graph.fresh(value.name), UNKNOWN) for value in node.outputs
            ]
            self.graph.append(rewrite.copy_node(node, moved, results))
            moved |= {old: new for old, new in zip(node.outputs, results, strict=True) if old and new}
        return [moved.get(value, value) for value in inner.outputs]

    # ── expressions of symbols ──

    def _sum(self, terms: Terms) -> Value:
        total: Value | None = None
        for monomial, coefficient in terms:
            factors = [self._atom(atom) for atom in monomial]
            if coefficient != 1 or not factors:
                factors.append(self.tensor(coefficient))
            product = factors[0]
            for factor in factors[1:]:
                product = self._arithmetic("Mul", product, factor)
            total = product if total is None else self._arithmetic("Add", total, product)
        return self.tensor(0) if total is None else total

    def _atom(self, atom: Atom) -> Value:
        match atom:
            case Variable():
                return self._symbol(atom)
            case Quotient():
                return self._arithmetic("Div", self._sum(atom.numerator), self._sum(atom.denominator))
            case Extreme():
                op_type = "Max" if atom.kind == MAXIMUM else "Min"
                first, *others = [self._sum(operand) for operand in atom.operands]
                for other in others:
                    first = self._arithmetic(op_type, first, other)
                return first

    def _symbol(self, variable: Variable) -> Value:
        for value in self.home.inputs[self._looked_at :]:
            self._looked_at += 1
            dims = value.shape
            for axis, dim in enumerate(dims or ()):
                if isinstance(dim, Symbolic) and len(dim.terms) == 1:
                    ((atoms, factor),) = dim.terms
                    self._given.setdefault(atoms, (value, axis, factor))
        if (variable,) in self._given:
            value, axis, factor = self._given[variable,]
            (shape,) = self.node("Shape", [value], 1, dialect="", start=axis, end=axis + 1)
            (size,) = self.node("Squeeze", [shape, self.tensor([0])], 1, dialect="")
            return size if factor == 1 else self._arithmetic("Div", size, self.tensor(factor))
        message = f"no input declares the extent {variable.name}"
        raise self.fault(
            "NNEF0903", message, None, "use the symbol in the shape of an input, which sets its value at run time"
        )

    def _arithmetic(self, op_type: str, left: Value, right: Value) -> Value:
        return self.node(op_type, [left, right], 1, dialect="")[0]

    # ── findings ──

    def span(self, node: Expression | Assignment | None) -> Span:
        """Return the location of `node`."""
        source = self.document.source
        return Span(source) if node is None else Span(source, node.start, node.stop)

    def fault(self, code: str, message: str, node: Any, help: str | None = None) -> DiagnosticError:
        """An error at `node`, or at the statement that is being evaluated."""
        return DiagnosticError(Diagnostic(code, message, self.span(node or self._statement), help))

    def checked(self, make: Callable[[], T], node: Any) -> T:
        """Return the result of `make`; report its `GivenError` at `node`.

        Raises:
            DiagnosticError: NNEF0401, the document writes something else there.
        """
        try:
            return make()
        except GivenError as error:
            raise self.fault("NNEF0401", str(error), node) from error


def is_list(value: Any) -> bool:
    """Whether it is an array or a tuple of the language."""
    return isinstance(value, list | tuple)


def as_list(value: Any) -> list[Any]:
    """Return the items of an array or a tuple, and any other value as the only item."""
    return list(cast("list[Any]", value)) if isinstance(value, list | tuple) else [value]


def small_constant_elements(value: Value) -> Any:
    """Return the elements of a small constant as Python numbers; `None` if it is large or not constant."""
    storage = value.storage
    if storage is None or not value.is_constant or storage.nbytes > _SMALL:
        return None
    return storage.numpy().tolist()


def holds_wires(items: Sequence[Any]) -> bool:
    """Whether some item is a tensor, or an expression of symbols."""
    return any(
        holds_wires(as_list(item)) if isinstance(item, list | tuple) else isinstance(item, Value | Symbolic)
        for item in items
    )


def names_in(node: Expression) -> list[str]:
    """Return the names in an array of expressions."""
    found: list[str] = []
    waiting: list[Expression] = [node]
    while waiting:
        each = waiting.pop()
        match each:
            case Name():
                found.append(each.text)
            case Array() | Tuple():
                waiting += each.items
            case Binary():
                waiting += [each.left, each.right]
            case _:
                pass
    return found


def overlooked(name: str, formal: str | None, span: Span) -> Diagnostic:
    """Warn about an argument that tract ignores because the operator has no such parameter."""
    stated = "too many arguments" if formal is None else f"an unknown parameter '{formal}'"
    code = "NNEF0323" if formal is None else "NNEF0326"
    return Diagnostic(code, f"'{name}' has {stated}, which tract ignores", span, "remove it", Severity.WARNING)
