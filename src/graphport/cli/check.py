"""`graphport check`."""

from __future__ import annotations

from dataclasses import dataclass
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
from graphport.cli.streams import expand_patterns
from graphport.cli.usage import Choice
from graphport.core.faults import is_ours

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.model import Model
    from graphport.core.diagnostics import Diagnostic
    from graphport.formats.contract import Format


@click.command(cls=Verb, name="check")
@click.argument("models", type=MODEL, nargs=-1, required=True, metavar="MODEL...", callback=expand_patterns)
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
    models: list[Path],
    shapes: Any,
    edition: str | None,
    program: str | None,
    verbose: bool,
    layout: str,
    color: str,
    as_json_: bool,
) -> None:
    """Check models and report every error: grammar, names, types, shapes.

    Exit code 0 if all are valid (warnings are permitted), 1 if not. Patterns, for example 'models/*.onnx', are
    expanded.

    \b
    Examples:
      graphport check net.onnx
      graphport check model/graph.nnef --edition provisional
      graphport check net.onnx net.nnef 'models/**/*.tflite'
      graphport check model.nnef --format github
      graphport check net.onnx --input x=1x3x224x224 --json
    """
    options = {"edition": edition, "shapes": input_bindings(shapes), "program": program}
    checks: list[_Check] = []
    for model in models:
        check = _check(model, options)
        note_faults(check.findings)
        checks.append(check)
        if not as_json_ and layout == "text":
            _print_check(check, options, color, verbose=verbose)
    if as_json_:
        documents = [check.as_json() for check in checks]
        is_valid = all(check.is_valid for check in checks)
        paths = [{"file": str(check.path), **each} for check, each in zip(checks, documents, strict=True)]
        print_json(documents[0] if len(documents) == 1 else {"valid": is_valid, "models": paths})
    elif layout != "text":
        findings = [finding for check in checks for finding in check.findings]
        click.echo(annotated(findings, layout), file=stdout())
    raise click.exceptions.Exit(0 if all(check.is_valid for check in checks) else 1)


@dataclass(frozen=True, slots=True)
class _Check:
    """The findings on one model; `kind` is `None` if its format is unknown."""

    path: Path
    kind: Format | None
    findings: list[Diagnostic]

    @property
    def is_valid(self) -> bool:
        """Whether there are no errors."""
        return self.kind is not None and not any(finding.is_error or is_ours(finding) for finding in self.findings)

    def as_json(self) -> dict[str, Any]:
        """Plain data."""
        known = {} if self.kind is None else {"format": self.kind.name}
        return {"valid": self.is_valid, **known, "diagnostics": [as_json(finding) for finding in self.findings]}


def _check(path: Path, options: dict[str, Any]) -> _Check:
    import graphport
    from graphport import formats
    from graphport.core.diagnostics import Diagnostic, DiagnosticError, Source, Span

    try:
        kind = formats.recognize(path)
        return _Check(path, kind, graphport.check(path, **options))
    except DiagnosticError as error:
        return _Check(path, None, error.diagnostics)
    except OSError as error:
        message = f"the operating system reports: {error.strerror or error}"
        return _Check(path, None, [Diagnostic("IO0004", message, Span(Source(str(path))))])


def _print_check(check: _Check, options: dict[str, Any], color: str, *, verbose: bool) -> None:
    import graphport

    # Errors before reading go to standard error.
    print_findings(check.findings, color, err=check.kind is None)
    if not check.is_valid or check.kind is None:
        return
    click.echo(f"{shown(str(check.path))}: valid {check.kind.title}")
    if verbose:
        _print_axes(graphport.load(check.path, **options))


def _print_axes(model: Model) -> None:
    """Print the axes that are assumed to have a size of at least 1."""
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
