"""An operation under validation, and queries of shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, cast

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dims import Dim, Symbolic, decide_equal
from graphport.formats.nnef.container.operation import Operation, Tensor

if TYPE_CHECKING:
    from graphport.formats.nnef.container.operation import Attribute


Shape: TypeAlias = "tuple[Dim, ...]"


@dataclass(frozen=True, slots=True)
class Case:
    """One operation under examination."""

    operation: Operation
    is_final: bool

    def attribute(self, name: str) -> Attribute:
        """The value of an attribute."""
        return self.operation.attributes[name]

    def integers_of(self, name: str) -> Shape:
        """The value of an attribute that is an array of integers; empty where the operation has none."""
        value = self.operation.attributes.get(name, ())
        return cast("Shape", value) if isinstance(value, tuple) else ()

    def pairs(self, name: str) -> tuple[tuple[Dim, Dim], ...]:
        """The value of an attribute that is an array of pairs."""
        return cast("tuple[tuple[Dim, Dim], ...]", self.operation.attributes.get(name, ()))

    def shape(self, name: str) -> Shape | None:
        """The shape of an operand; `None` if its rank is not known."""
        operand = self.operation.operands[name]
        return shape_of(operand) if isinstance(operand, Tensor) else None

    def error(self, code: str, message: str, parameter: str | None = None, help: str | None = None) -> Diagnostic:
        """An error at the argument for `parameter`."""
        return self._finding(code, message, parameter, help, Severity.ERROR)

    def warning(self, code: str, message: str, parameter: str | None = None, help: str | None = None) -> Diagnostic:
        """A warning at the argument for `parameter`."""
        return self._finding(code, message, parameter, help, Severity.WARNING)

    def _finding(
        self, code: str, message: str, parameter: str | None, help: str | None, severity: Severity
    ) -> Diagnostic:
        remedy = "; ".join(part for part in (help, self.operation.origin.route()) if part)
        return Diagnostic(code, message, self.operation.span_of(parameter), remedy or None, severity)


Rule: TypeAlias = Callable[[Case], Iterator[Diagnostic]]


def shape_of(tensor: Tensor) -> Shape | None:
    """Return the shape of a tensor if it is known; that of a literal is empty."""
    if tensor.literal is not None:
        return ()
    return None if tensor.fact is None else tensor.fact.shape


def shown(shape: Sequence[Dim]) -> str:
    """A shape as a document writes it."""
    return f"[{','.join(map(str, shape))}]"


def differ(a: Dim, b: Dim) -> bool:
    """Whether two dims certainly differ."""
    return a != b if isinstance(a, int) and isinstance(b, int) else decide_equal(a, b) is False


def static_dim(dim: Dim) -> int:
    """Return a static dim as an integer."""
    if isinstance(dim, Symbolic):
        raise TypeError(dim)
    return dim


def rank_of(case: Case, name: str) -> int | None:
    """The rank of an operand; `None` if it is not known."""
    shape = case.shape(name)
    return None if shape is None else len(shape)


def may_be_one(*extents: Dim) -> bool:
    """Whether a symbolic dim may be 1."""
    return any(isinstance(extent, Symbolic) and decide_equal(extent, 1) is not False for extent in extents)
