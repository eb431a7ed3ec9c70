"""Operators of TFLite that take what stays between runs: variables and hash tables."""

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


def is_whole(node: Node) -> bool:
    """Whether a node has as many operands and results as its word takes; a file may have others."""
    own = len(node.operands), len(node.results)
    return _ARITIES.get(node.word, own) == own
