"""The parts of models that segments cover: branches, bodies, limits and rows that no run of a whole model reaches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphport.backends.interpreter import InterpreterSession
from graphport.core.diagnostics import DiagnosticError
from graphport.ir.graph import Graph, walk
from graphport.ops import registry
from graphport.proof.coverage.parts import CoverageRecorder, coverage_points, name_of
from graphport.proof.segments.numbering import number_pair

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from graphport.ir.graph import Node
    from graphport.proof.segments.extraction import Cut
    from graphport.proof.segments.matching import Match

_ROWS = "rows of "


def phrases_of(graph: Graph, nodes: Collection[Node] | None = None) -> set[str]:
    """Return the phrases of the parts of a graph; with `nodes`, only of these nodes and the nodes in their bodies."""
    parts = coverage_points(graph)
    return {part.phrase for node, own in parts.of.items() if nodes is None or node in nodes for part in own}


def proven_phrases(a: Graph, b: Graph, matches: Iterable[Match], *, is_one_format: bool) -> set[str]:
    """Return the phrases of parts in operators that are equal in both graphs.

    If the files have two formats, equal operators of both readings prove nothing about the files, except for rows of
    tables, whose bytes are compared.
    """
    known = {each.b: each.a for each in matches if each.order is None}
    structure = number_pair(a, b, known).structure
    found: set[str] = set()
    for graph, other in ((a, b), (b, a)):
        numbers = {structure[value] for node in other for value in node.results if value in structure}
        equal = [node for node in graph if all(structure.get(value) in numbers for value in node.results)]
        phrases = phrases_of(graph, {*equal, *(node for each in equal for node in _inner(each))})
        found |= phrases if is_one_format else {phrase for phrase in phrases if phrase.startswith(_ROWS)}
    return found


def _inner(node: Node) -> list[Node]:
    return [inner for body in node.bodies() for graph in walk(body) for inner in graph]


def reached_phrases(cut: Cut, inputs: Sequence[Sequence[Any]], wanted: Collection[str]) -> set[str]:
    """The `wanted` phrases of parts of a segment that some elements of its inputs reach."""
    if not has_wanted(cut.graph, wanted):
        return set()
    parts = coverage_points(cut.graph)
    reach = CoverageRecorder(parts.of)
    session = InterpreterSession(cut.graph, registry.op_defs())
    for elements in inputs:
        given = {value.name: array for value, array in zip(cut.inputs, elements, strict=True)}
        try:
            session.run(given, observe=reach.observe, watch=reach.watch)
        except (DiagnosticError, KeyError):
            continue
    return set(reach.coverage().reached_phrases) & set(wanted)


def phrase_of_body(body: Graph) -> str | None:
    """The phrase of a body of If, Loop or Scan."""
    node = body.parent
    if node is None:
        return None
    if node.op != "If":
        return f"body of {name_of(node)}"
    is_then = node.attributes.get("then_branch") is body
    return f"{'then' if is_then else 'else'} branch of {name_of(node)}"


def has_wanted(graph: Graph, wanted: Collection[str]) -> bool:
    """Whether a graph has one of the `wanted` parts."""
    return bool(wanted) and any(part.phrase in wanted for own in coverage_points(graph).of.values() for part in own)


def has_phrase(node: Node, phrases: Collection[str]) -> bool:
    """Whether a node, or one in its bodies, has one of some parts."""
    names = {name_of(each) for each in (node, *_inner(node))}
    return any(phrase.endswith(name) for phrase in phrases for name in names)
