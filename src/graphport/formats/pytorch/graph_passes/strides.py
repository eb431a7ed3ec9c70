"""Tensors that are said by strides look at a storage, whichever view of it they were asked of."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from graphport.core.diagnostics import Diagnostic
from graphport.formats.pytorch.rules.overloads import DIALECT, VIEWS, base_of

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node, Value

LAYOUT = "pt2.layout"
"""The note of a tensor where strides say some: whether it is dense, and at which element of its storage it begins."""
_SCATTER = "aten.as_strided_scatter"
_WORDS = frozenset({"aten.as_strided", "aten.as_strided_copy", _SCATTER})


def rebase(graph: Graph) -> list[Diagnostic]:
    """Let words with strides be asked of the whole storage; return those whose storage is not known."""
    findings: list[Diagnostic] = []
    for node in graph:
        if node.dialect != DIALECT or base_of(node.word) not in _WORDS:
            continue
        first = node.operand(0)
        if first is None:
            continue
        asked = _layout(first)
        whole = _whole(first)
        if base_of(node.word) == _SCATTER:
            # What is written has the shape of its operand, not of the storage.
            whole = first if asked == (True, 0) else None
        if asked is None and whole is first:
            continue  # nothing is recorded: it is taken as it lies
        if whole is None or asked is None or asked[1] is None:
            message = f"{node.op}: which numbers lie in the storage of %{first.name} is not known"
            help = "say the tensor by views: slices, transposes, unfold"
            findings.append(Diagnostic("LEG0004", message, node.origin, help))
            continue
        node.set_input(0, whole)
        if node.attributes.get("storage_offset") is None:
            node.set_attribute("storage_offset", asked[1])
    return findings


def _layout(value: Value) -> tuple[bool, int | None] | None:
    return cast("tuple[bool, int | None] | None", value.notes.get(LAYOUT)) if value.has_notes else None


def _whole(value: Value) -> Value | None:
    """The tensor that a value is a view of; `None` where it does not lie as its axes say."""
    at = value
    while (node := at.producer) is not None and (above := _seen_through(node, at)) is not None:
        at = above
    layout = _layout(at)
    return at if layout is None or layout == (True, 0) else None


def _seen_through(node: Node, value: Value) -> Value | None:
    """What a word looks at; not what it may as well have copied."""
    view = VIEWS.get(base_of(node.word)) if node.dialect == DIALECT else None
    operand = node.operand(0)
    if view is None or operand is None:
        return None
    if view.doubt is None:
        return operand
    # What copies begins a storage of its own; of a tensor that lies in order a copy has the same numbers.
    return operand if _layout(operand) == (True, 0) and _layout(value) == (True, 0) and view.doubt != "cast" else None
