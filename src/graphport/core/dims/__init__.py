"""Symbolic dimensions: integer expressions over named, bounded unknowns, in one canonical form.

A `Dim` is an `int` or a `Symbolic`: a polynomial with integer coefficients over atoms, where an atom is a symbol, a
floor division, a maximum or a minimum of canonical expressions. Arithmetic keeps Python's floor semantics (`x % n` is
held as `x - n*(x//n)`) and gives a plain `int` as soon as nothing unknown is left. `==` and `hash` compare structure,
and see that `a + b` is `b + a`, that `2*a` is `a + a` and that `(4*H + W)//4` is `H + W//4`.

Exact cancellation ignores divisors of zero: `(N*C)//C` is `N` although `C` may be 0, because every runtime fails on a
division by zero. One name means one number: give every use of a name the same bounds.

An expression past the limits of `terms` becomes an *opaque* symbol: its name starts with `~` and is made from what it
stands for, so equal expressions stay equal, its bounds are those of the expression, and nothing else is known of it.
"""

from __future__ import annotations

from graphport.core.dims.bindings import evaluate, substitute, symbols
from graphport.core.dims.decisions import Undecided, decide_equal, decide_less
from graphport.core.dims.elements import Element, dim_of, element
from graphport.core.dims.example import example
from graphport.core.dims.symbolic import (
    Dim,
    Symbol,
    Symbolic,
    bounds,
    ceil_div,
    is_opaque,
    maximum,
    minimum,
    product,
)
from graphport.core.dims.text import parse_dim

__all__ = [
    "Dim",
    "Element",
    "Symbol",
    "Symbolic",
    "Undecided",
    "bounds",
    "ceil_div",
    "decide_equal",
    "decide_less",
    "dim_of",
    "element",
    "evaluate",
    "example",
    "is_opaque",
    "maximum",
    "minimum",
    "parse_dim",
    "product",
    "substitute",
    "symbols",
]
