"""Dims as entries of NumPy arrays, while a page computes on shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from graphport.core.dims.decisions import decide_equal, decide_less
from graphport.core.dims.symbolic import Dim, Symbolic, as_dim, maximum
from graphport.core.dims.terms import Undecided

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Element:
    """A symbolic number inside a NumPy object array, used when operator definitions compute on shapes.

    Arithmetic is that of `dim`, also with Python and NumPy integers, and returns an `int` if no symbol remains. In
    contrast to `Symbolic`, comparisons, `bool` and `int` refer to the number: they return if the result is equal for
    all admissible values and raise `Undecided` otherwise. Therefore elements have no hash.
    """

    __hash__: ClassVar[None] = None  # pyright: ignore[reportIncompatibleMethodOverride]

    dim: Symbolic

    def __repr__(self) -> str:
        return f"Element({self.dim})"

    def __str__(self) -> str:
        return str(self.dim)

    def __add__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a + b, self, other)

    def __radd__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a + b, other, self)

    def __sub__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a - b, self, other)

    def __rsub__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a - b, other, self)

    def __mul__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a * b, self, other)

    def __rmul__(self, other: object) -> Element | int:
        return _computed(lambda a, b: a * b, other, self)

    def __floordiv__(self, other: object) -> Element | int:
        return _computed(_quotient, self, other)

    def __rfloordiv__(self, other: object) -> Element | int:
        return _computed(_quotient, other, self)

    def __mod__(self, other: object) -> Element | int:
        return _computed(_remainder, self, other)

    def __rmod__(self, other: object) -> Element | int:
        return _computed(_remainder, other, self)

    def __neg__(self) -> Element:
        return Element(-self.dim)

    def __pos__(self) -> Element:
        return self

    def __abs__(self) -> Element | int:
        return element(maximum(self.dim, -self.dim))

    def __eq__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else _answer(decide_equal(self.dim, dim), self.dim, "==", dim)

    def __ne__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else not _answer(decide_equal(self.dim, dim), self.dim, "!=", dim)

    def __lt__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else _answer(decide_less(self.dim, dim), self.dim, "<", dim)

    def __le__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else not _answer(decide_less(dim, self.dim), self.dim, "<=", dim)

    def __gt__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else _answer(decide_less(dim, self.dim), self.dim, ">", dim)

    def __ge__(self, other: object) -> bool:
        dim = _to_dim(other)
        return NotImplemented if dim is None else not _answer(decide_less(self.dim, dim), self.dim, ">=", dim)

    def __bool__(self) -> bool:
        return not _answer(decide_equal(self.dim, 0), self.dim, "!=", 0)

    def __index__(self) -> int:
        lower, upper = self.dim.bounds
        if lower is None or lower != upper:
            raise Undecided(f"{self.dim} is not one integer")
        return lower

    def __int__(self) -> int:
        return self.__index__()


def element(dim: Dim) -> Element | int:
    """The dim as an entry of a NumPy object array."""
    return Element(dim) if isinstance(dim, Symbolic) else int(dim)


def dim_of(x: object) -> Dim:
    """Return the dim of an array element: an `Element`, a dim, or a NumPy integer.

    Raises:
        TypeError: the element has another type.
    """
    dim = _to_dim(x)
    if dim is None:
        raise TypeError(f"{x!r} is not a dim")
    return dim


def _to_dim(value: object) -> Dim | None:
    return value.dim if isinstance(value, Element) else as_dim(value)


def _computed(operation: Callable[[Dim, Dim], Dim], left: object, right: object) -> Element | int:
    a, b = _to_dim(left), _to_dim(right)
    return NotImplemented if a is None or b is None else element(operation(a, b))


def _quotient(a: Dim, b: Dim) -> Dim:
    if b == 0:
        raise Undecided(f"{a} divided by 0, whose result depends on the runtime")
    return a // b


def _remainder(a: Dim, b: Dim) -> Dim:
    return a - b * _quotient(a, b)


def _answer(decision: bool | None, left: Dim, sign: str, right: Dim) -> bool:  # noqa: FBT001  an answer, not a switch
    if decision is None:
        raise Undecided(f"whether {left} {sign} {right} is unknown before run time")
    return decision
