"""Incremental tokens of an NNEF text, classified by syntactic role.

No NNEF token spans lines, so each line is tokenized once per initial state and cached. The text may be incomplete.
"""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from graphport.formats.nnef.container.lexer import tokenize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class TokenKind(StrEnum):
    """Syntactic role of a token."""

    KEYWORD = "keyword"
    TYPE = "type"
    OPERATION = "function"
    PARAMETER = "parameter"
    VALUE = "variable"
    GRAPH = "namespace"
    NUMBER = "number"
    STRING = "string"
    COMMENT = "comment"
    PUNCTUATION = "operator"


_QUERIES = frozenset(("shape_of", "length_of", "range_of"))
KEYWORDS = _QUERIES | frozenset(
    ("version", "extension", "fragment", "graph", "true", "false", "if", "else", "for", "in", "yield")
)
TYPES = frozenset(("tensor", "scalar", "integer", "logical", "string"))
MAX_CACHED_LINES = 50_000


class Token(NamedTuple):
    """A token of a line, code points `start` to `stop`.

    `within` is the operation of the enclosing call, or empty. `declares` is true if the token declares its name.
    """

    text: str
    start: int
    stop: int
    kind: TokenKind
    within: str = ""
    declares: bool = False


class LineState(NamedTuple):
    """Tokenizer state at the start of a line.

    `section` is `fragment` or `graph` in a declaration and `body` inside braces. `open` lists the open brackets, a call
    by the name of its operation. `is_target` is true before the `=` of a statement.
    """

    section: str = ""
    open: tuple[str, ...] = ()
    is_target: bool = False
    before: str = ""
    """The previous token."""


class LocatedToken(NamedTuple):
    """A token, its line (0-based) and the scope of its name."""

    line: int
    token: Token
    scope: int


class Section(NamedTuple):
    """A fragment or the graph: the tokens before the braces, the tokens between them, and the braces, if present.

    Comments are excluded.
    """

    head: tuple[LocatedToken, ...]
    start: LocatedToken | None
    body: tuple[LocatedToken, ...]
    end: LocatedToken | None

    @property
    def tokens(self) -> tuple[LocatedToken, ...]:
        """All tokens."""
        start, end = (() if brace is None else (brace,) for brace in (self.start, self.end))
        return (*self.head, *start, *self.body, *end)

    @property
    def is_graph(self) -> bool:
        """Whether it is the graph."""
        return self.head[0].token.text == "graph"

    @property
    def name(self) -> LocatedToken | None:
        """The token after the keyword."""
        named = self.head[1:2]
        return named[0] if named and named[0].token.kind is not TokenKind.PUNCTUATION else None

    def statements(self) -> Iterator[tuple[LocatedToken, ...]]:
        """Yield the tokens of each statement up to its semicolon."""
        first = 0
        for index, place in enumerate(self.body, 1):
            if place.token.text == ";":
                yield self.body[first:index]
                first = index
        if first < len(self.body):
            yield self.body[first:]


class _TokenizedLine(NamedTuple):
    tokens: tuple[Token, ...]
    declared: tuple[Token, ...]
    headings: int
    state: LineState
    """State at the start of the next line."""


_INITIAL_STATE = LineState()


