"""`graphport demo`."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    Verb,
    answered,
    print_findings,
    print_json,
)

if TYPE_CHECKING:
    from graphport.api.convert import ConversionReport
    from graphport.api.model import Model, QuantizedModel

CALIBRATION = 64
"""The number of test images used for calibration; the others measure the accuracy."""


@click.command(cls=Verb, name="demo")
@answered
def verb(color: str, as_json_: bool) -> None:
    """Run a tour: check, prepare, quantize and convert a small trained NNEF network.

    It works in a temporary folder, which is removed at the end.
    """
    with (
        as_file(files("graphport") / "examples" / "digits") as folder,
        TemporaryDirectory(prefix="graphport-") as place,
    ):
        tour = _Tour(folder, Path(place), color)
        steps = tour.silent() if as_json_ else tour.step_lines()
    if as_json_:
        print_json(steps)
    raise click.exceptions.Exit(0 if steps["verify"]["passed"] and steps["valid"] else 1)


class _Tour:
    def __init__(self, folder: Path, place: Path, color: str) -> None:
        self.folder = folder
        self.place = place
        self.color = color

    def step_lines(self) -> dict[str, Any]:
        """Print the result of each step as text."""
        from graphport.cli.table import print_table

        click.echo("A classifier of handwritten digits, 8 by 8 pixels, as an NNEF folder with its weights.\n")
        click.echo("graphport check digits")
        findings = self.check()
        print_findings(findings, self.color, err=False)
        valid = not any(finding.is_error for finding in findings)
        click.echo(f"  {'valid NNEF 1.0' if valid else 'not valid'}\n")
        model = self.load()
        click.echo("graphport shapes digits")
        rows = [(v.name, v.producer.op, str(v.fact)) for v in model.graph.values() if v.producer is not None]
        print_table(("value", "operator", "type and shape"), rows)
        right, count = self.accuracy(model)
        click.echo(f"\ngraphport run digits: {right} of {count} test images recognized ({right / count:.1%})\n")
        click.echo("graphport prepare digits prepared.onnx")
        changes, passed = self.prepare(model)
        print_table(("pass", "changes"), [(name, str(count)) for name, count in changes.items() if count])
        click.echo(f"  {_verdict(is_equal=passed)}\n")
        quantized = self.quantize(model)
        right, count = self.accuracy(quantized, CALIBRATION)
        click.echo(f"graphport quantize digits digits.int8.onnx --calibration {CALIBRATION} of the images")
        click.echo(
            f"  {_snr(quantized):.1f} dB; {right} of the {count} other images recognized ({right / count:.1%})\n"
        )
        reports = [self.convert(name) for name in ("digits.onnx", "digits.xml")]
        passed &= self.shown(reports)
        click.echo("Try next:")
        click.echo(f"  graphport shapes {self.folder}")
        click.echo(f"  graphport convert {self.folder} digits.onnx")
        click.echo("  graphport inspect digits.onnx")
        click.echo("  graphport quantize --help")
        return {"valid": valid, "verify": {"passed": passed}}

    def shown(self, reports: list[ConversionReport]) -> bool:
        """Print the results of conversions. Return whether all are verified."""
        from graphport.cli.compare import HEADINGS, row
        from graphport.cli.table import print_table

        for report in reports:
            click.echo(f"graphport convert digits {Path(report.target).name}")
            if report.verification is not None:
                print_table(HEADINGS, [row(output.worst) for output in report.verification.outputs])
            click.echo(f"  {_verdict(is_equal=_is_verified(report))}\n")
        return all(map(_is_verified, reports))

    def silent(self) -> dict[str, Any]:
        """Return the results as data."""
        valid = not any(finding.is_error for finding in self.check())
        model = self.load()
        right, count = self.accuracy(model)
        changes, passed = self.prepare(model)
        quantized = self.quantize(model)
        good, judged = self.accuracy(quantized, CALIBRATION)
        reports = [self.convert(name) for name in ("digits.onnx", "digits.xml")]
        verified = [report.verification for report in reports if report.verification is not None]
        largest = [found.max_abs for found in verified if found.max_abs is not None]
        return {
            "valid": valid,
            "nodes": len(model.graph),
            "right": right,
            "images": count,
            "prepare": changes,
            "quantize": {"snr_db": _snr(quantized), "right": good, "images": judged},
            "verify": {
                "passed": passed and all(map(_is_verified, reports)),
                "max_abs": max(largest) if largest else None,
            },
        }

    def check(self) -> list[Any]:
        import graphport

        return graphport.check(self.folder)

    def load(self) -> Model:
        import graphport

        return graphport.load(self.folder)

    def images(self) -> dict[str, Any]:
        from graphport.cli import arrays

        return arrays.read(self.folder / "test.npz")

    def accuracy(self, model: Model, first: int = 0) -> tuple[int, int]:
        """Return the number of correct predictions and of test images, from index `first` on."""
        import numpy as np

        from graphport.api.run import session

        test = self.images()
        running = session(model)
        scores = [running.run({"image": image[None]})["probability"] for image in test["image"][first:]]
        right = np.argmax(np.concatenate(scores), axis=1) == test["digit"][first:]
        return int(right.sum()), len(right)

    def prepare(self, model: Model) -> tuple[dict[str, int], bool]:
        """Return the changes of each preparation pass, and whether the outputs are unchanged."""
        import graphport

        report = graphport.prepare(model)[1]
        return report.changes, report.passed

    def quantize(self, model: Model) -> QuantizedModel:
        import graphport

        return graphport.quantize(model, {"image": self.images()["image"][:CALIBRATION]}, target="onnxruntime")

    def convert(self, name: str) -> ConversionReport:
        import graphport

        return graphport.convert(self.folder, self.place / name)


def _is_verified(report: ConversionReport) -> bool:
    return report.verification is not None and report.verification.passed


def _verdict(*, is_equal: bool) -> str:
    return "verified: both compute the same" if is_equal else "verification failed"


def _snr(quantized: QuantizedModel) -> float:
    return 0.0 if quantized.report is None else quantized.report.snr_db
