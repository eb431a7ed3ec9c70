"""Remove statements with errors from an NNEF text, so that the shapes of the remaining ones can be inferred."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from graphport.lsp.nnef_tokens import TokenKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from graphport.lsp.nnef_tokens import LocatedToken, Section, TokenIndex

UNUSED_RESULT = "graphport_unused_result"
"""The result of the graph if no result of the text remains."""


@dataclass
class _Text:
    """Lines in which blanks replace tokens; the positions of the remaining tokens do not change."""

    lines: list[str]
    operations: set[str] = field(default_factory=set[str])
    """Fragments that were removed."""

    def remove(self, tokens: Sequence[LocatedToken]) -> None:
        for place in tokens:
            line, token = self.lines[place.line], place.token
            blank = " " * (token.stop - token.start)
            self.lines[place.line] = line[: token.start] + blank + line[token.stop :]

    def insert(self, at: LocatedToken, text: str) -> None:
        """Write `text` over the blanks at the position of a removed token; the line grows if they are too few."""
        line, start = self.lines[at.line], at.token.start
        free = len(line[start:]) - len(line[start:].lstrip(" "))
        self.lines[at.line] = line[:start] + text + line[start + min(free, len(text)) :]


def remove_faults(tokens: TokenIndex, faults: Iterable[tuple[int, int]]) -> str | None:
    """Return the text without the fragments and statements at the positions of `faults`, or None without a rest.

    Statements that use a removed or an undefined name are removed as well, and the head of the graph lists the inputs
    and results that remain. `faults` are lines and columns (code points), both 0-based.
    """
    text, wrong = _Text(list(tokens.lines)), sorted(set(faults))
    sections = list(tokens.sections())
    graphs = [section for section in sections if section.is_graph and section.body]
    if len(graphs) != 1:
        return None
    for section in sections:
        if section.is_graph:
            continue
        if section.end is None or _contains(section.tokens, wrong) or _uses(section.body, text.operations):
            text.remove(section.tokens)
            if section.name is not None:
                text.operations.add(section.name.token.text)
    return "\n".join(text.lines) if _reduce_graph(text, graphs[0], wrong) else None


def _reduce_graph(text: _Text, graph: Section, wrong: Sequence[tuple[int, int]]) -> bool:
    """Remove the statements of the graph with errors, and write its head again. Return whether statements remain."""
    defined: dict[str, None] = {}
    inputs: list[str] = []
    for statement in graph.statements():
        declared = [place.token.text for place in statement if place.token.declares]
        read = {each.token.text for each in statement if each.token.kind is TokenKind.VALUE} - set(declared)
        if _contains(statement, wrong) or not read <= defined.keys() or _uses(statement, text.operations):
            text.remove(statement)
            continue
        defined |= dict.fromkeys(declared)
        if _uses(statement, {"external"}):
            inputs += declared
    if not inputs:
        return False
    arrow = next((index for index, place in enumerate(graph.head) if place.token.text == "->"), len(graph.head))
    stated = [place.token.text for place in graph.head[arrow:] if place.token.kind is TokenKind.VALUE]
    results = [name for name in dict.fromkeys(stated) if name in defined and name not in inputs]
    closing = "}" if results else f"{UNUSED_RESULT} = copy({inputs[0]});}}"
    named = "net" if graph.name is None else graph.name.token.text
    text.remove(graph.head)
    text.insert(graph.head[0], f"graph {named}({','.join(inputs)})->({','.join(results or [UNUSED_RESULT])})")
    if graph.end is None:
        text.lines.append(closing)
    elif not results:
        text.remove([graph.end])
        text.insert(graph.end, closing)
    return True


def _contains(places: Sequence[LocatedToken], wrong: Sequence[tuple[int, int]]) -> bool:
    """Whether a position is between the first and the last token, ends included."""
    if not places:
        return False
    first = (places[0].line, places[0].token.start)
    last = (places[-1].line, places[-1].token.stop)
    return any(first <= at <= last for at in wrong)


def _uses(places: Sequence[LocatedToken], operations: Iterable[str]) -> bool:
    """Whether one of the operations is called."""
    return any(place.token.kind is TokenKind.OPERATION and place.token.text in operations for place in places)
