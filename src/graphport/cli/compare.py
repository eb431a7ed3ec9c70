"""`graphport compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    MODEL,
    Verb,
    backend_option,
    bound,
    color_option,
    edition_option,
    findings_end,
    input_option,
    json_option,
    print_json,
)
from graphport.cli.render import shown
from graphport.cli.report import report_option, write_report

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.comparison import Difference


@click.command(cls=Verb, name="compare")
@click.argument("a", type=MODEL)
@click.argument("b", type=MODEL)
@click.option(
    "--inputs", "inputs", type=MODEL, help="An .npz file with an array for each input of A; made up if not given."
)
@click.option("--all", "every_value", is_flag=True, help="Compare every value that both compute under one name.")
@report_option
@backend_option
@input_option
@edition_option
@color_option
@json_option
@findings_end
def verb(
    a: Path,
    b: Path,
    inputs: Path | None,
    every_value: bool,
    page: Path | None,
    backend: str,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
) -> None:
    """Run two models on the same inputs and tell how far B lies from A.

    Equal within tolerance is |a - b| <= 1e-4 * max|a| + 1e-6, with the same type, shape and places of NaN. Exit code 0
    if every output is, 1 if one is not.

    \b
    Examples:
      graphport compare net.onnx net.nnef.tgz
      graphport compare net.onnx small.onnx --inputs in.npz --all
    """
    del color
    import graphport
    from graphport.api.report import Findings
    from graphport.cli import arrays
    from graphport.cli.table import print_table

    first = graphport.load(a, edition=edition, shapes=bound(shapes))
    second = graphport.load(b, shapes=bound(shapes))
    given = None if inputs is None else arrays.inputs_of(first, inputs)
    result = graphport.compare(first, second, given, backend=backend, every_value=every_value)
    write_report(page, first, second, Findings(verb="compare"), inputs=given, backend=backend)
    if as_json_:
        print_json(
            {
                "passed": result.passed,
                "outputs": [difference.as_json() for difference in result.outputs],
                "values": [difference.as_json() for difference in result.values],
                "first": None if result.first is None else result.first.name,
                "notes": list(result.notes),
            }
        )
    else:
        for note in result.notes:
            click.echo(f"note: {shown(str(note))}")
        told = result.values if every_value else result.outputs
        print_table(HEADINGS, [row(difference) for difference in told])
        if every_value:
            place = None if result.first is None else shown(result.first.name)
            click.echo("no value differs" if place is None else f"the first value that differs is {place}")
        click.echo("equal within tolerance" if result.passed else "the outputs differ")
    raise click.exceptions.Exit(0 if result.passed else 1)


HEADINGS = ("value", "max |a-b|", "mean |a-b|", "SNR dB", "cosine", "")


def row(difference: Difference) -> tuple[str, ...]:
    """A difference as cells under `HEADINGS`."""
    name = difference.name if difference.other in ("", difference.name) else f"{difference.name} / {difference.other}"
    verdict = "equal" if difference.passed else difference.reason or f"differs first at {list(difference.first or ())}"
    numbers = (difference.max_abs, difference.mean_abs, difference.snr_db, difference.cosine)
    return (name, *("" if number is None else f"{number:.6g}" for number in numbers), verdict)
