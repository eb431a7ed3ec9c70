"""Lines of a `.param` text, split into fields with locations."""

from __future__ import annotations

import re
from array import array
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source

MAGIC = "7767517"
MOST_FINDINGS = 100

_WORD = re.compile(r"[^ \t\v\f\r\n]+")
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_SHOWN = 40
_ODD = "\x1c\x1d\x1e\x1f"
"""Characters that only Python treats as white space."""
_PIECE = 1 << 16


Row: TypeAlias = "tuple[list[str], str, int]"
"""The fields of a line, the line, and its position in the text."""


class Field(NamedTuple):
    """A run of characters without blanks, and the index of its first code point."""

    text: str
    start: int


@dataclass(slots=True)
class Line:
    """One operator: type, name, operands, results, and `key=value` fields.

    Locations are computed on demand from the index of a field in `fields`.
    """

    fields: list[str]
    taken: int
    given: int
    text: str
    start: int
    _starts: array[int] | None = field(default=None, repr=False)
    """Position of each field in the text, computed on demand."""

    @property
    def type(self) -> str:
        """The op type."""
        return self.fields[0]

    @property
    def name(self) -> str:
        """The name of the operator instance."""
        return self.fields[1]

    @property
    def inputs(self) -> list[str]:
        """The operand names, from field 4 on."""
        return self.fields[4 : 4 + self.taken]

    @property
    def first_result(self) -> int:
        """Index of the first result's field."""
        return 4 + self.taken

    @property
    def first_parameter(self) -> int:
        """Index of the first `key=value` field; keys include their sign (`@weight`, `$input`, `#0`)."""
        return 4 + self.taken + self.given

    def field(self, index: int, offset: int = 0) -> Field:
        """Return a field with its location, or its part from `offset` on."""
        if self._starts is None:  # a line may have errors in all of its fields
            self._starts = array("q", (found.start() for found in _WORD.finditer(self.text)))
        return Field(self.fields[index][offset:], self.start + self._starts[index] + offset)


