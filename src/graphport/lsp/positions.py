"""Positions of the Language Server Protocol: lines from 0, columns in UTF-16 code units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Span


def utf16_length(text: str, code_point_column: int) -> int:
    """Return the number of UTF-16 code units in the first `column` code points of a line."""
    before = text[:code_point_column]
    return len(before) if before.isascii() else len(before.encode("utf-16-le", "surrogatepass")) // 2


def code_point_column(text: str, count: int) -> int:
    """Return the number of code points in the first `count` UTF-16 code units of a line."""
    if text.isascii():
        return min(count, len(text))
    taken = 0
    for index, character in enumerate(text):
        if taken >= count:
            return index
        taken += 2 if ord(character) > 0xFFFF else 1
    return len(text)


def range_of(lines: Sequence[str], line: int, start: int, stop: int) -> types.Range:
    """Return the range of code points `start` to `stop` of a line."""
    text = lines[line] if line < len(lines) else ""
    return types.Range(types.Position(line, utf16_length(text, start)), types.Position(line, utf16_length(text, stop)))


def range_of_span(lines: Sequence[str], span: Span | None) -> types.Range:
    """Return the range of a span; the first character of the text without a span."""
    if span is None or span.start is None or span.source.text is None:
        return types.Range(types.Position(0, 0), types.Position(0, 1))
    ends: list[types.Position] = []
    for offset in (span.start, max(span.start, span.stop or span.start)):
        line, at = span.source.position(offset)
        text = lines[line - 1] if line <= len(lines) else ""
        ends.append(types.Position(line - 1, utf16_length(text, at - 1)))
    return types.Range(*ends)
