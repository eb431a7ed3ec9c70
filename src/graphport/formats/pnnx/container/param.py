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
"""Characters that are white space in Python only."""
_PIECE = 1 << 16


Row: TypeAlias = "tuple[list[str], str, int]"
"""The fields of a line, the line, and its position in the text."""


class Word(NamedTuple):
    """A run of characters without blanks, and the code point where it begins."""

    text: str
    start: int


@dataclass(slots=True)
class Line:
    """One operator: type, name, operands, results, and `key=value` fields.

    Locations are computed on demand from the index of a field in `words`.
    """

    words: list[str]
    taken: int
    given: int
    text: str
    start: int
    _starts: array[int] | None = field(default=None, repr=False)
    """Position of each field in the text, computed on demand."""

    @property
    def type(self) -> str:
        """The operator."""
        return self.words[0]

    @property
    def name(self) -> str:
        """What this one is called."""
        return self.words[1]

    @property
    def inputs(self) -> list[str]:
        """The operands, from field 4 on."""
        return self.words[4 : 4 + self.taken]

    @property
    def first_result(self) -> int:
        """Index of the first result's field."""
        return 4 + self.taken

    @property
    def first_entry(self) -> int:
        """Index of the first `key=value` field; keys include their sign (`@weight`, `$input`, `#0`)."""
        return 4 + self.taken + self.given

    def word(self, index: int, offset: int = 0) -> Word:
        """Return a field with its location, or its part from `offset` on."""
        if self._starts is None:  # a line may have errors in all of its fields
            self._starts = array("q", (found.start() for found in _WORD.finditer(self.text)))
        return Word(self.words[index][offset:], self.start + self._starts[index] + offset)


class Spans:
    """Computes locations of fields on demand: field `index % LONGEST` of line `index // LONGEST`."""

    __slots__ = ("_source", "_starts")
    LONGEST = 1 << 32

    def __init__(self, source: Source) -> None:
        self._source = source
        self._starts = array("q")

    def add(self, start: int) -> None:
        """Take note of where one more line begins."""
        self._starts.append(start)

    def start(self, index: int) -> int:
        """Return the position of a field's line."""
        return self._starts[index // self.LONGEST]

    def span(self, index: int) -> Span:
        """Return the location of a field."""
        line, word = divmod(index, self.LONGEST)
        words = _WORD.finditer(self._source.text or "", self._starts[line])
        found = next(islice(words, word, None))
        return Span(self._source, found.start(), found.end())


@dataclass(slots=True)
class Findings:
    """Diagnostics of a text."""

    source: Source
    found: list[Diagnostic] = field(default_factory=list[Diagnostic])
    left_out: int = 0

    def error(self, code: str, message: str, word: Word | None, help: str | None = None) -> None:
        """Something that makes the file unusable."""
        self.add(Diagnostic(code, message, self.span(word), help))

    def warning(self, code: str, message: str, word: Word | None, help: str | None = None) -> None:
        """Add a warning."""
        self.add(Diagnostic(code, message, self.span(word), help, Severity.WARNING))

    def add(self, finding: Diagnostic) -> None:
        """Take `finding`, unless there are many already."""
        if len(self.found) < MOST_FINDINGS or (finding.is_error and not any(f.is_error for f in self.found)):
            self.found.append(finding)
        else:
            self.left_out += 1

    def span(self, word: Word | None) -> Span:
        """Return the location of a field."""
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
    """Yield the operators of a `.param` text in order.

    Raises:
        DiagnosticError: PNNX0001 wrong header, PNNX0002 invalid counts, or counts that do not match the lines, PNNX0003
            a truncated line.
    """
    rows = rows_of(text)
    counts = parse_head(rows, findings)
    lines = [line for row in rows if (line := parse_line(*row, findings)) is not None]
    if not findings.found:
        names = {word for line in lines for word in line.words[line.first_result : line.first_entry]}
        check_counts(counts, len(lines), len(names), findings)
    return lines


def parse_head(rows: Iterator[Row], findings: Findings) -> list[Word]:
    """Return the numbers of operators and operands in the header.

    Raises:
        DiagnosticError: PNNX0001 and PNNX0002, as `parse_lines`.
    """
    nothing: Row = [], "", 0
    magic, line, start = next(rows, nothing)
    if magic != [MAGIC]:
        first = Line(magic, 0, 0, line, start).word(0) if magic else Word("", 0)
        findings.error("PNNX0001", f"the file begins with {_shown(first)}, not with {MAGIC}", first)
        findings.settle()
    words, line, start = next(rows, nothing)
    counts = [Line(words, 0, 0, line, start).word(index) for index in range(len(words))]
    if len(counts) != 2 or not all(_COUNT.fullmatch(word) for word in words):
        place = counts[0] if counts else None
        findings.error("PNNX0002", "the second line is not the number of operators and of operands", place)
        findings.settle()
    return counts


def check_counts(counts: list[Word], lines: int, names: int, findings: Findings) -> None:
    """Compare the header's counts with the lines and the names of their results."""
    operators, operands = (int(word.text) for word in counts)
    if operators != lines:
        message = f"the file announces {operators} operators and has {lines}"
        findings.error("PNNX0002", message, counts[0], "it may have been cut off")
    if operands < names:
        message = f"the file announces {operands} operands and has {names}"
        findings.error("PNNX0002", message, counts[1], "it may have been put together by hand")


def rows_of(text: str) -> Iterator[Row]:
    """Yield the fields of each nonempty line, the line, and its position."""
    # Non-ASCII white space does not separate fields.
    is_plain = text.isascii() and not any(odd in text for odd in _ODD)
    start = 0
    while start < len(text):
        # A few lines at once: all of them would double the memory.
        stop = text.find("\n", start + _PIECE)
        piece = text[start:] if stop < 0 else text[start:stop]
        for line in piece.split("\n"):
            words = line.split() if is_plain else _WORD.findall(line)
            if words:
                yield words, line, start
            start += len(line) + 1


def parse_line(words: list[str], text: str, start: int, findings: Findings) -> Line | None:
    """The operator of a line; `None` after a finding."""
    line = Line(words, 0, 0, text, start)
    if len(words) < 4 or not (_COUNT.fullmatch(words[2]) and _COUNT.fullmatch(words[3])):
        place = line.word(0)
        message = f"{_shown(place)} is not followed by a name and the numbers of operands and results"
        findings.error("PNNX0003", message, place)
        return None
    line.taken, line.given = int(words[2]), int(words[3])
    if line.first_entry > len(words):
        place = line.word(1)
        message = (
            f"{_shown(place)} announces {line.taken} operands and {line.given} results, {len(words) - 4} words follow"
        )
        findings.error("PNNX0003", message, place, "the line breaks off, or its numbers are wrong")
        return None
    for index in range(line.first_entry, len(words)):
        word = words[index]
        if "=" not in word or word[0] == "=":
            place = line.word(index)
            findings.error("PNNX0003", f"{_shown(place)} is no key=value", place, "values have no blanks in them")
    return line


def _shown(word: Word) -> str:
    return repr(word.text if len(word.text) <= _SHOWN else f"{word.text[:_SHOWN]}…")
