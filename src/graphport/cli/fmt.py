"""`graphport fmt`."""

from __future__ import annotations

from pathlib import Path

import click

from graphport.cli.options import (
    MODEL,
    Verb,
    answered,
    edition_option,
    print_json,
)
from graphport.cli.render import shown
from graphport.cli.streams import is_stdin, send
from graphport.core.regular_files import contents


@click.command(cls=Verb, name="fmt")
@click.argument("files", metavar="FILE…", type=MODEL, nargs=-1, required=True)
@click.option("--check", "check", is_flag=True, help="Change nothing; exit code 1 if something would change.")
@edition_option
@answered
def verb(files: tuple[Path, ...], check: bool, edition: str | None, color: str, as_json_: bool) -> None:
    """Format NNEF files in the standard style.

    Names, literals and comments are kept. A folder denotes its graph.nnef; - reads standard input and writes to
    standard output.

    \b
    Examples:
      graphport fmt model/graph.nnef
      graphport fmt --check *.nnef
      graphport fmt - < model.nnef
    """
    del color
    if as_json_ and not check and any(map(is_stdin, files)):
        message = "--json and a document (-) cannot both be written to standard output"
        raise click.UsageError(message)
    changed = [str(file) for file in files if _format(_text_of(file), edition, check=check)]
    if not check:
        changed = [name for name in changed if not is_stdin(Path(name))]
    if as_json_:
        print_json({"changed": changed, "written": not check})
    else:
        for name in changed:
            click.echo(f"{shown(str(name))}: {'would change' if check else 'formatted'}")
    raise click.exceptions.Exit(1 if check and changed else 0)


def _text_of(file: Path) -> Path:
    return file / "graph.nnef" if file.is_dir() else file


def _format(file: Path, edition: str | None, *, check: bool) -> bool:
    """Format one file. Return whether it differs."""
    from graphport.core.atomic_write import replacing
    from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span
    from graphport.formats.nnef.container.formatter import format_text
    from graphport.formats.nnef.container.syntax import Edition

    # Read bytes: reading as text would convert line endings.
    try:
        source = Source(str(file), contents(file).decode("utf-8"))
    except UnicodeDecodeError as error:
        message = f"{file} is not a text in UTF-8: byte {error.start}"
        raise DiagnosticError(
            Diagnostic("IO0007", message, Span(Source(str(file))), "pass the text of an NNEF model")
        ) from error
    text = format_text(source, None if edition is None else Edition(edition))
    if not check and is_stdin(file):
        send(text.encode())
    if text == source.text:
        return False
    if not check:
        with replacing(file) as target:
            target.write(text.encode())
    return True
