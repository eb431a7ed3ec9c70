"""Changes that legalizing made to operators of older opsets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.ir.graph import walk
from graphport.ops import registry
from graphport.passes.driver import Outcome
from graphport.passes.journal import Note, label

if TYPE_CHECKING:
    from graphport.ir.graph import Graph, Node


def find_upgraded_nodes(graph: Graph) -> Outcome:
    """Return the nodes of a raw `graph` that legalizing changes to newer forms: Slice-1, Clip-6, Pad-2.

    Legalizing precedes all passes, which handle canonical operators only; a canonical graph has no such nodes.
    """
    notes = [
        Note(label(node), _text(node), node.origin) for inner in walk(graph) for node in inner if _is_upgraded(node)
    ]
    return Outcome("upgrade", tuple(notes), ())


def _is_upgraded(node: Node) -> bool:
    if not node.dialect:
        return False
    version = registry.version(node)
    if node.dialect == "onnx" and registry.is_verbatim(node.op_type, version):
        return False
    if "." in node.dialect:
        return False  # does not apply to operators of other ONNX domains
    return registry.lowering(node.dialect, node.op_type, version) is not None


def _text(node: Node) -> str:
    version = registry.version(node)
    return f"upgraded to the current opset{'' if version is None else f' from {node.dialect} {version}'}"
