"""Rules between tract's operators and canonical ones without NNEF equivalent: rows, and few functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.core.dims import Symbolic
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from graphport.core.dims import Dim
    from graphport.ir.graph import Value

Exported = Any


def dims_of(value: Value | None) -> tuple[Dim, ...] | None:
    """Return known dims or indices, possibly symbolic."""
    if value is None:
        return None
    fact = value.fact
    if isinstance(fact, TensorFact) and fact.elements is not None:
        return tuple(fact.elements)
    storage = value.storage
    if storage is None or not value.is_constant or storage.count > 4096 or not storage.dtype.is_integer:
        return None
    return tuple(int(x) for x in storage.numpy().reshape(-1))


def static_integers(value: Value | None) -> tuple[int, ...] | None:
    """Return known integers."""
    found = dims_of(value)
    if found is None or any(isinstance(each, Symbolic) for each in found):
        return None
    return tuple(each for each in found if isinstance(each, int))


def fact_like(value: Value, dtype: DType | None = None) -> TensorFact:
    """Return the shape of a value with dtype `dtype`, by default its own."""
    fact = value.fact if isinstance(value.fact, TensorFact) else TensorFact(None, None)
    return TensorFact(dtype or fact.dtype, fact.shape)
