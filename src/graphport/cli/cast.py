"""`graphport cast`."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    extract_package_options,
    extract_writer_options,
    input_bindings,
    print_findings,
    print_json,
    reading_options,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.samples import samples_of, samples_options
from graphport.cli.streams import target
from graphport.cli.usage import Choice
from graphport.cli.verification import checking_options, print_verification, verification, verified

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.quantization.half.cast import CastReport

_TYPES = ("float16", "bfloat16", "float32")
_MOST_ROWS = 12


@click.command(cls=Verb, name="cast")
@click.argument("src", type=MODEL)
@click.argument("dst", type=FILE)
@click.option("--to", type=Choice(_TYPES), required=True, help="The type to compute in.")
@samples_options("Samples to measure value ranges: a .npz, a .npy, a folder of .npy or of images.")
@click.option("--keep-io", is_flag=True, help="Keep the types of inputs and outputs.")
@click.option(
    "--keep", multiple=True, metavar="NAME", help="A node, operator or pattern to keep in float32. Repeatable."
)
@click.option(
    "--min-snr", type=float, metavar="DB", help="Keep more nodes in float32 until the outputs reach this SNR."
)
@click.option("--format", "format", metavar="FORMAT", help="Format of DST (default: by its file name).")
@reading_options
@writer_options
@checking_options
@answered
def verb(
    src: Path,
    dst: Path,
    to: Any,
    calibration: Path | None,
    keep_io: bool,
    keep: tuple[str, ...],
    min_snr: float | None,
    format: str | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Convert a model to float16 or bfloat16, or back to float32, and report the output error.

    Nodes that would overflow or lose precision stay float32; they are found with calibration samples, or else with
    random inputs and a margin. Exit code 1 if a goal is missed or the outputs are mostly noise; the model is written in
    any case.

    \b
    Examples:
      graphport cast net.onnx net.fp16.onnx --to float16 --calibration samples.npz
      graphport cast net.onnx net.fp16.xml --to float16 --keep-io --keep Softmax --keep "head*"
      graphport cast net.fp16.onnx net.onnx --to float32
    """
    import graphport
    from graphport.api.proven_write import Checking, save_proven

    checking, asked = Checking(**verification(options)), extract_package_options(options)
    samples = samples_of(calibration, options)
    with target(dst, format, is_json=as_json_) as path:
        model = graphport.load(src, shapes=input_bindings(shapes), edition=edition, **asked)
        writer = extract_writer_options(options, path, format)
        result = graphport.cast(model, to, calibration=samples, keep=keep, min_snr=min_snr, keep_io=keep_io)
        report = result.report
        if report is None:
            message = "a cast model has no report"
            raise RuntimeError(message)
        became = save_proven(result, path, format=format, checking=checking, calibration=samples, **writer)
        findings = [*model.findings, *report.findings, *became.findings]
        if as_json_:
            document = {"source": str(src), "target": str(path), **report.as_json(), **verified(became)}
            print_json({**document, "diagnostics": [as_json(finding) for finding in findings]})
        else:
            print_findings(findings, color)
            _tell(report, path)
            print_verification(became.proof, became.skipped, str(path) if became.written is None else None)
    raise click.exceptions.Exit(0 if report.passed and became.passed else 1)


def _tell(report: CastReport, path: Path) -> None:
    from graphport.cli.table import print_table

    counts = Counter((kept.operator, kept.reason) for kept in report.kept)
    rows = [(operator, str(count), reason) for (operator, reason), count in counts.most_common(_MOST_ROWS)]
    if rows:
        print_table(("operator", "nodes", "reason"), rows, title="nodes that remain in float32:")
    seen = f"{report.samples} sample{'s' * (report.samples > 1)}" if report.samples else "random inputs"
    ends = report.snr_range
    others = "" if ends is None else f" (on others {ends[0]:.1f} to {ends[1]:.1f} dB)"
    snr = "not run" if report.snr_db is None else f"{report.snr_db:.2f} dB on {seen}{others}"
    click.echo(f"written to {shown(str(path))}: {report.cast} of {report.nodes} nodes in {report.to}, {snr}")
    click.echo(f"bytes of weights: {report.bytes_before} before, {report.bytes_after} after")
