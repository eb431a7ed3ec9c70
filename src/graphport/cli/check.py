"""`graphport check`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.annotations import FORMATS, annotated
from graphport.cli.options import (
    MODEL,
    Verb,
    answered,
    input_bindings,
    opening_options,
    print_findings,
    print_json,
)
from graphport.cli.quiet import stdout
from graphport.cli.render import as_json, note_faults, shown
from graphport.cli.usage import Choice
from graphport.core.faults import is_ours

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.model import Model


@click.command(cls=Verb, name="check")
@click.argument("model", type=MODEL)
@opening_options
@click.option("-v", "--verbose", is_flag=True, help="Also report the assumptions about dynamic axes.")
@click.option(
    "--format",
    "layout",
    type=Choice(FORMATS),
    default="text",
    show_default=True,
    help="Format of findings: text, GitHub annotations, or SARIF 2.1.0.",
)
@answered
def verb(
    model: Path,
    shapes: Any,
    edition: str | None,
    program: str | None,
    verbose: bool,
    layout: str,
    color: str,
    as_json_: bool,
) -> None:
    """Check a model and report every error: grammar, names, types, shapes.

    Exit code 0 if it is valid (warnings are permitted), 1 if it is not.

    \b
    Examples:
      graphport check net.onnx
      graphport check model/graph.nnef --edition provisional
      graphport check net.onnx -v
      graphport check model.nnef --format github
      graphport check net.onnx --input x=1x3x224x224 --json
    """
    import graphport
    from graphport import formats

    kind = formats.recognize(model)
    findings = graphport.check(model, edition=edition, shapes=input_bindings(shapes), program=program)
    note_faults(findings)
    valid = not any(finding.is_error or is_ours(finding) for finding in findings)
    if as_json_:
        print_json({"valid": valid, "format": kind.name, "diagnostics": [as_json(finding) for finding in findings]})
    elif layout != "text":
        click.echo(annotated(findings, layout), file=stdout())
    else:
        print_findings(findings, color, err=False)
        if valid:
            click.echo(f"{shown(str(model))}: valid {kind.title}")
        if valid and verbose:
            _tell_axes(graphport.load(model, edition=edition, shapes=input_bindings(shapes), program=program))
    raise click.exceptions.Exit(0 if valid else 1)


def _tell_axes(model: Model) -> None:
    """Return the axes that are assumed to have a size of at least 1."""
    from graphport.core.dims import bounds, symbols
    from graphport.core.facts import TensorFact

    for value in model.graph.inputs:
        dims = value.fact.shape or () if isinstance(value.fact, TensorFact) else ()
        granted = {name for dim in dims for name, symbol in symbols(dim).items() if bounds(symbol) == (1, None)}
        named = ", ".join(sorted(granted))
        if named:
            empty = "x".join("0.." if granted & symbols(dim).keys() else str(dim) for dim in dims)
            allowed = f"--input {value.name}={empty} says that it may be empty"
            click.echo(shown(f"assumed for the input {value.name}: {named} at least 1; {allowed}"))
