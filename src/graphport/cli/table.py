"""Tables: drawn on a terminal, plain columns in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from graphport.cli.render import shown
from graphport.core.table import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """One row a line; on a terminal with rules and the terminal's width, in a pipe with two blanks between columns."""
    # Names of values and files may hold what a terminal obeys.
    rows = [[shown(cell) for cell in row] for row in rows]
    title = None if title is None else shown(title)
    if sys.stdout.isatty():
        _draw(headings, rows, title)
        return
    if title:
        click.echo(title)
    # Line by line: whoever reads may have seen enough.
    for line in as_text(headings, rows).split("\n"):
        click.echo(line)


def _draw(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title, title_justify="left", header_style="bold")
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        # Names of values may hold what rich takes for markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
