"""Tokens of an expression and their positions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Diagnostic, Severity, Source, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

INTEGER = re.compile(r"-?[0-9]+", re.ASCII)
_FLOAT = r"(?:[0-9]+\.?[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|inf|nan(?:\.0)?)"
FLOAT = re.compile(rf"-?{_FLOAT}", re.ASCII)
COMPLEX = re.compile(rf"(?P<real>-?{_FLOAT})(?P<imaginary>[-+]{_FLOAT})j", re.ASCII)
# pnnx writes '+' before an imaginary part that has its own sign.
_TWO_SIGNS = re.compile(rf"(-?{_FLOAT})\+(-{_FLOAT}j)", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)

_SCANNER = re.compile(
    r"(?P<blank>[ \t\n\v\f\r]+)"
    r"|(?P<reference>@[ \t\n\v\f\r]*[\w.+-]*)"
    r"|(?P<run>[\w.+-]+)"
    r"|(?P<mark>[(),\[\]])"
    r"|(?P<other>.)",
    re.ASCII | re.DOTALL,
)
_BLANKS = re.compile(r"[ \t\n\v\f\r]+")
_LONGEST_SHOWN = 40
_LONGEST_REFERENCE = 10


class TokenKind(StrEnum):
    """The kind of a token."""

    REFERENCE = "reference"
    """`@3`: an operand, counted from 0."""
    NUMBER = "number"
    """`2`, `-1.5e-3`, `inf`, `nan.0`, `1.0e+00-2.5e-01j`."""
    CONSTANT = "constant"
    """`None`, `True`, `False`."""
    NAME = "name"
    """A function, or a constant of PyTorch (`torch.float`)."""
    LEFT_PARENTHESIS = "left parenthesis"
    RIGHT_PARENTHESIS = "right parenthesis"
    LEFT_BRACKET = "left bracket"
    RIGHT_BRACKET = "right bracket"
    COMMA = "comma"


_MARKS = {
    "(": TokenKind.LEFT_PARENTHESIS,
    ")": TokenKind.RIGHT_PARENTHESIS,
    "[": TokenKind.LEFT_BRACKET,
    "]": TokenKind.RIGHT_BRACKET,
    ",": TokenKind.COMMA,
}
_CONSTANTS = frozenset({"None", "True", "False"})
_WORDS = _CONSTANTS | {"inf", "nan", "nan.0"}


class Token(NamedTuple):
    """A token: code points `start` to `end` (exclusive, from 0) of the original text.

    `text` omits blanks that lenient parsing found inside the token.
    """

    kind: TokenKind
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Text:
    """The text of an expression and its location: from code point `at` of `source`."""

    text: str
    source: Source
    at: int = 0

    @classmethod
    def of(cls, text: str) -> Text:
        """A text without a file."""
        return cls(text, Source("expression", text))

    def span(self, start: int, end: int) -> Span:
        """Code points `start` to `end` of the text, as a place in the source; at its end, the last position."""
        if self.source.text is None:
            return Span(self.source)
        return Span(self.source, self.at + start, self.at + max(end, start))


def tokenize(text: Text, *, lenient: bool = False) -> tuple[list[Token], list[Diagnostic]]:
    """Tokenize `text` and return tokens and diagnostics.

    Blanks between tokens are ignored. Inside a token they are an error, or with `lenient` a warning.
    """
    if lenient:
        return _tokenize_lenient(text)
    findings: list[Diagnostic] = []
    tokens: list[Token] = []
    for token, finding in _scan(text.text, text):
        if finding is not None:
            findings.append(finding)
        else:
            tokens.append(token)
    if not tokens and not findings:
        findings.append(_empty(text))
    return tokens, findings


def value_of(token: Token) -> complex | bool | None:
    """Return the value of a literal; integers are int, floats float64."""
    match token.text:
        case "None":
            return None
        case "True":
            return True
        case "False":
            return False
        case _:
            return _parse_number(token.text)


def shown(text: str) -> str:
    """`text` for a message: long ones are cut."""
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _parse_number(text: str) -> complex:
    if INTEGER.fullmatch(text):
        return int(text)
    if FLOAT.fullmatch(text):
        return _parse_float(text)
    parts = COMPLEX.fullmatch(text)
    if parts is None:
        message = f"{text!r} is not a number"
        raise ValueError(message)
    return complex(_parse_float(parts["real"]), _parse_float(parts["imaginary"]))


def _parse_float(text: str) -> float:
    return float(text.removesuffix(".0")) if "nan" in text else float(text)


def _tokenize_lenient(text: Text) -> tuple[list[Token], list[Diagnostic]]:
    """Remove blanks first, as pnnx's reader does, and report where that joined a token."""
    positions = [place for blank in _gaps(text.text) for place in blank]
    squeezed = "".join(text.text[place] for place in positions)
    findings: list[Diagnostic] = []
    tokens: list[Token] = []
    for token, finding in _scan(squeezed, text, positions):
        if finding is not None and finding.is_error:
            findings.append(finding)
            continue
        if finding is not None:
            findings.append(finding)
        start, end = positions[token.start], positions[token.end - 1] + 1
        if end - start != token.end - token.start:
            message = f"the reader ignores the space inside '{shown(token.text)}'"
            span = text.span(start, end)
            findings.append(
                Diagnostic("EXPR0005", message, span, f"write {shown(token.text)}", severity=Severity.WARNING)
            )
        tokens.append(Token(token.kind, token.text, start, end))
    if not tokens and not findings:
        findings.append(_empty(text))
    return tokens, findings


