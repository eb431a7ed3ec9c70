"""Lexer of NNEF texts: one regular expression splits tokens, another one diagnoses malformed ones."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source

SPACE = r"[ \t\n\r\f\v]"
COMMENT = r"#[^\n\r\f]*"
"""A comment lasts to the end of the line or to a form feed."""
IDENTIFIER = r"[A-Za-z_][A-Za-z0-9_]*"
NUMBER = r"[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"

INTEGER_BITS = 64
LARGEST_INTEGER = 2 ** (INTEGER_BITS - 1) - 1

_PIECE = re.compile(
    rf"{SPACE}+|{COMMENT}|{IDENTIFIER}"
    r"|[0-9](?:[eE][+-]|[0-9A-Za-z_.])*"  # longer than a number: `1e` and `1.2.3` are one error each
    r"|'(?:[^'\\\n\r]|\\[^\n\r]|\\)*'?"
    r'|"(?:[^"\\\n\r]|\\[^\n\r]|\\)*"?'
    r"|->|<=|>=|==|!=|&&|\|\||.",
    re.DOTALL,
)
_SPACES = frozenset(" \t\n\r\f\v\ufeff")
_SKIPPED = _SPACES | {"#"}
_NUMBER = re.compile(NUMBER)
_COMMENT_OR_STRING = re.compile(rf"({COMMENT})|'(?:[^'\\\n\r]|\\[^\n\r]|\\)*'?|\"(?:[^\"\\\n\r]|\\[^\n\r]|\\)*\"?")
_ESCAPE = re.compile(r"\\(.)")
_UNPRINTABLE = re.compile(r"[^ -~]")
SYMBOLS = frozenset(
    [
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        ":",
        "=",
        ",",
        ";",
        "+",
        "-",
        "*",
        "/",
        "^",
        "<",
        ">",
        "!",
        "?",
        "->",
        "<=",
        ">=",
        "==",
        "!=",
        "&&",
        "||",
    ]
)
QUOTES = frozenset("'\"")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment: `#` and the text up to the end of the line."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a text with their positions; the last one is the empty token at the end."""

    texts: list[str]
    starts: list[int]

    def stop(self, index: int) -> int:
        """Where token `index` ends."""
        return self.starts[index] + len(self.texts[index])


def tokenize(text: str, start: int = 0, end: int | None = None, *, keeps_comments: bool = False) -> Tokens:
    """Split `text` from `start` to `end` into tokens, without white space and comments.

    Never fails: an unexpected character is a token, an unterminated string ends with its line.
    """
    skipped = _SPACES if keeps_comments else _SKIPPED
    end = len(text) if end is None else end
    pieces: list[str] = _PIECE.findall(text, start, end)
    ends = accumulate(map(len, pieces), initial=start)
    kept = [(piece, at) for piece, at in zip(pieces, ends, strict=False) if piece[0] not in skipped]
    texts = [piece for piece, _ in kept]
    starts = [at for _, at in kept]
    texts.append("")
    starts.append(end)
    return Tokens(texts, starts)


def comments(text: str) -> Iterator[Comment]:
    """Every comment of `text`; a `#` inside a string begins none."""
    if "#" not in text:
        return
    for match in _COMMENT_OR_STRING.finditer(text):
        if match[1]:
            yield Comment(match[1], match.start())


def string_value(text: str) -> str:
    """Return the characters of a string literal: escaped quotes and backslashes are unescaped."""
    quote = text[0]
    return _ESCAPE.sub(lambda m: m[1] if m[1] in (quote, "\\") else m[0], text[1:-1])


def string_literal(value: str) -> str:
    """`value` as a string literal, in the quotes that need fewer escapes."""
    quote = '"' if "'" in value and '"' not in value else "'"
    return quote + value.replace("\\", "\\\\").replace(quote, "\\" + quote) + quote


def fault_of_number(text: str, span: Span, *, negative: bool = False) -> Diagnostic | None:
    """Return the error of a token that begins with a digit; `negative` if a minus precedes it."""
    if not _NUMBER.fullmatch(text):
        return Diagnostic(
            "NNEF0102",
            f"{_shown(text)} is neither a number nor an identifier",
            span,
            help="write a number as digits, optionally '.' and digits, optionally 'e' and digits; "
            "an identifier begins with a letter or '_'",
        )
    if not text.isdigit():
        if math.isinf(float(text)):
            return Diagnostic(
                "NNEF0106", f"{_shown(text)} exceeds the float64 range", span, help="use a value of at most 1.797e308"
            )
        return None
    digits = text.lstrip("0")
    if len(digits) > 19 or int(digits or "0") > LARGEST_INTEGER + negative:
        return Diagnostic(
            "NNEF0103",
            f"integer {_shown(text)} does not fit in {INTEGER_BITS} bits",
            span,
            help=f"use an integer from -{LARGEST_INTEGER + 1} to {LARGEST_INTEGER}, or write a '.' for a scalar",
        )
    return None


def faults_of_string(text: str, start: int, source: Source) -> Iterator[Diagnostic]:
    """Yield the errors of a token at `start` that begins with a quote."""
    span = Span(source, start, start + len(text))
    if len(text) == 1 or text[-1] != text[0] or not _ESCAPE.sub("", text[1:]).endswith(text[0]):
        yield Diagnostic(
            "NNEF0104",
            f"unterminated string {_shown(text)}",
            span,
            help=f"close it with {text[0]} on the same line",
        )
        return
    if bad := _UNPRINTABLE.search(text):
        yield Diagnostic(
            "NNEF0105",
            f"unsupported character U+{ord(bad[0]):04X} in a string",
            Span(source, start + bad.start(), start + bad.end()),
            help="use printable ASCII characters",
        )
    for escape in _ESCAPE.finditer(text, 1):
        if escape[1] not in (text[0], "\\"):
            yield Diagnostic(
                "NNEF0107",
                f"unknown escape sequence '{escape[0]}' is read as two characters",
                Span(source, start + escape.start(), start + escape.end()),
                help=f"write '\\\\' for a backslash; only a backslash and {text[0]} can be escaped",
                severity=Severity.WARNING,
            )


def fault_of_symbol(text: str, span: Span) -> Diagnostic:
    """Report a character that begins no token."""
    remedy = {
        ".": "write a digit before the '.': 0.5",
        "&": "write '&&'",
        "|": "write '||'",
        "%": "NNEF has no remainder operator",
        "@": "use letters, digits and '_' in names",
    }
    named = f"'{text}'" if text.isascii() and text.isprintable() else f"U+{ord(text):04X}"
    return Diagnostic("NNEF0101", f"unexpected character {named}", span, help=remedy.get(text))


def _shown(text: str) -> str:
    return f"'{text}'" if len(text) <= 40 else f"'{text[:40]}…'"
