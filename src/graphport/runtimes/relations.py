"""Relations between symbolic dims that no node declares, found by trial runs: a mask over cache and tokens.

If positions are counted in a mask, its size matters only through its elements, so shape inference derives no
constraint on it.
"""

from __future__ import annotations

import time
from contextlib import suppress
from itertools import combinations, islice
from typing import TYPE_CHECKING

from graphport.core.dims import Extents, TooLong, evaluate, substitute, symbols
from graphport.core.facts import TensorFact

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from graphport.core.dims import Dim, Symbolic
    from graphport.ir.graph import Graph, Value

    Sizes = dict[str, int]
    Relations = dict[str, Dim]
    """What open extents are in terms of others, by the names of their symbols."""

_MOST_CANDIDATES, _MOST_SINGLE = 400, 100
_SECONDS = 5.0
"""How long is looked for relations at most."""

_FEW = 6
"""Number of dims of similar inputs up to which distinct sizes are tried first."""


def candidates(graph: Graph, free: Mapping[str, Symbolic]) -> Iterator[Relations]:
    """Return possible relations between the `free` dims of the inputs, most likely first.

    Broadcast dims are equal; float inputs of similar shape, such as the caches of layers, have equal sizes; one dim is
    the sum of two others, equal to another, or a constant larger than another; or two such relations. Relations of
    masks come first: integer or boolean inputs whose size no output has.
    """
    return islice(_distinct(_candidates(graph, free)), _MOST_CANDIDATES)


def search(
    graph: Graph, free: Mapping[str, Symbolic], sizes: Sizes, other: Iterable[Sizes], runs: Callable[[Sizes], bool]
) -> Relations:
    """Return the first relations with which a model runs; none if there are none.

    Args:
        graph: the graph whose inputs have the dims.
        free: the dims that may be related to others.
        sizes: of all dims, distinct except for batches, so that few relations hold by accident.
        other: further sizes that should run: a mask may have a sufficient size by chance.
        runs: tests whether the model runs with sizes.
    """
    until = time.monotonic() + _SECONDS
    found: Relations = {}
    for relations in candidates(graph, free):
        if runs(completed(relations, sizes)):
            if any(runs(completed(relations, each)) for each in other):
                return relations
            found = found or relations
        if time.monotonic() > until:
            break
    return found


def completed(relations: Relations, sizes: Mapping[str, int]) -> dict[str, int]:
    """Complete `sizes` with the dims that the relations determine."""
    return {**sizes, **{name: evaluate(dim, sizes) for name, dim in relations.items()}}


def format_relations(relations: Relations) -> tuple[str, ...]:
    """Return each relation as an equation, sums first."""
    in_order = sorted(relations.items(), key=lambda item: item[1] in symbols(item[1]).values())
    return tuple(f"{name} = {dim}" for name, dim in in_order)


def _candidates(graph: Graph, free: Mapping[str, Symbolic]) -> Iterator[Relations]:
    broadcast = _broadcast(graph, free)
    alike = _joined(broadcast, _alike(graph, free, broadcast))
    bases = [broadcast, alike] if len(free) - len(broadcast) <= _FEW else [alike, broadcast]
    masks, lengths = _masks(graph)
    yield from bases
    for is_mask in (True, False):
        for base in bases:
            roots = {name: symbol for name, symbol in free.items() if name not in base}
            related = [name for name in roots if (name in masks) is is_mask or not is_mask]
            others = {name: symbol for name, symbol in roots.items() if not is_mask or name not in masks}
            singles = list(islice(_singles(related, others, lengths), _MOST_SINGLE))
            for most in (1, 2):
                for chosen in sorted(combinations(singles, most), key=_terms):
                    relations = dict(chosen)
                    if len(relations) == most and not any(relations.keys() & symbols(dim) for _, dim in chosen):
                        yield _joined(base, relations)


def _distinct(found: Iterable[Relations]) -> Iterator[Relations]:
    seen: list[Relations] = [{}]
    for relations in found:
        if relations not in seen:
            seen.append(relations)
            yield relations


def _joined(base: Relations, more: Relations) -> Relations:
    return {name: substitute(dim, more) for name, dim in base.items()} | more


def _broadcast(graph: Graph, free: Mapping[str, Symbolic]) -> Relations:
    """Return the relations that follow from equality of broadcast dims."""
    extents = Extents()
    extents.declared.update(free)
    # An equality with a maximum simplifies once its operands are known to be equal.
    for constraint in sorted(graph.extents.constraints, key=lambda each: each.relation != "broadcast"):
        with suppress(TooLong):
            if constraint.relation != "<=":
                extents.equate(graph.extents.expanded(constraint.left), graph.extents.expanded(constraint.right))
    found: Relations = {}
    for name, symbol in free.items():
        dim = extents.resolved(symbol)
        if dim != symbol and symbols(dim) and symbols(dim).keys() <= free.keys():
            found[name] = dim
    return {name: dim for name, dim in found.items() if not symbols(dim).keys() & found.keys()}


def _alike(graph: Graph, free: Mapping[str, Symbolic], known: Relations) -> Relations:
    """Return relations that equate the symbolic axes of float inputs that are otherwise equal."""
    first: dict[tuple[object, ...], str] = {}
    found: Relations = {}
    for value in graph.inputs:
        fact = value.fact
        if not isinstance(fact, TensorFact) or fact.shape is None or fact.dtype is None or fact.dtype.kind != "f":
            continue
        fixed = tuple(dim if isinstance(dim, int) else None for dim in fact.shape)
        for axis, dim in enumerate(fact.shape):
            name = next((each for each, symbol in free.items() if symbol == dim), None)
            if name is None or name in known:
                continue
            other = first.setdefault((fact.dtype, fixed, axis), name)
            if other != name and name not in first.values():
                found[name] = free[other]
    return found


def _singles(related: list[str], others: Mapping[str, Symbolic], lengths: Iterable[int]) -> Iterator[tuple[str, Dim]]:
    """Return the candidates for one of the `related` dims in terms of the others."""
    for name in related:
        left = [symbol for other, symbol in others.items() if other != name]
        yield from ((name, other) for other in left)
        yield from ((name, one + two) for one, two in combinations(left, 2))
        yield from ((name, other + length) for other in left for length in lengths)


def _terms(chosen: Iterable[tuple[str, Dim]]) -> int:
    """Return the number of terms, the sort key of relations: the simplest relation that runs is preferred."""
    return sum(1 if isinstance(dim, int) else len(dim.terms) for _, dim in chosen)


def _masks(graph: Graph) -> tuple[set[str], list[int]]:
    """Return the symbols that occur only in integer and boolean inputs, and the static sizes of such inputs."""
    whole = [value for value in graph.inputs if _is_integer_or_boolean(value)]
    others = [value for value in (*graph.inputs, *graph.outputs) if value not in whole]
    found, real = ({name for dim in _extents(side) for name in graph.extents.free(dim)} for side in (whole, others))
    shapes = [value.fact.shape or () for value in whole if isinstance(value.fact, TensorFact)]
    return found - real, sorted({dim for shape in shapes for dim in shape[1:] if isinstance(dim, int) and dim})


def _is_integer_or_boolean(value: Value) -> bool:
    dtype = value.dtype
    return dtype is not None and (dtype.is_integer or dtype.kind == "b")


def _extents(values: Iterable[Value]) -> Iterator[Dim]:
    for value in values:
        if isinstance(value.fact, TensorFact):
            yield from value.fact.shape or ()
