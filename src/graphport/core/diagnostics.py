"""Diagnostics: errors, warnings and notes about the input, with location and remedy."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypedDict

from graphport.core.short_repr import short_repr

if TYPE_CHECKING:
    from collections.abc import Iterable

_LINE_END = re.compile(r"\r\n|\r|\n")


class Severity(StrEnum):
    """How much a finding weighs: only an error makes the input unusable."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@short_repr
@dataclass(frozen=True, eq=False)
class Source:
    """A file that was read; `text` is `None` where it is binary."""

    name: str
    text: str | None = None

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first code point of every line; CR LF, CR and LF end one."""
        return [0, *(end.end() for end in _LINE_END.finditer(self.text or ""))]

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of `offset`, both counted from 1 in code points."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """Text of line `number` (from 1) without its end."""
        start = self.line_starts[number - 1]
        stop = self.line_starts[number] if number < len(self.line_starts) else None
        return (self.text or "")[start:stop].rstrip("\r\n")


@short_repr
@dataclass(frozen=True, slots=True)
class Span:
    """A location in a source: code points `start` to `stop` of a text, or a description `place`.

    `place` names a node, a field or a byte ('graph.node[12] "conv1"'); in a text it is printed after the line.
    """

    source: Source
    start: int | None = None
    stop: int | None = None
    place: str | None = None
    scope: str | None = None
    """Modules or fragments around it, outermost first, joined by `/`; empty for the root, `None` if unknown."""

    @property
    def file(self) -> str:
        """Name of the file as the user gave it."""
        return self.source.name

    @property
    def line(self) -> int | None:
        """Line from 1; `None` in a binary file."""
        return None if self.start is None else self.source.position(self.start)[0]

    @property
    def column(self) -> int | None:
        """Column from 1 in code points; `None` in a binary file."""
        return None if self.start is None else self.source.position(self.start)[1]

    def __str__(self) -> str:
        where = self.file if self.start is None else f"{self.file}:{self.line}:{self.column}"
        if self.place is None:
            return where
        return f"{where}: {self.place}" if self.start is None else f"{where} {self.place}"

    def to(self, other: Span) -> Span:
        """The span from here to the end of `other`, in one source."""
        return Span(self.source, self.start, other.stop, self.place, self.scope)


class Finding(TypedDict):
    """A diagnostic in JSON; `line` and `column` count from 1 in code points and are null in a binary file."""

    code: str
    severity: str
    message: str
    file: str | None
    line: int | None
    column: int | None
    help: str | None


@short_repr
@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One finding: a stable code, a sentence, the place, and the remedy."""

    code: str
    message: str
    span: Span | None = None
    help: str | None = None
    severity: Severity = Severity.ERROR

    @property
    def is_error(self) -> bool:
        """Whether the input cannot be used."""
        return self.severity is Severity.ERROR

    def as_json(self) -> Finding:
        """Plain data."""
        span = self.span
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.message,
            "file": None if span is None else span.file,
            "line": None if span is None else span.line,
            "column": None if span is None else span.column,
            "help": self.help,
        }

    def __str__(self) -> str:
        where = "" if self.span is None else f"{self.span}: "
        remedy = "" if self.help is None else f" ({self.help})"
        return f"{where}{self.severity}[{self.code}]: {self.message}{remedy}"


class DiagnosticError(Exception):
    """The input is at fault; carries every finding of the stage that stopped."""

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__(*diagnostics)
        self.diagnostics: list[Diagnostic] = list(diagnostics)

    def __str__(self) -> str:
        return "\n".join(map(str, self.diagnostics))


def raise_errors(diagnostics: Iterable[Diagnostic]) -> None:
    """Raise all of `diagnostics` if one of them is an error."""
    findings = list(diagnostics)
    if any(finding.is_error for finding in findings):
        raise DiagnosticError(*findings)
