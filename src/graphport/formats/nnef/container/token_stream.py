"""Token stream that tokenizes a text block by block."""

from __future__ import annotations

from bisect import bisect_left

from graphport.formats.nnef.container.lexer import tokenize

_FIRST, _BLOCK = 256, 4096
"""Characters tokenized at once: few at first, because most flat statements take the fast path."""
_AHEAD = 4
_WIDEST = 1000


class Stream:
    """A cursor over tokens: `lexeme` from `start` to `stop`; the empty token is at the end.

    Tokens contain no line ends, so the text can be split at any of them; a caller that skips text with `seek` does not
    pay for its tokens.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self._texts: list[str] = []
        self._starts: list[int] = []
        self._at = 0
        self._cut = 0
        self._ended = False
        self._safe = 0
        self.lexeme = ""
        self.start = 0
        self.stop = 0
        self.last = 0
        """End of the previous token."""
        self.seek(0)

    def seek(self, offset: int) -> None:
        """Make the first token at or after `offset` the current one."""
        if not self._starts or offset > self._cut or offset < self._starts[0]:
            self._texts, self._starts, self._cut, self._ended = [], [], offset, False
        self._at = bisect_left(self._starts, offset)
        self._load()

    def advance(self) -> str:
        """Advance to the next token; return the previous one."""
        left = self.lexeme
        self.last = self.stop
        self._at = at = self._at + 1
        if at >= self._safe:
            self._load()
            return left
        self.lexeme = lexeme = self._texts[at]
        self.start = start = self._starts[at]
        self.stop = start + len(lexeme)
        return left

    def peek(self, distance: int = 1) -> str:
        """Return the token `distance` after the current one."""
        index = self._at + distance
        while index >= len(self._texts) and not self._ended:
            self._extend()
        return self._texts[index] if index < len(self._texts) else ""

    def after_bracket(self) -> str:
        """Return the token after the bracket that closes the current one; empty if there is none."""
        depth = distance = 0
        while lexeme := self.peek(distance):
            distance += 1
            depth += (lexeme in "([{") - (lexeme in ")]}")
            if not depth:
                return self.peek(distance)
        return ""

    def begins_line(self) -> bool:
        """Whether the current token is the first on its line."""
        gap = self.text[self.last : self.start]
        return "\n" in gap or "\r" in gap

    def column(self) -> int:
        """Return the number of characters before the token on its line, up to a limit."""
        first = max(self.start - _WIDEST, 0)
        newline = max(self.text.rfind("\n", first, self.start), self.text.rfind("\r", first, self.start))
        return self.start - max(newline + 1, first)

    def _load(self) -> None:
        while self._at + _AHEAD >= len(self._texts) and not self._ended:
            self._extend()
        at = min(self._at, len(self._texts) - 1)
        self._at = at
        self._safe = len(self._texts) - (1 if self._ended else _AHEAD)
        self.lexeme = self._texts[at]
        self.start = self._starts[at]
        self.stop = self.start + len(self.lexeme)

    def _extend(self) -> None:
        size = max(_BLOCK, len(self.text) // 64) if self._starts else _FIRST
        newline = self.text.find("\n", self._cut + size)
        stop = len(self.text) if newline < 0 else newline
        tokens = tokenize(self.text, self._cut, stop)
        self._ended = stop == len(self.text)
        self._cut = stop
        keep = None if self._ended else -1
        self._texts += tokens.texts[:keep]
        self._starts += tokens.starts[:keep]
