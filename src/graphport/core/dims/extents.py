"""What a graph knows of its extents: symbols, what they stand for, which are equal, and what else must hold.

An extent is a number, a symbol, or a short expression of symbols. What would be longer than `MOST_TEXT` characters is a
symbol that stands for it: its definition is kept here, once for the graph. Binding the symbols of the inputs gives the
number of every extent.

What must hold in a run that succeeds is a fact: `equate` lets one of two extents stand for both from then on.

How a reader brings what its format says:

    batch = graph.extents.declare("s77", 2, 64)               a symbol and its bounds, `None` for unbounded
    half = graph.extents.define("s77_half", batch // 2)       a name for an expression
    graph.extents.require(Constraint(batch % 8, "=", 0))      what every run fulfils; returns what contradicts it
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
    parts_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from graphport.core.diagnostics import Span

Relation = Literal["=", "<=", "broadcast"]

_WORD = re.compile(r"[^\W\d]\w*?(?=_?\d*(?:\W|$))")
_MOST_TURNS = 8  # of replacing equals by equals; each of them makes an expression simpler


class Constraint(NamedTuple):
    """What holds between two extents: equal, at most, or `broadcast`: equal, or one of them is 1."""

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
    """Two things that cannot both hold, and where the earlier one comes from."""

    constraint: Constraint
    other: Constraint
    origin: Span | None


class Extents:
    """The symbols of one graph, what they stand for, and what holds between them."""

    def __init__(self) -> None:
        self.declared: dict[str, Symbolic] = {}
        self.definitions: dict[str, Dim] = {}
        """What a symbol stands for, by its name; written with symbols that were there before."""
        self.constraints: dict[Constraint, Span | None] = {}
        self.reserved: set[str] = set()
        """Names that no new symbol gets."""
        self.version = 0
        """Counts what changes the answers of `settled`."""
        self._equal: dict[Atom, Dim] = {}
        self._reasons: dict[Atom, tuple[Constraint, Span | None]] = {}
        self._names: dict[Dim, Symbolic] = {}
        self._settled: dict[Dim, Dim] = {}
        # Of `_equal`: maxima and minima, whose parts are looked for in others, and the names on either side.
        self._extremes: dict[Extreme, None] = {}
        self._touched: dict[Atom, frozenset[str]] = {}
        # What has been found by these, until they change.
        self._resolved: dict[Dim, Dim] = {}
        self._partly: dict[Extreme, Dim | None] = {}
        self._counts: dict[str, int] = {}

    # What a file says

    def declare(self, name: str, lower: int | None = 1, upper: int | None = None) -> Symbolic:
        """The symbol of that name, with these bounds where it is new; earlier ones are kept when two are equal."""
        found = self.declared.get(name)
        if found is None:
            found = self.declared[name] = Symbol(name, lower, upper)
        return found

    def define(self, name: str, dim: Dim) -> Symbolic:
        """A symbol that stands for `dim`; called `name`, or like it where that is taken."""
        for inner, symbol in symbols(dim).items():
            self.declared.setdefault(inner, symbol)
        low, high = bounds(dim)
        symbol = self.declare(self._free(name), low, high)
        self.definitions[str_name(symbol)] = dim
        self._names.setdefault(dim, symbol)
        return symbol

    def fresh(self, name: str, lower: int | None = 0, upper: int | None = None) -> Symbolic:
        """A symbol that no other extent has, for what only a run can tell; called `name`, or like it."""
        self.reserved.discard(name)
        return self.declare(self._free(name), lower, upper)

    def require(self, constraint: Constraint, origin: Span | None = None) -> Contradiction | None:
        """Take a constraint as a fact, unless it is too long to compare; what it contradicts, if there is such."""
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
        """Let both be one extent from now on; what that contradicts, if there is such."""
        return self.require(Constraint(left, "=", right), origin)

    # What stands where an extent is

    def settled(self, dim: Dim, name: str | None = None, before_naming: Callable[[], object] | None = None) -> Dim:
        """The dim in the words of this graph: equals are replaced, and what is too long is a symbol.

        A new symbol is called `name`, or after a symbol of the expression; `before_naming` is called before that.
        """
        if isinstance(dim, int):
            return dim
        found = self._settled.get(dim)
        if found is None:
            found = self._settled[dim] = self._shortened(self.resolved(dim), name, before_naming)
        return found

    def known(self, dims: tuple[Dim, ...]) -> tuple[Dim, ...] | None:
        """`settled` of all `dims`, where somebody has asked for each of them before."""
        found: list[Dim] = []
        for dim in dims:
            word = dim if type(dim) is int else self._settled.get(dim)
            if word is None:
                return None
            found.append(word)
        return tuple(found)

    def resolved(self, dim: Dim) -> Dim:
        """The dim with one representative for all that is equal, as far as it does not become too long to write."""
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
        """Whether something else stands for a part of the terms; to rebuild them takes far longer."""
        for monomial, _ in terms:
            for atom in monomial:
                if atom in self._equal:
                    return True
                if isinstance(atom, Variable):
                    continue
                if self._equal_to(atom) is not None:
                    return True
                for part in parts_of(atom):
                    if self._has_equal(part):
                        return True
        return False

    def expanded(self, dim: Dim) -> Dim:
        """The dim with what they stand for in the place of symbols.

        Raises:
            TooLong: nobody can read that, and it would take long to write.
        """
        while isinstance(dim, Symbolic) and not self.definitions.keys().isdisjoint(symbols(dim)):
            dim = rebuilt(dim.terms, lambda atom: self.definitions.get(atom.name) if type(atom) is Variable else None)
        return dim

    def evaluate(self, dim: Dim, sizes: Mapping[str, int]) -> int:
        """The number that the dim is for the given numbers of symbols that stand for nothing else.

        Raises:
            KeyError: one of them has no number.
        """
        numbers = dict(sizes)
        for name in self._needed(dim):
            if name not in numbers:
                numbers[name] = evaluate(self.definitions[name], numbers)
        return evaluate(dim, numbers)

    def numbers(self, sizes: Mapping[str, int]) -> dict[str, int]:
        """`sizes`, and the numbers of all symbols that stand for something that these are enough for."""
        found = dict(sizes)
        for name, dim in self.definitions.items():
            if name not in found:
                with suppress(KeyError):
                    found[name] = self.evaluate(dim, found)
        return found

    def free(self, dim: Dim) -> set[str]:
        """The names of all symbols that the dim depends on and that stand for nothing else."""
        names = set(symbols(dim))
        for name in self._needed(dim):
            names |= symbols(self.definitions[name]).keys()
        return names - self.definitions.keys()

    def used(self, dims: Iterable[Dim]) -> dict[str, Dim]:
        """The definitions that somebody needs who reads `dims`, in an order in which each needs earlier ones only."""
        wanted: set[str] = set()
        for dim in dims:
            if isinstance(dim, Symbolic) and not wanted.issuperset(symbols(dim)):
                wanted.update(self._needed(dim))
        return {name: dim for name, dim in self.definitions.items() if name in wanted}

    def copy(self) -> Extents:
        """Extents that know the same, and may learn other things."""
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
        """What is still known when symbols have these sizes; definitions come again with the facts."""
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
        """Put what has turned out equal into definitions, of which some are short then."""
        for name, dim in list(self.definitions.items()):
            now = self.resolved(dim)
            # What is equal to a part of a symbol's definition may be said with that symbol: then it defines nothing.
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
        """A name for an expression: that of its first plain symbol with a number behind."""
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
        """The names of the definitions that a dim is made with, each behind those that it needs."""
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
        """Let an atom that occurs once in the difference be what the others say."""
        difference = primitive(constraint.left - constraint.right)
        choices = sorted(solutions(terms_of(difference)), key=lambda found: self._rank(*found))
        for atom, other in choices:
            if lies_within(other, atom) and is_short(other):
                self._replace(atom, other, (constraint, origin))
                return

    def _rank(self, atom: Atom, other: Dim) -> tuple[int, int]:
        """What is replaced first: a computed extent, a symbol that stands for something, the youngest one."""
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
            # What was equal to something with the atom in it, is so in its new words: it has all names of the atom.
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
        """Forget what has been found by equalities, for one has changed."""
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
        """What of all that is known speaks against a constraint: the last reason that touches its symbols."""
        names = symbols(constraint.left).keys() | symbols(constraint.right).keys()
        for atom, (reason, place) in reversed(self._reasons.items()):
            if isinstance(atom, Variable) and atom.name in names:
                return Contradiction(constraint, reason, place)
        return Contradiction(constraint, constraint, origin)


def str_name(symbol: Symbolic) -> str:
    """The name of a symbol, which its text has in quotes where it would be read as something else."""
    (name,) = symbols(symbol)
    return name
