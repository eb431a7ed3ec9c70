"""`graphport convert`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    MODEL,
    bound,
    chosen,
    color_option,
    edition_option,
    findings_end,
    input_option,
    json_option,
    print_findings,
    print_json,
    writer_options,
)
from graphport.cli.render import as_json, shown

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.convert import ConversionReport


@click.command(name="convert")
@click.argument("src", type=MODEL)
@click.argument("dst", type=MODEL)
@click.option("--to", "format", metavar="FORMAT", help="Format of DST, if its name does not say it.")
@click.option(
    "--verify/--no-verify",
    "verify",
    default=None,
    help="Run both and hold them against each other (default: where possible).",
)
@click.option(
    "--verify-limit",
    type=click.IntRange(0),
    default=512,
    show_default=True,
    help="Do not verify above so many MiB of weights.",
)
@writer_options
@input_option
@edition_option
@color_option
@json_option
@findings_end
def verb(
    src: Path,
    dst: Path,
    format: str | None,
    verify: bool | None,
    verify_limit: int,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Write a model in another format, and prove that nothing changed.

    Both models are run on the same inputs and compared. Exit code 1 if DST cannot express an operator (all are told and
    nothing is written) or the comparison fails.

    \b
    Examples:
      graphport convert model.nnef.tgz net.onnx
      graphport convert net.onnx model --to nnef
      graphport convert net.onnx copy.onnx --no-verify
      graphport convert net.onnx old.onnx --opset 11
    """
    import graphport

    report = graphport.convert(
        src,
        dst,
        format=format,
        verify=verify,
        verify_limit=verify_limit << 20,
        shapes=bound(shapes),
        edition=edition,
        **chosen(options, dst, format),
    )
    if as_json_:
        print_json(_document(report))
    else:
        print_findings(report.findings, color)
        _tell(report)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _document(report: ConversionReport) -> dict[str, Any]:
    verification = report.verification
    return {
        "source": report.source,
        "target": report.target,
        "format": report.format,
        "unsupported": report.unsupported,
        "verify": None
        if verification is None
        else {
            "max_abs": verification.max_abs,
            "snr_db": None if verification.snr_db in (None, float("inf"), float("-inf")) else verification.snr_db,
            "passed": verification.passed,
            "outputs": [difference.as_json() for difference in verification.outputs],
        },
        "skipped": report.skipped,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: ConversionReport) -> None:
    from graphport.cli.compare import HEADINGS, row
    from graphport.cli.table import print_table

    if report.unsupported:
        rows = [(op, str(count)) for op, count in report.unsupported.items()]
        print_table(("operator", "nodes"), rows, title=f"{report.format} cannot express, so nothing is written:")
        return
    click.echo(f"written to {shown(str(report.target))} ({report.format})")
    if report.verification is None:
        click.echo(f"not verified: {shown(str(report.skipped))}")
        return
    print_table(HEADINGS, [row(difference) for difference in report.verification.outputs])
    for note in report.verification.notes:
        click.echo(note)
    click.echo(
        "verified: equal within tolerance" if report.verification.passed else "verification failed: the outputs differ"
    )
