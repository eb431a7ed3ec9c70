"""Variables that live inside one statement of a function only."""

from __future__ import annotations

import ast
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Liveness:
    """Temporaries of the statements of a function."""

    def __init__(self, body: Sequence[ast.stmt]) -> None:
        self._reads = Counter(name.id for statement in body for name in _names(statement) if _is_read(name))
        self._found: dict[ast.stmt, frozenset[str]] = {}

    def temporaries(self, statement: ast.stmt) -> frozenset[str]:
        """Return the variables that only `statement` reads, each after it has set it."""
        if statement not in self._found:
            first: dict[str, bool] = {}
            reads: Counter[str] = Counter()
            for name in _names(statement):
                first.setdefault(name.id, not _is_read(name))
                reads[name.id] += _is_read(name)
            chosen = (name for name, is_set in first.items() if is_set and reads[name] == self._reads[name])
            self._found[statement] = frozenset(chosen)
        return self._found[statement]


def _is_read(name: ast.Name) -> bool:
    return not isinstance(name.ctx, ast.Store)


def _names(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the variables in the order of evaluation: the value of an assignment before its target."""
    children = list(ast.iter_child_nodes(node))
    if isinstance(node, ast.Assign | ast.AnnAssign):
        children.sort(key=lambda child: isinstance(getattr(child, "ctx", None), ast.Store))
    for child in children:
        if isinstance(child, ast.Name):
            yield child
        yield from _names(child)
