"""Tokenizer of the text form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NoReturn, TypeVar

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
from graphport.ir.text.words import ESCAPE, ESCAPES, INTEGER, SPACE, STRING, WORD, name_text, string_text

if TYPE_CHECKING:
    from collections.abc import Callable

MOST_DIGITS = 4300
"""Digits of an integer that are read."""
REMEDY = "see the module graphport.ir.text for the grammar"

_T = TypeVar("_T")
_BLANKS = frozenset(" \t\r\n#")
_FOUND = re.compile(r"\w+|\S")


class Scanner:
    """A position in a text, always after blanks and comments."""

    at: int
    end: int
    """The end of the last token; `at` is after the following blanks."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text or ""
        self.findings: list[Diagnostic] = []
        self.step(0)

    def step(self, stop: int) -> None:
        """Move past the token that ends at `stop`."""
        self.end = self.at = stop
        if self.text[stop : stop + 1] in _BLANKS:
            blank = SPACE.match(self.text, stop)
            self.at = blank.end() if blank else stop

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Return the present token if it is one of these, and move past it."""
        found = pattern.match(self.text, self.at)
        if found:
            self.step(found.end())
        return found

    def sign(self, sign: str) -> bool:
        """Whether the present token is `sign`; if so, move past it."""
        if not self.text.startswith(sign, self.at):
            return False
        self.step(self.at + len(sign))
        return True

    def accept_keyword(self, word: str) -> bool:
        """Whether the present token is the keyword `word`; if so, move past it."""
        found = WORD.match(self.text, self.at)
        return found is not None and found[0] == word and self.sign(word)

    def demand(self, sign: str) -> None:
        """Move past `sign`, which is required here."""
        if not self.sign(sign):
            self.fail(f"'{sign}'")

    def demand_word(self, word: str) -> None:
        """Move past the keyword `word`, which is required here."""
        if not self.accept_keyword(word):
            self.fail(f"'{word}'")

    def listed(self, close: str, item: Callable[[], _T]) -> list[_T]:
        """Items with commas between them, up to `close`."""
        if self.sign(close):
            return []
        found = [item()]
        while not self.sign(close):
            if not self.sign(","):
                self.fail(f"',' or '{close}'")
            found.append(item())
        return found

    def read_named_items(self, item: Callable[[], _T]) -> dict[str, _T]:
        """Named items between braces."""
        self.demand("{")
        found: dict[str, _T] = {}

        def read_item() -> None:
            start = self.at
            name = self.name()
            if name in found:
                message = f"duplicate definition of {name_text(name)}"
                self.findings.append(Diagnostic("IO0109", message, self.span(start), "remove the duplicate"))
            self.demand("=")
            found[name] = item()

        self.listed("}", read_item)
        return found

    def is_next(self, *signs: str) -> bool:
        """Whether one of `signs` is the present token."""
        return self.text.startswith(signs, self.at)

    def span(self, start: int, stop: int | None = None) -> Span:
        """Return the span from `start` to the end of the last token."""
        return Span(self.source, start, max(start, self.end) if stop is None else stop)

    def fail(self, expected: str) -> NoReturn:
        """Raise a syntax error at the present position."""
        found = _FOUND.match(self.text, self.at)
        token = found[0][:40] if found else ""
        message = f"expected {expected}, found {string_text(token) if token else 'the end of the file'}"
        self.stop(Diagnostic("IO0101", message, self.span(self.at, self.at + len(token)), REMEDY))

    def stop(self, finding: Diagnostic) -> NoReturn:
        """Raise all diagnostics found so far, `finding` last."""
        raise DiagnosticError(*self.findings, finding)

    def name(self, expected: str = "a name") -> str:
        """Parse a name or a quoted string."""
        if self.is_next('"'):
            return self.string()
        found = self.match(WORD)
        if found is None:
            self.fail(expected)
        return found[0]

    def integer(self) -> int:
        start = self.at
        found = self.match(INTEGER)
        if found is None:
            self.fail("an integer")
        return self.counted(found[0], start)

    def counted(self, text: str, start: int) -> int:
        """Return the integer `text`, found at `start`, if it is within the digit limit."""
        if len(text) > MOST_DIGITS:
            message = f"an integer has {len(text)} digits, the limit is {MOST_DIGITS}"
            self.stop(Diagnostic("IO0102", message, self.span(start), REMEDY))
        return int(text)

    def string(self) -> str:
        start = self.at
        found = self.match(STRING)
        if found is None:
            self.fail("a string that ends on its line")
        return ESCAPE.sub(lambda escape: self.unescaped(escape, start + 1), found[1]) if "\\" in found[1] else found[1]

    def unescaped(self, escape: re.Match[str], start: int) -> str:
        letter, digits = escape[1][0], escape[1][1:]
        if digits and (number := int(digits, 16)) <= 0x10FFFF:
            return chr(number)
        if letter not in ESCAPES:
            span = self.span(start + escape.start(), start + escape.end())
            self.stop(Diagnostic("IO0101", f"{escape[0]} is not an escape sequence", span, REMEDY))
        return ESCAPES[letter]

    def data(self) -> bytes:
        """Parse a bytes literal."""
        start = self.at
        self.at += 1
        text = self.string()
        try:
            return text.encode("latin-1")
        except UnicodeEncodeError as error:
            message = f"{string_text(text[error.start])} is not a byte"
            self.stop(Diagnostic("IO0101", message, self.span(start), "write bytes as \\x00 to \\xff"))
