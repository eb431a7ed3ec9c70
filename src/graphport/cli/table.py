"""Tables: with rules on a terminal, plain columns in a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from graphport.cli.render import shown
from graphport.core.table import as_text

if TYPE_CHECKING:
    from collections.abc import Sequence


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None) -> None:
    """Print one row per line: with rules in the terminal's width, or separated by two blanks in a pipe."""
    # Names of values and files may contain terminal control characters.
    rows = [[shown(cell) for cell in row] for row in rows]
    title = None if title is None else shown(title)
    if sys.stdout.isatty():
        _draw(headings, rows, title)
        return
    if title:
        click.echo(title)
    # Print line by line, because the reader may stop early.
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
        # Names of values may contain rich's markup.
        table.add_row(*(Text(cell) for cell in row))
    Console().print(table)
