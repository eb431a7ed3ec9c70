"""Tables of texts: plain columns, Markdown and HTML."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def as_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """One row a line, two blanks between columns."""
    table = [headings, *rows]
    widths = [max(len(row[i]) for row in table) for i in range(len(headings))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table
    )


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of Markdown, whose marks in cells are escaped."""
    table = [headings, ["---"] * len(headings), *([_escape_cell(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in table)


def as_html(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table of HTML; nothing in a cell is markup."""
    from html import escape  # imported late: it takes longer to import than the rest of this module

    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_number(value: float | str | None) -> str:
    """A number in six digits, an integer in all of its, nothing for `None`."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else value


def with_one_type(column: Sequence[int | str | None]) -> list[int | str | None]:
    """Return the column as strings if it contains a string: data frames refuse columns of several types."""
    if not any(isinstance(each, str) for each in column):
        return [*column]
    return [None if each is None else str(each) for each in column]


def _escape_cell(cell: str) -> str:
    marks = {ord(mark): f"\\{mark}" for mark in "\\|*_`<>[]#"}
    return " ".join(cell.split()).translate(marks)


class Tabular(ABC):
    """A table: printed as text, shown as HTML in a notebook, and convertible to rows for pandas or polars."""

    __slots__ = ()

    @abstractmethod
    def to_rows(self) -> list[dict[str, Any]]:
        """Return rows with equal columns."""

    @property
    def caption(self) -> str:
        """A sentence on the whole."""
        return ""

    def __str__(self) -> str:
        headings, cells = _cells(self.to_rows())
        table = as_text(headings, cells) if cells else ""
        return "\n".join(part for part in (table, self.caption) if part)

    def _repr_html_(self) -> str:
        return as_html(*_cells(self.to_rows()), self.caption)


def _cells(rows: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    headings = list(rows[0]) if rows else []
    return headings, [[_cell(row[heading]) for heading in headings] for row in rows]


def _cell(value: Any) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case None | int() | float() | str():
            return format_number(value)
        case list() | tuple():
            return ", ".join(map(_cell, cast("Sequence[Any]", value)))
        case _:
            return str(value)
