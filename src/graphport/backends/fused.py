"""The pages, with chains of element-wise operators computed in one pass over memory each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.backends.interpreter import InterpreterSession, check
from graphport.expression.expression import Expression
from graphport.ir import rewrite
from graphport.ops import registry
from graphport.passes import driver
from graphport.passes.fuse_expressions import FUSE_EXPRESSIONS, WORD

if TYPE_CHECKING:
    from graphport.ir.graph import Graph


def prepare(graph: Graph, *, threads: int = 0) -> InterpreterSession:
    """Prepare `graph` with its element-wise chains fused.

    An expression is first computed with NumPy, and compiled when the saved time justifies it, if llvmlite is installed;
    it then runs on up to `threads` threads, by default one per processor.

    Raises:
        DiagnosticError: RUN0003 names every operator without a definition.
    """
    check(graph)
    fused = rewrite.copy(graph)
    driver.run(fused, FUSE_EXPRESSIONS)
    return InterpreterSession(fused, {**registry.op_defs(), WORD: _Expressions(threads)})


class _Expressions:
    """The expressions of a session, with their compiled functions."""

    def __init__(self, threads: int) -> None:
        self._threads = threads or None
        self._known: dict[str, Expression] = {}

    def __call__(self, *inputs: Any, expression: str) -> Any:
        found = self._known.get(expression)
        if found is None:
            found = self._known[expression] = Expression(expression, threads=self._threads)
        return found(*inputs)
