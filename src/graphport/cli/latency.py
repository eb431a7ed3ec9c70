"""`graphport latency`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from graphport.cli.options import (
    FILE,
    MODEL,
    LateChoice,
    Verb,
    answered,
    edition_option,
    input_bindings,
    input_option,
    print_json,
    target_names,
)
from graphport.cli.render import shown

if TYPE_CHECKING:
    from pathlib import Path

    from graphport.quantization.optimise.table import LatencyTable

_MOST_ROWS = 20


@click.command(cls=Verb, name="latency")
@click.argument("model", type=MODEL)
@click.option("-o", "--output", type=FILE, metavar="FILE", help="Output file; default: print the table.")
@click.option(
    "--target",
    type=LateChoice(target_names),
    default="onnxruntime",
    show_default=True,
    help="The runtime to measure.",
)
@click.option("--inputs", type=MODEL, help="An .npz file with an array for each input; default: random values.")
@input_option
@edition_option
@answered
def verb(
    model: Path,
    output: Path | None,
    target: str,
    inputs: Path | None,
    shapes: Any,
    edition: str | None,
    color: str,
    as_json_: bool,
) -> None:
    """Measure the time of each layer on this machine, in float and quantized.

    Create the table on the machine that will run the model, and pass it to quantize --latency-table elsewhere; latency
    goals and candidate plans then refer to that machine.

    \b
    Examples:
      graphport latency net.onnx -o phone.json
      graphport latency net.onnx -o phone.json --input x=1x3x224x224
      graphport quantize net.onnx net.int8.onnx --calibration samples.npz --latency-table phone.json --max-latency 0.5x
    """
    del color
    import graphport
    from graphport.api.latency import latency
    from graphport.cli import arrays
    from graphport.core.atomic_write import replacing

    loaded = graphport.load(model, shapes=input_bindings(shapes), edition=edition)
    given = None if inputs is None else arrays.inputs_of(loaded, inputs)
    table = latency(loaded, target, inputs=given)
    if output is not None:
        with replacing(output) as file:
            file.write((json.dumps(table.as_json(), indent=1) + "\n").encode())
    if as_json_:
        print_json({"model": str(model), "table": None if output is None else str(output), **table.as_json()})
    else:
        _tell(table, output)


def _tell(table: LatencyTable, output: Path | None) -> None:
    from graphport.cli.table import print_table

    costly = sorted(table.rows, key=lambda row: -(row.float32 or 0.0))
    rows = [(row.node, row.signature.partition(" ")[0], _time(row.float32), _time(row.int8)) for row in costly]
    print_table(("node", "operator", "float32", "int8"), rows[:_MOST_ROWS], title="slowest nodes:")
    samples = "one sample" if table.entries == 1 else f"{table.entries} samples"
    click.echo(
        f"a run of {samples} on {table.target} {table.version}: {table.whole / 1000:.3f} ms in {len(rows)} nodes"
    )
    if output is not None:
        click.echo(f"written to {shown(str(output))}")


def _time(microseconds: float | None) -> str:
    return "fused" if microseconds is None else f"{microseconds:.1f} us"