class TokenIndex:
    """The tokens of a text; `update` tokenizes changed lines only."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self._known: dict[tuple[str, LineState], _TokenizedLine] = {}
        self._found: list[tuple[_TokenizedLine, LineState]] = []
        self._scopes: list[int] = []

    def update(self, lines: Sequence[str]) -> None:
        """Set the text to `lines` (without line ends)."""
        if len(self._known) > MAX_CACHED_LINES + 2 * len(lines):
            self._known.clear()
        state, scope = _INITIAL_STATE, 0
        self.lines, self._found, self._scopes = list(lines), [], []
        for line in self.lines:
            key = (line, state)
            read = self._known.get(key)
            if read is None:
                read = self._known[key] = _tokenize_line(line, state)
            scope += read.headings
            self._scopes.append(scope)
            self._found.append((read, state))
            state = read.state

    def of_line(self, number: int) -> tuple[Token, ...]:
        """Return the tokens of a line."""
        return self._found[number][0].tokens if 0 <= number < len(self._found) else ()

    def at(self, line: int, column: int) -> LocatedToken | None:
        """Return the token that contains or ends at a position."""
        found = [token for token in self.of_line(line) if token.start <= column <= token.stop]
        if not found:
            return None
        named = [token for token in found if token.kind not in (TokenKind.PUNCTUATION, TokenKind.COMMENT)]
        return LocatedToken(line, (named or found)[0], self._scopes[line])

    def state(self, line: int, column: int) -> LineState:
        """Return the tokenizer state at a position."""
        if not 0 <= line < len(self.lines):
            return _INITIAL_STATE
        return _tokenize_line(self.lines[line][:column], self._found[line][1]).state

    def __iter__(self) -> Iterator[LocatedToken]:
        for number, (line, _) in enumerate(self._found):
            for token in line.tokens:
                yield LocatedToken(number, token, self._scopes[number])

    def scope_of(self, line: int) -> int:
        """Return the index of the fragment or graph that contains a line."""
        return self._scopes[line] if 0 <= line < len(self._scopes) else 0

    def same_name(self, place: LocatedToken) -> list[LocatedToken]:
        """Return all references to a name: an operation in the whole text, a value in its scope."""
        text, kind, within = place.token.text, place.token.kind, place.token.within
        return [
            each
            for each in self._with(text)
            if each.token.text == text
            and each.token.kind is kind
            and each.token.within == within
            and (kind is not TokenKind.VALUE or each.scope == place.scope)
        ]

    def _with(self, text: str) -> Iterator[LocatedToken]:
        """Yield the tokens of all lines that contain `text`."""
        for number, line in enumerate(self.lines):
            if text in line:
                for token in self._found[number][0].tokens:
                    yield LocatedToken(number, token, self._scopes[number])

    def declaration(self, place: LocatedToken) -> LocatedToken | None:
        """Return the declaration of a value or of a fragment of this text."""
        return next((each for each in self.same_name(place) if each.token.declares), None)

    def is_in_graph(self, place: LocatedToken) -> bool:
        """Whether a token is in the graph, not in a fragment."""
        return any(each.is_graph and each.head[0].scope == place.scope for each in self.sections())

    def sections(self) -> Iterator[Section]:
        """Yield the fragments and the graph; one without closing brace ends before the next."""
        head: list[LocatedToken] = []
        body: list[LocatedToken] = []
        start = None
        for place in self:
            text, kind = place.token.text, place.token.kind
            if kind is TokenKind.COMMENT:
                continue
            if text in _SECTION_KEYWORDS or (text == "}" and start is not None):
                if head:
                    yield Section(tuple(head), start, tuple(body), place if text == "}" else None)
                head, start, body = ([] if text == "}" else [place]), None, []
            elif start is not None:
                body.append(place)
            elif head and text == "{":
                start = place
            elif text == ";":
                head = []  # a declaration without a body, or a statement of the document
            elif head:
                head.append(place)
        if head:
            yield Section(tuple(head), start, tuple(body), None)

    def statement_before(self, line: int, column: int) -> list[Token]:
        """Return the tokens between the start of the statement at a position and the position."""
        found: list[Token] = []
        while line >= 0:
            here = [each for each in self.of_line(line) if each.stop <= column and each.kind is not TokenKind.COMMENT]
            ends = [index for index, each in enumerate(here, 1) if each.text in (";", "{", "}")]
            found[:0] = here[ends[-1] if ends else 0 :]
            if ends:
                break
            line, column = line - 1, sys.maxsize
        return found

    def find_line(self, text: str) -> int:
        """Return the line of the first token `text`, or -1."""
        return next((place.line for place in self._with(text) if place.token.text == text), -1)

    def values(self, scope: int) -> list[str]:
        """Return the names of the values of a scope."""
        found = (each.token for each in self.declared() if each.scope == scope and each.token.kind is TokenKind.VALUE)
        return list(dict.fromkeys(token.text for token in found))

    def fragments(self) -> list[str]:
        """Return the names of the fragments that the text declares."""
        return [each.token.text for each in self.declared() if each.token.kind is TokenKind.OPERATION]

    def declared(self) -> Iterator[LocatedToken]:
        """Yield the tokens that declare a name."""
        for number, (line, _) in enumerate(self._found):
            for token in line.declared:
                yield LocatedToken(number, token, self._scopes[number])


_SECTION_KEYWORDS = ("fragment", "graph")


def _tokenize_line(line: str, state: LineState) -> _TokenizedLine:
    tokens = tokenize(line, keeps_comments=True)
    texts = tokens.texts
    found: list[Token] = []
    section, opened, is_target, before = state.section, list(state.open), state.is_target, state.before
    for index, (text, start) in enumerate(zip(texts, tokens.starts, strict=True)):
        if not text:
            continue
        after = texts[index + 1] if index + 1 < len(texts) else ""
        is_call = after == "(" or _is_instantiation(texts, index)
        kind = _classify(text, after, before, section, opened, is_call=is_call)
        within = opened[-1] if opened and kind is TokenKind.PARAMETER else ""
        declares = _is_declaration(kind, before, after, section, opened, is_target=is_target)
        found.append(Token(text, start, start + len(text), kind, within, declares))
        if kind is TokenKind.COMMENT:
            continue
        if text in _SECTION_KEYWORDS:
            section, opened = text, []
        elif text in ("(", "["):
            # `variable<scalar>(`: the operation is four tokens before the bracket.
            called = found[-5:-4] if before == ">" and _is_instantiation(texts, index - 4) else found[-2:-1]
            is_call = text == "(" and bool(called) and called[0].kind is TokenKind.OPERATION
            opened.append(called[0].text if is_call else "")
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
    headings = sum(token.text in _SECTION_KEYWORDS for token in found)
    end = LineState(section, tuple(opened), is_target, before)
    return _TokenizedLine(tuple(found), tuple(token for token in found if token.declares), headings, end)


def _is_instantiation(texts: Sequence[str], index: int) -> bool:
    """Whether `NAME<TYPE>(` begins at an index."""
    return index >= 0 and texts[index + 1 : index + 5 : 2] == ["<", ">"] and texts[index + 4 : index + 5] == ["("]


def _classify(text: str, after: str, before: str, section: str, opened: Sequence[str], *, is_call: bool) -> TokenKind:
    first = text[0]
    if first == "#":
        return TokenKind.COMMENT
    if first in "'\"":
        return TokenKind.STRING
    if first.isdigit():
        return TokenKind.NUMBER
    if not (first.isalpha() or first == "_"):
        return TokenKind.PUNCTUATION
    if text in KEYWORDS:
        return TokenKind.KEYWORD
    if text in TYPES:
        return TokenKind.TYPE
    if before in _SECTION_KEYWORDS or (section == "body" and is_call and before not in (")", "]")):
        return TokenKind.OPERATION if before != "graph" else TokenKind.GRAPH
    if section == "body" and after == "=" and opened and opened[-1]:
        return TokenKind.PARAMETER
    return TokenKind.VALUE


def _is_declaration(
    kind: TokenKind, before: str, after: str, section: str, opened: Sequence[str], *, is_target: bool
) -> bool:
    if kind is TokenKind.OPERATION:
        return before == "fragment"
    if kind is not TokenKind.VALUE:
        return False
    if before == "for":
        return True
    return is_target if section == "body" else section == "fragment" and bool(opened) and after == ":"
