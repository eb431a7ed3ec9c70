"""The words of an NNEF text line by line, and what each stands for; what an edit leaves as it was is not read again.

No word of NNEF goes over the end of a line, so a line is read once for each state that it can begin in. Nothing here
needs the text to be whole: it is being typed.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from graphport.formats.nnef.lexer import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Kind(StrEnum):
    """What a word stands for."""

    KEYWORD = "keyword"
    TYPE = "type"
    OPERATION = "function"
    PARAMETER = "parameter"
    VALUE = "variable"
    NUMBER = "number"
    STRING = "string"
    COMMENT = "comment"
    SIGN = "operator"


_QUERIES = frozenset(("shape_of", "length_of", "range_of"))
KEYWORDS = _QUERIES | frozenset(
    ("version", "extension", "fragment", "graph", "true", "false", "if", "else", "for", "in", "yield")
)
TYPES = frozenset(("tensor", "scalar", "integer", "logical", "string"))
_MOST_CACHED = 50_000


class Word(NamedTuple):
    """A word of a line: code points `start` to `stop` of it.

    `within` is the operation whose call it stands in, if any; `declares` whether the name gets its meaning here.
    """

    text: str
    start: int
    stop: int
    kind: Kind
    within: str = ""
    declares: bool = False


class State(NamedTuple):
    """How a line begins.

    `section` is `fragment` or `graph` in a heading, `body` inside of braces; `open` are the brackets that are open, a
    call by the name of its operation; `is_target` holds before the `=` of a statement.
    """

    section: str = ""
    open: tuple[str, ...] = ()
    is_target: bool = False
    before: str = ""
    """The word before it."""


class Place(NamedTuple):
    """A word with the line that it stands in, from 0, and the scope that its name belongs to."""

    line: int
    word: Word
    scope: int


class _Line(NamedTuple):
    words: tuple[Word, ...]
    declared: tuple[Word, ...]
    headings: int
    state: State
    """How the next line begins."""


_START = State()


class Words:
    """The words of a text; `update` reads anew what has changed."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[tuple[str, State], _Line] = {}
        self._found: list[tuple[_Line, State]] = []
        self._scopes: list[int] = []

    def update(self, lines: Sequence[str]) -> None:
        """Take `lines` for the text, without their ends."""
        if len(self._known) > _MOST_CACHED + 2 * len(lines):
            self._known.clear()
        state, scope = _START, 0
        self.lines, self._found, self._scopes = list(lines), [], []
        for line in self.lines:
            key = (line, state)
            read = self._known.get(key)
            if read is None:
                read = self._known[key] = _read(line, state)
            scope += read.headings
            self._scopes.append(scope)
            self._found.append((read, state))
            state = read.state

    def of_line(self, number: int) -> tuple[Word, ...]:
        """The words of a line."""
        return self._found[number][0].words if 0 <= number < len(self._found) else ()

    def at(self, line: int, column: int) -> Place | None:
        """The word that stands at, or ends at, a place."""
        found = [word for word in self.of_line(line) if word.start <= column <= word.stop]
        if not found:
            return None
        named = [word for word in found if word.kind not in (Kind.SIGN, Kind.COMMENT)]
        return Place(line, (named or found)[0], self._scopes[line])

    def state(self, line: int, column: int) -> State:
        """How the text goes on at a place: which calls are open there."""
        if not 0 <= line < len(self.lines):
            return _START
        return _read(self.lines[line][:column], self._found[line][1]).state

    def __iter__(self) -> Iterator[Place]:
        for number, (line, _) in enumerate(self._found):
            for word in line.words:
                yield Place(number, word, self._scopes[number])

    def scope_of(self, line: int) -> int:
        """The number of the fragment or graph that a line belongs to."""
        return self._scopes[line] if 0 <= line < len(self._scopes) else 0

    def alike(self, place: Place) -> list[Place]:
        """Every word that means the same as one: an operation everywhere, a value in its scope."""
        text, kind, within = place.word.text, place.word.kind, place.word.within
        return [
            each
            for each in self._with(text)
            if each.word.text == text
            and each.word.kind is kind
            and each.word.within == within
            and (kind is not Kind.VALUE or each.scope == place.scope)
        ]

    def _with(self, text: str) -> Iterator[Place]:
        """The words of the lines that have `text` in them."""
        for number, line in enumerate(self.lines):
            if text in line:
                for word in self._found[number][0].words:
                    yield Place(number, word, self._scopes[number])

    def declaration(self, place: Place) -> Place | None:
        """Where the name of a value, or of a fragment of the text, gets its meaning."""
        return next((each for each in self.alike(place) if each.word.declares), None)

    def first(self, text: str) -> int:
        """The line of the first word `text`; -1 where there is none."""
        return next((place.line for place in self._with(text) if place.word.text == text), -1)

    def values(self, scope: int) -> list[str]:
        """Names of the values of a scope."""
        found = (each.word for each in self.declared() if each.scope == scope and each.word.kind is Kind.VALUE)
        return list(dict.fromkeys(word.text for word in found))

    def fragments(self) -> list[str]:
        """Names of the operations that the text declares."""
        return [each.word.text for each in self.declared() if each.word.kind is Kind.OPERATION]

    def declared(self) -> Iterator[Place]:
        """The words whose names get their meaning where they stand."""
        for number, (line, _) in enumerate(self._found):
            for word in line.declared:
                yield Place(number, word, self._scopes[number])


