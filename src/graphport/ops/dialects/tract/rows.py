"""What tract's words say of canonical operators that the standard has no words for: rows, and few functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.ops.declare import lift
from graphport.ops.dialects.tract.binding import DIALECT

if TYPE_CHECKING:
    from collections.abc import Callable

    from graphport.core.dims import Dim
    from graphport.ir.graph import Value
    from graphport.ops.builder import Builder

Lifted = Any


def dims_of(value: Value | None) -> tuple[Dim, ...] | None:
    """Extents or places that are known, symbols among them."""
    if value is None:
        return None
    fact = value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None:
        return tuple(fact.elements)
    storage = value.storage
    if storage is None or not value.is_constant or storage.count > 4096 or not storage.dtype.is_integer:
        return None
    return tuple(int(x) for x in storage.numpy().reshape(-1))


def numbers_of(value: Value | None) -> tuple[int, ...] | None:
    """Integers that are known."""
    found = dims_of(value)
    if found is None or any(isinstance(each, Symbolic) for each in found):
        return None
    return tuple(each for each in found if isinstance(each, int))


def fact_like(value: Value, dtype: DType | None = None) -> TensorFact:
    """The shape of a value, with another element type."""
    fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
    return TensorFact(dtype or fact.dtype, fact.shape)


def unary(page: str, word: str, of_doubles: Callable[[Builder, Value], Lifted] | None = None) -> None:
    """Register a word of one operand, and how it is said of doubles where tract knows it of other reals alone."""

    @lift(DIALECT, page)
    def lifted(b: Builder, x: Value) -> Lifted:
        if of_doubles is not None and isinstance(x.fact, TensorFact) and x.fact.dtype is DType.FLOAT64:
            return of_doubles(b, x)
        return b.word(word, x, facts=[fact_like(x)])

    del lifted
