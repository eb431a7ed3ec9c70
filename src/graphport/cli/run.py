"""`graphport run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from graphport.cli.custom_operators import custom_operator_options
from graphport.cli.options import (
    FILE,
    MODEL,
    Verb,
    answered,
    backend_option,
    input_bindings,
    opening_options,
    print_findings,
    print_json,
    states_option,
    threads_option,
)
from graphport.cli.render import shown
from graphport.core.sequences import is_sequence

if TYPE_CHECKING:
    from pathlib import Path


@click.command(cls=Verb, name="run")
@click.argument("model", type=MODEL)
@click.option(
    "--inputs", "inputs", type=MODEL, help="An .npz file with an array for each input; default: random values."
)
@click.option(
    "--outputs",
    "outputs",
    type=FILE,
    help="The .npz file to write, with an array for each output.",
)
@click.option("--all", "every_value", is_flag=True, help="Return all computed values, not only the outputs.")
@backend_option
@threads_option
@opening_options
@custom_operator_options
@states_option
@answered
def verb(
    model: Path,
    inputs: Path | None,
    outputs: Path | None,
    every_value: bool,
    backend: str,
    threads: int,
    shapes: Any,
    edition: str | None,
    program: str | None,
    states: bool,
    color: str,
    as_json_: bool,
) -> None:
    """Run a model once.

    \b
    Examples:
      graphport run net.onnx --inputs in.npz --outputs out.npz
      graphport run model.nnef.tgz --inputs in.npz --outputs out.npz --backend reference
      graphport run net.onnx --inputs in.npz --outputs values.npz --all
    """
    import graphport
    from graphport.cli import arrays
    from graphport.runtimes.inputs import random_inputs

    loaded = graphport.load(model, edition=edition, shapes=input_bindings(shapes), program=program, states=states)
    if not as_json_:
        print_findings(loaded.findings, color)
    given = random_inputs(loaded.graph) if inputs is None else arrays.inputs_of(loaded, inputs)
    found = graphport.run(loaded, given, backend=backend, threads=threads, every_value=every_value)
    if outputs is not None:
        arrays.write(outputs, found)
    _tell(found, outputs, as_json_=as_json_)


def _tell(found: dict[str, Any], outputs: Path | None, *, as_json_: bool) -> None:
    from graphport.cli.table import print_table

    if as_json_:
        summary = {name: _summary(array) for name, array in found.items()}
        print_json({"outputs": summary, "file": None if outputs is None else str(outputs)})
        return
    print_table(("output", "type", "shape", "first values"), [_row(name, array) for name, array in found.items()])
    if outputs is not None:
        click.echo(f"written to {shown(str(outputs))}")


def _summary(array: Any) -> dict[str, Any]:
    if is_sequence(array):
        return {"sequence": len(array)}
    return {"dtype": None, "shape": None} if array is None else {"dtype": array.dtype.name, "shape": list(array.shape)}


def _row(name: str, array: Any) -> tuple[str, str, str, str]:
    if is_sequence(array):
        return name, "sequence", str(len(array)), ""
    if array is None:
        return name, "absent", "", ""
    return name, array.dtype.name, "×".join(map(str, array.shape)) or "scalar", _peek(array)


def _peek(array: Any, most: int = 4) -> str:
    import numpy as np

    flat = np.asarray(array).reshape(-1)
    shown = " ".join(f"{x:.6g}" if flat.dtype.kind == "f" else str(x) for x in flat[:most])
    return shown + (" …" if flat.size > most else "")
