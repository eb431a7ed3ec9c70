"""Operators with explicit strides, which address the storage of a view."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.core.diagnostics import Diagnostic
from graphport.formats.pytorch.rules.overloads import DIALECT, VIEWS, base_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

LAYOUT = "pt2.layout"
"""Note of a tensor: whether it is dense, and its offset in the storage, if strides are known."""
_SCATTER = "aten.as_strided_scatter"
_WORDS = frozenset({"aten.as_strided", "aten.as_strided_copy", _SCATTER})


def rebase(graph: Graph) -> list[Diagnostic]:
    """Pass the whole storage, not a view of it, to operators with explicit strides; report views of unknown layout."""
    findings: list[Diagnostic] = []
    for node in graph:
        if node.dialect != DIALECT or base_of(node.op_type) not in _WORDS:
            continue
        first = node.operand(0)
        if first is None:
            continue
        asked = _layout(first)
        whole = _contiguous_base(first)
        if base_of(node.op_type) == _SCATTER:
            # A written tensor has the shape of its operand, not of the storage.
            whole = first if asked == (True, 0) else None
        if asked is None and whole is first:
            continue  # nothing is recorded: the tensor is contiguous
        if whole is None or asked is None or asked[1] is None:
            message = f"{node.op}: the memory layout of %{first.name} is unknown"
            help = "replace as_strided by slices, transposes or unfold"
            findings.append(Diagnostic("LEG0004", message, node.origin, help))
            continue
        node.set_input(0, whole)
        if node.attributes.get("storage_offset") is None:
            node.set_attribute("storage_offset", asked[1])
    return findings


def _layout(value: Value) -> tuple[bool, int | None] | None:
    return cast("tuple[bool, int | None] | None", value.notes.get(LAYOUT)) if value.has_notes else None


def _contiguous_base(value: Value) -> Value | None:
    """Return the tensor that a value is a view of; `None` if it is not contiguous."""
    at = value
    while (node := at.producer) is not None and (above := _seen_through(node, at)) is not None:
        at = above
    layout = _layout(at)
    return at if layout is None or layout == (True, 0) else None


def _seen_through(node: Node, value: Value) -> Value | None:
    """Return the operand of which an operator returns a view; `None` if it may return a copy."""
    view = VIEWS.get(base_of(node.op_type)) if node.dialect == DIALECT else None
    operand = node.operand(0)
    if view is None or operand is None:
        return None
    if view.doubt is None:
        return operand
    # A copy has another storage, but the copy of a contiguous tensor has equal elements in order.
    return operand if _layout(operand) == (True, 0) and _layout(value) == (True, 0) and view.doubt != "cast" else None
