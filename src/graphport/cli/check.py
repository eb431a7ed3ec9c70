"""`graphport check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    MODEL,
    bound,
    color_option,
    edition_option,
    findings_end,
    input_option,
    json_option,
    print_findings,
    print_json,
    program_option,
)
from graphport.cli.render import as_json, shown

if TYPE_CHECKING:
    from pathlib import Path


@click.command(name="check")
@click.argument("model", type=MODEL)
@input_option
@edition_option
@program_option
@color_option
@json_option
@findings_end
def verb(model: Path, shapes: Any, edition: str | None, program: str | None, color: str, as_json_: bool) -> None:
    """Tell everything that is wrong with a model: grammar, names, types, shapes.

    Exit code 0 if it is valid (warnings are told), 1 if it is not.

    \b
    Examples:
      graphport check net.onnx
      graphport check model/graph.nnef --edition provisional
      graphport check net.onnx --input x=1x3x224x224 --json
    """
    import graphport
    from graphport import formats

    kind = formats.recognize(model)
    findings = graphport.check(model, edition=edition, shapes=bound(shapes), program=program)
    valid = not any(finding.is_error for finding in findings)
    if as_json_:
        print_json({"valid": valid, "format": kind.name, "diagnostics": [as_json(finding) for finding in findings]})
    else:
        print_findings(findings, color, err=False)
        if valid:
            click.echo(f"{shown(str(model))}: valid {kind.title}")
    raise click.exceptions.Exit(0 if valid else 1)
