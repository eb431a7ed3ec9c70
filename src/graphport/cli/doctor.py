"""`graphport doctor`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from graphport.cli.options import (
    Verb,
    answered,
    print_json,
)

if TYPE_CHECKING:
    from graphport.api.doctor import PackageStatus


@click.command(cls=Verb, name="doctor")
@answered
def verb(color: str, as_json_: bool) -> None:
    """Report the installed optional packages, what each one adds, and its known faults.

    Reading, checking, converting and simplifying need none of them. Without a runtime, proofs use the reference
    interpreter alone.

    \b
    Examples:
      graphport doctor
      graphport doctor --json
    """
    del color
    from graphport.api.doctor import diagnose
    from graphport.cli.table import print_table

    found = diagnose()
    if as_json_:
        print_json(found.as_json())
        return
    click.echo(f"graphport {found.version}, Python {found.python}, {found.system}\n")
    rows = [(piece.module, _state(piece), "; ".join(piece.adds)) for piece in found.pieces]
    print_table(("package", "installed", "adds"), rows)
    missing = [piece for piece in found.pieces if not piece.is_usable]
    if missing:
        click.echo()
        rows = dict.fromkeys((piece.module, piece.install) for piece in missing)
        print_table(("missing package", "command"), list(rows))
    faults = [(piece.module, fault) for piece in found.pieces if piece.is_usable for fault in piece.faults]
    if faults:
        click.echo()
        print_table(("package", "known fault; not used for proofs"), faults)
    flags = ", ".join(str(flag) for flag in found.processor["flags"]) or "none relevant"
    click.echo(f"\nprocessor: {found.processor['machine']} with {flags}")
    if found.processor["saturates"]:
        click.echo("  int8 dot products may saturate 16-bit sums: quantize limits the weights (--processor any)")


def _state(piece: PackageStatus) -> str:
    if piece.version is None:
        return "yes" if piece.is_usable else "no"
    name = "" if piece.distribution == piece.module else f" ({piece.distribution})"
    return f"{piece.version}{name}" + ("" if piece.is_usable else f", version {piece.least} or newer is required")
