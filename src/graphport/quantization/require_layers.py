"""Report models without any layer that can be quantized."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dtypes import DType
from graphport.ir.graph import walk
from graphport.ops.registry import op_defs

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node
    from graphport.quantization.placement import Placement
    from graphport.runtimes.target import Target

_MAX_REASONS = 5


def refuse_empty(graph: Graph, placement: Placement, target: Target) -> None:
    """Reject `graph` if it has no layer that `target` can compute on integers.

    Raises:
        DiagnosticError: QUANT0007 there is none; the remedy depends on the reasons.
    """
    if placement.layers or placement.recurrent:
        return
    reasons = list(dict.fromkeys(f"{node.op}: {reason}" for node, reason in placement.floating.items()))
    inside = inner_layers(graph)
    if inside:
        reasons.append(f"{inside} layers are in subgraphs of If, Loop or Scan, which remain in float")
    stated = "; ".join(reasons[:_MAX_REASONS]) or "there is no node with weights"
    message = f"{target.name} cannot compute any layer on integers: {stated}"
    raise DiagnosticError(Diagnostic("QUANT0007", message, None, _remedy(placement, inside)))


def inner_layers(graph: Graph) -> int:
    """Count the nodes with weights in bodies."""
    bodies = (body for body in walk(graph) if body is not graph)
    return sum(1 for body in bodies for node in body if is_weighted(node))


def is_weighted(node: Node) -> bool:
    """Whether the operator multiplies with weights."""
    op_def = None if node.dialect else op_defs().get(node.op_type)
    return op_def is not None and op_def.role == "weighted"


def _remedy(placement: Placement, inside: int) -> str:
    types = dict.fromkeys(str(dtype) for node in placement.floating if (dtype := _other_type(node)) is not None)
    if types:
        names = " and ".join(types)
        return f"cast the model from {names} to float32 (graphport cast --to float32), then quantize it"
    if placement.floating:
        return "choose another target or dispatch, or keep fewer nodes in float"
    if inside:
        return "export the model without If, Loop and Scan, for example one branch of an If"
    return "use the float model: integers have no benefit here"


def _other_type(node: Node) -> DType | None:
    """Return the type of a constant float weight other than float32."""
    weight = node.operand(1)
    dtype = None if weight is None or weight.storage is None else weight.storage.dtype
    return dtype if dtype is not None and dtype.is_floating and dtype is not DType.FLOAT32 else None
