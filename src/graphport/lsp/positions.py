"""Places of texts as editors count them: lines from 0, columns in units of UTF-16."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lsprotocol import types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from graphport.core.diagnostics import Span


def units(text: str, column: int) -> int:
    """Units of UTF-16 of the first `column` code points of a line."""
    before = text[:column]
    return len(before) if before.isascii() else len(before.encode("utf-16-le", "surrogatepass")) // 2


def column(text: str, count: int) -> int:
    """Code points of a line that take `count` units of UTF-16."""
    if text.isascii():
        return min(count, len(text))
    taken = 0
    for index, character in enumerate(text):
        if taken >= count:
            return index
        taken += 2 if ord(character) > 0xFFFF else 1
    return len(text)


def range_of(lines: Sequence[str], line: int, start: int, stop: int) -> types.Range:
    """Code points `start` to `stop` of a line."""
    text = lines[line] if line < len(lines) else ""
    return types.Range(types.Position(line, units(text, start)), types.Position(line, units(text, stop)))


def range_of_span(lines: Sequence[str], span: Span | None) -> types.Range:
    """The place of a finding; the first character where it has none."""
    if span is None or span.start is None or span.source.text is None:
        return types.Range(types.Position(0, 0), types.Position(0, 1))
    ends: list[types.Position] = []
    for offset in (span.start, max(span.start, span.stop or span.start)):
        line, at = span.source.position(offset)
        text = lines[line - 1] if line <= len(lines) else ""
        ends.append(types.Position(line - 1, units(text, at - 1)))
    return types.Range(*ends)
