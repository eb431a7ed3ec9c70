"""`graphport report`, and the reports of other commands."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    backend_option,
    edition_option,
    input_bindings,
    input_option,
    print_findings,
    print_json,
    program_option,
)
from graphport.cli.render import escape_json, shown, shown_in
from graphport.cli.usage import Choice
from graphport.reports.views import FIGURES, FORMATS, format_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from graphport.api.report import Findings
    from graphport.reports import Report

report_option = click.option(
    "--report",
    "page",
    type=FILE,
    metavar="FILE",
    help=f"Write a report on both models: .{', .'.join(FORMATS)}.",
)


@click.command(cls=Verb, name="report")
@click.argument("model", type=MODEL)
@click.option("--against", type=MODEL, metavar="B", help="Second model to compare value by value.")
@click.option("--inputs", type=MODEL, help="An .npz file with an array for each input; default: random values.")
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Output file; its extension selects the format.")
@click.option("--format", type=Choice(FORMATS), help="Format of the output file (default: by its extension).")
@click.option("--figure", type=Choice(FIGURES), help="A figure for a paper: -o error.pdf, or .png, .svg, ….")
@click.option("--times", is_flag=True, help="Report the time of each node by ONNX Runtime's profiler, on one thread.")
@backend_option
@input_option
@edition_option
@program_option
@answered
def verb(
    model: Path,
    against: Path | None,
    inputs: Path | None,
    output: Path | None,
    format: str | None,
    figure: str | None,
    times: bool,
    backend: str,
    shapes: Any,
    edition: str | None,
    program: str | None,
    color: str,
    as_json_: bool,
) -> None:
    """Report on a model, or on the difference of two: HTML page, drawing, tables, or data.

    The HTML page is self-contained. With a second model it shows both models, coloured by the difference of their
    values, and the first value that differs. Without -o, the report is written to standard output in --format, by
    default Markdown.

    \b
    Examples:
      graphport report net.onnx -o net.html
      graphport report a.onnx --against b.onnx -o both.html
      graphport report net.onnx --format csv
      graphport report a.onnx --against b.onnx --figure error -o error.pdf
    """
    import graphport
    from graphport.cli import arrays

    if figure is not None and output is None:
        message = "a figure needs an output file: -o error.pdf"
        raise click.UsageError(message)
    if output is not None and format is None and figure is None:
        format_of(output)
    first = graphport.load(model, edition=edition, shapes=input_bindings(shapes), program=program)
    second = None if against is None else graphport.load(against, shapes=input_bindings(shapes))
    given = None if inputs is None else arrays.inputs_of(first, inputs)
    found = graphport.report(first, second, given, backend=backend, times=times)
    if output is not None:
        if figure is None:
            found.save(output, format)
        else:
            found.save_figure(output, figure)
        if as_json_:
            print_json({"written": str(output)})
            return
        print_findings([*first.findings, *(second.findings if second is not None else ())], color)
        click.echo(_sentence(found, output))
    elif as_json_:
        print_json(found.document)
    else:
        _print(found, format or "md")


def _print(report: Report, format: str) -> None:
    """Print a view; control characters in strings are replaced on a terminal."""
    if sys.stdout.isatty() and format == "json":
        click.echo(escape_json(report.json()), nl=False)
    elif sys.stdout.isatty():
        click.echo(replace(report, document=shown_in(report.document)).text(format), nl=False)
    else:
        click.echo(report.text(format), nl=False)


def write_report(
    path: Path | None,
    source: Any,
    target: Any,
    findings: Findings,
    *,
    inputs: Mapping[str, Any] | None = None,
    backend: str = "auto",
    **asked: Any,
) -> None:
    """Write a report on the result of a command, if it was requested and both models exist.

    Args:
        path: the output path.
        source: the source: a model or a path.
        target: the result: a model, a path, or `None` if nothing was written.
        findings: results of the command.
        inputs: inputs for the comparison of values; random if `None`.
        backend: the backend.
        **asked: options for reading the source.
    """
    if path is None:
        return
    import graphport
    from graphport.api.report import report

    def loaded(each: Any, options: Mapping[str, Any]) -> graphport.Model:
        return each if isinstance(each, graphport.Model) else graphport.load(each, **options)

    after = None if target is None else loaded(target, {})
    report(loaded(source, asked), after, inputs, backend=backend, findings=findings).save(path)


def _sentence(found: Report, path: Path) -> str:
    errors = found.document.get("errors")
    if errors is None:
        notes = "".join(f"; {shown(note)}" for note in found.document.get("notes", ()))
        return f"written to {shown(str(path))}{notes}"
    wrong = [error for error in errors if not error["passed"]]
    differs = f", the first that differs is {shown(wrong[0]['name'])}" if wrong else ", no value differs"
    return f"written to {shown(str(path))}: {len(errors)} values compared{differs}"
