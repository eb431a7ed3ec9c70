"""Symbolic dimensions: integer expressions over named, bounded unknowns, in one canonical form.

A `Dim` is an `int` or a `Symbolic`: a polynomial with integer coefficients over atoms, where an atom is a symbol, a
floor division, a maximum or a minimum of canonical expressions. Arithmetic keeps Python's floor semantics (`x % n` is
held as `x - n*(x//n)`) and gives a plain `int` as soon as nothing unknown is left. `==` and `hash` compare structure,
and see that `a + b` is `b + a`, that `2*a` is `a + a` and that `(4*H + W)//4` is `H + W//4`.

A symbol is at least 1 unless it is made with other bounds: files have names for axes, and an axis of a network is not
empty. Division is total, `x//0` is 0, and exact cancellation ignores divisors of zero: `(N*C)//C` is `N` although `C`
may be 0. One name means one number: give every use of a name the same bounds.

An operation whose result is past the limits of `terms` raises `TooLong`. What stands where an extent is, is much
shorter: `Extents` gives names to the rest.

How much algebra that takes was counted over 575 models of seven formats: quotients within each other become one,
common factors go, and what a difference with a quotient, a maximum or a minimum in it lies between decides
comparisons. 107 of 1,205 files have computed extents, and each of these parts taken out by itself changes what is told
of so many: maxima within sums 9, ceilings 5, factors in front of a name 5, quotients within each other 3, bounds of
quotients 3. Maxima with equal parts keep the batch of a decoder's layers one symbol, where each of its caches in IR
has axes of its own. Long division and common factors of symbols change none of these, and stay for axes that people
open themselves: without the first, `batch*(past + T)//(past + T)`, which a Reshape with a -1 asks for, is not `batch`.

Cases by the residues of symbols, symbols counted from their bounds, bounds of squares and of remainders by symbols,
and texts that turn a remainder or a ceiling around (`(-H)%32` for `31-(H+31)%32`) changed no extent of any model, and
are gone.

Why this is not SymPy (`benchmarks/shapes/algebra.py`; processor time, SymPy 1.14): importing that takes 0.28 s, this
0.03 s, and a command is to begin within 0.3 s. With polynomials SymPy is as quick, or quicker (11 and 16 µs). But
`H//2//3 = H//6` and `-(-H//4) = (H+3)//4`, of which strides and ceilings are made, take it 12 to 16 ms and are not seen
(50 µs here), five strides of 2 stay five floors within each other where this says `(H+31)//32`, and comparisons of them
are left open.
"""

from __future__ import annotations

from graphport.core.dims.bindings import evaluate, substitute, symbols
from graphport.core.dims.decisions import decide_equal, decide_less, settle_equal
from graphport.core.dims.elements import Element, dim_of, element
from graphport.core.dims.equations import MOST_TEXT
from graphport.core.dims.example import example, examples
from graphport.core.dims.extents import Constraint, Contradiction, Extents, Relation
from graphport.core.dims.names import dim_name, expression_of, parse_dim
from graphport.core.dims.prefix import Functions, prefixed
from graphport.core.dims.symbolic import (
    Dim,
    Symbol,
    Symbolic,
    bounds,
    ceil_div,
    maximum,
    minimum,
    product,
)
from graphport.core.dims.terms import TooLong, Undecided

__all__ = [
    "MOST_TEXT",
    "Constraint",
    "Contradiction",
    "Dim",
    "Element",
    "Extents",
    "Functions",
    "Relation",
    "Symbol",
    "Symbolic",
    "TooLong",
    "Undecided",
    "bounds",
    "ceil_div",
    "decide_equal",
    "decide_less",
    "dim_name",
    "dim_of",
    "element",
    "evaluate",
    "example",
    "examples",
    "expression_of",
    "maximum",
    "minimum",
    "parse_dim",
    "prefixed",
    "product",
    "settle_equal",
    "substitute",
    "symbols",
]
