"""`graphport dequantize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    extract_package_options,
    extract_writer_options,
    format_option,
    input_bindings,
    print_findings,
    print_json,
    reading_options,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.samples import samples_of, samples_options
from graphport.cli.streams import target
from graphport.cli.verification import checking_options, print_verification, verification, verified

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.quantization.dequantize import DequantizeReport


@click.command(cls=Verb, name="dequantize")
@click.argument("src", type=MODEL)
@click.argument("dst", type=FILE)
@samples_options("Samples to compare both models on: a .npz, a .npy, a folder of .npy or of images.")
@format_option
@reading_options
@writer_options
@checking_options
@answered
def verb(
    src: Path,
    dst: Path,
    calibration: Path | None,
    format: str | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Convert a quantized model back to float, and report how much the outputs differ.

    Integer operators, QuantizeLinear and DequantizeLinear, fake quantization, fp8 and packed weights are removed;
    weights keep their rounded values. Exit code 1 if the outputs differ by more than a third; the model is written in
    any case.

    \b
    Examples:
      graphport dequantize net.int8.onnx net.onnx
      graphport dequantize net.tflite net.ncnn.param --calibration samples.npz
    """
    import graphport
    from graphport.api.proven_write import Checking, save_proven

    checking, asked = Checking(**verification(options)), extract_package_options(options)
    samples = samples_of(calibration, options)
    with target(dst, format, is_json=as_json_) as path:
        model = graphport.load(src, shapes=input_bindings(shapes), edition=edition, **asked)
        writer = extract_writer_options(options, path, format)
        result = graphport.dequantize(model, calibration=samples)
        report = result.report
        if report is None:
            message = "a dequantized model has no report"
            raise RuntimeError(message)
        became = save_proven(result, path, format=format, checking=checking, **writer)
        findings = [*model.findings, *report.findings, *became.findings]
        if as_json_:
            document = {"source": str(src), "target": str(path), **report.as_json(), **verified(became)}
            print_json({**document, "diagnostics": [as_json(finding) for finding in findings]})
        else:
            print_findings(findings, color)
            _print_report(report, path)
            print_verification(became.proof, became.skipped, str(path) if became.written is None else None)
    raise click.exceptions.Exit(0 if report.passed and became.passed else 1)


def _print_report(report: DequantizeReport, path: Path) -> None:
    from graphport.cli.table import print_table

    rows = [(operator, str(count)) for operator, count in sorted(report.removed.items())]
    if rows:
        print_table(("operator", "nodes"), rows, title="removed:")
    seen = f"{report.samples} sample{'s' * (report.samples > 1)}" if report.samples else "random inputs"
    snr = "not run" if report.snr_db is None else f"{report.snr_db:.2f} dB relative to the quantized model on {seen}"
    click.echo(f"written to {shown(str(path))}: {snr}")
    click.echo(f"bytes of weights: {report.bytes_before} before, {report.bytes_after} after")