def _gaps(text: str) -> Iterator[range]:
    """The stretches between blanks."""
    start = 0
    for blank in _BLANKS.finditer(text):
        yield range(start, blank.start())
        start = blank.end()
    yield range(start, len(text))


def _scan(string: str, text: Text, offsets: list[int] | None = None) -> Iterator[tuple[Token, Diagnostic | None]]:
    """Return all tokens of `string` and their errors; `offsets` maps code points of `string` to `text`."""
    for found in _SCANNER.finditer(string):
        run, (start, end) = found.group(), found.span()
        mark = _MARKS.get(run)
        if mark is not None:
            yield Token(mark, run, start, end), None
            continue
        kind = found.lastgroup
        if kind == "blank":
            continue
        if kind == "reference" and run[1:].isdecimal() and end - start <= _LONGEST_REFERENCE:
            yield Token(TokenKind.REFERENCE, run, start, end), None
            continue
        if kind == "run" and _NAME.fullmatch(run) and run not in _WORDS:
            yield Token(TokenKind.NAME, run, start, end), None
            continue
        span = text.span(start, end) if offsets is None else text.span(offsets[start], offsets[end - 1] + 1)
        if kind == "reference":
            yield Token(TokenKind.REFERENCE, run, start, end), _reference_fault(run, span)
        elif kind == "run":
            yield _run(run, start, span, lenient=offsets is not None)
        else:
            message = f"unexpected character {run!r} in an expression"
            yield Token(TokenKind.NAME, run, start, end), Diagnostic("EXPR0002", message, span, _remedy(run))


def _run(run: str, start: int, span: Span, *, lenient: bool) -> tuple[Token, Diagnostic | None]:
    end = start + len(run)
    if run in _CONSTANTS:
        return Token(TokenKind.CONSTANT, run, start, end), None
    if FLOAT.fullmatch(run) or COMPLEX.fullmatch(run):
        return Token(TokenKind.NUMBER, run, start, end), _size_fault(run, span)
    two_signs = _TWO_SIGNS.fullmatch(run)
    if two_signs is not None:
        right = two_signs[1] + two_signs[2]
        message = f"'{shown(run)}' has two signs before the imaginary part"
        severity = Severity.WARNING if lenient else Severity.ERROR
        return Token(TokenKind.NUMBER, right, start, end), Diagnostic(
            "EXPR0003", message, span, f"write {right}", severity
        )
    if lenient and FLOAT.fullmatch(run.removeprefix("+")) and run.startswith("+"):
        right = run[1:]
        message = f"'{shown(run)}' has a redundant sign"
        finding = Diagnostic("EXPR0003", message, span, f"write {shown(right)}", Severity.WARNING)
        return Token(TokenKind.NUMBER, right, start, end), _size_fault(right, span) or finding
    what = "a name" if run[0].isalpha() or run[0] == "_" else "a number"
    message = f"'{shown(run)}' is not {what}"
    return Token(TokenKind.NUMBER, run, start, end), Diagnostic("EXPR0003", message, span, _number_remedy(run))


def _size_fault(run: str, span: Span) -> Diagnostic | None:
    """Return the error if a well-formed number is out of range."""
    if INTEGER.fullmatch(run):
        # Reading thousands of digits takes quadratic time; no integer of 64 bits has more than 19 after its zeros.
        digits = run.lstrip("-").lstrip("0")
        if len(digits) <= 19 and -(1 << 63) <= int(run) < 1 << 63:
            return None
        return Diagnostic("EXPR0006", f"{shown(run)} exceeds the int64 range", span, "write the number as a float")
    if "inf" in run:
        return None
    number = _parse_number(run)
    parts = (number.real, number.imag)
    if any(abs(part) == float("inf") for part in parts):
        return Diagnostic("EXPR0006", f"{shown(run)} exceeds the float64 range", span, "write inf for infinity")
    return None


def _reference_fault(run: str, span: Span) -> Diagnostic | None:
    digits = run[1:]
    if digits.isdecimal():
        if len(digits.lstrip("0")) < _LONGEST_REFERENCE:
            return None
        return Diagnostic("EXPR0004", f"operand index {shown(run)} is too large", span, "number the operands from @0")
    bare = digits.lstrip()
    if bare != digits and bare.isdecimal():
        return Diagnostic("EXPR0005", f"space inside '@{bare}'", span, f"write @{bare}")
    message = f"'{shown(run)}' is not an operand: expected digits after '@'"
    return Diagnostic("EXPR0004", message, span, "write operands as @0, @1, @2, …")


def _empty(text: Text) -> Diagnostic:
    return Diagnostic(
        "EXPR0001", "the expression is empty", text.span(0, 0), "write an expression, for example add(@0,@1)"
    )


def _remedy(character: str) -> str | None:
    match character:
        case ";":
            return "separate operands by ','"
        case "{" | "}":
            return "write lists as [1,2]"
        case "+" | "*" | "/" | "%":
            return "write operators as functions: add, mul, div, remainder"
        case _:
            return None


def _number_remedy(run: str) -> str | None:
    if run.endswith("j"):
        return "write both parts of a complex number: 0.0+2.0j"
    if "_" in run:
        return "remove the separator between digits"
    if run.startswith("+"):
        return "remove the '+' sign"
    return None
