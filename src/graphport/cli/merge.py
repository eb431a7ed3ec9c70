"""`graphport merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.click_types import ParamType
from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    extract_package_options,
    extract_writer_options,
    format_option,
    input_bindings,
    input_option,
    package_options,
    print_findings,
    print_json,
    writer_options,
)
from graphport.cli.render import as_json, shown
from graphport.cli.shapes import fact_as_json
from graphport.cli.verification import print_verification, verification, verification_options, write_proof

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.api.merge import MergeReport


class _Connection(ParamType):
    """`a.OUTPUT=b.INPUT`; the prefixes may be omitted."""

    name = "a.OUTPUT=b.INPUT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Parse the output of the first model and the input of the second."""
        text = str(value)
        left, equals, right = text.partition("=b.") if "=b." in text else text.partition("=")
        left = left.removeprefix("a.")
        if not equals or not left or not right:
            self.fail(f"{value!r} is not {self.name}", param, ctx)
        return left, right


@click.command(cls=Verb, name="merge")
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@click.argument("dst", type=FILE)
@click.option(
    "--connect", multiple=True, type=_Connection(), help="Connect an output of A to an input of B. Repeatable."
)
@click.option(
    "--branch",
    metavar="NAME",
    help="Run B if the new boolean input NAME is true, else A: for a decoder and its variant with a cache.",
)
@format_option
@verification_options
@input_option
@package_options
@writer_options
@answered
def verb(
    a: Path,
    b: Path,
    dst: Path,
    connect: tuple[tuple[str, str], ...],
    branch: str | None,
    format: str | None,
    shapes: Any,
    proof: Path | None,
    color: str,
    as_json_: bool,
    **options: Any,
) -> None:
    """Compose two models: outputs of A become inputs of B, or a condition selects a model.

    Without --connect, outputs and inputs of equal names are connected, or the only ones. The merged model has the other
    inputs of both, the outputs of B and the unconnected outputs of A. Exit code 1 if types or shapes do not match, or
    the result is refuted. --branch joins two models with equal outputs into one If with the inputs of both; equal
    weights are stored once. --input x=SHAPE binds an input of A, --input b.x=SHAPE an input of B.

    \b
    Examples:
      graphport merge backbone.onnx head.onnx net.onnx --connect a.features=b.x
      graphport merge encoder.onnx decoder.onnx both.onnx
      graphport merge decoder_model.onnx decoder_with_past_model.onnx merged.onnx --branch use_cache_branch
    """
    from graphport.api.merge import merge_files
    from graphport.api.proven_write import Checking

    checked, asked = Checking(**verification(options)), extract_package_options(options)
    writer = extract_writer_options(options, dst, format)
    if connect and branch is not None:
        message = "--connect and --branch exclude each other"
        raise click.UsageError(message)
    composed: dict[str, Any] = {"connect": dict(connect) or None, "branch": branch, "shapes": input_bindings(shapes)}
    report = merge_files(a, b, dst, **composed, format=format, checking=checked, **asked, **writer)
    write_proof(report.proof, proof, a, report.written, **asked)
    if as_json_:
        print_json(_document(report, a, b, dst))
    else:
        _tell(report, dst, color)
    raise click.exceptions.Exit(0 if report.passed else 1)


def _document(report: MergeReport, a: Path, b: Path, target: Path) -> dict[str, Any]:
    return {
        "source": [str(a), str(b)],
        "target": str(target),
        "connected": report.connected,
        "inputs": {name: fact_as_json(value.fact) for name, value in report.model.inputs.items()},
        "outputs": {name: fact_as_json(value.fact) for name, value in report.model.outputs.items()},
        "verdict": str(report.verdict),
        "verify": None if report.proof is None else report.proof.as_json(),
        "skipped": report.skipped,
        "written": report.written,
        "diagnostics": [as_json(finding) for finding in report.findings],
    }


def _tell(report: MergeReport, target: Path, color: str) -> None:
    print_findings(report.findings, color)
    for name, other in report.connected.items():
        click.echo(f"connected: {shown(name)} to {shown(other)}")
    for what, values in (("inputs", report.model.inputs), ("outputs", report.model.outputs)):
        listed = ", ".join(f"{name} {value.fact}" for name, value in values.items())
        click.echo(f"{what}: {shown(listed or 'none')}")
    if report.written is not None:
        click.echo(f"written to {shown(report.written)}: {len(report.model.graph)} nodes")
    print_verification(report.proof, report.skipped, str(target) if report.written is None else None)
