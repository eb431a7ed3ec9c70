"""Binding of symbolic dims of inputs to sizes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import (
    Symbol,
    Symbolic,
    TooLong,
    bounds,
    decide_equal,
    decide_less,
    examples,
    parse_dim,
    substitute,
    symbols,
)
from graphport.core.dims.example import BATCH
from graphport.core.dtypes import DType
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact

_BOUNDS = re.compile(r"(\d{0,18})\.\.(\d{0,18})", re.ASCII)
_NO_TYPES = "an element type is bound where the file leaves it open"

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim, Extents
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value


def bind(graph: Graph, sizes: Mapping[str, Dim]) -> None:
    """Substitute `sizes` for symbols in the facts of all inputs. The caller must infer the facts of results again."""
    for value in graph.inputs:
        value.fact = _substituted(value.fact, sizes, graph.extents)
    graph.extents = graph.extents.bound(sizes)


def bind_inputs(graph: Graph, shapes: Mapping[str, Sequence[float | str]]) -> None:
    """Set the shapes of inputs; a symbol bound by one input is bound in all facts.

    Raises:
        DiagnosticError: SHAPE0003 the graph has no such input, or its declared shape contradicts the requested one.
    """
    findings: list[Diagnostic] = []
    sizes: dict[str, Dim] = {}
    declared = {value.name: value for value in graph.inputs}
    for name, given in shapes.items():
        fault = _give(declared[name], given, sizes) if name in declared else f"there is no input {name!r}"
        if fault is not None:
            origin = declared[name].origin if name in declared else None
            remedy = _NO_TYPES if _has_type(given) else f"inputs: {_listed(graph)}"
            findings.append(Diagnostic("SHAPE0003", fault, origin, remedy))
    if findings:
        raise DiagnosticError(*findings)
    bind(graph, sizes)


def batch_of(graph: Graph) -> int:
    """Return the size of symbolic first axes in examples."""
    found = graph.notes.get(BATCH) if graph.has_notes else None
    return found if isinstance(found, int) else 1


def bind_example(graph: Graph) -> bool:
    """Bind symbolic dims of inputs to the sizes of `examples`. Return `False` if there are none."""
    facts = {value.name: value.fact for value in graph.inputs}
    shapes = {name: fact.shape for name, fact in facts.items() if isinstance(fact, TensorFact) and fact.shape}
    given = {name: [int(dim) for dim in shape.split("x")] for name, shape in examples(shapes, batch_of(graph)).items()}
    if all(list(shapes[name]) == sizes for name, sizes in given.items()):
        return False
    try:
        bind_inputs(graph, given)
    except DiagnosticError:
        return False
    return True


def _has_type(given: Sequence[float | str]) -> bool:
    """Whether a shape given by the user begins with a dtype, as in `int64:1x8`."""
    return _typed(given)[0] is not None


def _typed(given: Sequence[float | str]) -> tuple[DType | None, Sequence[float | str]]:
    """Split an optional dtype prefix from the dims."""
    first = given[0] if given else ""
    name, colon, dim = first.partition(":") if isinstance(first, str) else ("", "", "")
    if not colon or name not in set(map(str, DType)):
        return None, given
    own = [int(dim) if dim.isascii() and dim.isdecimal() else dim] if dim else []
    return DType.of(name), [*own, *given[1:]]


def _give(value: Value, given: Sequence[float | str], sizes: dict[str, Dim]) -> str | None:
    """Set the shape of an input, or return why it is impossible; bound symbols are added to `sizes`."""
    fact = value.fact
    if not isinstance(fact, TensorFact):
        return f"the input {value.name!r} is a {fact}, no tensor"
    refused = f"the input {value.name!r} cannot have the shape {list(given)}: it is declared as {fact}"
    dtype, given = _typed(given)
    if dtype is not None and fact.dtype not in (None, dtype):
        return f"the input {value.name!r} cannot be {dtype}: it is declared as {fact}"
    if fact.shape is not None and len(fact.shape) != len(given):
        return refused
    declared = (None,) * len(given) if fact.shape is None else fact.shape
    pairs = enumerate(zip(given, declared, strict=True))
    shape = tuple(_dim(dim, known, f"{value.name}.{axis}") for axis, (dim, known) in pairs)
    dims = [dim for dim in shape if dim is not None]
    if fact.shape is not None and len(dims) == len(shape) and (fixed := _opened_axis(fact.shape, dims)) is not None:
        return f"the input {value.name!r} cannot have the shape {list(given)}: axis {fixed} is fixed, as {fact} says"
    if len(dims) < len(shape) or not all(_unify(d, s, sizes) for d, s in zip(fact.shape or (), dims, strict=False)):
        return refused
    value.fact = fact.with_shape(dims) if dtype is None else TensorFact(dtype, tuple(dims))
    return None


def _opened_axis(declared: Sequence[Dim], given: Sequence[Dim]) -> int | None:
    """Return the first axis whose declared dim is static and whose given dim is symbolic; `None` if there is none."""
    pairs = enumerate(zip(declared, given, strict=True))
    return next((axis for axis, (d, s) in pairs if isinstance(d, int) and isinstance(s, Symbolic)), None)


def _listed(graph: Graph) -> str:
    return ", ".join(f"{value.name} {value.fact}" for value in graph.inputs)


def _dim(given: float | str, declared: Dim | None, name: str) -> Dim | None:
    """Parse a dim: an integer, an expression, bounds such as `0..` or `2..8`, or `?`; `None` if it is invalid."""
    if not isinstance(given, str):
        return int(given) if given >= 0 and given == int(given) else None
    found = _BOUNDS.fullmatch("1.." if given == "?" else given)
    if found is None:
        dim = parse_dim(given)
        return None if decide_less(dim, 0) is True else dim
    if isinstance(declared, Symbolic) and _is_symbol(declared):
        (name,) = symbols(declared)
    low, high = int(found[1] or 0), int(found[2]) if found[2] else None
    return None if high is not None and high < low else Symbol(name, low, high)


def _is_symbol(dim: Symbolic) -> bool:
    return dim in symbols(dim).values()


def _unify(declared: Dim, given: Dim, sizes: dict[str, Dim]) -> bool:
    """Add the binding that follows from `declared` = `given` to `sizes`; return `False` on a contradiction."""
    known = substitute(declared, sizes)
    if isinstance(known, Symbolic) and _is_symbol(known):
        (name,) = symbols(known)
        # The lower bound 1 of a named axis is only a default, so a size of 0 is permitted.
        if bounds(known) != (1, None) and decide_equal(known, given) is False:
            return False
        sizes[name] = given
        return True
    # A static dim may become symbolic; a contradiction inside the network is reported later.
    return decide_equal(known, given) is not False


def _substituted(fact: Fact, sizes: Mapping[str, Dim], extents: Extents) -> Fact:
    if isinstance(fact, SequenceFact):
        return SequenceFact(_substituted(fact.element, sizes, extents))
    if isinstance(fact, OptionalFact):
        return OptionalFact(_substituted(fact.element, sizes, extents))
    if fact.shape is None or not sizes:
        return fact
    return TensorFact(fact.dtype, tuple(_replaced(dim, sizes, extents) for dim in fact.shape))


def _replaced(dim: Dim, sizes: Mapping[str, Dim], extents: Extents) -> Dim:
    # A symbol may be an abbreviation for an expression of other symbols; expand it and substitute again.
    dim = substitute(dim, sizes)
    try:
        return substitute(extents.expanded(dim), sizes)
    except TooLong:
        return dim
