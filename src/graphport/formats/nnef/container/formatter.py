"""Formatter of NNEF texts: uniform layout; names, literals and comments are kept.

It works on the tokens of the text, so nothing is lost; the syntax tree provides the starts of statements.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Source, raise_errors
from graphport.formats.nnef.container.expressions import PRECEDENCE, PRIMITIVES
from graphport.formats.nnef.container.lexer import tokenize
from graphport.formats.nnef.container.parser import parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.formats.nnef.container.syntax import Document, Edition, Fragment, Graph

WIDTH = 120
"""Maximum line width, except for longer tokens."""
_INDENT = " " * 4
_LINE_END = re.compile(r"\r\n|[\n\r]")
_WORDS_BEFORE_OPERANDS = frozenset(("if", "else", "in", "yield", "for"))
_HEADERS = frozenset(("header", "declaration"))
_OPENING = frozenset("([")
_CLOSING = frozenset(")]")
_TIGHT = _CLOSING | frozenset(",;")
_PREFIXES = frozenset("+-!")


def format_text(source: Source, edition: Edition | None = None) -> str:
    """The text of `source` in the standard layout; formatting that again changes nothing.

    Raises:
        DiagnosticError: the text has syntax errors.
    """
    parsed = parse(source, edition)
    raise_errors(parsed.diagnostics)
    lines = _laid_out(_lines(parsed.document, source.text or ""))
    return "".join(f"{line}\n" for line in lines)


def is_formatted(source: Source, edition: Edition | None = None) -> bool:
    """Whether formatting would change nothing.

    Raises:
        DiagnosticError: the text has syntax errors.
    """
    return format_text(source, edition) == source.text


@dataclass(slots=True)
class _Token:
    text: str
    gap: int = 0
    """Line ends before it."""

    @property
    def is_comment(self) -> bool:
        return self.text.startswith("#")


@dataclass(slots=True)
class _Line:
    """Tokens that are printed on one line if it is wide enough: a statement, a header, a brace or a comment."""

    kind: str
    words: list[_Token] = field(default_factory=list[_Token])
    comment: str | None = None
    """The comment at the end of the line."""

    @property
    def follows_blank_line(self) -> bool:
        """Whether it follows an empty line in the text."""
        return bool(self.words) and self.words[0].gap > 1


# ── tokens to lines ───────────────────────────────────────────────────────────────────────────────────────────────────


def _lines(document: Document, text: str) -> list[_Line]:
    begins = dict(_beginnings(document))
    lines: list[_Line] = []
    stop = 0
    for word, start in _tokens(text):
        kind, end = begins.get(start, ("", 0))
        if word.is_comment and start >= stop:
            if lines and not word.gap and lines[-1].comment is None and lines[-1].kind != "comment":
                lines[-1].comment = word.text.rstrip()
            else:
                lines.append(_Line("comment", [word]))
        elif kind:
            lines.append(_Line(kind, [word]))
            stop = end
        elif word.text in ("{", "}"):
            lines.append(_Line(word.text, [word]))
            stop = start + 1
        else:
            _append(lines[-1], word)
    return lines


def _tokens(text: str) -> Iterator[tuple[_Token, int]]:
    tokens = tokenize(text, keeps_comments=True)
    end = 0
    for word, start in zip(tokens.texts[:-1], tokens.starts, strict=False):
        yield _Token(word, len(_LINE_END.findall(text, end, start))), start
        end = start + len(word)


def _append(line: _Line, word: _Token) -> None:
    if line.kind in _HEADERS and word.text == ">=":
        line.words += [_Token(">", word.gap), _Token("=")]
    else:
        line.words.append(word)


def _beginnings(document: Document) -> Iterator[tuple[int, tuple[str, int]]]:
    """Yield the start of each construct, with its kind and end."""
    for statement in (document.version, *document.extensions):
        if statement is not None:
            yield statement.start, ("directive", statement.stop)
    for definition in (*document.fragments, document.graph):
        if definition is not None:
            kind = "declaration" if definition.body is None else "header"
            yield definition.start, (kind, _header_end(document, definition))
            for statement in definition.body or ():
                yield statement.start, ("statement", statement.stop)


def _header_end(document: Document, definition: Fragment | Graph) -> int:
    if definition.body is None or document.source is None:
        return definition.stop
    after = max(result.stop for result in definition.results)
    tokens = tokenize(document.source.text or "", after, definition.body[0].start)
    return tokens.starts[tokens.texts.index("{")]


# ── lines to text ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _laid_out(lines: list[_Line]) -> Iterator[str]:
    previous: _Line | None = None
    depth = 0
    for line in lines:
        depth -= line.kind == "}"
        if previous is not None and _is_parted(previous, line, depth):
            yield ""
        yield from _printed(line, _INDENT * depth)
        depth += line.kind == "{"
        previous = line


def _is_parted(previous: _Line, line: _Line, depth: int) -> bool:
    """Whether an empty line separates two lines."""
    if previous.kind == "{" or line.kind in ("{", "}"):
        return False
    if not depth and previous.kind == "}":
        return True
    if previous.kind == "directive" and line.kind in _HEADERS:
        return True
    if previous.kind == "declaration" and line.kind == "header":
        return True
    return line.follows_blank_line


def _printed(line: _Line, indent: str) -> Iterator[str]:
    if line.kind == "comment":
        yield indent + line.words[0].text.rstrip()
        return
    rows = [indent]
    pieces = _print_tokens(line)
    if line.kind in _HEADERS and len(indent) + _width(pieces) > WIDTH:
        rows = _header_rows(pieces)
    else:
        for piece in _chunks(pieces):
            _append_token(rows, piece, indent + _INDENT)
    if line.comment is not None:
        rows[-1] += f"  {line.comment}"
    yield from rows


@dataclass(slots=True)
class _PrintedToken:
    """A printed token: with or without a space before it, and whether a line may begin with it."""

    text: str
    spaced: bool
    may_begin: bool
    is_comment: bool = False
    is_alone: bool = False
    depth: int = 0


def _chunks(pieces: list[_PrintedToken]) -> Iterator[_PrintedToken]:
    """Join adjacent tokens between which no line break is allowed."""
    joined: list[str] = []
    first: _PrintedToken | None = None
    for piece in pieces:
        if first is not None and (piece.may_begin or piece.is_comment):
            yield replace(first, text="".join(joined))
            first = None
        if piece.is_comment:
            yield piece
        elif first is None:
            first, joined = piece, [piece.text]
        else:
            joined.append(f" {piece.text}" if piece.spaced else piece.text)
    if first is not None:
        yield replace(first, text="".join(joined))


def _width(pieces: list[_PrintedToken]) -> int:
    if any(piece.is_comment for piece in pieces[:-1]):
        return WIDTH + 1
    return sum(len(piece.text) + piece.spaced for piece in pieces if not piece.is_comment)


def _append_token(rows: list[str], piece: _PrintedToken, indent: str) -> None:
    """Append a token to the last row, or to a new row if it exceeds the width."""
    row = rows[-1]
    is_fresh = not row.strip()
    if piece.is_comment:
        if is_fresh or not piece.is_alone:
            rows[-1] = row + piece.text if is_fresh else f"{row}  {piece.text}"
        else:
            rows.append(indent + piece.text)
        rows.append(indent)
        return
    text = f" {piece.text}" if piece.spaced and not is_fresh else piece.text
    if len(row) + len(text) > WIDTH and piece.may_begin and not is_fresh:
        rows.append(indent + piece.text)
    else:
        rows[-1] = row + text


def _header_rows(pieces: list[_PrintedToken]) -> list[str]:
    """A header that is too long for one line: a parameter on each, the results on the last."""
    rows = [""]
    for piece in pieces:
        ends = piece.text == "->" and piece.depth == 0
        begins = rows[-1].endswith((",", "(")) and piece.depth == 1 and not rows[-1].startswith("->")
        if (ends or begins) and rows[-1].strip() and not piece.is_comment:
            rows.append("" if ends else _INDENT)
        _append_token(rows, piece, _INDENT)
    if not rows[-1].strip():
        rows.pop()
    return rows


def _print_tokens(line: _Line) -> list[_PrintedToken]:
    pieces: list[_PrintedToken] = []
    words = [word for word in line.words if not word.is_comment]
    depth, at = 0, 0
    generic = _generic_marks(line, words)
    for word in line.words:
        if word.is_comment:
            text = word.text.rstrip()
            pieces.append(_PrintedToken(text, spaced=True, may_begin=False, is_comment=True, is_alone=word.gap > 0))
            continue
        depth -= word.text in _CLOSING
        before = words[at - 1].text if at else ""
        pieces.append(_print_token(line.kind, words, at, generic, depth, before))
        depth += word.text in _OPENING
        at += 1
    if pieces and pieces[-1].is_comment:
        line.comment = line.comment or pieces.pop().text
    return pieces


def _print_token(kind: str, words: list[_Token], at: int, generic: set[int], depth: int, before: str) -> _PrintedToken:
    text = words[at].text
    is_prefix = text in _PREFIXES and _wants_operand(words, at)
    may_begin = before == "," or (text in PRECEDENCE and not is_prefix and at not in generic)
    if kind in _HEADERS and ((text == ")" and depth == 0) or (before == "(" and depth == 1)):
        spaced = True
    elif at in generic or at - 1 in generic:
        # After the `>` of a type, the `=` of a default is separated by spaces.
        spaced = before == ">" and text not in _TIGHT and text not in _OPENING
    else:
        spaced = bool(at) and not _is_tight(kind, words, at, before)
    return _PrintedToken(text, spaced, may_begin, depth=depth)


def _is_tight(kind: str, words: list[_Token], at: int, before: str) -> bool:
    """Whether no space separates the token at index `at` from the one before it."""
    text = words[at].text
    if before in _OPENING or text in _TIGHT or (before in _PREFIXES and _wants_operand(words, at - 1)):
        return True
    if text == ":" or (before == ":" and kind not in _HEADERS):
        return True
    return text in _OPENING and _is_operand(before)


def _is_operand(word: str) -> bool:
    """Whether a value, or the name of a function, ends with `word`, so that a bracket after it belongs to it."""
    if word in _WORDS_BEFORE_OPERANDS or not word:
        return False
    return word[0].isalnum() or word[0] in "_'\")]?"


def _wants_operand(words: list[_Token], at: int) -> bool:
    """Whether `+`, `-` or `!` at index `at` is a unary operator."""
    return not at or not _is_operand(words[at - 1].text)


def _generic_marks(line: _Line, words: list[_Token]) -> set[int]:
    """Positions of the `<` and `>` that enclose types."""
    texts = [word.text for word in words]
    if line.kind in _HEADERS:
        return {index for index, text in enumerate(texts) if text in ("<", ">")}
    types = {"?"}.union(*PRIMITIVES.values())
    found: set[int] = set()
    for index in range(1, len(texts) - 3):
        if texts[index] == "<" and texts[index + 2] == ">" and texts[index + 3] == "(" and texts[index + 1] in types:
            found |= {index, index + 2}
    return found
