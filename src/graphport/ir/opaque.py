"""Reasons why nodes have no canonical form."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.ir.graph import Node

_NOTE = "opaque"


@dataclass(frozen=True, slots=True)
class _Opaque:
    """Note on the reason why a node has no canonical form; not written to files, because readers find it again."""

    reason: str


def mark(node: Node, reason: str) -> None:
    """Note why `node` has no canonical form."""
    node.notes[_NOTE] = _Opaque(reason)


def reason_of(node: Node) -> str | None:
    """Return the reason why `node` has no canonical form, if legalizing it has failed."""
    noted = node.notes.get(_NOTE) if node.has_notes else None
    return noted.reason if isinstance(noted, _Opaque) else None


def count_opaque(nodes: Iterable[Node]) -> list[str]:
    """Return op type, node count and reason of each opaque operator, in order of first occurrence."""
    counts = Counter((node.op, reason_of(node)) for node in nodes)
    return [f"{op} ({count}{f': {reason}' if reason else ''})" for (op, reason), count in counts.items()]
