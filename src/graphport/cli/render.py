"""Text and JSON output: diagnostics with source excerpt and caret, names without control characters."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from io import TextIOWrapper
from itertools import islice
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from graphport.cli.streams import named
from graphport.core.diagnostics import Severity
from graphport.core.faults import is_ours
from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from graphport.core.diagnostics import Diagnostic, Finding, Span

OUR_FAULT = 3
"""The exit code of a command that has reported BUG0001."""

_HAS_FAULT = "graphport.has_fault"

DEFAULT_WIDTH = 120
"""Line width in cells if the terminal's width is unknown."""

_NARROWEST = 20
_TAB = "    "
_SHOWN_LINES = 6
_POINTS_A_CELL = 4  # combining marks without width count too, otherwise one cell could contain a whole file
_GUTTER = "blue"
_COLORS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.NOTE: "cyan"}
_FILLERS = "\u115f\u1160\u2800\u3164\uffa0"  # letters and symbols without combining marks
_JAMO = range(0x1160, 0x1200)  # Hangul vowels and finals, which combine with the preceding syllable
_C0 = range(0x20)
_CONTROL_PICTURES = 0x2400


class Color(StrEnum):
    """Whether text is coloured; `auto` depends on the stream and the environment."""

    ALWAYS = "always"
    NEVER = "never"
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the source and the range of code points inside the span."""

    number: int
    text: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class _Window:
    """The visible part of a line and the cells of the span in it."""

    text: str
    offset: int
    cells: int


def wants_color(choice: Color, stream: TextIO) -> bool:
    """Whether to colour output to `stream`.

    `auto` colours a terminal, unless the variable `NO_COLOR` is set or `TERM` is `dumb`; `FORCE_COLOR` colours a pipe.
    """
    if choice is not Color.AUTO:
        return choice is Color.ALWAYS
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def note_faults(findings: Iterable[Diagnostic]) -> None:
    """Set exit code 3 for the current command if a finding is a fault of graphport."""
    context = click.get_current_context(silent=True)
    if context is not None and any(map(is_ours, findings)):
        context.find_root().meta[_HAS_FAULT] = True


def exit_code(code: int) -> int:
    """Return the exit code of the current command: `code`, or 3 if it has reported a fault of graphport."""
    return OUR_FAULT if click.get_current_context().find_root().meta.get(_HAS_FAULT) else code


def as_json(diagnostic: Diagnostic) -> Finding:
    """Convert `diagnostic` to the dictionary used in all `--json` documents."""
    note_faults([diagnostic])
    return diagnostic.as_json()


def as_text(diagnostics: Iterable[Diagnostic], *, color: bool = False, width: int = DEFAULT_WIDTH) -> str:
    """Format `diagnostics`, separated by empty lines, with a summary if there are several.

    Excerpt lines wider than `width` cells are clipped around the span. Characters that a terminal would interpret
    (escape sequences, bidirectional marks) are replaced by a symbol or a number.
    """
    findings = list(diagnostics)
    blocks = ["\n".join(_block(finding, color=color, width=width)) for finding in findings]
    if len(findings) > 1:
        blocks.append(counts(findings))
    return "\n\n".join(blocks)


def counts(diagnostics: Iterable[Diagnostic]) -> str:
    """Return the number of findings by severity: `2 errors, 1 warning`."""
    found = Counter(diagnostic.severity for diagnostic in diagnostics)
    parts = [f"{found[kind]} {kind}{'' if found[kind] == 1 else 's'}" for kind in Severity if found[kind]]
    return ", ".join(parts) or "no findings"


def _block(diagnostic: Diagnostic, *, color: bool, width: int) -> Iterator[str]:
    def paint(text: str, hue: str) -> str:
        return click.style(text, fg=hue, bold=True) if color else text

    hue = _COLORS[diagnostic.severity]
    rows = [] if diagnostic.span is None else _rows(diagnostic.span)
    margin = " " * (max((len(str(row.number)) for row in rows), default=1) + 2)

    first, *rest = diagnostic.message.splitlines() or [""]
    yield f"{paint(f'{diagnostic.severity}[{diagnostic.code}]', hue)}: {shown(first)}"
    yield from (f"{margin}{shown(line)}" for line in rest)
    if diagnostic.span is not None:
        yield f"{margin[1:]}{paint('-->', _GUTTER)} {shown(str(diagnostic.span))}"
    if rows:
        yield margin + paint("|", _GUTTER)
    for row in _abridged(rows):
        if row is None:
            yield paint("...", _GUTTER)
            continue
        window = _cut(row, max(_NARROWEST, width - len(margin) - 2))
        number = f"{row.number:>{len(margin) - 1}} |"
        yield f"{paint(number, _GUTTER)} {window.text}".rstrip()
        if row.text or len(rows) == 1:
            yield f"{margin}{paint('|', _GUTTER)} {' ' * window.offset}{paint('^' * window.cells, hue)}"
    if diagnostic.help is not None:
        first, *rest = diagnostic.help.splitlines() or [""]
        yield f"{margin}{paint('= help:', _GUTTER)} {shown(first)}"
        yield from (f"{margin}        {shown(line)}" for line in rest)


def _rows(span: Span) -> list[_Row]:
    """Return the lines that `span` touches; of a long span, the first and last lines."""
    source = span.source
    if source.text is None or span.start is None:
        return []
    start = min(span.start, len(source.text))
    stop = min(max(start, start if span.stop is None else span.stop), len(source.text))
    (first, left), (last, right) = source.position(start), source.position(stop)
    if last > first and right == 1:
        last, right = last - 1, len(source.line(last - 1)) + 1  # the span ends with its line, not before the next one
    numbers = range(first, last + 1)
    if len(numbers) > _SHOWN_LINES + 1:  # one omitted line would need as much space as itself
        numbers = [*numbers[: _SHOWN_LINES - 1], last]
    rows: list[_Row] = []
    for number in numbers:
        text = source.line(number)
        # Strip common white space around the lines of a long span.
        begin = left - 1 if number == first else len(text) - len(text.lstrip())
        end = right - 1 if number == last else len(text.rstrip())
        rows.append(_Row(number, text, begin, max(begin, end)))
    return rows


def _abridged(rows: Sequence[_Row]) -> Iterator[_Row | None]:
    """Return `rows` with `None` for omitted lines between them."""
    for before, row in zip([None, *rows], rows, strict=False):
        if before is not None and row.number > before.number + 1:
            yield None
        yield row


def _cut(row: _Row, room: int) -> _Window:
    """Clip the line around the span to `room` cells; an ellipsis marks each clipped end."""
    text, start = row.text, min(row.start, len(row.text))
    while 0 < start < len(text) and not _cells(text[start]):
        start -= 1  # a combining mark belongs to the cell of the character before it
    caret_after = 1 if start == len(text) else 0
    left, right = 0, _count_fitting(text, room - caret_after)
    if right < len(text):
        room -= 2  # for the ellipses
        reach = room * _POINTS_A_CELL
        ahead, behind = text[start : start + reach], text[max(0, start - reach) : start][::-1]
        span = _cells(ahead[: _count_fitting(ahead[: row.stop - start], room)])
        right = start + _count_fitting(ahead, span + (room - span) // 2)
        left = start - _count_fitting(behind, room - _cells(text[start:right]))
        right = start + _count_fitting(ahead, room - _cells(text[left:start]))
    while 0 < left < start and not _cells(text[left]):
        left += 1  # a combining mark would combine with the ellipsis
    before = "…" if left else ""
    after = "…" if right < len(text) else ""
    return _Window(
        text=before + shown(text[left:right]) + after,
        offset=len(before) + _cells(text[left:start]),
        cells=max(1, _cells(text[start : min(row.stop, right)])),
    )


def _count_fitting(text: str, cells: int) -> int:
    """Return how many leading code points of `text` fit into `cells`."""
    used = 0
    for count, character in enumerate(islice(text, cells * _POINTS_A_CELL)):
        used += _cells(character)
        if used > cells:
            return count
    return min(len(text), cells * _POINTS_A_CELL)


def _cells(text: str) -> int:
    """Return the number of terminal cells of `text`."""
    return sum(map(_character_cells, shown(text)))


def _character_cells(character: str) -> int:
    if character.isascii():
        return 1
    if ord(character) in _JAMO or unicodedata.category(character) in {"Mn", "Me"}:
        return 0
    return 2 if unicodedata.east_asian_width(character) in {"W", "F"} else 1


def shown(text: str) -> str:
    """Replace characters that a terminal interprets or does not display by visible substitutes.

    A temporary file for standard input or output is shown by the name of the stream.
    """
    text = named(text)
    return text if text.isascii() and text.isprintable() else "".join(map(_substitute, text))


def shown_in(document: Any) -> Any:
    """Apply `shown` to each string in `document` (mappings, sequences and strings)."""
    if isinstance(document, str):
        return shown(document)
    if isinstance(document, Mapping):
        mapping = cast("Mapping[Any, Any]", document)
        return {shown_in(key): shown_in(value) for key, value in mapping.items()}
    return [shown_in(item) for item in document] if is_sequence(document) else document


def json_text(document: Mapping[str, Any], indent: int | None = None) -> str:
    """Format `document` as JSON with escapes for the characters that `shown` replaces."""
    return escape_json(json.dumps(document, indent=indent, ensure_ascii=False, allow_nan=False))


def escape_json(text: str) -> str:
    """Replace each character that `shown` replaces by a JSON escape sequence."""
    return _UNUSUAL.sub(lambda found: found[0] if _is_visible(found[0]) else json.dumps(found[0])[1:-1], text)


_UNUSUAL = re.compile(r"[^\n -~]")
_PARAMETER = r"(?:[0-4]|7|9|2[2-47]|[349][0-79]|10[0-7]|[34]8;5;\d{1,3}|[34]8;2(?:;\d{1,3}){3})?"
_PASSED = re.compile(rf"\x1b\[(?:{_PARAMETER};)*{_PARAMETER}m|\r\x1b\[K|\r?\n|\t")
"""Sequences passed through: styles (without concealed text), removal of a progress line, line ends, tabs."""


class TerminalStream(TextIOWrapper):
    """A terminal stream that passes styles and line ends and replaces other control characters.

    Commands apply `shown` to names, which also replaces styles and line ends in them; this is the second barrier.
    """

    def write(self, text: str, /) -> int:
        """Write `text` and return its length."""
        if not _is_printable_ascii(text):
            pieces: list[str] = []
            end = 0
            for found in _PASSED.finditer(text):
                pieces += [*map(_substitute, text[end : found.start()]), found[0]]
                end = found.end()
            super().write("".join([*pieces, *map(_substitute, text[end:])]))
        else:
            super().write(text)
        return len(text)


def _is_printable_ascii(text: str) -> bool:
    return text.isascii() and text.replace("\n", "").isprintable()


def _substitute(character: str) -> str:
    if character == "\t":
        return _TAB
    if ord(character) in _C0:
        return chr(_CONTROL_PICTURES + ord(character))
    return character if _is_visible(character) else f"<U+{ord(character):04X}>"


def _is_visible(character: str) -> bool:
    return (character.isprintable() and character not in _FILLERS) or character == "\u3000"
