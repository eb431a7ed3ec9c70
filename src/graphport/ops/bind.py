"""Giving unspecified extents of inputs a length."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError
from graphport.core.dims import Symbolic, decide_equal, decide_less, substitute, symbols
from graphport.core.facts import OptionalFact, SequenceFact, TensorFact

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.dims import Dim
    from graphport.core.facts import Fact
    from graphport.ir.graph import Graph, Value


def bind(graph: Graph, sizes: Mapping[str, Dim]) -> None:
    """Put a size for each symbol in `sizes` into the facts of all inputs; facts of results are inferred anew later."""
    for value in graph.inputs:
        value.fact = _substituted(value.fact, sizes)


def bind_inputs(graph: Graph, shapes: Mapping[str, Sequence[int | str]]) -> None:
    """Give inputs their shapes; a symbol that one input fixes is fixed everywhere.

    Raises:
        DiagnosticError: SHAPE0003 the graph has no such input, or its declared shape does not admit the given one.
    """
    findings: list[Diagnostic] = []
    sizes: dict[str, Dim] = {}
    declared = {value.name: value for value in graph.inputs}
    for name, given in shapes.items():
        fault = _give(declared[name], given, sizes) if name in declared else f"there is no input {name!r}"
        if fault is not None:
            origin = declared[name].origin if name in declared else None
            findings.append(Diagnostic("SHAPE0003", fault, origin, f"inputs: {_listed(graph)}"))
    if findings:
        raise DiagnosticError(*findings)
    bind(graph, sizes)


def _give(value: Value, given: Sequence[int | str], sizes: dict[str, Dim]) -> str | None:
    """Let an input have a shape, or say why it cannot; what that says of symbols goes to `sizes`."""
    fact, shape = value.fact, tuple(_dim(dim) for dim in given)
    if not isinstance(fact, TensorFact):
        return f"the input {value.name!r} is a {fact}, no tensor"
    known = shape if fact.shape is None else fact.shape
    if len(known) == len(shape) and (fixed := _opened(known, shape)) is not None:
        return f"the input {value.name!r} cannot have the shape {list(given)}: axis {fixed} is fixed, as {fact} says"
    if not _admits(known, shape, sizes):
        return f"the input {value.name!r} cannot have the shape {list(given)}: it is declared as {fact}"
    value.fact = fact.with_shape([d if isinstance(d, int) else s for d, s in zip(known, shape, strict=True)])
    return None


def _opened(declared: Sequence[Dim], given: Sequence[Dim]) -> int | None:
    """The first axis that is given a symbol where a number is declared: what is made of that number cannot follow."""
    pairs = enumerate(zip(declared, given, strict=True))
    return next((axis for axis, (d, s) in pairs if isinstance(d, int) and isinstance(s, Symbolic)), None)


def _listed(graph: Graph) -> str:
    return ", ".join(f"{value.name} {value.fact}" for value in graph.inputs)


def _dim(given: int | str) -> Dim:
    from graphport.core.dims import parse_dim

    return given if isinstance(given, int) else parse_dim(given)


def _admits(declared: Sequence[Dim], given: Sequence[Dim], sizes: dict[str, Dim]) -> bool:
    """Whether both shapes can be one; what `given` says of symbols goes to `sizes`."""
    if len(declared) != len(given) or any(decide_less(dim, 0) is True for dim in given):
        return False
    return all(_unify(d, s, sizes) for d, s in zip(declared, given, strict=True))


def _unify(declared: Dim, given: Dim, sizes: dict[str, Dim]) -> bool:
    """Note what `given` says of the symbols of `declared`; `False` if both cannot be."""
    known = substitute(declared, sizes)
    if isinstance(known, Symbolic) and str(known) in symbols(known):
        if decide_equal(known, given) is False:
            return False
        sizes[str(known)] = given
        return True
    return decide_equal(known, given) is not False


def _substituted(fact: Fact, sizes: Mapping[str, Dim]) -> Fact:
    if isinstance(fact, SequenceFact):
        return SequenceFact(_substituted(fact.element, sizes))
    if isinstance(fact, OptionalFact):
        return OptionalFact(_substituted(fact.element, sizes))
    if fact.shape is None or not sizes:
        return fact
    return TensorFact(fact.dtype, tuple(substitute(dim, sizes) for dim in fact.shape))
