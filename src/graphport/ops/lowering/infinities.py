"""Detection of infinities that a mask can leave in a value, for targets whose kernels do not support them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.constant_folding import folded
from graphport.ops.lowering.operands import dtype_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Value

_MOST_ASKED = 24
_MOST_ELEMENTS = 1 << 22
"""The size of the largest constant that is searched; masks are smaller."""


def infinities(value: Value, keeps: Collection[str]) -> list[float]:
    """Return the infinities (-inf first) in constants whose elements may reach `value` by data movement.

    `keeps` lists the op types, without domain prefix, of nodes that only move or select elements.
    """
    dtype = dtype_of(value).numpy
    asked, found = [value], set[float]()
    for count, each in enumerate(asked):
        if count == _MOST_ASKED:
            break
        storage = folded(each)
        if storage is not None:
            if storage.dtype.is_floating and storage.count <= _MOST_ELEMENTS:
                with np.errstate(over="ignore", invalid="ignore"):
                    numbers = storage.numpy().astype(dtype, copy=False)
                found |= {infinity for infinity in (-np.inf, np.inf) if np.any(numbers == infinity)}
        elif each.producer is not None and each.producer.op_type.rpartition(".")[2] in keeps:
            asked += [one for one in each.producer.operands if one not in asked]
    return sorted(found)
