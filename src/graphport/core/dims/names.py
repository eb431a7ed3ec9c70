"""Dims from texts, and what files call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims.symbolic import Dim, Symbol, Symbolic, is_expression, read_dim, single
from graphport.core.dims.terms import Variable
from graphport.core.dims.text import lone_name

if TYPE_CHECKING:
    from collections.abc import Mapping


def parse_dim(text: str, symbols: Mapping[str, Symbolic] | None = None) -> Dim:
    """Parse the dim whose `str` is the text; any other text is the name of one symbol. `str` returns the text again.

    `N+1`, `(W+1)//2`, `max(N,1)` and `7` are expressions; `batch size`, `?`, `1+N`, `N*` and `-1` are names. Names in
    `symbols` refer to that symbol, others become symbols with lower bound 0.

    Raises:
        ValueError: the text is empty.
    """
    known = symbols or {}

    def named(name: str) -> Symbolic:
        return known[name] if name in known else Symbol(name)

    # Bounds may simplify the expression; whether the text is an expression does not depend on them.
    plain = read_dim(text, lambda name: Symbol(name, None))
    if plain is None or str(plain) != text:
        return named(text)
    dim = read_dim(text, named)
    return named(text) if dim is None else dim


def expression_of(text: str, symbols: Mapping[str, Symbolic] | None = None) -> Dim | None:
    """Parse a dim in any spelling; `None` if the text is not an expression. Names are as for `parse_dim`."""
    known = symbols or {}
    return read_dim(text, lambda name: known[name] if name in known else Symbol(name))


def dim_name(dim: Symbolic) -> str:
    """Return the name of the dim in files: a symbol's name unchanged, even if it looks like a float (`361.0`)."""
    atom = single(dim)
    return lone_name(atom.name, is_expression) if isinstance(atom, Variable) else str(dim)
