"""Which infinite numbers a mask may have left in a value, for targets whose kernels take them for others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphport.ops.folded import folded
from graphport.ops.lowering.operands import dtype_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from graphport.ir.graph import Value

_MOST_ASKED = 24
_MOST_ELEMENTS = 1 << 22
"""Numbers of the largest constant that is searched: masks have fewer."""


def infinities(value: Value, keeps: Collection[str]) -> list[float]:
    """Those, the negative one first, among the constants that a real `value` may be made of.

    `keeps` are the words, without their set, of nodes that give numbers they are given.
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
        elif each.producer is not None and each.producer.word.rpartition(".")[2] in keeps:
            asked += [one for one in each.producer.operands if one not in asked]
    return sorted(found)
