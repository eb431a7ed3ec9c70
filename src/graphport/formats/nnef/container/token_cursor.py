"""Token cursor of the NNEF parser: the current token, expected tokens and syntax errors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphport.core.diagnostics import Diagnostic, Span
from graphport.formats.nnef.container.lexer import QUOTES, SYMBOLS, fault_of_number, fault_of_symbol, faults_of_string
from graphport.formats.nnef.container.syntax import Edition, Name
from graphport.formats.nnef.container.token_stream import Stream

if TYPE_CHECKING:
    from collections.abc import Iterable

    from graphport.formats.nnef.container.findings import Findings
    from graphport.formats.nnef.container.limits import Limits

_COMMON = [
    "graph",
    "fragment",
    "tensor",
    "scalar",
    "logical",
    "string",
    "shape_of",
    "length_of",
    "range_of",
    "for",
    "in",
    "if",
    "else",
    "true",
    "false",
]
KEYWORDS = {
    Edition.PROVISIONAL: frozenset([*_COMMON, "extent"]),
    Edition.FINAL: frozenset([*_COMMON, "version", "extension", "integer", "yield"]),
}
"""Reserved words, including the logical literals."""


class Fault(Exception):  # noqa: N818  control flow inside the parser, never seen outside
    """A syntax error; `finding` is `None` if it has been reported."""

    def __init__(self, finding: Diagnostic | None) -> None:
        super().__init__(finding)
        self.finding = finding


class TokenCursor(Stream):
    """Token stream of one edition; reports malformed and unexpected tokens."""

    def __init__(self, text: str, edition: Edition, findings: Findings, limits: Limits) -> None:
        super().__init__(text)
        self.edition = edition
        self.is_final = edition is Edition.FINAL
        self.keywords = KEYWORDS[edition]
        self.findings = findings
        self.limits = limits
        self._examined = -1

    def here(self) -> Span:
        """Return the location of the current token."""
        return Span(self.findings.source, self.start, self.stop)

    def since(self, start: int) -> Span:
        """Return the location from `start` to the end of the previous token."""
        return Span(self.findings.source, start, max(self.last, start))

    def is_identifier(self, lexeme: str) -> bool:
        """Whether `lexeme` can name something."""
        return lexeme.isidentifier() and lexeme.isascii() and lexeme not in self.keywords

    def accept(self, lexeme: str) -> bool:
        """Skip the current token if it is `lexeme`; return whether it was."""
        if self.lexeme != lexeme:
            return False
        self.advance()
        return True

    def accept_greater(self) -> bool:
        """Accept `>`; split `>=` if a type ends and a default value begins there."""
        if self.lexeme != ">=":
            return self.accept(">")
        self.last = self.start + 1
        self.lexeme, self.start = "=", self.last
        return True

    def expect(self, lexeme: str, what: str | None = None, help: str | None = None) -> None:
        """Skip `lexeme`.

        Raises:
            Fault: another token is there.
        """
        if self.lexeme != lexeme:
            raise self.fault(what or f"'{lexeme}'", help)
        self.advance()

    def name(self, what: str) -> Name:
        """Skip an identifier, described as `what`, and return it.

        Raises:
            Fault: another token is there, perhaps a keyword.
        """
        lexeme, start = self.lexeme, self.start
        if self.is_identifier(lexeme):
            self.advance()
            return Name(lexeme, start, self.last)
        if lexeme in self.keywords:
            message = f"'{lexeme}' is a keyword, not {what}"
            raise Fault(Diagnostic("NNEF0202", message, self.here(), f"use a different name, for example '{lexeme}_'"))
        raise self.fault(what)

    def fault(self, expected: str, help: str | None = None) -> Fault:
        """Report that the current token is not `expected`; malformed tokens are reported as such."""
        if self.examine():
            return Fault(None)
        if self.start == self._examined:
            return Fault(None)
        found = _short(self.lexeme) if self.lexeme[:1] in QUOTES else f"'{_short(self.lexeme)}'"
        found = found if self.lexeme else "the end of the document"
        return Fault(Diagnostic("NNEF0201", f"expected {expected}, found {found}", self.here(), help))

    def examine(self, *, negative: bool = False) -> bool:
        """Report errors of the current token itself, once; return whether there are any."""
        if self._examined == self.start:
            return False
        is_faulty = False
        for finding in self._faults(negative=negative):
            self.findings.add(finding)
            if finding.is_error:
                is_faulty = True
                self._examined = self.start
        return is_faulty

    def _faults(self, *, negative: bool) -> Iterable[Diagnostic]:
        lexeme = self.lexeme
        first = lexeme[:1]
        if "0" <= first <= "9":
            finding = fault_of_number(lexeme, self.here(), negative=negative)
            return () if finding is None else (finding,)
        if first in QUOTES:
            return faults_of_string(lexeme, self.start, self.findings.source)
        if not lexeme or lexeme in SYMBOLS or (first.isascii() and (first.isalpha() or first == "_")):
            return ()
        return (fault_of_symbol(lexeme, self.here()),)


def _short(lexeme: str) -> str:
    return lexeme if len(lexeme) <= 40 else lexeme[:40] + "…"
