"""Facts in terms of the symbols of a graph: names for data-dependent dims, symbols for long expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.dims import MOST_TEXT, parse_sympy, symbols
from graphport.core.facts import UNKNOWN, OptionalFact, TensorFact, closed, is_open_dim
from graphport.ir.graph import walk

if TYPE_CHECKING:
    from graphport.core.dims import Dim, Extents, Symbolic
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph

_NUMBERS = frozenset((int,))
_MOST_REMEMBERED = 1 << 14
_LONGEST_NAME = MOST_TEXT - 16
"""The maximum length of a symbol named after a value."""


class FactSymbols:
    """Rewrites facts in terms of the symbols in `extents`."""

    def __init__(self, extents: Extents, graph: Graph | None = None) -> None:
        self.extents = extents
        self._graph = graph
        self._inputs = {} if graph is None else _input_symbols(graph)
        self._stated: dict[Dim, Dim] = {}
        self._version = extents.version
        # Keys by the id of a fact, which is kept alive in the value.
        self._settled: dict[int, tuple[Fact, Fact]] = {}
        # Interns equal facts, because caches compare by identity.
        self._shared: dict[TensorFact, TensorFact] = {}

    def fact(self, fact: Fact, name: str, claim: Fact = UNKNOWN) -> Fact:
        """Rewrite `fact`; new symbols are named as in `claim` or after the value called `name`."""
        if self._version != self.extents.version:
            self._settled.clear()
            self._version = self.extents.version
        known = self._settled.get(id(fact))
        if known is not None:
            return known[1]
        found, is_own = self._rewritten(fact, name, claim)
        if not is_own:
            if len(self._settled) >= _MOST_REMEMBERED:
                self._settled.clear()
                self._shared.clear()
            # 0.0 and -0.0 are equal but must not be merged.
            if isinstance(found, TensorFact) and found.reals is None:
                found = self._shared.setdefault(found, found)
            self._settled[id(fact)] = fact, found
            self._settled[id(found)] = found, found
        return found

    def declared(self, claim: TensorFact) -> TensorFact:
        """Parse dims of a declared fact that are named by expressions in SymPy's syntax."""
        if not self._inputs or claim.shape is None or _NUMBERS.issuperset(map(type, claim.shape)):
            return claim
        shape = tuple(dim if isinstance(dim, int) else self._declared(dim) for dim in claim.shape)
        return claim if shape == claim.shape else claim.with_shape(shape)

    def _declared(self, dim: Symbolic) -> Dim:
        found = self._stated.get(dim)
        if found is None:
            (name, *others) = symbols(dim)
            is_name = others or name.isidentifier() or name in self._inputs or dim != symbols(dim)[name]
            stated = None if is_name else parse_sympy(name, self._inputs)
            found = self._stated[dim] = dim if stated is None else stated
        return found

    def needs_no_rewriting(self, fact: Fact) -> bool:
        """Whether `fact` needs no rewriting, for any value."""
        return self._version == self.extents.version and id(fact) in self._settled

    def _rewritten(self, fact: Fact, name: str, claim: Fact) -> tuple[Fact, bool]:
        """Return the rewritten fact, and whether it has new symbols, which other values must not share."""
        if isinstance(fact, OptionalFact):
            found, is_own = self._rewritten(fact.element, name, UNKNOWN)
            return (fact if found is fact.element else OptionalFact(found)), is_own
        # Dims in sequences are not named: they may differ between the elements.
        if not isinstance(fact, TensorFact):
            return fact, False
        shape, elements = fact.shape, fact.elements
        is_own = False
        if shape is not None and not _NUMBERS.issuperset(map(type, shape)):
            known = self.extents.find_normalized(shape)
            if known is None:
                is_own = any(map(is_open_dim, shape))
                stated = self.declared(claim) if isinstance(claim, TensorFact) else claim
                names = _names_in(stated, len(shape))
                known = tuple(self._dim(dim, name, axis, names[axis]) for axis, dim in enumerate(shape))
            shape = known
        if elements is not None and not _NUMBERS.issuperset(map(type, elements)):
            known = self.extents.find_normalized(elements)
            is_own = is_own or (known is None and any(map(is_open_dim, elements)))
            elements = tuple(self._dim(dim, name, 0, None) for dim in elements) if known is None else known
        if shape == fact.shape and elements == fact.elements:
            return fact, False
        return TensorFact(fact.dtype, shape, elements, fact.reals), is_own

    def _dim(self, dim: Dim, name: str, axis: int, claimed: str | None) -> Dim:
        if isinstance(dim, int):
            return dim
        if not is_open_dim(dim):
            return self.extents.normalize(dim, claimed, self._reserve)
        self._reserve()
        own = claimed if claimed is not None and claimed not in self.extents.declared else _short(name, axis)
        return self.extents.normalize(closed(dim, lambda low, high: self.extents.fresh(own, low, high)))

    def _reserve(self) -> None:
        """Reserve the dim names of the file before the first new symbol is named."""
        graph, self._graph = self._graph, None
        for inner in () if graph is None else walk(graph):
            for value in inner.values():
                fact = value.fact
                if (
                    isinstance(fact, TensorFact)
                    and fact.shape is not None
                    and not _NUMBERS.issuperset(map(type, fact.shape))
                ):
                    for dim in fact.shape:
                        self.extents.reserved.update(symbols(dim))


def _input_symbols(graph: Graph) -> dict[str, Symbolic]:
    """Return the symbols of the inputs by name."""
    facts = [value.fact for value in graph.inputs]
    dims = (dim for fact in facts if isinstance(fact, TensorFact) for dim in fact.shape or ())
    return {name: symbol for dim in dims for name, symbol in symbols(dim).items()}


def _short(name: str, axis: int) -> str:
    if len(name) > _LONGEST_NAME:
        name = name.rpartition("/")[2][-_LONGEST_NAME:]
    return f"{name}.{axis}"


def _names_in(claim: Fact, rank: int) -> list[str | None]:
    """Return the symbol name of each declared dim; `None` for a dim that is not a single symbol."""
    if not isinstance(claim, TensorFact) or claim.shape is None or len(claim.shape) != rank:
        return [None] * rank
    return [
        next(iter(found)) if len(found := symbols(dim)) == 1 and dim in found.values() else None for dim in claim.shape
    ]
