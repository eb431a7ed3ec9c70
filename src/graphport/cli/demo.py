"""`graphport demo`."""

from __future__ import annotations

from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import color_option, findings_end, json_option, print_findings, print_json

if TYPE_CHECKING:
    from graphport.api import ConversionReport, Model


@click.command(name="demo")
@color_option
@json_option
@findings_end
def verb(color: str, as_json_: bool) -> None:
    """Take the tour: a small trained network in NNEF, checked, run on real images, and converted to ONNX.

    It works in a temporary folder and leaves nothing behind.
    """
    with (
        as_file(files("graphport") / "examples" / "digits") as folder,
        TemporaryDirectory(prefix="graphport-") as place,
    ):
        tour = _Tour(folder, Path(place), color)
        steps = tour.silent() if as_json_ else tour.told()
    if as_json_:
        print_json(steps)
    raise click.exceptions.Exit(0 if steps["verify"]["passed"] and steps["valid"] else 1)


class _Tour:
    def __init__(self, folder: Path, place: Path, color: str) -> None:
        self.folder = folder
        self.target = place / "digits.onnx"
        self.color = color

    def told(self) -> dict[str, Any]:
        """Every step with what it found, as a person reads it."""
        from graphport.cli.compare import HEADINGS, row
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
        click.echo("graphport convert digits digits.onnx")
        report = self.convert()
        comparison = report.verification
        if comparison is not None:
            print_table(HEADINGS, [row(difference) for difference in comparison.outputs])
        passed = comparison is not None and comparison.passed
        click.echo(f"  {'verified: both compute the same' if passed else 'verification failed'}\n")
        click.echo("Try next:")
        click.echo(f"  graphport shapes {self.folder}")
        click.echo(f"  graphport convert {self.folder} digits.onnx")
        click.echo("  graphport run digits.onnx --outputs out.npz")
        click.echo("  graphport compare --help")
        return {"valid": valid, "verify": {"passed": passed}}

    def silent(self) -> dict[str, Any]:
        """The same steps as data."""
        valid = not any(finding.is_error for finding in self.check())
        model = self.load()
        right, count = self.accuracy(model)
        comparison = self.convert().verification
        passed = comparison is not None and comparison.passed
        verify = {"passed": passed, "max_abs": None if comparison is None else comparison.max_abs}
        return {"valid": valid, "nodes": len(model.graph), "right": right, "images": count, "verify": verify}

    def check(self) -> list[Any]:
        from graphport import api

        return api.check(self.folder)

    def load(self) -> Model:
        from graphport import api

        return api.load(self.folder)

    def accuracy(self, model: Model) -> tuple[int, int]:
        """How many of how many test images get their digit."""
        import numpy as np

        from graphport.api import session
        from graphport.cli import arrays

        test = arrays.read(self.folder / "test.npz")
        running = session(model)
        scores = [running.run({"image": image[None]})["probability"] for image in test["image"]]
        right = np.argmax(np.concatenate(scores), axis=1) == test["digit"]
        return int(right.sum()), len(right)

    def convert(self) -> ConversionReport:
        from graphport import api

        return api.convert(self.folder, self.target)
