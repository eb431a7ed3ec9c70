"""What is known of a value before it is computed."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan, prod
from typing import TYPE_CHECKING

from graphport.core.dims import Symbol, Symbolic, substitute, symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from graphport.core.dims import Dim
    from graphport.core.dtypes import DType
    from graphport.core.storage import Storage

MOST_ELEMENTS = 256
"""Longest integer tensor whose elements a fact carries: shapes, axes and pads are shorter, tables are longer."""

MOST_RANK = 2
"""Highest rank of such a tensor: exporters lay pads out as a matrix of begins and ends, and turn it around."""

MOST_REALS = 8
"""Longest floating constant whose numbers a fact carries: the scales of a resizing, the ends of a range."""


class Unknown(Exception):  # noqa: N818  not a fault: the answer is "not known", and the inference driver says so
    """A shape rule needs something that the fact does not say."""


def tells_numbers(dtype: DType, shape: Sequence[int]) -> bool:
    """Whether the fact of a constant of this type and shape has its numbers."""
    rank = len(shape)
    if rank > MOST_RANK:
        return False
    if dtype.kind == "f":
        return rank <= 1 and prod(shape) <= MOST_REALS
    return dtype.kind in "iub" and prod(shape) <= MOST_ELEMENTS


@dataclass(frozen=True, slots=True)
class TensorFact:
    """Element type, shape and, for short integer tensors, elements.

    `dtype` or `shape` is `None` where unknown; dims are integers or symbolic; `elements` has one entry an element.
    `reals` are the numbers of a short floating constant.
    """

    dtype: DType | None
    shape: tuple[Dim, ...] | None
    elements: tuple[Dim, ...] | None = None
    reals: tuple[float, ...] | None = None

    @classmethod
    def of(cls, storage: Storage) -> TensorFact:
        """What is known of a constant; only short tensors are looked into, integers up to rank `MOST_RANK`."""
        dtype, shape = storage.dtype, storage.shape
        if not tells_numbers(dtype, shape):
            return cls(dtype, shape)
        if dtype.kind == "f":
            numbers = storage.numpy().reshape(-1).astype(float).tolist()
            # One and the same NaN: a tuple with it is equal to another with it.
            return cls(dtype, shape, reals=tuple([nan if isnan(number) else number for number in numbers]))
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
    def known(self) -> tuple[Dim, ...]:
        """The elements.

        Raises:
            Unknown: they are computed at run time, or too many.
        """
        if self.elements is None:
            raise Unknown
        return self.elements

    @property
    def numbers(self) -> tuple[int, ...]:
        """The elements as plain integers; raises `Unknown` where one is symbolic, too."""
        return tuple(number(element) for element in self.known)

    @property
    def is_static(self) -> bool:
        """Whether every dim is a plain integer."""
        shape = self.shape
        if shape is None:
            return False
        return _NUMBERS.issuperset(map(type, shape)) or not any(isinstance(dim, Symbolic) for dim in shape)

    @property
    def is_plain(self) -> bool:
        """Whether it is an element type and a shape of numbers, and nothing more: two that are equal are the same."""
        return self.elements is None and self.reals is None and self.is_static

    def with_shape(self, shape: Sequence[Dim] | None) -> TensorFact:
        """The same element type in another shape, elements forgotten."""
        return TensorFact(self.dtype, None if shape is None else tuple(shape))

    def with_dtype(self, dtype: DType | None) -> TensorFact:
        """The same shape with another element type, elements forgotten."""
        return TensorFact(dtype, self.shape)

    def with_elements(self, elements: Sequence[Dim] | None) -> TensorFact:
        """The same tensor with what is known of its elements."""
        kept = None if elements is None or len(elements) > MOST_ELEMENTS else tuple(elements)
        return TensorFact(self.dtype, self.shape, kept, self.reals)

    def __str__(self) -> str:
        dtype = "?" if self.dtype is None else str(self.dtype)
        if self.shape is None:
            return f"{dtype}[...]"
        return f"{dtype}[{', '.join('?' if dim == OPEN else str(dim) for dim in self.shape)}]"


@dataclass(frozen=True, slots=True)
class SequenceFact:
    """A list of values that share one fact."""

    element: Fact

    def __str__(self) -> str:
        return f"sequence({self.element})"


@dataclass(frozen=True, slots=True)
class OptionalFact:
    """A value that may be absent."""

    element: Fact

    def __str__(self) -> str:
        return f"optional({self.element})"


Fact = TensorFact | SequenceFact | OptionalFact

_OPEN = "\0open"
OPEN = Symbol(_OPEN, 0)
"""A dim that only a run can tell (how many elements are not zero); who sets the fact makes a symbol of it."""

OPEN_ELEMENT = Symbol(_OPEN, None)
"""The same of an element, which may be negative."""


def open_dim(upper: Dim | None) -> Dim:
    """A dim like `OPEN` that is no greater than `upper`, where that is a number."""
    return Symbol(_OPEN, 0, upper) if isinstance(upper, int) and upper >= 0 else OPEN


def is_open(dim: Dim) -> bool:
    """Whether `OPEN` is a part of the dim."""
    return isinstance(dim, Symbolic) and any(variable.name == _OPEN for variable in dim.variables)


def closed(dim: Dim, make: Callable[[int | None, int | None], Dim]) -> Dim:
    """The dim with what `make` gives for the bounds of an open dim in its place."""
    opened = symbols(dim).get(_OPEN)
    return dim if opened is None else substitute(dim, {_OPEN: make(*opened.bounds)})


_NUMBERS = frozenset((int,))

UNKNOWN = TensorFact(None, None)
"""Nothing is known: what an opaque node yields where its file declares nothing."""


def number(dim: Dim) -> int:
    """The dim as a plain integer.

    Raises:
        Unknown: it is symbolic.
    """
    if isinstance(dim, Symbolic):
        raise Unknown
    return dim


def named(fact: Fact, name: str, least: int = 0) -> Fact:
    """`fact` with a symbol of its own, called after the value and the axis, for each dim that only a run can tell.

    It is no less than `least`: an axis that a file leaves without a name has entries as one with a name has.

    Such dims of a sequence stay open: they may differ from one of its elements to the next.
    """
    if isinstance(fact, SequenceFact):
        return fact
    if isinstance(fact, OptionalFact):
        return OptionalFact(named(fact.element, name, least))
    shape, elements = fact.shape, fact.elements
    if shape is not None and not _NUMBERS.issuperset(map(type, shape)):
        shape = tuple(_own(dim, f"{name}.{axis}", least) for axis, dim in enumerate(shape))
    if elements is not None and not _NUMBERS.issuperset(map(type, elements)):
        elements = tuple(_own(dim, f"{name}.{index}", None) for index, dim in enumerate(elements))
    is_same = shape == fact.shape and elements == fact.elements
    return fact if is_same else TensorFact(fact.dtype, shape, elements, fact.reals)


def _own(dim: Dim, name: str, least: int | None) -> Dim:
    """The dim with a symbol of that name, no less than `least`, for what only a run can tell."""
    return closed(dim, lambda low, high: Symbol(name, low if least is None else max(low or 0, least), high))
