"""Parser of protobuf's text format, with the location of every value.

    text    = {field [";" | ","]}
    field   = name [":"] message | name ":" (scalar | "[" [scalar {"," scalar}] "]")
    message = "{" text "}" | "<" text ">"
    scalar  = number | word | "-" (number | word) | string {string}

Comments run from `#` to the end of the line.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from math import inf, nan
from typing import TYPE_CHECKING, NoReturn

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.caffe.container import schema
from graphport.formats.caffe.container.message import Identifier, Message

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source
    from graphport.formats.caffe.container.findings import Findings
    from graphport.formats.caffe.container.message import Content
    from graphport.formats.caffe.container.schema import Field

MOST_NESTED = 64
"""Maximum nesting of messages."""

MOST_DIGITS = 400
"""Maximum characters of a number."""

_SKIPPED = re.compile(r"(?:[ \t\r\n\f\v\ufeff]+|#[^\n]*)*")
_COMMENT = re.compile(r"#[^\r\n]*")
_TOKEN = re.compile(
    r"(?P<name>[A-Za-z_][A-Za-z0-9_./]*)"
    r"|(?P<number>0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?)"
    r"|(?P<string>'[^'\\\n]*(?:\\.[^'\\\n]*)*'|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\")"
    r"|(?P<sign>[{}<>\[\]:;,+-])"
)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|[xX][0-9a-fA-F]{1,2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}
_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+|[0-9]+")
_CLOSING = {"{": "}", "<": ">"}
_TRUE, _FALSE = frozenset({"true", "True", "t", "1"}), frozenset({"false", "False", "f", "0"})
_RANGES = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "uint32": (0, (1 << 32) - 1),
    "int64": (-(1 << 63), (1 << 63) - 1),
}


class _Scalar:
    """A scalar token: `kind` is `name`, `number` or `string`, and `text` includes its sign."""

    __slots__ = ("kind", "span", "text")

    def __init__(self, kind: str, text: str, span: Span) -> None:
        self.kind = kind
        self.text = text
        self.span = span


def parse(source: Source, findings: Findings, kind: str = schema.NET) -> Message:
    """Parse the text of `source` to a message of `kind`.

    Fields unknown to `schema` are kept, with a warning.

    Raises:
        DiagnosticError: CAFFE0101 to CAFFE0103, syntax errors.
    """
    return _Parser(source, findings).parse_message(kind)


class _Parser:
    """Parser with an explicit stack; stops at the first unexpected token."""

    def __init__(self, source: Source, findings: Findings) -> None:
        self.source = source
        self.findings = findings
        self.text = source.text or ""
        self.kind = "end"
        self.word = ""
        self.start = self.stop = self.last = 0
        self.comments: list[str] = []
        self.advance()

    def parse_message(self, kind: str) -> Message:
        """Parse the whole text as a message."""
        root = Message(kind, Span(self.source, 0, len(self.text)))
        stack: list[tuple[Message, str, int]] = [(root, "", 0)]
        while stack:
            message, closing, start = stack[-1]
            if self.kind == "end" and not closing:
                break
            if closing and self.word == closing and self.kind == "sign":
                self.advance()
                message.span = Span(self.source, start, self.last)
                self.separator()
                stack.pop()
                continue
            entered = self.field(message, closing)
            if entered is not None:
                if len(stack) == MOST_NESTED:
                    self.stop_with("CAFFE0102", f"messages are nested more than {MOST_NESTED} levels deep", self.here())
                stack.append(entered)
        return root

    def field(self, message: Message, closing: str) -> tuple[Message, str, int] | None:
        """Parse a field; return the message to continue in, its closing bracket and its start."""
        if self.kind != "name":
            self.fail("a field" + (f" or '{closing}'" if closing else ""))
        name, span = self.word, self.here()
        comments, self.comments = tuple(self.comments), []
        self.advance()
        has_colon = self.skip(":")
        field = self.find_field(message, name, span)
        if self.opens():
            return self.enter(message, name, field, span, comments)
        if not has_colon:
            self.fail(f"':' or '{{' after {name}")
        if self.skip("["):
            self.parse_list(message, name, field)
        else:
            self.scalar_into(message, name, field)
        self.separator()
        return None

    def find_field(self, message: Message, name: str, span: Span) -> Field | None:
        if not message.kind:
            return None
        field = schema.fields(message.kind).get(name)
        if field is None:
            self.unknown(message.kind, name, span)
        return field

    def unknown(self, kind: str, name: str, span: Span) -> None:
        near = get_close_matches(name, schema.fields(kind), n=1)
        suggestion = f"did you mean {near[0]!r}?" if near else None
        if kind == schema.NET and self.opens():
            # An error, because a skipped message may be a layer.
            self.findings.error("CAFFE0213", f"unknown field {name} of a network", span, suggestion)
            return
        remedy = "correct the field name; the reader preserves the field but does not interpret it"
        self.findings.warn("CAFFE0201", f"unknown field {name} of {kind}", span, suggestion or remedy)

    def enter(
        self, message: Message, name: str, field: Field | None, span: Span, comments: tuple[str, ...]
    ) -> tuple[Message, str, int]:
        if field is not None and not schema.is_message(field.type):
            self.stop_with("CAFFE0104", f"{name} is a message, expected {_a(field.type)}", self.here())
        start, closing = span.start or 0, _CLOSING[self.word]
        inner = Message("" if field is None else field.type, span, comments=comments)
        self.add_value(message, name, field, inner, span)
        self.advance()
        return inner, closing, start

    def parse_list(self, message: Message, name: str, field: Field | None) -> None:
        """Parse scalars between brackets."""
        if self.skip("]"):
            return
        while True:
            self.scalar_into(message, name, field)
            if self.skip("]"):
                return
            if not self.skip(","):
                self.fail("',' or ']'")

    def scalar_into(self, message: Message, name: str, field: Field | None) -> None:
        scalar = self.scalar()
        if field is None:
            self.add_value(message, name, field, _guessed(scalar), scalar.span)
            return
        content = self.typed(name, field, scalar)
        if content is not None:
            self.add_value(message, name, field, content, scalar.span)

    def add_value(self, message: Message, name: str, field: Field | None, content: Content, span: Span) -> None:
        if field is not None and not field.is_repeated and message.has(name):
            self.findings.error("CAFFE0106", f"duplicate field {name}", span, "remove the duplicate")
        message.add(name, content, span)

    def scalar(self) -> _Scalar:
        start = self.start
        sign = "-" if self.kind == "sign" and self.word == "-" else ""
        if sign:
            self.advance()
        kind, text = self.kind, self.word
        if kind == "string" and not sign:
            parts: list[str] = []
            while self.kind == "string":
                parts.append(self.word[1:-1])
                self.advance()
            return _Scalar(kind, "".join(map(_unescaped, parts)), self.since(start))
        if kind not in ("name", "number"):
            self.fail("a number, an identifier or a string")
        if len(text) > MOST_DIGITS:
            self.stop_with("CAFFE0102", f"a token has {len(text)} characters, more than the limit", self.here())
        self.advance()
        return _Scalar(kind, sign + text, self.since(start))

    def typed(self, name: str, field: Field, scalar: _Scalar) -> Content | None:
        """Convert a scalar to the field's type; return `None` after an error."""
        found = _read(field.type, scalar)
        if found is None:
            if field.type in schema.ENUMS and scalar.kind == "name":
                remedy = f"known: {', '.join(schema.ENUMS[field.type])}"
                self.findings.warn("CAFFE0105", f"unknown value {scalar.text} of {name}", scalar.span, remedy)
                return Identifier(scalar.text)
            stated = "a string" if scalar.kind == "string" else scalar.text[:40]
            self.findings.error("CAFFE0104", f"{name} is {stated}, expected {_a(field.type)}", scalar.span)
        return found

    # Words

    def advance(self) -> None:
        """Advance to the next token."""
        self.last = self.stop
        skipped = _SKIPPED.match(self.text, self.stop)
        self.start = self.stop if skipped is None else skipped.end()
        if "#" in self.text[self.stop : self.start]:
            self.comments += _COMMENT.findall(self.text, self.stop, self.start)
        found = _TOKEN.match(self.text, self.start)
        if found is not None:
            self.kind, self.word, self.stop = found.lastgroup or "", found[0], found.end()
        elif self.start < len(self.text):
            self.kind, self.word, self.stop = "", self.text[self.start], self.start + 1
        else:
            self.kind, self.word, self.stop = "end", "", self.start

    def skip(self, sign: str) -> bool:
        """Skip `sign` if it is the current token."""
        if self.kind != "sign" or self.word != sign:
            return False
        self.advance()
        return True

    def opens(self) -> bool:
        """Whether a message starts at the current token."""
        return self.kind == "sign" and self.word in _CLOSING

    def separator(self) -> None:
        """Skip an optional separator after a field."""
        _ = self.skip(";") or self.skip(",")

    def here(self) -> Span:
        return Span(self.source, self.start, self.stop)

    def since(self, start: int) -> Span:
        return Span(self.source, start, max(self.last, start))

    def fail(self, expected: str) -> NoReturn:
        if self.kind == "":
            remedy = "close a string on the line on which it begins" if self.word in "'\"" else None
            self.stop_with("CAFFE0103", f"unexpected character {self.word!r}", self.here(), remedy)
        found = f"'{self.word[:40]}'" if self.word else "the end of the file"
        self.stop_with("CAFFE0101", f"expected {expected}, found {found}", self.here())

    def stop_with(self, code: str, message: str, span: Span, help: str | None = None) -> NoReturn:
        raise DiagnosticError(*self.findings.all_findings(), Diagnostic(code, message, span, help))


