"""Flat operations: a document after expansion of fragments and evaluation of expressions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from graphport.core.diagnostics import Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.dims import Dim
    from graphport.core.facts import TensorFact
    from graphport.formats.nnef.container.call_text import FlatCall
    from graphport.formats.nnef.container.declarations import Declaration
    from graphport.formats.nnef.container.syntax import Argument, Call

Attribute: TypeAlias = "Dim | float | bool | str | tuple[Attribute, ...]"
"""A value known at compile time; arrays and tuples of the language are both tuples."""

_MOST_FRAMES = 3
_MOST_SCOPES = 8


@dataclass(slots=True, eq=False, repr=False)
class Tensor:
    """A run-time value, or (`literal` is not `None`) a number in place of one.

    `data` is its data-type: scalar, integer or logical, empty if unknown. `fact` is inferred by shape propagation.
    Names are unique and final after expansion; a literal has none.
    """

    data: str
    name: str = ""
    literal: float | bool | None = None
    fact: TensorFact | None = None
    producer: Operation | None = None
    order: int = -1
    """Its place among all tensors in the order in which they were made."""

    def __repr__(self) -> str:
        return f"Tensor({self.name or self.literal!r}: {self.data})"


Operand: TypeAlias = "Tensor | tuple[Operand, ...]"
"""Argument of a tensor parameter: a tensor, or an array or tuple of them."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Origin:
    """The location of a call, and of the call of the surrounding fragment.

    `depth` is the number of enclosing calls, of which `outermost` is the one in the graph.
    """

    span: Span
    fragment: str | None = None
    caller: Origin | None = None
    depth: int = 0
    outermost: Span | None = None

    def __repr__(self) -> str:
        return f"Origin({self.span})"

    def within(self, fragment: str, span: Span) -> Origin:
        """Return the origin at `span` in `fragment`, which is called from this origin."""
        return Origin(span, fragment, self, self.depth + 1, self.outermost or self.span)

    def spans(self) -> Iterator[Span]:
        """Yield the locations from the innermost call to the graph."""
        frame: Origin | None = self
        while frame is not None:
            yield frame.span
            frame = frame.caller

    def scope(self) -> str:
        """Return the enclosing fragments with their call lines, outermost first: `block:12/conv:3`."""
        frame, parts = self, list[str]()
        while frame.caller is not None and len(parts) < _MOST_SCOPES:
            parts.append(f"{frame.fragment}:{frame.caller.span.line}")
            frame = frame.caller
        return "/".join(reversed(parts))

    def route(self) -> str | None:
        """Return the call path: `in fragment residual, called from line 12`; `None` in the graph itself."""
        frame, parts = self, list[str]()
        while frame.caller is not None and len(parts) < _MOST_FRAMES:
            parts.append(f"in fragment '{frame.fragment}', called from line {frame.caller.span.line}")
            frame = frame.caller
        if frame.caller is not None and self.outermost is not None:
            parts.append(f"… {self.depth - _MOST_FRAMES} calls further out, from line {self.outermost.line}")
        return ", ".join(parts) or None


@dataclass(slots=True, eq=False, repr=False)
class Operation:
    """One operation: operands and attributes by parameter, in declaration order, with defaults.

    `generic` is the type of `?`; `declaration` is `None` for an operation of a vendor's extension, whose positional
    arguments are named by their index.
    """

    name: str
    generic: str | None
    operands: dict[str, Operand]
    attributes: dict[str, Attribute]
    results: tuple[Operand, ...]
    origin: Origin
    declaration: Declaration | None
    call: Call | None = None
    pattern: Pattern | None = None
    """The pattern that created it, if any."""

    def __repr__(self) -> str:
        return f"Operation({self.name}, {self.operands}, {self.attributes}, {self.results})"

    def argument_of(self, parameter: str) -> Argument | None:
        """Return the argument passed for `parameter`; `None` if the default applies."""
        if self.call is None:
            return None
        for position, argument in enumerate(self.call.arguments):
            name = argument.name
            if name is None and self.declaration is not None and position < len(self.declaration.formals):
                name = self.declaration.formals[position].name
            if name == parameter:
                return argument
        return None

    def span_of(self, parameter: str | None = None) -> Span:
        """Return the location of the argument of `parameter`, or of the operation."""
        argument = None if parameter is None else self.argument_of(parameter)
        if argument is None:
            return self.origin.span
        return Span(self.origin.span.source, argument.value.start, argument.value.stop)

    def inputs(self) -> Iterator[Tensor]:
        """Its operands, flattened; literals are included."""
        for operand in self.operands.values():
            yield from tensors(operand)

    def outputs(self) -> Iterator[Tensor]:
        """Its results, flattened."""
        for result in self.results:
            yield from tensors(result)


class Pattern:
    """Shared properties of operations that differ only in their leading tensors."""

    __slots__ = ("attributes", "data", "declaration", "generic", "leading", "name", "rest")

    def __init__(self, declaration: Declaration, operation: Operation, count: int, data: str) -> None:
        self.declaration = declaration
        self.name = operation.name
        self.generic = operation.generic
        self.data = data
        self.leading = [formal.name for formal in declaration.formals[:count]]
        self.rest: dict[str, Operand] = {
            name: operand for name, operand in operation.operands.items() if name not in self.leading
        }
        self.attributes: dict[str, Attribute] = operation.attributes

    def operation(self, argument_of: list[Tensor], origin: Origin, call: FlatCall) -> Operation:
        """Create an operation of this pattern with the leading operands `argument_of`."""
        operands: dict[str, Operand] = dict(zip(self.leading, argument_of, strict=True))
        if self.rest:
            operands.update(self.rest)
        return Operation(self.name, self.generic, operands, self.attributes, (), origin, self.declaration, call, self)


def tensors(operand: Operand) -> Iterator[Tensor]:
    """Yield the tensors in `operand`."""
    if isinstance(operand, Tensor):
        yield operand
    else:
        for each in operand:
            yield from tensors(each)
