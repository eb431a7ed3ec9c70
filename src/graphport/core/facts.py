"""Facts: the statically known information about values."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan, prod
from typing import TYPE_CHECKING

from graphport.core.dims import Symbol, Symbolic, substitute, symbols
from graphport.core.short_repr import short_repr

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage

MOST_ELEMENTS = 256
"""Longest integer tensor whose elements a fact carries: shapes, axes and pads are shorter, tables are longer."""

MOST_RANK = 2
"""Highest rank of a tensor with known elements: exporters reshape pads to a matrix of begins and ends and transpose
it.
"""

MOST_REALS = 8
"""Largest number of elements of a float constant that a fact contains: the scales of Resize, the bounds of Range."""


class Unknown(Exception):  # noqa: N818  no error: the inference driver sets an unknown fact
    """A shape rule needs information that the fact does not contain."""


def has_known_elements(dtype: DType, shape: Sequence[int]) -> bool:
    """Whether the fact of a constant of this type and shape contains its elements."""
    rank = len(shape)
    if rank > MOST_RANK:
        return False
    if dtype.kind == "f":
        return rank <= 1 and prod(shape) <= MOST_REALS
    return dtype.kind in "iub" and prod(shape) <= MOST_ELEMENTS


@short_repr
@dataclass(frozen=True, slots=True)
class TensorFact:
    """Element type, shape and, for small integer tensors, elements.

    `dtype` or `shape` is `None` if unknown; dims are integers or symbolic; `elements` has one item per element. `reals`
    are the elements of a small float constant. A float tensor has `elements` if these are integers computed from dims.
    """

    dtype: DType | None
    shape: tuple[Dim, ...] | None
    elements: tuple[Dim, ...] | None = None
    reals: tuple[float, ...] | None = None

    @classmethod
    def of(cls, storage: Storage) -> TensorFact:
        """Return the fact of a constant; only small tensors are read, integers up to rank `MOST_RANK`."""
        dtype, shape = storage.dtype, storage.shape
        if not has_known_elements(dtype, shape):
            return cls(dtype, shape)
        if dtype.kind == "f":
            array = storage.numpy()
            # `tolist` returns Python floats for float32 and float64, but not for types of ml_dtypes.
            numbers = (array if dtype.bits >= 32 else array.astype(float)).tolist() if shape else [float(array)]
            # Python compares tuples equal if they share one NaN object.
            if isnan(sum(numbers)):
                numbers = [nan if isnan(number) else number for number in numbers]
            return cls(dtype, shape, reals=tuple(numbers))
        return cls(dtype, shape, tuple(map(int, storage.numpy().reshape(-1).tolist())))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape.

        Raises:
            Unknown: the rank is not known.
        """
        if self.shape is None:
            raise Unknown
        return self.shape

    @property
    def rank(self) -> int:
        """Number of dims; raises `Unknown` like `dims`."""
        return len(self.dims)

    @property
    def known_elements(self) -> tuple[Dim, ...]:
        """The elements.

        Raises:
            Unknown: they are computed at run time, or too many.
        """
        if self.elements is None:
            raise Unknown
        return self.elements

    @property
    def integer_elements(self) -> tuple[int, ...]:
        """The elements as plain integers; raises `Unknown` where one is symbolic, too."""
        return tuple(as_integer(element) for element in self.known_elements)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a plain integer."""
        shape = self.shape
        if shape is None:
            return False
        return _NUMBERS.issuperset(map(type, shape)) or not any(isinstance(dim, Symbolic) for dim in shape)

    @property
    def is_interchangeable(self) -> bool:
        """Whether the fact is only a dtype and a static shape: then equal facts are interchangeable."""
        return self.elements is None and self.reals is None and self.is_static

    # The earlier names, which shape functions of custom operators may use.
    known = known_elements
    numbers = integer_elements

    def with_shape(self, shape: Sequence[Dim] | None) -> TensorFact:
        """Return a fact with this shape and no elements."""
        return TensorFact(self.dtype, None if shape is None else tuple(shape))

    def with_dtype(self, dtype: DType | None) -> TensorFact:
        """Return a fact with this dtype and no elements."""
        return TensorFact(dtype, self.shape)

    def with_elements(self, elements: Sequence[Dim] | None) -> TensorFact:
        """Return the fact with these elements."""
        kept = None if elements is None or len(elements) > MOST_ELEMENTS else tuple(elements)
        return TensorFact(self.dtype, self.shape, kept, self.reals)

    def __str__(self) -> str:
        dtype = "?" if self.dtype is None else str(self.dtype)
        if self.shape is None:
            return f"{dtype}[...]"
        return f"{dtype}[{', '.join('?' if dim == OPEN else str(dim) for dim in self.shape)}]"


@short_repr
@dataclass(frozen=True, slots=True)
class SequenceFact:
    """A list of values that share one fact."""

    element: Fact

    def __str__(self) -> str:
        return f"sequence({self.element})"


@short_repr
@dataclass(frozen=True, slots=True)
class OptionalFact:
    """A value that may be absent."""

    element: Fact

    def __str__(self) -> str:
        return f"optional({self.element})"


Fact = TensorFact | SequenceFact | OptionalFact

_OPEN = "\0open"
OPEN = Symbol(_OPEN, 0)
"""A dim known only at run time (the number of nonzero elements); the code that sets the fact replaces it by a
symbol.
"""

OPEN_ELEMENT = Symbol(_OPEN, None)
"""An element known only at run time, which may be negative."""


def open_dim(upper: Dim | None) -> Dim:
    """Return an open dim like `OPEN` with the upper bound `upper`, if that is an integer."""
    return Symbol(_OPEN, 0, upper) if isinstance(upper, int) and upper >= 0 else OPEN


def is_open_dim(dim: Dim) -> bool:
    """Whether `OPEN` is a part of the dim."""
    return isinstance(dim, Symbolic) and any(variable.name == _OPEN for variable in dim.variables)


def closed(dim: Dim, make: Callable[[int | None, int | None], Dim]) -> Dim:
    """Replace the open dim in `dim` by the result of `make(lower, upper)` for its bounds."""
    opened = symbols(dim).get(_OPEN)
    return dim if opened is None else substitute(dim, {_OPEN: make(*opened.bounds)})


_NUMBERS = frozenset((int,))

UNKNOWN = TensorFact(None, None)
"""The fact of a value without information, for example a result of an opaque node."""


def as_integer(dim: Dim) -> int:
    """The dim as a plain integer.

    Raises:
        Unknown: it is symbolic.
    """
    if isinstance(dim, Symbolic):
        raise Unknown
    return dim


def named(fact: Fact, name: str, least: int = 0) -> Fact:
    """Replace each dim that is known only at run time by a new symbol, named after the value and the axis.

    It is at least `least`, as is an unnamed axis in a file. Dims of sequences stay open: they may differ between
    elements.
    """
    if isinstance(fact, SequenceFact):
        return fact
    if isinstance(fact, OptionalFact):
        return OptionalFact(named(fact.element, name, least))
    shape, elements = fact.shape, fact.elements
    if shape is not None and not _NUMBERS.issuperset(map(type, shape)):
        shape = tuple(_new_symbol(dim, f"{name}.{axis}", least) for axis, dim in enumerate(shape))
    if elements is not None and not _NUMBERS.issuperset(map(type, elements)):
        elements = tuple(_new_symbol(dim, f"{name}.{index}", None) for index, dim in enumerate(elements))
    is_same = shape == fact.shape and elements == fact.elements
    return fact if is_same else TensorFact(fact.dtype, shape, elements, fact.reals)


def _new_symbol(dim: Dim, name: str, least: int | None) -> Dim:
    """Return a symbol of that name, at least `least`, for a dim known only at run time."""
    return closed(dim, lambda low, high: Symbol(name, low if least is None else max(low or 0, least), high))
