"""Check the statements being edited without reading the whole text.

The check reads a small text: the lines above the graph, an `external` for each value that the statements use (with the
type and shape of the last complete analysis), and the statements. The complete analysis finds effects on other lines.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from graphport.lsp.nnef_tokens import TokenKind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.lsp.nnef_tokens import TokenIndex

MAX_LINES_BEFORE_GRAPH = 500
"""Limit of lines above the graph."""
MAX_STATEMENT_LINES = 40
"""Limit of lines of an incremental check."""
_FACT = re.compile(r"(float|u?int|bool)\d*\[([0-9, ]*)\]")
_TYPES = {"float": "scalar", "int": "integer", "uint": "integer", "bool": "logical"}
_STATEMENT_ENDS = (";", "{", "}")
_GRAPH_ONLY_OPERATIONS = frozenset(("external", "update"))
_UNUSED_INPUT, _UNUSED_OUTPUT = "given_to_none", "made_of_none"


@dataclass(frozen=True)
class StatementCheck:
    """Diagnostics and facts of lines `first` to `last`.

    Locations of `findings` refer to `text`, in which line `above` corresponds to line `first`.
    """

    first: int
    last: int
    text: str
    above: int
    findings: Sequence[Diagnostic]
    facts: Mapping[str, str]


def find_changed_lines(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, int]:
    """Return the first differing line, and the end (exclusive) of the differing lines in `old` and in `new`."""
    most = min(len(old), len(new))
    first = next((index for index in range(most) if old[index] != new[index]), most)
    same = next((index for index in range(most - first) if old[-1 - index] != new[-1 - index]), most - first)
    return first, len(old) - same, len(new) - same


def find_statement_lines(tokens: TokenIndex, first: int, stop: int) -> tuple[int, int] | None:
    """Return the first and last line of the graph statements that contain lines `first` to `stop`, or None."""
    while first > 0 and not _ends_statement(tokens, first - 1):
        first -= 1
    last = max(first, stop - 1)
    while last < len(tokens.lines) and not _ends_statement(tokens, last):
        last += 1
    if last >= len(tokens.lines) or last - first >= MAX_STATEMENT_LINES:
        return None
    is_inside = tokens.state(first, 0).section == "body" and not tokens.state(first, 0).open
    has_brace = any(token.text in ("{", "}") for line in range(first, last + 1) for token in tokens.of_line(line))
    return (first, last) if is_inside and not has_brace else None


def check_statements(tokens: TokenIndex, first: int, last: int, facts: Mapping[str, str]) -> StatementCheck | None:
    """Check lines `first` to `last` and infer the facts of their results; None if that needs the whole text."""
    from graphport.api.load import checked

    above = _find_graph_line(tokens, first)
    inputs = None if above is None else _derive_inputs(tokens, first, last, facts)
    if above is None or inputs is None:
        return None
    given, made = inputs
    head = [
        *tokens.lines[:above],
        f"graph one({', '.join([_UNUSED_INPUT, *given])}) -> ({', '.join(made or [_UNUSED_OUTPUT])})",
        "{",
        f"{_UNUSED_INPUT} = external(shape = [1]); {_UNUSED_OUTPUT} = copy({_UNUSED_INPUT});",
        *given.values(),
    ]
    text = "\n".join([*head, *tokens.lines[first : last + 1], "}"])
    model, findings = checked(text.encode("utf-8", "surrogatepass"), format="nnef")
    if any(finding.is_error and _line_index(finding) < len(head) for finding in findings):
        return None
    own = [finding for finding in findings if _line_index(finding) >= len(head)]
    shapes = {} if model is None or any(finding.is_error for finding in own) else model.shapes()
    known = {name: str(shapes[name]) for name in made if name in shapes}
    return StatementCheck(first, last, text, len(head), own, known)


def _ends_statement(tokens: TokenIndex, line: int) -> bool:
    """Whether a statement or the head of a body ends on a line."""
    found = [token.text for token in tokens.of_line(line) if token.kind is not TokenKind.COMMENT]
    return bool(found) and found[-1] in _STATEMENT_ENDS


def _find_graph_line(tokens: TokenIndex, line: int) -> int | None:
    """Return the first line of the graph that contains `line`; None in a fragment or beyond the line limit."""
    scope = tokens.scope_of(line)
    for above in range(min(line, MAX_LINES_BEFORE_GRAPH) + 1):
        if tokens.scope_of(above) == scope:
            found = [token.text for token in tokens.of_line(above) if token.kind is TokenKind.KEYWORD]
            return above if found[:1] == ["graph"] else None
    return None


def _derive_inputs(
    tokens: TokenIndex, first: int, last: int, facts: Mapping[str, str]
) -> tuple[dict[str, str], list[str]] | None:
    """Return an `external` statement for each value that the statements use, and the names that they declare."""
    found = [token for line in range(first, last + 1) for token in tokens.of_line(line)]
    if any(token.kind is TokenKind.OPERATION and token.text in _GRAPH_ONLY_OPERATIONS for token in found):
        return None
    # After a missing semicolon, only the following `=` shows that a name is declared.
    assigned = {token.text for token, after in pairwise(found) if after.text == "="}
    values = [token for token in found if token.kind is TokenKind.VALUE]
    made = list(dict.fromkeys(token.text for token in values if token.declares or token.text in assigned))
    used = dict.fromkeys(token.text for token in values if token.text not in made)
    stated = {name: _FACT.fullmatch(facts[name]) for name in used if name in facts}
    unknown = used.keys() - stated.keys()
    if None in stated.values() or (unknown and not unknown.isdisjoint(tokens.values(tokens.scope_of(first)))):
        return None
    given = {
        name: f"{name} = external<{_TYPES[fact[1]]}>(shape = [{fact[2]}]);"
        for name, fact in stated.items()
        if fact is not None
    }
    return given, made


def _line_index(finding: Diagnostic) -> int:
    """Return the line of a diagnostic (0-based)."""
    span = finding.span
    return 0 if span is None or span.line is None else span.line - 1
