"""The statement that is being typed, read by itself: what is wrong with it is known long before the whole text is read.

A text of its own is made of it: what stands above the graph, an input in the place of each value that it reads, of the
type and shape that the value had when the whole was read last, and the statement. What else the change does to the text
is found when the whole is read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from graphport.lsp.words import Kind

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from graphport.core.diagnostics import Diagnostic
    from graphport.lsp.words import Words

_MOST_ABOVE = 500
"""Lines above the graph at most."""
_MOST_LINES = 40
"""Lines of statements that are read so at most."""
_FACT = re.compile(r"(float|u?int|bool)\d*\[([0-9, ]*)\]")
_TYPES = {"float": "scalar", "int": "integer", "uint": "integer", "bool": "logical"}
_ENDS = (";", "{", "}")
_OF_THE_GRAPH = frozenset(("external", "update"))
_GIVEN, _MADE = "given_to_none", "made_of_none"


@dataclass(frozen=True)
class Statements:
    """What is known of lines `first` to `last` of a text: findings in `text`, whose line 0 is line `above` of it."""

    first: int
    last: int
    text: str
    above: int
    findings: Sequence[Diagnostic]
    facts: Mapping[str, str]


def changed(old: Sequence[str], new: Sequence[str]) -> tuple[int, int, int]:
    """The first line that differs, and behind the last one in either text."""
    most = min(len(old), len(new))
    first = next((index for index in range(most) if old[index] != new[index]), most)
    same = next((index for index in range(most - first) if old[-1 - index] != new[-1 - index]), most - first)
    return first, len(old) - same, len(new) - same


def bounds(words: Words, first: int, stop: int) -> tuple[int, int] | None:
    """The first and the last line of the statements of a graph that lines `first` to `stop` belong to, if they do."""
    while first > 0 and not _ends(words, first - 1):
        first -= 1
    last = max(first, stop - 1)
    while last < len(words.lines) and not _ends(words, last):
        last += 1
    if last >= len(words.lines) or last - first >= _MOST_LINES:
        return None
    is_inside = words.state(first, 0).section == "body" and not words.state(first, 0).open
    has_brace = any(word.text in ("{", "}") for line in range(first, last + 1) for word in words.of_line(line))
    return (first, last) if is_inside and not has_brace else None


def read(words: Words, first: int, last: int, facts: Mapping[str, str]) -> Statements | None:
    """What is wrong with lines `first` to `last`, and the facts of what they make; `None` if that takes the whole."""
    from graphport.api.load import checked

    above = _heading(words, first)
    inputs = None if above is None else _inputs(words, first, last, facts)
    if above is None or inputs is None:
        return None
    given, made = inputs
    head = [
        *words.lines[:above],
        f"graph one({', '.join([_GIVEN, *given])}) -> ({', '.join(made or [_MADE])})",
        "{",
        f"{_GIVEN} = external(shape = [1]); {_MADE} = copy({_GIVEN});",
        *given.values(),
    ]
    text = "\n".join([*head, *words.lines[first : last + 1], "}"])
    model, findings = checked(text.encode("utf-8", "surrogatepass"), format="nnef")
    if any(finding.is_error and _line(finding) < len(head) for finding in findings):
        return None
    own = [finding for finding in findings if _line(finding) >= len(head)]
    shapes = {} if model is None or any(finding.is_error for finding in own) else model.shapes()
    known = {name: str(shapes[name]) for name in made if name in shapes}
    return Statements(first, last, text, len(head), own, known)


def _ends(words: Words, line: int) -> bool:
    """Whether a statement, or the beginning of a body, ends with a line."""
    found = [word.text for word in words.of_line(line) if word.kind is not Kind.COMMENT]
    return bool(found) and found[-1] in _ENDS


def _heading(words: Words, line: int) -> int | None:
    """The line in which the graph begins that a line stands in; `None` in a fragment, or below too much."""
    scope = words.scope_of(line)
    for above in range(min(line, _MOST_ABOVE) + 1):
        if words.scope_of(above) == scope:
            found = [word.text for word in words.of_line(above) if word.kind is Kind.KEYWORD]
            return above if found[:1] == ["graph"] else None
    return None


def _inputs(words: Words, first: int, last: int, facts: Mapping[str, str]) -> tuple[dict[str, str], list[str]] | None:
    """The values that statements read, each with a line that makes it an input, and the names that they make."""
    found = [word for line in range(first, last + 1) for word in words.of_line(line)]
    if any(word.kind is Kind.OPERATION and word.text in _OF_THE_GRAPH for word in found):
        return None
    # Behind a semicolon that is missing the next name does not look like one that gets its meaning, but for its sign.
    assigned = {word.text for word, after in pairwise(found) if after.text == "="}
    values = [word for word in found if word.kind is Kind.VALUE]
    made = list(dict.fromkeys(word.text for word in values if word.declares or word.text in assigned))
    used = dict.fromkeys(word.text for word in values if word.text not in made)
    stated = {name: _FACT.fullmatch(facts[name]) for name in used if name in facts}
    unknown = used.keys() - stated.keys()
    if None in stated.values() or (unknown and not unknown.isdisjoint(words.values(words.scope_of(first)))):
        return None
    given = {
        name: f"{name} = external<{_TYPES[fact[1]]}>(shape = [{fact[2]}]);"
        for name, fact in stated.items()
        if fact is not None
    }
    return given, made


def _line(finding: Diagnostic) -> int:
    """The line of a finding, from 0."""
    span = finding.span
    return 0 if span is None or span.line is None else span.line - 1
