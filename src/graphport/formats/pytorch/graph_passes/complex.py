"""Represent complex tensors as real tensors with a last axis of 2 (real and imaginary part)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity
from graphport.core.dtypes import DType
from graphport.formats.pytorch.graph_passes.pairs import pair_value
from graphport.formats.pytorch.rules.binding import COMPLEX
from graphport.formats.pytorch.rules.overloads import DIALECT
from graphport.ops import registry

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.ir.graph import Graph, Node

_KINDS = frozenset({DType.COMPLEX64, DType.COMPLEX128})


def pair(graph: Graph) -> list[Diagnostic]:
    """Convert every complex tensor to a real one with a last axis of 2, if all its operators have a rule.

    Converted inputs and outputs are reported.

    Raises:
        DiagnosticError: LEG0004 an operator on complex tensors has no rule.
    """
    known = {value: None for value in graph.values() if value.dtype in _KINDS}
    if not known:
        return []
    nodes = [node for node in graph if any(value in known for value in (*node.operands, *node.results))]
    unsupported = [node for node in nodes if registry.lowering(DIALECT, f"{COMPLEX}{node.op_type}") is None]
    if unsupported:
        raise DiagnosticError(*(_refused(node) for node in {node.op_type: node for node in unsupported}.values()))
    for node in nodes:
        node.op_type = f"{COMPLEX}{node.op_type}"
        node.set_attribute(COMPLEX, tuple(value in known for value in node.inputs))
    public = [value.name for value in (*graph.inputs, *graph.outputs) if value in known]
    for value in known:
        pair_value(value)
    return [_finding(public)] if public else []


def _refused(node: Node) -> Diagnostic:
    message = f"unsupported: {node.op} of complex tensors"
    return Diagnostic(
        "LEG0004",
        message,
        node.origin,
        "compute with real tensors, see torch.view_as_real",
    )


def _finding(names: Iterable[str]) -> Diagnostic:
    message = (
        f"{', '.join(dict.fromkeys(names))}: complex tensors are represented as real tensors with a last axis of size 2"
    )
    help = "convert with torch.view_as_real and torch.view_as_complex"
    return Diagnostic("LEG0007", message, None, help, Severity.WARNING)
