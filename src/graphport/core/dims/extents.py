"""The dims of a graph: symbols, definitions, equalities and constraints.

A dim is a number, a symbol, or a short expression of symbols. An expression longer than `MOST_TEXT` characters is
replaced by a symbol whose definition is stored here, once per graph. Binding the symbols of the inputs determines the
number of every dim.

A constraint that holds in every successful run is recorded: after `equate`, one of two dims represents both.

How a reader declares the dims of a file:

    batch = graph.extents.declare("s77", 2, 64)               a symbol and its bounds, `None` for unbounded
    half = graph.extents.define("s77_half", batch // 2)       a name for an expression
    graph.extents.require(Constraint(batch % 8, "=", 0))      a constraint of every run; returns a contradiction
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

from graphport.core.dims.bindings import evaluate, rebuilt, substitute, symbols
from graphport.core.dims.decisions import decide_equal, decide_less
from graphport.core.dims.equations import (
    MOST_TEXT,
    is_short,
    lies_within,
    mentions,
    names_of,
    primitive,
    solutions,
    split_factor,
)
from graphport.core.dims.symbolic import Dim, Symbol, Symbolic, bounds, dim_from, extreme_of, single, terms_of
from graphport.core.dims.terms import (
    Atom,
    Extreme,
    Terms,
    TooLong,
    Variable,
    terms_of_atom,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphport.core.diagnostics import Span

Relation = Literal["=", "<=", "broadcast"]

_WORD = re.compile(r"[^\W\d]\w*?(?=_?\d*(?:\W|$))")
_MOST_TURNS = 8  # Limit of replacements of equal terms; each one simplifies an expression.


class Constraint(NamedTuple):
    """A constraint between two dims: equal, at most, or `broadcast`: equal, or one of them is 1."""

    left: Dim
    relation: Relation
    right: Dim

    def __str__(self) -> str:
        if self.relation == "broadcast":
            return f"{self.left} = {self.right}, or one of them is 1"
        return f"{self.left} {self.relation} {self.right}"

    @property
    def is_true(self) -> bool | None:
        """Whether it holds for all admissible values; `None` where that depends on them."""
        if self.relation == "<=":
            greater = decide_less(self.right, self.left)
            return None if greater is None else not greater
        equal = decide_equal(self.left, self.right)
        if self.relation == "=" or equal is True:
            return equal
        ones = decide_equal(self.left, 1), decide_equal(self.right, 1)
        if True in ones:
            return True
        return False if equal is False and ones == (False, False) else None


class Contradiction(NamedTuple):
    """Two contradictory constraints, and the source of the earlier one."""

    constraint: Constraint
    other: Constraint
    origin: Span | None


class Extents:
    """The symbols of one graph, their definitions, and the constraints between them."""

    def __init__(self) -> None:
        self.declared: dict[str, Symbolic] = {}
        self.definitions: dict[str, Dim] = {}
        """Definition of each defined symbol by name, in terms of earlier symbols."""
        self.constraints: dict[Constraint, Span | None] = {}
        self.reserved: set[str] = set()
        """Names that no new symbol gets."""
        self.version = 0
        """Incremented when results of `settled` change."""
        self._equal: dict[Atom, Dim] = {}
        self._reasons: dict[Atom, tuple[Constraint, Span | None]] = {}
        self._names: dict[Dim, Symbolic] = {}
        self._settled: dict[Dim, Dim] = {}
        # Of `_equal`: maxima and minima, whose parts are looked for in others, and the names on either side.
        self._extremes: dict[Extreme, None] = {}
        self._touched: dict[Atom, frozenset[str]] = {}
        # Cached results of the methods below, valid for one version.
        self._resolved: dict[Dim, Dim] = {}
        self._partly: dict[Extreme, Dim | None] = {}
        self._counts: dict[str, int] = {}

    # Declarations of the file.

    def declare(self, name: str, lower: int | None = 1, upper: int | None = None) -> Symbolic:
        """Return the symbol of that name, created with the bounds if new; an equal earlier symbol replaces it."""
        found = self.declared.get(name)
        if found is None:
            found = self.declared[name] = Symbol(name, lower, upper)
        return found

    def define(self, name: str, dim: Dim) -> Symbolic:
        """Define a symbol for `dim`; its name is `name`, with a suffix if that is in use."""
        for inner, symbol in symbols(dim).items():
            self.declared.setdefault(inner, symbol)
        low, high = bounds(dim)
        symbol = self.declare(self._free(name), low, high)
        self.definitions[str_name(symbol)] = dim
        self._names.setdefault(dim, symbol)
        return symbol

    def fresh(self, name: str, lower: int | None = 0, upper: int | None = None) -> Symbolic:
        """Create a symbol for a size known only at run time; its name is `name`, with a suffix if that is in use."""
        self.reserved.discard(name)
        return self.declare(self._free(name), lower, upper)

    def require(self, constraint: Constraint, origin: Span | None = None) -> Contradiction | None:
        """Record a constraint, unless it is too long to compare; return the contradiction, if any."""
        now = Constraint(self.resolved(constraint.left), constraint.relation, self.resolved(constraint.right))
        try:
            holds = now.is_true
        except TooLong:
            return None
        if holds is None and now.relation == "=":
            self._unite(now, origin)
        if holds is None:
            self.constraints.setdefault(now, origin)
        return self._contradiction(constraint, origin) if holds is False else None

    def equate(self, left: Dim, right: Dim, origin: Span | None = None) -> Contradiction | None:
        """Make two dims equal; return the contradiction, if any."""
        return self.require(Constraint(left, "=", right), origin)

    # Dims in facts.

    def normalize(self, dim: Dim, name: str | None = None, before_naming: Callable[[], object] | None = None) -> Dim:
        """Return the dim as used in facts: equal terms are replaced, and a long expression becomes a symbol.

        A new symbol is called `name`, or after a symbol of the expression; `before_naming` is called first.
        """
        if isinstance(dim, int):
            return dim
        found = self._settled.get(dim)
        if found is None:
            found = self._settled[dim] = self._shortened(self.resolved(dim), name, before_naming)
        return found

    def find_normalized(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """Return cached results of `settled` for all `dims`, or `None` if one is missing."""
        found: list[Dim] = []
        for dim in dims:
            word = dim if type(dim) is int else self._settled.get(dim)
            if word is None:
                return None
            found.append(word)
        return tuple(found)

    def resolved(self, dim: Dim) -> Dim:
        """Replace equal terms in the dim by one representative, unless the result becomes too long."""
        if not self._equal or isinstance(dim, int):
            return dim
        found = self._resolved.get(dim)
        if found is None:
            found = self._resolved[dim] = self._resolve(dim)
        return found

    def _resolve(self, dim: Dim) -> Dim:
        for _ in range(_MOST_TURNS):
            if isinstance(dim, int) or not self._has_equal(dim.terms):
                break
            try:
                dim = rebuilt(dim.terms, self._equal_to)
            except TooLong:
                break
        return dim

    def _has_equal(self, terms: Terms) -> bool:
        """Whether some of the terms have an equal; this check is much faster than rebuilding the dim."""
        for monomial, _ in terms:
            for atom in monomial:
                if atom in self._equal:
                    return True
                if isinstance(atom, Variable):
                    continue
                if self._equal_to(atom) is not None:
                    return True
                for part in terms_of_atom(atom):
                    if self._has_equal(part):
                        return True
        return False

    def expanded(self, dim: Dim) -> Dim:
        """Expand all defined symbols in the dim.

        Raises:
            TooLong: the expansion exceeds the limits.
        """
        while isinstance(dim, Symbolic) and not self.definitions.keys().isdisjoint(symbols(dim)):
            dim = rebuilt(dim.terms, lambda atom: self.definitions.get(atom.name) if type(atom) is Variable else None)
        return dim

    def evaluate(self, dim: Dim, sizes: Mapping[str, int]) -> int:
        """Evaluate the dim for the given values of free symbols.

        Raises:
            KeyError: a free symbol has no value.
        """
        numbers = dict(sizes)
        for name in self._needed(dim):
            if name not in numbers:
                numbers[name] = evaluate(self.definitions[name], numbers)
        return evaluate(dim, numbers)

    def evaluate_symbols(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """Return `sizes`, and the values of all defined symbols that they determine."""
        found = dict(sizes)
        for name, dim in self.definitions.items():
            if name not in found:
                with suppress(KeyError):
                    found[name] = self.evaluate(dim, found)
        return found

    def free(self, dim: Dim) -> set[str]:
        """Return the names of all free symbols that the dim depends on."""
        names = set(symbols(dim))
        for name in self._needed(dim):
            names |= symbols(self.definitions[name]).keys()
        return names - self.definitions.keys()

    def used(self, dims: Iterable[Dim]) -> dict[str, Dim]:
        """Return the definitions that `dims` need, each after the definitions that it uses."""
        wanted: set[str] = set()
        for dim in dims:
            if isinstance(dim, Symbolic) and not wanted.issuperset(symbols(dim)):
                wanted.update(self._needed(dim))
        return {name: dim for name, dim in self.definitions.items() if name in wanted}

    def copy(self) -> Extents:
        """Return an independent copy."""
        other = Extents()
        for name in (
            "declared",
            "definitions",
            "constraints",
            "_equal",
            "_reasons",
            "_names",
            "_settled",
            "_extremes",
            "_touched",
            "_counts",
        ):
            setattr(other, name, dict(getattr(self, name)))
        other.version = self.version
        other.reserved = set(self.reserved)
        return other

    def bound(self, sizes: Mapping[str, Dim]) -> Extents:
        """Return the constraints that remain after binding symbols to sizes, without definitions."""
        other = Extents()
        for name, symbol in self.declared.items():
            if name not in sizes and name not in self.definitions:
                other.declared[name] = symbol
        for constraint, origin in self.constraints.items():
            try:
                left, right = (substitute(self.expanded(side), sizes) for side in (constraint.left, constraint.right))
                other.require(Constraint(left, constraint.relation, right), origin)
            except TooLong:
                continue
        return other

    def conclude(self) -> None:
        """Substitute equalities into definitions, which shortens some of them."""
        for name, dim in list(self.definitions.items()):
            now = self.resolved(dim)
            # A definition that became short after substitution is replaced in all dims, and its symbol is not needed.
            inner = [now, *(self.definitions[other] for other in self._needed(now))]
            if now == dim or any(name in symbols(each) for each in inner):
                continue
            self.definitions[name] = now
            if is_short(now):
                (((atom,), _),) = self.declared[name].terms
                self._replace(atom, now, (Constraint(self.declared[name], "=", now), None))

    # Names

    def _shortened(self, dim: Dim, name: str | None, before_naming: Callable[[], object] | None) -> Dim:
        if isinstance(dim, int) or isinstance(single(dim), Variable):
            return dim
        if self.definitions and not self.definitions.keys().isdisjoint([each.name for each in dim.variables]):
            with suppress(TooLong):
                dim = self.resolved(self.expanded(dim))
        known = self._names.get(dim)
        if known is not None:
            return known
        if isinstance(dim, int) or is_short(dim):
            return dim
        if before_naming is not None:
            before_naming()
        # A factor keeps its place: of 4*batch*(…) a Reshape takes 4 and batch away again.
        factor, core = split_factor(dim)
        if factor != 1:
            short = factor * self._symbol(core, None)
            if is_short(short):
                return short
        return self._symbol(dim, name)

    def _symbol(self, dim: Dim, name: str | None) -> Dim:
        if isinstance(dim, int) or isinstance(single(dim), Variable):
            return dim
        found = self._names.get(dim)
        return self.define(name or self._like(dim), dim) if found is None else found

    def _like(self, dim: Dim) -> str:
        """Return a name for an expression: its first plain symbol with a numeric suffix."""
        words = (found[0] for name in symbols(dim) if len(name) <= MOST_TEXT // 2 and (found := _WORD.match(name)))
        return next(words, "d")

    def _free(self, name: str) -> str:
        if name not in self.declared and name not in self.reserved:
            return name
        count, separator = self._counts.get(name, 1), "" if len(name) == 1 else "_"
        while (found := f"{name}{separator}{count + 1}") in self.declared or found in self.reserved:
            count += 1
        self._counts[name] = count + 1
        return found

    def _needed(self, dim: Dim) -> list[str]:
        """Return the names of the definitions that a dim uses, each after those it depends on."""
        found: dict[str, None] = {}
        pending = [(name, False) for name in symbols(dim) if name in self.definitions]
        while pending:
            name, is_ready = pending.pop()
            if is_ready:
                found[name] = None
            elif name not in found:
                pending.append((name, True))
                inner = symbols(self.definitions[name])
                pending += [(other, False) for other in inner if other in self.definitions and other not in found]
        return list(found)

    # Equality

    def _unite(self, constraint: Constraint, origin: Span | None) -> None:
        """Solve an equation for an atom that occurs once in the difference, and record the solution."""
        difference = primitive(constraint.left - constraint.right)
        choices = sorted(solutions(terms_of(difference)), key=lambda found: self._rank(*found))
        for atom, other in choices:
            if lies_within(other, atom) and is_short(other):
                self._replace(atom, other, (constraint, origin))
                return

    def _rank(self, atom: Atom, other: Dim) -> tuple[int, int]:
        """Return the replacement priority: first computed dims, then defined symbols, then the newest symbol."""
        if not isinstance(atom, Variable):
            return 0, -atom.size
        if atom.name in self.definitions:
            return 1, 0
        age = list(self.declared).index(atom.name) if atom.name in self.declared else len(self.declared)
        return 2, -age if isinstance(single(other), Variable) else 1

    def _replace(self, atom: Atom, other: Dim, reason: tuple[Constraint, Span | None]) -> None:
        pending = [(atom, other)]
        while pending:
            old, new = pending.pop()
            new = self.resolved(new)
            if old in self._equal or mentions(new, old):
                continue
            self._equal[old] = new
            self._reasons[old] = reason
            if isinstance(old, Extreme):
                self._extremes[old] = None
            self._forget()
            names = names_of(old)
            self._touched[old] = names | symbols(new).keys()
            # Rewrite earlier equalities that contain the atom with its replacement, which contains all names of the
            # atom.
            for key, value in list(self._equal.items()):
                if not names <= self._touched[key]:
                    continue
                resolved = self.resolved(value)
                if resolved is not value and not mentions(resolved, key):
                    self._equal[key] = resolved
                    self._touched[key] = names_of(key) | symbols(resolved).keys()
                    self._forget()
                again = single(self._with_equal_parts(key))
                if again is not None and again != key:
                    pending.append((again, self._equal[key]))
        self._settled.clear()
        self.version += 1

    def _forget(self) -> None:
        """Clear the caches after an equality has changed."""
        self._resolved.clear()
        self._partly.clear()

    def _with_equal_parts(self, whole: Atom) -> Dim:
        try:
            return rebuilt((((whole,), 1),), lambda atom: None if atom == whole else self._equal_to(atom))
        except TooLong:
            return dim_from((((whole,), 1),))

    def _equal_to(self, atom: Atom) -> Dim | None:
        found = self._equal.get(atom)
        if found is not None or not isinstance(atom, Extreme):
            return found
        if atom not in self._partly:
            self._partly[atom] = self._equal_in_part(atom)
        return self._partly[atom]

    def _equal_in_part(self, atom: Extreme) -> Dim | None:
        # max(a,b,c) is max(a,c) where max(a,b) is a.
        operands = set(atom.operands)
        for known in self._extremes:
            if known.kind == atom.kind and operands.issuperset(known.operands):
                rest = [dim_from(operand) for operand in atom.operands if operand not in known.operands]
                return extreme_of(atom.kind, [*rest, self._equal[known]])
        return None

    def _contradiction(self, constraint: Constraint, origin: Span | None) -> Contradiction:
        """Return the last recorded constraint on the symbols of a constraint that contradicts it."""
        names = symbols(constraint.left).keys() | symbols(constraint.right).keys()
        for atom, (reason, place) in reversed(self._reasons.items()):
            if isinstance(atom, Variable) and atom.name in names:
                return Contradiction(constraint, reason, place)
        return Contradiction(constraint, constraint, origin)


def str_name(symbol: Symbolic) -> str:
    """Return the text of a symbol's name; it is quoted if it would be parsed as something else."""
    (name,) = symbols(symbol)
    return name
