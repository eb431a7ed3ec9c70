"""Facts and storages of complex tensors as real ones with a last axis of 2."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from graphport.core.dtypes import DType
from graphport.core.facts import UNKNOWN, TensorFact
from graphport.ops.constant_folding import Computed

if TYPE_CHECKING:
    import numpy as np

    from graphport.core.facts import Fact
    from graphport.core.storage import Storage
    from graphport.ir.graph import Value

REALS = MappingProxyType({DType.COMPLEX64: DType.FLOAT32, DType.COMPLEX128: DType.FLOAT64})
"""Element type of the real and imaginary parts by complex element type."""


def pair_value(value: Value) -> None:
    """Change the fact and the storage of a complex value to a real tensor with a last axis of 2."""
    value.fact = _paired(value.fact)
    if value.storage is not None:
        value.storage = _store_as_pairs(value.storage)


def _paired(fact: Fact) -> Fact:
    if not isinstance(fact, TensorFact) or fact.dtype is None:
        return UNKNOWN
    return TensorFact(REALS[fact.dtype], None if fact.shape is None else (*fact.shape, 2))


def _store_as_pairs(storage: Storage) -> Storage:
    dtype = REALS[storage.dtype]

    def view_pairs(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return array.reshape(-1).view(dtype.numpy).reshape(*array.shape, 2)

    return Computed(view_pairs, (storage,), dtype, (*storage.shape, 2))
