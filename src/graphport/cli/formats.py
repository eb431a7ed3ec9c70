"""`graphport formats`."""

from __future__ import annotations

import click

from graphport.cli.options import (
    Verb,
    answered,
    print_json,
)


@click.command(cls=Verb, name="formats")
@answered
def verb(color: str, as_json_: bool) -> None:
    """List the formats that can be read and written, and their file name extensions.

    A file is recognized by its content first, then by its name.

    \b
    Examples:
      graphport formats
      graphport formats --json
    """
    del color
    from graphport.cli.table import print_table
    from graphport.formats import FORMATS

    if as_json_:
        listed = [
            {
                "name": found.name,
                "title": found.title,
                "endings": list(found.endings),
                "read": True,
                "write": found.writes,
            }
            for found in FORMATS.values()
        ]
        print_json({"formats": listed})
        return
    rows = [
        (found.name, found.title, " ".join(found.endings), "yes", _yes(holds=found.writes))
        for found in FORMATS.values()
    ]
    print_table(("format", "title", "endings", "read", "write"), rows)


def _yes(*, holds: bool) -> str:
    return "yes" if holds else "no"
