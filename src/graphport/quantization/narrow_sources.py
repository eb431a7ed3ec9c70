"""Convert float16 and bfloat16 models to float32 before quantization, and restore inputs and outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity
from graphport.core.dtypes import DType
from graphport.ir import rewrite
from graphport.ir.graph import walk
from graphport.quantization.half.insert_casts import NARROW, narrow_interface, widened
from graphport.quantization.half_weights import narrow_weights
from graphport.quantization.require_layers import is_weighted

if TYPE_CHECKING:
    from graphport.ir.graph import Graph
    from graphport.runtimes.target import Target


def narrow_type(graph: Graph) -> DType | None:
    """Return the type of the weights of a float16 or bfloat16 model; `None` if no layer computes in them."""
    for inner in walk(graph):
        for node in inner:
            dtype = node.operands[0].dtype if node.operands and is_weighted(node) else None
            if dtype in NARROW:
                return dtype
    return None


def widen_source(graph: Graph, dtype: DType) -> tuple[Graph, Diagnostic]:
    """Return a float32 copy of a model of `dtype`, and a note."""
    message = f"the {dtype} model is quantized as a float32 model; inputs and outputs remain {dtype}"
    help_ = "graphport cast DST OUT --to float16 converts the operators that remain in float"
    return widened(graph, keep_io=False), Diagnostic("QUANT0035", message, None, help_, Severity.NOTE)


def narrow_result(graph: Graph, source: Graph, dtype: DType, target: Target) -> Graph:
    """Return a copy of `graph` with the input and output types of `source`.

    Large weights that remain in float are stored in `dtype` again if `target` supports it.
    """
    is_supported = dtype in target.stored or (dtype is DType.FLOAT16 and target.halves)
    result = narrow_weights(graph, dtype) if is_supported else rewrite.copy(graph)
    narrow_interface(result, source)
    return result
