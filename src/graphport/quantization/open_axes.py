"""Axes of samples without a name, so that ONNX Runtime takes memory while it runs, and not by a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ir import rewrite

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value


def unnamed(graph: Graph) -> Graph:
    """A copy of `graph` whose free first axes have no name; `graph` if there are none, or if it reads no real numbers.

    Before  x float32 [N, 3, 48, 48]
    After   x float32 [?, 3, 48, 48]

    Where ONNX Runtime 1.31 knows that two results are of one size, the second is computed in the memory of the first,
    which is kept for it until then. Layers of many widths so hold more than a processor's cache, and what moves numbers
    takes twice the time (the whole of a small transformer 1.4 times). Of an axis without a name it knows nothing.
    """
    if not graph.inputs or not all(_is_free(value) for value in graph.inputs):
        return graph
    twin = rewrite.copy(graph)
    for value in dict.fromkeys((*twin.inputs, *twin.outputs)):
        fact = value.fact
        if isinstance(fact, TensorFact) and fact.shape and not isinstance(fact.dims[0], int):
            value.fact = fact.with_shape((OPEN, *fact.dims[1:]))
    return twin


def _is_free(value: Value) -> bool:
    """Whether it is real numbers of as many samples as one likes."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype != DType.FLOAT32 or not fact.shape:
        return False
    return not isinstance(fact.dims[0], int)
