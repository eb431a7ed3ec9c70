"""Symbolic dimensions: integer expressions over named, bounded unknowns, in one canonical form.

A `Dim` is an `int` or a `Symbolic`: a polynomial with integer coefficients over atoms, where an atom is a symbol, a
floor division, a maximum or a minimum of canonical expressions. Arithmetic has Python's floor semantics (`x % n` is
stored as `x - n*(x//n)`) and returns a plain `int` if no symbol remains. `==` and `hash` compare structure, and
recognize that `a + b` is `b + a`, that `2*a` is `a + a` and that `(4*H + W)//4` is `H + W//4`.

A symbol is at least 1 unless it is created with other bounds: axes of networks are not empty by default. Division is
total, `x//0` is 0, and exact cancellation ignores zero divisors: `(N*C)//C` is `N` although `C` may be 0. One name
denotes one number: all uses of a name must have equal bounds.

An operation whose result exceeds the limits of `terms` raises `TooLong`. Dims of facts are much shorter: `Extents`
names longer expressions.

The rules were chosen by their effect on 575 models of seven formats: nested quotients are merged, common factors
cancelled, and the bounds of a difference with a quotient, a maximum or a minimum decide comparisons. 107 of 1,205 files
have computed dims; removing a rule changes the dims of: maxima within sums 9, ceilings 5, factors before a name 5,
nested quotients 3, bounds of quotients 3. Maxima of equal terms keep the batch of a decoder's layers one symbol. Long
division and common factors of symbols change no file; they serve axes that users open: without the former,
`batch*(past + T)//(past + T)`, which a Reshape with -1 computes, is not `batch`.

Case distinctions by residues of symbols, symbols relative to their bounds, bounds of squares and of remainders by
symbols, and a normal form of remainders and ceilings (`(-H)%32` for `31-(H+31)%32`) changed no model and were removed.

Comparison with SymPy 1.14 (`benchmarks/shapes/algebra.py`; CPU time): importing SymPy takes 0.28 s, this package 0.03
s, and a command must start within 0.3 s. On polynomials SymPy is equally fast or faster (11 and 16 µs). But
`H//2//3 = H//6` and `-(-H//4) = (H+3)//4`, which strides and ceilings need, take SymPy 12 to 16 ms and are not
recognized (50 µs here); five strides of 2 stay five nested floors instead of `(H+31)//32`, and comparisons of them are
undecided.
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
from graphport.core.dims.sympy_text import parse_sympy
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
    "parse_sympy",
    "prefixed",
    "product",
    "settle_equal",
    "substitute",
    "symbols",
]