class Spans:
    """Computes locations of fields on demand: field `index % LONGEST` of line `index // LONGEST`."""

    __slots__ = ("_source", "_starts")
    LONGEST = 1 << 32

    def __init__(self, source: Source) -> None:
        self._source = source
        self._starts = array("q")

    def add(self, start: int) -> None:
        """Record the start of the next line."""
        self._starts.append(start)

    def line_offset(self, index: int) -> int:
        """Return the position of a field's line."""
        return self._starts[index // self.LONGEST]

    def span(self, index: int) -> Span:
        """Return the location of a field."""
        line, field = divmod(index, self.LONGEST)
        fields = _WORD.finditer(self._source.text or "", self._starts[line])
        found = next(islice(fields, field, None))
        return Span(self._source, found.start(), found.end())


@dataclass(slots=True)
class Findings:
    """Diagnostics of a text."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    left_out: int = 0

    def error(self, code: str, message: str, field: Field | None, help: str | None = None) -> None:
        """Add an error."""
        self.add(Diagnostic(code, message, self.span(field), help))

    def warning(self, code: str, message: str, field: Field | None, help: str | None = None) -> None:
        """Add a warning."""
        self.add(Diagnostic(code, message, self.span(field), help, Severity.WARNING))

    def add(self, finding: Diagnostic) -> None:
        """Add `finding`, unless the maximum is reached."""
        if len(self.found) < MOST_FINDINGS or (finding.is_error and not any(f.is_error for f in self.found)):
            self.found.append(finding)
        else:
            self.left_out += 1

    def span(self, field: Field | None) -> Span:
        """Return the location of a field."""
        return Span(self.source) if field is None else Span(self.source, field.start, field.start + len(field.text))

    def settle(self) -> list[Diagnostic]:
        """Return the warnings.

        Raises:
            DiagnosticError: all diagnostics, if one is an error.
        """
        found = list(self.found)
        if self.left_out:
            message = f"{self.left_out} further findings are not shown"
            found.append(Diagnostic("PNNX0008", message, None, "fix the errors above first", Severity.NOTE))
        if any(finding.is_error for finding in found):
            raise DiagnosticError(*found)
        return found


def parse_lines(text: str, findings: Findings) -> list[Line]:
    """Yield the operators of a `.param` text in order.

    Raises:
        DiagnosticError: PNNX0001 wrong header, PNNX0002 invalid counts, or counts that do not match the lines, PNNX0003
            a truncated line.
    """
    rows = rows_of(text)
    counts = parse_head(rows, findings)
    lines = [line for row in rows if (line := parse_line(*row, findings)) is not None]
    if not findings.found:
        names = {field for line in lines for field in line.fields[line.first_result : line.first_parameter]}
        check_counts(counts, len(lines), len(names), findings)
    return lines


def parse_head(rows: Iterator[Row], findings: Findings) -> list[Field]:
    """Return the operator count and the operand count of the header.

    Raises:
        DiagnosticError: PNNX0001 and PNNX0002, as `parse_lines`.
    """
    nothing: Row = [], "", 0
    magic, line, start = next(rows, nothing)
    if magic != [MAGIC]:
        first = Line(magic, 0, 0, line, start).field(0) if magic else Field("", 0)
        findings.error("PNNX0001", f"not a PNNX file: it begins with {_shown(first)}, expected {MAGIC}", first)
        findings.settle()
    fields, line, start = next(rows, nothing)
    counts = [Line(fields, 0, 0, line, start).field(index) for index in range(len(fields))]
    if len(counts) != 2 or not all(_COUNT.fullmatch(field) for field in fields):
        place = counts[0] if counts else None
        findings.error("PNNX0002", "the second line is not the number of operators and of operands", place)
        findings.settle()
    return counts


def check_counts(counts: list[Field], lines: int, names: int, findings: Findings) -> None:
    """Compare the header's counts with the number of lines and of distinct result names."""
    operators, operands = (int(field.text) for field in counts)
    if operators != lines:
        message = f"the header declares {operators} operators, the file has {lines}"
        findings.error("PNNX0002", message, counts[0], "fetch the file again if it is truncated")
    if operands < names:
        message = f"the header declares {operands} operands, the file has {names}"
        findings.error("PNNX0002", message, counts[1], "correct the count in the header")


def rows_of(text: str) -> Iterator[Row]:
    """Yield the fields of each nonempty line, the line, and its position."""
    # Non-ASCII white space does not separate fields.
    is_plain = text.isascii() and not any(odd in text for odd in _ODD)
    start = 0
    while start < len(text):
        # Splitting the whole text at once would double the memory.
        stop = text.find("\n", start + _PIECE)
        piece = text[start:] if stop < 0 else text[start:stop]
        for line in piece.split("\n"):
            fields = line.split() if is_plain else _WORD.findall(line)
            if fields:
                yield fields, line, start
            start += len(line) + 1


def parse_line(fields: list[str], text: str, start: int, findings: Findings) -> Line | None:
    """Parse the operator of a line; return `None` after an error."""
    line = Line(fields, 0, 0, text, start)
    if len(fields) < 4 or not (_COUNT.fullmatch(fields[2]) and _COUNT.fullmatch(fields[3])):
        place = line.field(0)
        message = f"expected a name, an operand count and a result count after {_shown(place)}"
        findings.error("PNNX0003", message, place)
        return None
    line.taken, line.given = int(fields[2]), int(fields[3])
    if line.first_parameter > len(fields):
        place = line.field(1)
        message = (
            f"{_shown(place)} declares {line.taken} operands and {line.given} results, the line has "
            f"{len(fields) - 4} further fields"
        )
        findings.error("PNNX0003", message, place, "complete the line, or correct its counts")
        return None
    for index in range(line.first_parameter, len(fields)):
        field = fields[index]
        if "=" not in field or field[0] == "=":
            place = line.field(index)
            findings.error("PNNX0003", f"{_shown(place)} is not key=value", place, "remove spaces from values")
    return line


def _shown(field: Field) -> str:
    return repr(field.text if len(field.text) <= _SHOWN else f"{field.text[:_SHOWN]}…")