def _a(type: str) -> str:
    if type in schema.ENUMS:
        return f"one of {', '.join(schema.ENUMS[type])}"
    return {"bool": "true or false", "float": "a number", "double": "a number", "string": "a string in quotes"}.get(
        type, f"a message {type}" if schema.is_message(type) else f"an integer ({type})"
    )


def _guessed(scalar: _Scalar) -> Content:
    """Return the value of a scalar of an unknown field."""
    if scalar.kind == "string":
        return scalar.text
    for type in ("int64", "float"):
        found = _read(type, scalar) if scalar.kind == "number" else None
        if found is not None:
            return found
    if scalar.text in ("true", "false"):
        return scalar.text == "true"
    return Identifier(scalar.text)


def _read(type: str, scalar: _Scalar) -> Content | None:
    text = scalar.text
    match type:
        case "string":
            return text if scalar.kind == "string" else None
        case "bytes":
            return text.encode("utf-8", "surrogateescape") if scalar.kind == "string" else None
        case "bool":
            if scalar.kind == "string":
                return None
            return True if text in _TRUE else False if text in _FALSE else None
        case "float" | "double":
            return None if scalar.kind == "string" else _parse_float(scalar)
        case "int32" | "uint32" | "int64":
            return _parse_integer(scalar, *_RANGES[type])
        case _:
            return _enumerator(type, scalar)


