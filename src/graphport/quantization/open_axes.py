"""Remove the names of batch axes, so that ONNX Runtime allocates memory at run time instead of planning it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dtypes import DType
from graphport.core.facts import OPEN, TensorFact
from graphport.ir import rewrite

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Value


def unnamed(graph: Graph) -> Graph:
    """Return a copy of `graph` with unnamed open first axes; `graph` if there are none, or without float inputs.

    Before  x float32 [N, 3, 48, 48]
    After   x float32 [?, 3, 48, 48]

    If ONNX Runtime 1.31 knows that two results have equal size, the second reuses the memory of the first, which is
    held until then. Layers of many widths then exceed the processor's cache, and data movement takes twice the time
    (1.4 times for a whole small transformer). Unnamed axes prevent it.
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
    """Whether an input is float with an open batch axis."""
    fact = value.fact
    if not isinstance(fact, TensorFact) or fact.dtype != DType.FLOAT32 or not fact.shape:
        return False
    return not isinstance(fact.dims[0], int)
