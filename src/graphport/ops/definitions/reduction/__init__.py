"""Many elements summed up in one, along some axes; and where the largest are."""

from __future__ import annotations

from graphport.ops.definitions.reduction.einsum import Einsum
from graphport.ops.definitions.reduction.indices import ArgMax, ArgMin, TopK
from graphport.ops.definitions.reduction.reduce import (
    ReduceL1,
    ReduceL2,
    ReduceLogSum,
    ReduceLogSumExp,
    ReduceMax,
    ReduceMean,
    ReduceMin,
    ReduceProd,
    ReduceSum,
    ReduceSumSquare,
)
from graphport.ops.definitions.reduction.running import CumProd, CumSum

__all__ = [
    "ArgMax",
    "ArgMin",
    "CumProd",
    "CumSum",
    "Einsum",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "TopK",
]
