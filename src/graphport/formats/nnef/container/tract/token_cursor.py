"""Token cursor for tract's flavour: identifiers may contain any letters, or be escaped as `i"any text"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.nnef.container.lexer import QUOTES, SYMBOLS, tokenize

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source


class TokenCursor:
    """A cursor over the tokens of `source`: `lexeme` from `start` to `stop`; the empty token is at the end."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text or ""
        self._texts, self._starts = _joined(self.text)
        self._at = 0
        self.last = 0

    @property
    def lexeme(self) -> str:
        """The current token."""
        return self._texts[self._at]

    @property
    def start(self) -> int:
        """The start of the current token."""
        return self._starts[self._at]

    def peek(self, distance: int = 1) -> str:
        """Return the token `distance` after the current one."""
        place = min(self._at + distance, len(self._texts) - 1)
        return self._texts[place]

    def advance(self) -> str:
        """Skip the current token and return it."""
        lexeme = self.lexeme
        self.last = self.start + len(lexeme)
        self._at = min(self._at + 1, len(self._texts) - 1)
        return lexeme

    def seek(self, offset: int) -> None:
        """Make the first token at or after `offset` the current one."""
        while self.lexeme and self.start < offset:
            self.advance()

    def accept(self, lexeme: str) -> bool:
        """Skip the current token if it is `lexeme`; return whether it was."""
        if self.lexeme != lexeme:
            return False
        self.advance()
        return True

    def expect(self, lexeme: str) -> None:
        """Skip `lexeme`.

        Raises:
            DiagnosticError: NNEF0201, another token is there.
        """
        if not self.accept(lexeme):
            raise self.fault(f"'{lexeme}'")

    def name(self, what: str) -> str:
        """Skip an identifier and return it unescaped.

        Raises:
            DiagnosticError: NNEF0201, another token is there.
        """
        if not self.is_name():
            raise self.fault(what)
        return unescaped(self.advance())

    def is_name(self) -> bool:
        """Whether the current token is an identifier."""
        lexeme = self.lexeme
        return bool(lexeme) and lexeme not in SYMBOLS and lexeme[0] not in QUOTES and not "0" <= lexeme[0] <= "9"

    def fault(self, expected: str, help: str | None = None) -> DiagnosticError:
        """Report that the current token is not `expected`."""
        found = f"'{self.lexeme[:40]}'" if self.lexeme else "the end of the document"
        span = Span(self.source, self.start, self.start + len(self.lexeme))
        return DiagnosticError(Diagnostic("NNEF0201", f"expected {expected}, found {found}", span, help))


def unescaped(lexeme: str) -> str:
    """Return the name in a token, unescaped."""
    return lexeme[2:-1].replace('\\"', '"').replace("\\\\", "\\") if lexeme.startswith('i"') else lexeme


def _joined(text: str) -> tuple[list[str], list[int]]:
    """Join names that the standard's lexer splits."""
    cut = tokenize(text)
    texts: list[str] = []
    starts: list[int] = []
    for lexeme, start in zip(cut.texts, cut.starts, strict=True):
        touches = bool(texts) and starts[-1] + len(texts[-1]) == start
        is_escaped = touches and texts[-1] == "i" and lexeme[:1] == '"'
        if is_escaped or (touches and lexeme and _continues_name(texts[-1], lexeme)):
            texts[-1] += lexeme
        else:
            texts.append(lexeme)
            starts.append(start)
    return texts, starts


def _continues_name(before: str, lexeme: str) -> bool:
    """Whether `lexeme` belongs to the name before it: one of the two has letters beyond ASCII."""
    if before[0] in QUOTES or before in SYMBOLS or lexeme in SYMBOLS or lexeme[0] in QUOTES:
        return False
    return not (before.isascii() and lexeme.isascii())
