"""Operation counts and memory of activations at example sizes, for models with symbolic dims."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from graphport.conversion.activations import activation_dims, live_bytes
from graphport.conversion.inspection import Activations, Example, inspect
from graphport.core.diagnostics import DiagnosticError
from graphport.core.dims import MOST_TEXT, Symbolic, TooLong, bounds, evaluate, symbols
from graphport.ir.graph import walk
from graphport.runtimes.inputs import free_sizes, is_accepted, open_axes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.conversion.inspection import Inspection
    from graphport.core.dims import Dim, Extents
    from graphport.ir.graph import Graph

_USUAL = 128
"""Length of an axis that is no batch, if the model takes it."""


def with_example(found: Inspection, graph: Graph) -> Inspection:
    """Express the work of `found` in the symbols of the inputs; add an example if some formulas are long."""
    extents = graph.extents
    found = replace(
        found,
        macs=_unfolded(found.macs, extents),
        macs_by_operator={op: _unfolded(macs, extents) for op, macs in found.macs_by_operator.items()},
    )
    dims = [found.macs, *found.macs_by_operator.values()]
    if all(_is_short(dim, extents) for dim in dims):
        return found
    sizes = _sizes(graph, dims)
    numbers = extents.evaluate_symbols(sizes)
    by_operator = {op: evaluate(macs, numbers) for op, macs in found.macs_by_operator.items()}
    return replace(found, example=Example(sizes, evaluate(found.macs, numbers), by_operator))


def with_activations(found: Inspection, graph: Graph) -> Inspection:
    """`found` of `graph` with the peak memory of activations, at example sizes of open dims."""
    dims = [dim for dim in activation_dims(walk(graph)) if isinstance(dim, Symbolic)]
    sizes = _sizes(graph, dims) if dims else {}
    live = live_bytes(graph, graph.extents.evaluate_symbols(sizes))
    node = max(graph, key=lambda node: live[node], default=None)
    if node is None:
        return found
    name = node.name or next((value.name for value in node.results), "")
    return replace(found, activations=Activations(sizes, live[node], name, node.op))


def compare_summaries(before: Graph, after: Graph) -> tuple[Inspection, Inspection]:
    """Summarize two canonical graphs, the second derived from the first; operations are counted at equal sizes."""
    first, second = (with_example(inspect(each, has_coverage=False), each) for each in (before, after))
    example = first.example or second.example
    if example is None:
        return first, second
    return _at(first, before, example.sizes), _at(second, after, example.sizes)


def _at(found: Inspection, graph: Graph, sizes: dict[str, int]) -> Inspection:
    dims = [found.macs, *found.macs_by_operator.values()]
    lacking = {name for dim in dims for name in graph.extents.free(dim)} - sizes.keys()
    numbers = graph.extents.evaluate_symbols({**sizes, **dict.fromkeys(lacking, _USUAL)})
    by_operator = {op: evaluate(macs, numbers) for op, macs in found.macs_by_operator.items()}
    return replace(found, example=Example(sizes, evaluate(found.macs, numbers), by_operator))


def _unfolded(dim: Dim, extents: Extents) -> Dim:
    try:
        other = extents.resolved(extents.expanded(dim))
    except TooLong:
        return dim
    return other if _is_short(other, extents) else dim


def _is_short(dim: Dim, extents: Extents) -> bool:
    """Whether the dim is short and contains no symbol that needs a definition."""
    return isinstance(dim, int) or (len(str(dim)) <= MOST_TEXT and extents.definitions.keys().isdisjoint(symbols(dim)))


def _sizes(graph: Graph, dims: Sequence[Dim]) -> dict[str, int]:
    """Choose 1 for batch dims, 128 for others, or a permitted size; also a size for dims known only at run time."""
    free: dict[str, Symbolic] = {}
    for dim in dims:
        known = symbols(dim) | graph.extents.declared
        free |= {name: known[name] for name in sorted(graph.extents.free(dim))}
    ones, other = open_axes(graph)
    usual = ones | {name: _clamped(symbol) for name, symbol in other.items()}
    try:
        taken = usual if is_accepted(graph, usual) else free_sizes(graph)
    except DiagnosticError:
        taken = usual
    sizes = taken | {name: _clamped(symbol) for name, symbol in free.items() if name not in taken}
    return {name: size for name, size in sizes.items() if name in free}


def _clamped(symbol: Symbolic) -> int:
    low, high = bounds(symbol)
    size = max(_USUAL, low or 0)
    return size if high is None else min(size, high)
