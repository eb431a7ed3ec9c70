"""`graphport convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    batch_option,
    extract_writer_options,
    input_bindings,
    opening_options,
    print_findings,
    print_json,
    states_option,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.report import report_option, write_report
from graphport.cli.streams import target
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.convert import ConversionReport


@click.command(cls=Verb, name="convert")
@click.argument("src", type=MODEL)
@click.argument("dst", type=FILE)
@click.option("--to", "--layout", "format", metavar="FORMAT", help="Format of DST (default: by its file name).")
@verification_options
@report_option
@writer_options
@batch_option
@opening_options
@states_option
@click.option("-v", "--verbose", is_flag=True, help="Report the op types that each operator was converted to.")
@answered
def verb(
    src: Path,
    dst: Path,
    format: str | None,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    verbose: bool,
    color: str,
    as_json_: bool,
    proof: Path | None,
    page: Path | None,
    **options: Any,
) -> None:
    """Convert a model to another format and prove that both files compute the same.

    Both files run on the same inputs, each in its native runtime, and their outputs are compared. Exit code 1 if DST
    does not support an operator (all are reported) or the outputs differ; no file is written then.

    \b
    Examples:
      graphport convert model.nnef.tgz net.onnx
      graphport convert net.onnx model --to nnef
      graphport convert net.onnx copy.onnx --no-verify
      graphport convert net.onnx old.onnx --opset 11
      graphport convert - - --to nnef < net.onnx > net.nnef.tgz
    """
    import graphport
    from graphport.api.report import Findings

    with target(dst, format, is_json=as_json_) as path:
        report = graphport.convert(
            src,
            path,
            format=format,
            **verification(options),
            shapes=input_bindings(shapes),
            edition=edition,
            program=program,
            states=states,
            **extract_writer_options(options, path, format),
        )
        write_proof(report.proof, proof, src, report.written, shapes=input_bindings(shapes), edition=edition)
        reading: dict[str, Any] = {
            "shapes": input_bindings(shapes),
            "edition": edition,
            "program": program,
            "states": states,
        }
        outcome = Findings(verb="convert", proof=report.proof, diagnostics=report.findings)
        write_report(page, src, report.written, outcome, **reading)
        if as_json_:
            print_json(_document(report, verbose=verbose))
        else:
            print_findings(report.findings, color)
            _tell(report, verbose=verbose)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _document(report: ConversionReport, *, verbose: bool) -> dict[str, Any]:
    words = {"words": [each._asdict() for each in report.words]} if verbose else {}
    return words | {
        "source": report.source,
        "target": report.target,
        "format": report.format,
        "unsupported": report.unsupported,
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: ConversionReport, *, verbose: bool) -> None:
    from graphport.cli.table import print_table

    if report.unsupported:
        rows = [(op, str(count)) for op, count in report.unsupported.items()]
        print_table(("operator", "nodes"), rows, title=f"{report.format} cannot express, so nothing is written:")
        return
    if verbose and report.words:
        rows = [
            (each.operator, str(each.nodes), ", ".join(each.words) or "computed ahead, or taken in")
            for each in report.words
        ]
        print_table(("operator", "nodes", "became"), rows)
    if report.written is not None:
        click.echo(f"written to {shown(report.written)} ({report.format})")
    print_verification(report.proof, report.skipped, report.target if report.written is None else None)
