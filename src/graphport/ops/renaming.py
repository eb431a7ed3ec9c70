"""Reuse of inferred facts for operands that differ only in the names of symbols.

Each cache of a decoder has its own symbolic axes, so its layers are equal up to names. Rules compute with dims and
compare them; names only influence the order of terms. A cached result is therefore valid for all operands that are
equal up to names, after renaming, if the names sort in the same order.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from graphport.core.dims import Constraint, Symbolic
from graphport.core.dims.terms import Extreme, Quotient, Variable
from graphport.core.dtypes import DType
from graphport.core.facts import TensorFact
from graphport.core.storage import Storage
from graphport.ir.attributes import PLAIN

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.dims.terms import Atom, Terms
    from graphport.core.facts import Fact
    from graphport.ir.attributes import Attribute

_MAX_CACHED_FORMS = 1 << 14
MIN_RENAMED_SYMBOLS = 8
"""The number of symbols from which layers may differ in names; renaming costs more than it saves below."""
_NUMBERS = frozenset((int,))
_INTERNAL_PREFIX = "\0"
"""The prefix of internal names, which are not renamed."""

_Names = tuple[Variable, ...]


class LookupKey(NamedTuple):
    """Operands in the form used for a cache lookup."""

    key: Hashable
    """What operands that differ only in names have in common."""
    names: _Names
    """Their symbols in order."""
    dims: tuple[Symbolic, ...]
    """Their symbolic dims in order."""


class CachedFacts:
    """Facts of results and their requirements, in the symbols of the operands that they were inferred for."""

    __slots__ = ("_alike", "_places", "facts", "required")

    def __init__(self, facts: tuple[Fact, ...], required: Sequence[Constraint], alike: LookupKey | None) -> None:
        """Create a cached result; `alike` is `None` if names may matter."""
        self.facts = facts
        self.required = tuple(required)
        self._alike = alike
        # The index of each symbolic result dim among those of the operands; created at the first renaming.
        self._places: dict[Symbolic, int] | None = None

    def renamed(self, alike: LookupKey, renaming: Renaming) -> tuple[Fact, ...] | None:
        """Return the facts for operands equal up to names; `None` if a fact contains other symbols."""
        known = self._alike
        if known is None or alike.names == known.names:
            return self.facts
        if self._places is None:
            if not self._is_of(known):
                return None
            self._places = {dim: place for place, dim in enumerate(known.dims)}
        to = dict(zip(known.names, alike.names, strict=True))
        found = tuple([self._fact(fact, alike, to) for fact in self.facts])
        for before, fact in zip(self.facts, found, strict=True):
            renaming.take_over(before, fact, to)
        return found

    def _is_of(self, alike: LookupKey) -> bool:
        """Whether all symbols of the facts and requirements occur in the operands."""
        known = set(alike.names)
        found = [dim for fact in self.facts for dim in _symbolic(fact)]
        found += [dim for each in self.required for dim in (each.left, each.right) if isinstance(dim, Symbolic)]
        are_known = all(atom in known or atom.name[0] == _INTERNAL_PREFIX for dim in found for atom in dim.variables)
        return are_known and all(isinstance(fact, TensorFact) for fact in self.facts)

    def _fact(self, fact: Fact, alike: LookupKey, to: Mapping[Variable, Variable]) -> Fact:
        if not isinstance(fact, TensorFact):
            return fact
        shape, elements = fact.shape, fact.elements
        if shape is not None and not _NUMBERS.issuperset(map(type, shape)):
            shape = tuple([self._dim(dim, alike, to) for dim in shape])
        if elements is not None and not _NUMBERS.issuperset(map(type, elements)):
            elements = tuple([self._dim(dim, alike, to) for dim in elements])
        if shape is fact.shape and elements is fact.elements:
            return fact
        return TensorFact(fact.dtype, shape, elements, fact.reals)

    def _dim(self, dim: Dim, alike: LookupKey, to: Mapping[Variable, Variable]) -> Dim:
        if type(dim) is int:
            return dim
        place = None if self._places is None else self._places.get(cast("Symbolic", dim))
        return _renamed(dim, to) if place is None else alike.dims[place]

    def requirements(self, alike: LookupKey) -> list[Constraint]:
        """Return the requirements for operands equal up to names."""
        if self._alike is None or self._alike.names == alike.names:
            return list(self.required)
        to = dict(zip(self._alike.names, alike.names, strict=True))
        return [
            Constraint(self._dim(left, alike, to), relation, self._dim(right, alike, to))
            for left, relation, right in self.required
        ]


class Renaming:
    """Finds operands that differ only in names of symbols; with few symbols, only identical operands."""

    def __init__(self) -> None:
        self._is_exact = True
        # Keys by the id of a fact, which is kept alive in the value.
        self._forms: dict[int, tuple[Fact | None, tuple[Hashable, _Names, tuple[Symbolic, ...]] | None]] = {}
        # Consecutive numbers of forms; a number is not reused after its form was dropped.
        self._numbers = count()
        self._tokens: dict[Hashable, int] = {}

    def expect(self, symbols: int) -> None:
        """Switch from exact to renamed lookups if the graph has at least `MIN_RENAMED_SYMBOLS` symbols."""
        if self._is_exact and symbols >= MIN_RENAMED_SYMBOLS:
            # Results of both modes must not be mixed.
            self._is_exact = False
            self._forms.clear()

    def alike(self, operands: Sequence[Fact | None], attributes: Mapping[str, Attribute]) -> LookupKey | None:
        """Return the key of operands that are equal up to names; `None` if names may matter."""
        forms = [self._name_free_form(fact) for fact in operands]
        if None in forms or not all(map(_is_nameless, attributes.values())):
            return None
        used = [form for form in forms if form is not None and form[1]]
        tokens = tuple([form[0] for form in forms if form is not None])
        if not used:
            return LookupKey(tokens, (), ())
        names = used[0][1]
        if len(used) > 1 and any(form[1] != names for form in used):
            names = tuple(sorted({name for form in used for name in form[1]}))
            if len({name.name for name in names}) < len(names):
                return None
            ranks = {name: rank for rank, name in enumerate(names)}
            tokens += tuple([ranks[name] for form in used for name in form[1]])
        else:
            tokens += tuple(range(len(names))) * len(used)
        return LookupKey(tokens, names, tuple([dim for form in used for dim in form[2]]))

    def _name_free_form(self, fact: Fact | None) -> tuple[Hashable, _Names, tuple[Symbolic, ...]] | None:
        """Return the form of a fact without names, its symbols, and its symbolic dims."""
        known = self._forms.get(id(fact))
        if known is not None:
            return known[1]
        if len(self._forms) >= _MAX_CACHED_FORMS:
            self._forms.clear()
        if len(self._tokens) >= _MAX_CACHED_FORMS:
            self._forms.clear()
            self._tokens.clear()
        found = self._new_name_free_form(fact)
        self._forms[id(fact)] = fact, found
        return found

    def take_over(self, before: Fact, fact: Fact, to: Mapping[Variable, Variable]) -> None:
        """Cache the name-free form of a renamed fact for the next lookup."""
        form = self._name_free_form(before)
        if form is not None and before is not fact:
            names = tuple([to.get(name, name) for name in form[1]])
            self._forms[id(fact)] = fact, (form[0], names, _symbolic(fact))

    def _new_name_free_form(self, fact: Fact | None) -> tuple[Hashable, _Names, tuple[Symbolic, ...]] | None:
        if not isinstance(fact, TensorFact):
            return (self._token(None), (), ()) if fact is None else None
        sign = None if fact.reals is None else repr(fact.reals)  # 0.0 and -0.0 are equal
        dims = () if self._is_exact else _symbolic(fact)
        if not dims:
            return self._token((fact, sign)), (), ()
        names = tuple(sorted({atom for dim in dims for atom in dim.variables if atom.name[0] != _INTERNAL_PREFIX}))
        if len({name.name for name in names}) < len(names):
            return None
        to = {name: name._replace(name=f"{rank:06}") for rank, name in enumerate(names)}
        parts = [
            None if each is None else tuple([dim if type(dim) is int else _terms(dim.terms, to) for dim in each])  # pyright: ignore[reportAttributeAccessIssue]
            for each in (fact.shape, fact.elements)
        ]
        return self._token((fact.dtype, *parts, fact.reals, sign)), names, dims

    def _token(self, key: Hashable) -> int:
        found = self._tokens.get(key)
        if found is None:
            found = self._tokens[key] = next(self._numbers)
        return found


def _symbolic(fact: Fact) -> tuple[Symbolic, ...]:
    """The symbolic dims and elements of a fact, in order."""
    if not isinstance(fact, TensorFact):
        return ()
    shape, elements = fact.shape or (), fact.elements or ()
    if _NUMBERS.issuperset(map(type, shape)) and _NUMBERS.issuperset(map(type, elements)):
        return ()
    return tuple([dim for dim in (*shape, *elements) if isinstance(dim, Symbolic)])


def _is_nameless(attribute: Attribute) -> bool:
    """Whether an attribute contains no symbols."""
    kind = type(attribute)
    if kind is tuple:
        return all(type(item) in PLAIN or isinstance(item, DType) for item in cast("tuple[Any, ...]", attribute))
    return kind in PLAIN or isinstance(attribute, DType | Storage)


def _renamed(dim: Dim, to: Mapping[Variable, Variable]) -> Dim:
    """Rename the symbols of a dim; the new names must sort in the same order. Bounds are kept."""
    if not isinstance(dim, Symbolic):
        return dim
    return dim.renamed(_terms(dim.terms, to), tuple([to.get(name, name) for name in dim.variables]))


def _terms(terms: Terms, to: Mapping[Variable, Variable]) -> Terms:
    return tuple([(tuple([_atom(atom, to) for atom in monomial]), factor) for monomial, factor in terms])


def _atom(atom: Atom, to: Mapping[Variable, Variable]) -> Atom:
    if type(atom) is Variable:
        return to.get(atom, atom)
    if type(atom) is Quotient:
        return atom._replace(numerator=_terms(atom.numerator, to), denominator=_terms(atom.denominator, to))
    if type(atom) is Extreme:
        return atom._replace(operands=tuple([_terms(operand, to) for operand in atom.operands]))
    return atom
