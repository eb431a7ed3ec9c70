"""Many elements summed up in one, along some axes; and where the largest are."""

from __future__ import annotations

from graphport.ops.reduction.einsum import Einsum
from graphport.ops.reduction.places import ArgMax, ArgMin, TopK
from graphport.ops.reduction.reduce import (
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
from graphport.ops.reduction.running import CumProd, CumSum

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
