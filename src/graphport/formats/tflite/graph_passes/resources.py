"""TFLite operators on resources: variables and hash tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphport.ir.graph import Node

_ARITIES = {
    "VAR_HANDLE": (0, 1),
    "READ_VARIABLE": (1, 1),
    "ASSIGN_VARIABLE": (2, 0),
    "HASHTABLE_FIND": (3, 1),
    "HASHTABLE_SIZE": (1, 1),
    "HASHTABLE_IMPORT": (3, 0),
}


def has_expected_arity(node: Node) -> bool:
    """Whether a node has the number of operands and results of its op type; files may violate it."""
    own = len(node.operands), len(node.results)
    return _ARITIES.get(node.op_type, own) == own
