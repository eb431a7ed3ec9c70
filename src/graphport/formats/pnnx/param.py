"""The lines of a `.param` text, each word with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from graphport.core.diagnostics import Diagnostic, DiagnosticError, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterator

    from graphport.core.diagnostics import Source

MAGIC = "7767517"
MOST_FINDINGS = 100

_WORD = re.compile(r"[^ \t\v\f\r\n]+")
_COUNT = re.compile(r"\d{1,9}", re.ASCII)
_SHOWN = 40


class Word(NamedTuple):
    """A run of characters without blanks, and the code point where it begins."""

    text: str
    start: int


@dataclass(slots=True)
class Line:
    """One operator: its type and name, operands and results, and what is said of them as `key=value`."""

    type: Word
    name: Word
    inputs: list[Word]
    outputs: list[Word]
    entries: list[tuple[str, Word]]
    """Keys with their sign (`@weight`, `$input`, `#0`) and values; the place is that of the value."""


@dataclass(slots=True)
class Findings:
    """What is wrong with a text, as far as it is told."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    left_out: int = 0

    def error(self, code: str, message: str, word: Word | None, help: str | None = None) -> None:
        """Something that makes the file unusable."""
        self.add(Diagnostic(code, message, self.span(word), help))

    def warning(self, code: str, message: str, word: Word | None, help: str | None = None) -> None:
        """Something that is read all the same."""
        self.add(Diagnostic(code, message, self.span(word), help, Severity.WARNING))

    def add(self, finding: Diagnostic) -> None:
        """Take `finding`, unless there are many already."""
        if len(self.found) < MOST_FINDINGS or (finding.is_error and not any(f.is_error for f in self.found)):
            self.found.append(finding)
        else:
            self.left_out += 1

    def span(self, word: Word | None) -> Span:
        """The place of a word."""
        return Span(self.source) if word is None else Span(self.source, word.start, word.start + len(word.text))

    def settle(self) -> list[Diagnostic]:
        """The warnings.

        Raises:
            DiagnosticError: everything, if there is an error.
        """
        found = list(self.found)
        if self.left_out:
            message = f"{self.left_out} further findings are not shown"
            found.append(Diagnostic("PNNX0008", message, None, "mend these first", Severity.NOTE))
        if any(finding.is_error for finding in found):
            raise DiagnosticError(*found)
        return found


def parse_lines(text: str, findings: Findings) -> list[Line]:
    """The operators of a `.param` text, in order.

    Raises:
        DiagnosticError: PNNX0001 it does not begin as one, PNNX0002 its counts are none or are not those of its
            lines, PNNX0003 a line breaks off.
    """
    rows = _rows(text)
    magic = next(rows, [Word("", 0)])
    if [word.text for word in magic] != [MAGIC]:
        findings.error("PNNX0001", f"the file begins with {_shown(magic[0])}, not with {MAGIC}", magic[0])
        findings.settle()
    nothing: list[Word] = []
    counts = next(rows, nothing)
    if len(counts) != 2 or not all(_COUNT.fullmatch(word.text) for word in counts):
        place = counts[0] if counts else None
        findings.error("PNNX0002", "the second line is not the number of operators and of operands", place)
        findings.settle()
    lines: list[Line] = []
    for row in rows:
        line = _line(row, findings)
        if line is not None:
            lines.append(line)
    if not findings.found:
        _check_counts(counts, lines, findings)
    return lines


def _check_counts(counts: list[Word], lines: list[Line], findings: Findings) -> None:
    operators, operands = (int(word.text) for word in counts)
    if operators != len(lines):
        message = f"the file announces {operators} operators and has {len(lines)}"
        findings.error("PNNX0002", message, counts[0], "it may have been cut off")
    found = len({word.text for line in lines for word in line.outputs})
    if operands < found:
        message = f"the file announces {operands} operands and has {found}"
        findings.error("PNNX0002", message, counts[1], "it may have been put together by hand")


def _rows(text: str) -> Iterator[list[Word]]:
    """The words of each line that has any."""
    start = 0
    for end in re.finditer(r"\n|\Z", text):
        row = [Word(found.group(), found.start()) for found in _WORD.finditer(text, start, end.start())]
        if row:
            yield row
        start = end.end()


def _line(row: list[Word], findings: Findings) -> Line | None:
    if len(row) < 4 or not all(_COUNT.fullmatch(word.text) for word in row[2:4]):
        message = f"{_shown(row[0])} is not followed by a name and the numbers of operands and results"
        findings.error("PNNX0003", message, row[0])
        return None
    taken, given = int(row[2].text), int(row[3].text)
    if 4 + taken + given > len(row):
        message = f"{_shown(row[1])} announces {taken} operands and {given} results, {len(row) - 4} words follow"
        findings.error("PNNX0003", message, row[1], "the line breaks off, or its numbers are wrong")
        return None
    rest = 4 + taken
    entries: list[tuple[str, Word]] = []
    for word in row[rest + given :]:
        key, sign, value = word.text.partition("=")
        if not sign or not key:
            findings.error("PNNX0003", f"{_shown(word)} is no key=value", word, "values have no blanks in them")
            continue
        entries.append((key, Word(value, word.start + len(key) + 1)))
    return Line(row[0], row[1], row[4:rest], row[rest : rest + given], entries)


def _shown(word: Word) -> str:
    return repr(word.text if len(word.text) <= _SHOWN else f"{word.text[:_SHOWN]}…")