_HEADINGS = ("fragment", "graph")


def _read(line: str, state: State) -> _Line:
    tokens = tokenize(line, keeps_comments=True)
    texts = tokens.texts
    found: list[Word] = []
    section, opened, is_target, before = state.section, list(state.open), state.is_target, state.before
    for index, (text, start) in enumerate(zip(texts, tokens.starts, strict=True)):
        if not text:
            continue
        after = texts[index + 1] if index + 1 < len(texts) else ""
        kind = _kind(text, after, before, section, opened)
        within = opened[-1] if opened and kind is Kind.PARAMETER else ""
        declares = _declares(kind, before, after, section, opened, is_target=is_target)
        found.append(Word(text, start, start + len(text), kind, within, declares))
        if kind is Kind.COMMENT:
            continue
        if text in _HEADINGS:
            section, opened = text, []
        elif text in ("(", "["):
            opened.append(before if text == "(" and found[-2:-1] and found[-2].kind is Kind.OPERATION else "")
        elif text in (")", "]"):
            del opened[-1:]
        elif text == "{":
            section, opened, is_target = "body", [], True
        elif text == "}":
            section, opened, is_target = "", [], False
        elif text == ";":
            opened, is_target = [], section == "body"
            section = section if section == "body" else ""
        elif text == "=" and not opened:
            is_target = False
        before = text
    headings = sum(word.text in _HEADINGS for word in found)
    end = State(section, tuple(opened), is_target, before)
    return _Line(tuple(found), tuple(word for word in found if word.declares), headings, end)


def _kind(text: str, after: str, before: str, section: str, opened: Sequence[str]) -> Kind:
    first = text[0]
    if first == "#":
        return Kind.COMMENT
    if first in "'\"":
        return Kind.STRING
    if first.isdigit():
        return Kind.NUMBER
    if not (first.isalpha() or first == "_"):
        return Kind.SIGN
    if text in KEYWORDS:
        return Kind.KEYWORD
    if text in TYPES:
        return Kind.TYPE
    if before in _HEADINGS or (section == "body" and after in ("(", "<") and before not in (")", "]")):
        return Kind.OPERATION if before != "graph" else Kind.VALUE
    if section == "body" and after == "=" and opened and opened[-1]:
        return Kind.PARAMETER
    return Kind.VALUE


def _declares(kind: Kind, before: str, after: str, section: str, opened: Sequence[str], *, is_target: bool) -> bool:
    if kind is Kind.OPERATION:
        return before == "fragment"
    if kind is not Kind.VALUE:
        return False
    if before == "for":
        return True
    return is_target if section == "body" else section == "fragment" and bool(opened) and after == ":"
