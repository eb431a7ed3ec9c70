"""Tokens of a text in tract's flavour: names may have any letters, or be escaped as `i"any text"`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Span
from graphport.formats.nnef.container.lexer import QUOTES, SYMBOLS, tokenize

if TYPE_CHECKING:
    from graphport.core.diagnostics import Source


class Tokens:
    """A cursor over the tokens of `source`: `word` from `start` to `stop`; the empty token is at the end."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.text = source.text or ""
        self._texts, self._starts = _joined(self.text)
        self._at = 0
        self.last = 0

    @property
    def word(self) -> str:
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
        word = self.word
        self.last = self.start + len(word)
        self._at = min(self._at + 1, len(self._texts) - 1)
        return word

    def seek(self, offset: int) -> None:
        """Make the first token at or after `offset` the current one."""
        while self.word and self.start < offset:
            self.advance()

    def take(self, word: str) -> bool:
        """Pass `word` if it is the current one."""
        if self.word != word:
            return False
        self.advance()
        return True

    def expect(self, word: str) -> None:
        """Skip `word`.

        Raises:
            DiagnosticError: NNEF0201, another token is there.
        """
        if not self.take(word):
            raise self.fault(f"'{word}'")

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
        word = self.word
        return bool(word) and word not in SYMBOLS and word[0] not in QUOTES and not "0" <= word[0] <= "9"

    def fault(self, expected: str, help: str | None = None) -> DiagnosticError:
        """Report that the current token is not `expected`."""
        found = f"'{self.word[:40]}'" if self.word else "the end of the text"
        span = Span(self.source, self.start, self.start + len(self.word))
        return DiagnosticError(Diagnostic("NNEF0201", f"expected {expected}, found {found}", span, help))


def unescaped(word: str) -> str:
    """Return the name in a token, unescaped."""
    return word[2:-1].replace('\\"', '"').replace("\\\\", "\\") if word.startswith('i"') else word


def _joined(text: str) -> tuple[list[str], list[int]]:
    """Join names that the standard's lexer splits."""
    cut = tokenize(text)
    texts: list[str] = []
    starts: list[int] = []
    for word, start in zip(cut.texts, cut.starts, strict=True):
        touches = bool(texts) and starts[-1] + len(texts[-1]) == start
        is_escaped = touches and texts[-1] == "i" and word[:1] == '"'
        if is_escaped or (touches and word and _continues_name(texts[-1], word)):
            texts[-1] += word
        else:
            texts.append(word)
            starts.append(start)
    return texts, starts


def _continues_name(before: str, word: str) -> bool:
    """Whether `word` belongs to the name before it: one of the two has letters beyond ASCII."""
    if before[0] in QUOTES or before in SYMBOLS or word in SYMBOLS or word[0] in QUOTES:
        return False
    return not (before.isascii() and word.isascii())
