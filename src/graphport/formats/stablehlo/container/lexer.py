"""Tokens of MLIR text, found in a mapped file without copying it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal, Never

from graphport.formats.stablehlo.refusal import refuse

if TYPE_CHECKING:
    from collections.abc import Sequence

Kind = Literal["string", "value", "symbol", "hash", "type", "number", "word", "block", "sign", "end"]

_TOKEN = re.compile(
    rb"(?:[ \t\r\n]+|//[^\n]*)*(?:"
    rb'(?P<string>"[^"\\]*(?:\\.[^"\\]*)*")'
    rb"|(?P<value>%[A-Za-z0-9_.$-]+(?:\#\d+)?)"
    rb'|(?P<symbol>@(?:[A-Za-z_][\w.$-]*|"[^"\\\n]*"))'
    rb"|(?P<sign>->|::|\{-\#|\#-\}|<\{|\}>)"
    rb"|(?P<hash>\#[A-Za-z_][\w.$-]*|\#\d+)"
    rb"|(?P<type>![A-Za-z_][\w.$-]*)"
    rb"|(?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))"
    rb"|(?P<word>[A-Za-z_][\w.$]*)"
    rb"|(?P<block>\^[A-Za-z0-9_.$-]+)"
    rb"|(?P<sign2>[()\[\]{}<>:,=?*+/|-])"
    rb"|(?P<end>\Z))",
)
_ESCAPE = re.compile(rb"\\([0-9A-Fa-f]{2}|.)", re.DOTALL)
_NAMED = {b"n": b"\n", b"t": b"\t", b"\\": b"\\", b'"': b'"'}


class Lexer:
    """Reads one token ahead; `kind`, `start` and `end` describe it."""

    def __init__(self, data: memoryview) -> None:
        self.data = data
        self.kind: str = "end"
        self.start = self.end = 0
        self.text = ""
        self.jump(0)

    def jump(self, offset: int) -> None:
        """Continue at `offset`."""
        found = _TOKEN.match(self.data, offset)
        if found is None or found.lastgroup is None:
            line = bytes(self.data[offset : offset + 24]).strip().decode("utf-8", "replace")
            refuse("SH0001", f"unexpected characters {line!r}", help="pass StableHLO as MLIR text", offset=offset)
        kind = found.lastgroup
        self.kind = "sign" if kind == "sign2" else kind
        self.start, self.end = found.span(kind)
        # Strings may have the bytes of a whole tensor: they are copied on request alone.
        self.text = "" if kind == "string" else found[kind].decode("utf-8", "replace")

    def advance(self) -> None:
        """Go to the next token."""
        self.jump(self.end)

    def fail(self, expected: str) -> Never:
        """Refuse the current token."""
        found = "the end of the file" if self.kind == "end" else repr(self.shown())
        refuse("SH0001", f"expected {expected}, found {found}", offset=self.start)

    def shown(self) -> str:
        """The current token, shortened."""
        return bytes(self.data[self.start : min(self.end, self.start + 40)]).decode("utf-8", "replace")

    def at(self, text: str) -> bool:
        """Whether the current token is the identifier or punctuation `text`."""
        return self.text == text and self.kind in ("sign", "word")

    def accept(self, text: str) -> bool:
        """Skip the identifier or punctuation `text` if it is the current token."""
        if not self.at(text):
            return False
        self.advance()
        return True

    def expect(self, text: str) -> None:
        """Skip the identifier or punctuation `text`, which is required.

        Raises:
            RefusedError: SH0001 the current token differs.
        """
        if not self.accept(text):
            self.fail(repr(text))

    def take_token(self, *kinds: Kind) -> str:
        """The text of the current token, which must be of one of the kinds; strings are decoded."""
        if self.kind not in kinds:
            self.fail(" or ".join(f"a {kind}" for kind in kinds))
        found = self.string() if self.kind == "string" else self.text
        self.advance()
        return found

    def string(self) -> str:
        """The current string without quotes and escapes."""
        return unescaped(bytes(self.data[self.start + 1 : self.end - 1]))

    def skip_balanced(self, opening: str, closing: str, also: Sequence[tuple[str, str]] = ()) -> None:
        """Skip from the current `opening` to its `closing`, other pairs nested inside."""
        pairs = {opening: closing, **dict(also)}
        waiting: list[str] = []
        while True:
            text = self.text if self.kind == "sign" else ""
            if text == "<{" and "<" in pairs:
                waiting += [">", "}"]
            elif text == "}>" and waiting[-2:] == [">", "}"]:
                del waiting[-2:]
            elif text in pairs:
                waiting.append(pairs[text])
            elif waiting and text == waiting[-1]:
                waiting.pop()
            if self.kind == "end":
                self.fail(repr(closing))
            self.advance()
            if not waiting:
                return


def unescaped(text: bytes) -> str:
    """A string without the escapes of MLIR."""
    if b"\\" in text:
        text = _ESCAPE.sub(
            lambda m: bytes.fromhex(m[1].decode("ascii")) if len(m[1]) == 2 else _NAMED.get(m[1], m[1]), text
        )
    return text.decode("utf-8", "replace")