def _enumerator(type: str, scalar: _Scalar) -> Identifier | None:
    names = schema.ENUMS.get(type, {})
    if scalar.kind == "name":
        return Identifier(scalar.text) if scalar.text in names else None
    number = _parse_integer(scalar, 0, 1 << 31)
    return next((Identifier(name) for name, value in names.items() if value == number), None)


def _parse_integer(scalar: _Scalar, lower: int, upper: int) -> int | None:
    digits = scalar.text.removeprefix("-")
    if scalar.kind != "number" or not _INTEGER.fullmatch(digits):
        return None
    is_octal = digits[0] == "0" and digits.isdigit() and set(digits) <= set("01234567")
    number = int(digits, 16 if digits[:2] in ("0x", "0X") else 8 if is_octal else 10)
    number = -number if scalar.text[0] == "-" else number
    return number if lower <= number <= upper else None


def _parse_float(scalar: _Scalar) -> float | None:
    sign, digits = (-1.0, scalar.text[1:]) if scalar.text[0] == "-" else (1.0, scalar.text)
    if scalar.kind == "name":
        special = {"inf": inf, "infinity": inf, "nan": nan}.get(digits.lower())
        return None if special is None else sign * special
    if digits[:2] in ("0x", "0X"):
        return sign * float(int(digits, 16))
    return sign * float(digits.rstrip("fF"))


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    # Escapes are bytes, decoded together as UTF-8.
    data = _ESCAPE.sub(_character, text)
    return data.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")


def _character(escape: re.Match[str]) -> str:
    found = escape[1]
    if found[0] in "01234567":
        return _byte(int(found, 8))
    if found[0] in "xX" and len(found) > 1:
        return _byte(int(found[1:], 16))
    if found[0] in "uU" and len(found) > 1:
        number = int(found[1:], 16)
        return chr(number) if number <= 0x10FFFF and not 0xD800 <= number < 0xE000 else "\ufffd"
    return _ESCAPES.get(found, found)


def _byte(number: int) -> str:
    number &= 0xFF
    return chr(number) if number < 0x80 else chr(0xDC00 + number)
